"""What goes wrong between a client and the API server by chance; what a test orders is `local.kube.faults`.

A door before the stand-in: whoever goes through it suffers, while the cluster's own controllers and kubelets do not.
"""

from __future__ import annotations

from dataclasses import dataclass

from local.chances import Chances, Span
from local.kube.problems import ApiProblem
from local.timeline import Timeline
from local.web import BROKEN, CONNECTION, REFUSED, Handler, Request, Response

_SERVER_ERRORS = ((500, "InternalError"), (503, "ServiceUnavailable"), (504, "Timeout"))


@dataclass(frozen=True, slots=True)
class ClusterTrouble:
    """Rates from 0 to 1, spans in seconds.

    For each request: `throttled` (429 with Retry-After, as API priority and fairness answers), `failing` (5xx),
    `lost` (it is carried out, the answer is lost). For each PUT, PATCH and eviction: `conflict` (409). For each watch,
    and each list's further page: `expired` (410). `outages_per_hour`: how often, in the mean, the API server cannot be
    reached at all, for `outage` each time.

    For each pod that ends: `stuck` (its containers take `stuck_for` instead, past the grace period, as with a
    container runtime that hangs).
    """

    throttled: float = 0.0
    failing: float = 0.0
    lost: float = 0.0
    conflict: float = 0.0
    expired: float = 0.0
    outages_per_hour: float = 0.0
    stuck: float = 0.0
    retry_after: Span = (1.0, 10.0)
    outage: Span = (30.0, 300.0)
    stuck_for: Span = (120.0, 1800.0)


class Outages:
    """When the API server cannot be reached: one schedule for all of its doors."""

    def __init__(self, timeline: Timeline, chances: Chances, rates: ClusterTrouble) -> None:
        self._timeline, self._chances, self._rates = timeline, chances, rates
        self.down = False
        if rates.outages_per_hour > 0:
            self._next()

    def _next(self) -> None:
        mean = 3600.0 / self._rates.outages_per_hour
        share = self._chances.between("outage", (0.05, 2.0))
        self._timeline.call_later(mean * share, self._begin)

    def _begin(self) -> None:
        if self._chances.ended:
            return
        self.down = True
        self._chances.note("outage")
        self._chances.hold(self._chances.between("outage", self._rates.outage), self._end)

    def _end(self) -> None:
        self.down = False
        if not self._chances.ended:
            self._next()


class Misfortune:
    """All of a cluster's trouble by chance."""

    def __init__(self, timeline: Timeline, seed: int, rates: ClusterTrouble | None) -> None:
        self.rates = rates or ClusterTrouble()
        self.chances = Chances(timeline, seed, "kubernetes", "trouble")
        self.outages = Outages(timeline, self.chances, self.rates)

    def door(self, inner: Handler) -> TroubledDoor:
        """A door through which everybody suffers."""
        return TroubledDoor(inner, self)

    def stuck(self, pod: str) -> float:
        """How long a pod's containers hang when they are told to stop, in seconds; 0 as a rule."""
        if not self.chances.strikes("stuck", self.rates.stuck, pod):
            return 0.0
        return self.chances.between("stuck", self.rates.stuck_for)


class TroubledDoor:
    """A `Handler` before another one."""

    def __init__(self, inner: Handler, trouble: Misfortune) -> None:
        self._inner, self._chances, self._rates = inner, trouble.chances, trouble.rates
        self._outages = trouble.outages

    def handle(self, request: Request) -> Response:
        """See `Handler.handle`."""
        if self._chances.ended:
            return self._inner.handle(request)
        if self._outages.down:
            self._chances.note("unreached")
            return Response(503, {CONNECTION: REFUSED})
        problem = self._problem(request)
        if problem is not None:
            return problem.response()
        response = self._inner.handle(request)
        if self._chances.strikes("lost", self._rates.lost, request.path):
            return Response(502, {CONNECTION: BROKEN})
        return response

    def _problem(self, request: Request) -> ApiProblem | None:
        rates, chances = self._rates, self._chances
        if chances.strikes("throttled", rates.throttled, request.path):
            wait = max(1, round(chances.between("throttled", rates.retry_after)))
            message = "too many requests, please try again later"
            return ApiProblem(429, "TooManyRequests", message, {"retryAfterSeconds": wait})
        if chances.strikes("failing", rates.failing, request.path):
            code, reason = chances.one_of("failing", _SERVER_ERRORS)
            return ApiProblem(code, reason, "the server could not process the request")
        if _may_conflict(request) and chances.strikes("conflict", rates.conflict, request.path):
            return ApiProblem(409, "Conflict", "the object has been modified; please apply your changes to the latest")
        if _may_expire(request) and chances.strikes("expired", rates.expired, request.path):
            return ApiProblem(410, "Expired", "too old resource version")
        return None


def _may_conflict(request: Request) -> bool:
    return request.method in {"PUT", "PATCH"} or request.path.endswith("/eviction")


def _may_expire(request: Request) -> bool:
    watches = request.query.get("watch", "") in {"true", "1"} and "resourceVersion" in request.query
    return request.method == "GET" and (watches or "continue" in request.query)
