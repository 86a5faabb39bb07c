"""The API server's front door, and everything behind it put together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

from local.kube import discovery
from local.kube.access import Access
from local.kube.controllers.assembly import Controllers
from local.kube.controllers.timing import Timing
from local.kube.faults import Faults
from local.kube.kinds import NAMESPACE, Json, Kind
from local.kube.problems import ApiProblem, bad_request, not_allowed
from local.kube.reading import Reader
from local.kube.registry import Registry
from local.kube.routes import Route, route
from local.kube.store import HISTORY, Change, Store
from local.kube.trouble import ClusterTrouble, Misfortune
from local.kube.truth import Truth
from local.kube.writing import Writer
from local.randomness import stream
from local.timeline import Timeline
from local.web import Request, Response

TOKEN_PATH = "token"  # noqa: S105 - the name of a path segment
"""`/token/<the token>/...` is as good as a header: kubectl sends no token where there is no TLS."""

DELAY_HEADER = "x-stand-in-delay"
"""Seconds that the answer should take, for an in-process transport, which has its own way to wait."""

_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class KubernetesStandIn:
    """A cluster without nodes: an API server, a scheduler, and the controllers that Sluice's work depends on.

    `token` empty: whoever asks is let in. `controllers=False` leaves an API server alone. All randomness comes from
    `seed`, all time from `timeline`; thread-safe by the timeline's lock. Who goes through `misfortune.door` suffers.
    """

    def __init__(
        self,
        timeline: Timeline,
        *,
        seed: int = 0,
        token: str = "",
        timing: Timing | None = None,
        trouble: ClusterTrouble | None = None,
        controllers: bool = True,
        history: int = HISTORY,
    ) -> None:
        self.timeline = timeline
        self.token = token
        self._callbacks: list[Callable[[], None]] = []
        with timeline.lock:
            self.store = Store(timeline, stream(seed, "kubernetes", "uids"), history)
            self.truth = Truth(self.store, timeline)
            self.faults = Faults()
            self.access = Access()
            self.registry = Registry(self.store, timeline, stream(seed, "kubernetes", "names"))
            self._reader = Reader(self.registry)
            self._writer = Writer(self.registry, self._reader, self.truth)
            self.misfortune = Misfortune(timeline, seed, trouble)
            times = timing or Timing()
            self.controllers = Controllers(self.registry, seed, times, self.misfortune) if controllers else None
            for name in _NAMESPACES:
                self.registry.create(NAMESPACE, "", {"metadata": {"name": name}})
            self.store.subscribe(self._changed)

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` after every write, under the lock; it must be brief and not call back."""
        self._callbacks.append(callback)

    def compact(self) -> None:
        """Forget the history: older watches and lists under way get 410."""
        with self.timeline.lock:
            self.store.compact()
            self._reader.forget_pages()

    def objects(self, kind: Kind, namespace: str = "") -> list[Json]:
        """What is stored, without a request: for checkers and reports. Not to be changed."""
        with self.timeline.lock:
            return [stored.body for stored in self.store.all(kind, namespace)]

    def handle(self, request: Request) -> Response:
        """See `local.web.Handler`."""
        with self.timeline.lock:
            fault = self.faults.strike(request)
            if fault is None:
                return self._answer(request)
            if fault.code and not fault.after:
                response = fault.problem().response()
            else:
                response = self._answer(request)
                if fault.code:
                    response = fault.problem().response()
            return _delayed(response, fault.delay, waits=request.stream) if fault.delay else response

    def _answer(self, request: Request) -> Response:
        try:
            return self._dispatch(request)
        except ApiProblem as problem:
            return problem.response()
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            return bad_request(f"the object provided is unrecognized: {type(error).__name__}: {error}").response()

    def _dispatch(self, request: Request) -> Response:
        if (found := discovery.health(request.path)) is not None:
            return found
        request = self._authorized(request)
        if request.method == "GET" and (found := discovery.answer(request.path)) is not None:
            return found
        if (found := self.access.review(request)) is not None:
            return found
        return self._serve(request, route(request.path))

    def _authorized(self, request: Request) -> Request:
        prefix = f"/{TOKEN_PATH}/{self.token}/"
        if self.token and request.path.startswith(prefix):
            return replace(request, path=request.path[len(prefix) - 1 :])
        if self.token and request.headers.get("authorization", "").partition(" ")[2] != self.token:
            raise ApiProblem(401, "Unauthorized", "Unauthorized")
        return request

    def _serve(self, request: Request, where: Route) -> Response:
        match request.method:
            case "GET" if where.name:
                return self._reader.get(request, where)
            case "GET":
                return self._reader.collection(request, where)
            case "POST":
                return self._writer.create(request, where)
            case "PUT" if where.name:
                return self._writer.update(request, where)
            case "PATCH" if where.name:
                return self._writer.patch(request, where)
            case "DELETE":
                return self._writer.delete(request, where)
        raise not_allowed()

    def _changed(self, _: Change) -> None:
        for callback in self._callbacks:
            callback()


def _delayed(response: Response, seconds: float, *, waits: bool) -> Response:
    if not waits:
        return replace(response, headers={**response.headers, DELAY_HEADER: str(seconds)})

    def later() -> Iterator[bytes]:
        threading.Event().wait(seconds)
        yield response.body
        yield from response.chunks or ()

    return replace(response, body=b"", chunks=later())
