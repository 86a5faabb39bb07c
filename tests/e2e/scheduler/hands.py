"""One control plane for hundreds of clusters in a row: filled, looked at, emptied again, without a wait too many."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from shared.adapters.errors import NotFound, OutsideError, StaleWrite
from shared.adapters.kubernetes import KubernetesClusterApi
from shared.reading.storage import Kind
from tests.e2e.control_plane import Api, ControlPlane
from tests.e2e.scheduler.draws import AGENTS, HIGH, NAMESPACES, Case, Json, Seen, key

NODES, PODS, DAEMON_SETS = "/api/v1/nodes", "/api/v1/pods", f"/apis/apps/v1/namespaces/{AGENTS}/daemonsets"
CLAIMS, VOLUMES = "/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes"
FLAGS = {
    # Nodes are objects that say they are ready, once; nobody is to wonder where their kubelets are.
    "kube-controller-manager": ["--node-monitor-grace-period=2h"],
    "kube-scheduler": ["--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics"],
}
QUEUES = 'scheduler_pending_pods{queue="'
WAIT_S = 90.0
POLL_S = 0.03
LOOKS = 3
"""So often in a row the scheduler must be idle: news of a node reaches it by another way than news of a pod."""


class Hands:
    """An administrator who is in a hurry."""

    def __init__(self, plane: ControlPlane) -> None:
        self.api = KubernetesClusterApi.from_kubeconfig(str(plane.kubeconfig))
        self._scheduler = Api(plane.scheduler_url, ca=plane.ca)
        for namespace in (*NAMESPACES, AGENTS):
            self._make("/api/v1/namespaces", {"metadata": {"name": namespace}})
            account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
            eventually("the service account", partial(self._there, account))
        first = {"metadata": {"name": HIGH}, "value": 1000, "preemptionPolicy": "Never"}
        self._make("/apis/scheduling.k8s.io/v1/priorityclasses", first)

    def create_pod(self, pod: Json) -> None:
        """In its namespace."""
        self.api.create(pods_path(pod), pod)

    def pods(self) -> list[Json]:
        """All of them."""
        return self.api.list(PODS)[0]

    def nodes(self) -> list[Json]:
        """All of them."""
        return self.api.list(NODES)[0]

    def seen(self) -> Seen:
        """Everything that a plan goes by."""
        return Seen(self.pods(), self.nodes(), self.daemon_sets(), {kind: self.api.list(kind.path)[0] for kind in Kind})

    def fill(self, case: Case) -> None:
        """What is there before anybody waits: volumes with their claims bound, DaemonSets, nodes."""
        for volume in case.volumes:
            self.api.create(VOLUMES, volume)
        for claim in case.claims:
            self.api.create(f"/api/v1/namespaces/{claim['metadata']['namespace']}/persistentvolumeclaims", claim)
        if case.claims:
            eventually("claims are bound", self._claims_bound)
        for item in case.daemon_sets:
            self.api.create(DAEMON_SETS, item)
        self.add_nodes(case.nodes)

    def _claims_bound(self) -> bool:
        return all(claim["status"].get("phase") == "Bound" for claim in self.api.list(CLAIMS)[0])

    def daemon_sets(self) -> list[Json]:
        """All of them."""
        return self.api.list(DAEMON_SETS)[0]

    def unbound(self) -> list[Json]:
        """Pods without a node."""
        return self.api.list(PODS, field_selector="spec.nodeName=")[0]

    def add_nodes(self, nodes: list[Json]) -> None:
        """Make them, and wait until they take pods."""
        for node in nodes:
            self.api.create(NODES, node)
        if nodes:
            eventually("nodes ready", self._all_ready)

    def quiet(self) -> list[Json]:
        """Wait until the scheduler has nothing left to try; returns the pods without a node."""
        looks = 0

        def idle() -> bool:
            nonlocal looks
            looks = looks + 1 if self._has_tried() else 0
            return looks >= LOOKS

        eventually("the scheduler is idle", idle, self._queues)
        return self.unbound()

    def empty(self) -> None:
        """Nothing of a cluster is left."""
        for item in self.daemon_sets():
            self._gone(f"{DAEMON_SETS}/{item['metadata']['name']}")
        eventually("no pods", self._no_pods)
        self.api.delete(NODES)
        self._forget_volumes()
        eventually("no nodes", lambda: not self.nodes())

    def _forget_volumes(self) -> None:
        claims = self.api.list(CLAIMS)[0]
        for claim in claims:
            where = f"/api/v1/namespaces/{claim['metadata']['namespace']}/persistentvolumeclaims"
            self._gone(f"{where}/{claim['metadata']['name']}")
        eventually("no claims", lambda: not self.api.list(CLAIMS)[0])
        if claims:
            self.api.delete(VOLUMES)

    def _has_tried(self) -> bool:
        """Pods keep their turn in the back-off queue for as long as there is no node at all."""
        waiting = self._queues()
        tried = waiting["unschedulable"] + (0 if self.nodes() else waiting["backoff"])
        return not waiting["active"] and tried == len(self.unbound())

    def _no_pods(self) -> bool:
        found = self.pods()
        for namespace in {pod["metadata"]["namespace"] for pod in found}:
            self.api.delete(f"/api/v1/namespaces/{namespace}/pods", grace_seconds=0)
        return not found

    def _all_ready(self) -> bool:
        taints = (taint["key"] for node in self.nodes() for taint in node["spec"].get("taints") or ())
        return not any(each == "node.kubernetes.io/not-ready" for each in taints)

    def _queues(self) -> dict[str, int]:
        reply = self._scheduler.get("/metrics")
        assert reply.ok, reply.body
        lines = [line.removeprefix(QUEUES) for line in reply.body.splitlines() if line.startswith(QUEUES)]
        pairs = [line.split('"} ') for line in lines]
        return {name: int(float(number)) for name, number in pairs}

    def _make(self, path: str, body: Json) -> None:
        try:
            self.api.create(path, body)
        except StaleWrite:
            return  # is there

    def _there(self, path: str) -> bool:
        try:
            self.api.get(path)
        except NotFound:
            return False
        return True

    def _gone(self, path: str) -> None:
        try:
            self.api.delete(path)
        except NotFound:
            return  # by itself


@contextmanager
def hands(directory: Path | None = None) -> Iterator[Hands]:
    """A control plane of its own. Raises what `ControlPlane` raises."""
    with ControlPlane(directory=directory, flags=FLAGS) as plane:
        yield Hands(plane)


def messages(pods: list[Json]) -> list[str]:
    """What the scheduler says about pods that wait."""
    return [f"{key(pod)}: {[each.get('message') for each in pod['status'].get('conditions') or ()]}" for pod in pods]


def pods_path(pod: Json) -> str:
    """Where such a pod lies."""
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"


def eventually(what: str, holds: Callable[[], object], details: Callable[[], object] = lambda: "") -> None:
    """Wait for it. Raises AssertionError when it takes too long."""
    deadline = time.monotonic() + WAIT_S
    while not _holds(holds):
        assert time.monotonic() < deadline, f"not within {WAIT_S:g} s: {what}; {details()}"
        time.sleep(POLL_S)


def _holds(holds: Callable[[], object]) -> bool:
    try:
        return bool(holds())
    except OutsideError:
        return False  # the API server has its moments; whoever waits asks again
