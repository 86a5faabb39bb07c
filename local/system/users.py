"""What the people of a simulated cluster do: submit the pods of a trace as they come, and clear finished ones away."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import orjson

from local.kube.kinds import POD
from local.kube.objects import controller_of, is_finished
from local.kube.stand_in import KubernetesStandIn
from local.kube.store import DELETED, Change, Stored
from local.system.trace import TracePod, manifest
from local.timeline import Timeline
from local.web import Handler, Request

KEEP_FINISHED = 60.0  # seconds; those of a Job stay until the Job has finished and its ttlSecondsAfterFinished is over


class RefusedByCluster(RuntimeError):
    """The API server did not take what a user sent: the simulation itself is wrong."""


class Users:
    """Everybody who works with the cluster and is not Sluice."""

    def __init__(self, timeline: Timeline, cluster: KubernetesStandIn, door: Handler) -> None:
        """`door` is the API server as users reach it."""
        self._timeline, self._door = timeline, door
        self._clearing: set[str] = set()
        self.submitted = 0
        self.cleared = 0
        cluster.store.subscribe(self._notice)

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """POST. Raises RefusedByCluster."""
        return self._send("POST", path, orjson.dumps(body))

    def delete(self, path: str) -> dict[str, Any]:
        """DELETE. Raises RefusedByCluster."""
        return self._send("DELETE", path, b"")

    def replay(self, pods: Sequence[TracePod], told: Callable[[TracePod], None] = lambda _: None) -> None:
        """Submit each pod at its time from now on; `told` hears of each."""
        self._submit_next(iter(pods), self._timeline.now(), told)

    def _submit_next(self, pods: Iterator[TracePod], begun: Any, told: Callable[[TracePod], None]) -> None:  # noqa: ANN401
        pod = next(pods, None)
        if pod is None:
            return

        def submit() -> None:
            self.create("/api/v1/namespaces/default/pods", manifest(pod))
            self.submitted += 1
            told(pod)
            self._submit_next(pods, begun, told)

        self._timeline.call_at(begun + timedelta(seconds=pod.arrives), submit)

    def _notice(self, change: Change) -> None:
        if change.new.kind is not POD:
            return
        pod = change.new
        if change.type == DELETED:
            self._clearing.discard(pod.uid)
        elif is_finished(pod) and pod.uid not in self._clearing and not _is_of_a_job(pod):
            self._clearing.add(pod.uid)
            path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
            self._timeline.call_later(KEEP_FINISHED, lambda: self._clear(path, pod.uid))

    def _clear(self, path: str, uid: str) -> None:
        if uid in self._clearing:
            self.delete(path)
            self.cleared += 1

    def _send(self, method: str, path: str, body: bytes) -> dict[str, Any]:
        request = Request(method, path, {}, {"content-type": "application/json"}, body)
        with self._timeline.lock:
            response = self._door.handle(request)
        if response.status >= 400:
            raise RefusedByCluster(f"{method} {path}: {response.status} {response.body.decode(errors='replace')}")
        answer: dict[str, Any] = orjson.loads(response.body)
        return answer


def _is_of_a_job(pod: Stored) -> bool:
    owner = controller_of(pod)
    return owner is not None and owner["kind"] == "Job"
