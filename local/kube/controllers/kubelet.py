"""The kubelets: nodes become ready, pods start, end by themselves or when told to.

A node's kubelet lives as long as the Node carries the annotation that kwok goes by, so that one bridge from machines to
nodes serves this stand-in and kwok alike. A dead kubelet starts and ends nothing.
"""

from __future__ import annotations

import random
from datetime import datetime

from local.kube.controllers.timing import Timing, draw
from local.kube.kinds import NODE, POD, Json
from local.kube.objects import controller_of, is_finished, is_ready, is_true, with_condition
from local.kube.registry import DeleteOptions, Registry
from local.kube.store import DELETED, Change, Stored
from local.kube.trouble import Misfortune
from local.timeline import Action

KUBELET_ANNOTATION = "kwok.x-k8s.io/node"
RUN_SECONDS = "sluice.io/run-seconds"
"""A pod's annotation: how long its containers run before they end successfully."""
STOP_SECONDS = "sluice.io/stop-seconds"
"""A pod's annotation: how long its containers take to stop; the grace period cuts it off."""

VERSION = "v1.36.3"
_HEALTH = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


class Kubelets:
    """All of them."""

    def __init__(self, registry: Registry, draws: random.Random, timing: Timing, misfortune: Misfortune) -> None:
        self._registry, self._store, self._timeline = registry, registry.store, registry.timeline
        self._draws, self._timing, self._misfortune = draws, timing, misfortune
        self._stuck: set[str] = set()  # uids of pods whose containers hang: they stop when they stop
        self._addresses = 0
        self._store.subscribe(self._note)

    def alive(self, node: str) -> bool:
        """Whether this node's kubelet answers."""
        found = self._store.node(node)
        return found is not None and KUBELET_ANNOTATION in found.annotations

    def _note(self, change: Change) -> None:
        if change.type == DELETED:
            return
        if change.new.kind is NODE:
            self._note_node(change)
        elif change.new.kind is POD and change.new.spec.get("nodeName"):
            self._note_pod(change)

    def _note_node(self, change: Change) -> None:
        node = change.new
        if KUBELET_ANNOTATION in node.annotations and not (change.old and KUBELET_ANNOTATION in change.old.annotations):
            uid = node.uid
            self._later(draw(self._draws, self._timing.node_ready), lambda: self._ready(node.name, uid))

    def _note_pod(self, change: Change) -> None:
        pod, old = change.new, change.old
        bound = old is None or not old.spec.get("nodeName")
        if (pod.terminating and not (old and old.terminating)) or (
            pod.terminating and old and old.metadata["deletionTimestamp"] != pod.metadata["deletionTimestamp"]
        ):
            self._stop_later(pod)
        elif bound and not is_finished(pod):
            self._start_later(pod)

    def _later(self, seconds: float, action: Action) -> None:
        self._timeline.call_later(seconds, action)

    def _start_later(self, pod: Stored) -> None:
        uid, key = pod.uid, pod.key
        seconds = draw(self._draws, self._timing.pod_start)
        self._later(seconds, lambda: self._start(self._current(uid, key)))

    def _stop_later(self, pod: Stored) -> None:
        uid, key = pod.uid, pod.key
        if uid in self._stuck:
            return
        if hang := self._misfortune.stuck(pod.name):
            self._stuck.add(uid)
            self._misfortune.chances.hold(hang, lambda: self._hangs_no_more(uid, key))
            return
        grace = float(pod.metadata.get("deletionGracePeriodSeconds", 0))
        wanted = _seconds(pod, STOP_SECONDS)
        seconds = min(draw(self._draws, self._timing.pod_stop) if wanted is None else wanted, grace)
        self._later(seconds, lambda: self._stopped(self._current(uid, key)))

    def _hangs_no_more(self, uid: str, key: tuple[str, str]) -> None:
        self._stuck.discard(uid)
        self._stopped(self._current(uid, key))  # a kubelet that is silent just now stops it when it is back

    def _current(self, uid: str, key: tuple[str, str]) -> Stored | None:
        pod = self._store.get(POD, key)
        return pod if pod is not None and pod.uid == uid and self.alive(pod.spec.get("nodeName", "")) else None

    def _ready(self, name: str, uid: str) -> None:
        node = self._store.node(name)
        if node is None or node.uid != uid or not self.alive(name):
            return
        now, status = self._store.now_text(), dict(node.status)
        for type_, value, reason, message in _HEALTH:
            new = {"type": type_, "status": value, "reason": reason, "message": message, "lastHeartbeatTime": now}
            status = with_condition(status, new, now)
        status.setdefault("capacity", {"cpu": "4", "memory": "16Gi", "pods": "110"})
        status.setdefault("allocatable", status["capacity"])
        info = {"kubeletVersion": VERSION, "operatingSystem": "linux", "architecture": "amd64"}
        status["nodeInfo"] = info | {name: value for name, value in (status.get("nodeInfo") or {}).items() if value}
        if not status.get("addresses"):
            addresses = (("InternalIP", self._address(name)), ("Hostname", name))
            status["addresses"] = [{"type": type_, "address": address} for type_, address in addresses]
        self._registry.set_status(node, status)
        for pod in self._store.pods_on(name):
            self._catch_up(pod)

    def _catch_up(self, pod: Stored) -> None:
        if pod.terminating:
            self._stop_later(pod)
        elif pod.status.get("phase") == "Pending":
            self._start_later(pod)
        elif pod.status.get("phase") == "Running":
            if not is_ready(pod):
                pod = self._registry.set_status(pod, self._with_readiness(pod.status, "True", {}))
            began = datetime.fromisoformat(pod.status["startTime"])
            self._end_later(pod, ran=(self._timeline.now() - began).total_seconds())  # it went on in the silence

    def _address(self, node: str) -> str:
        found = self._store.node(node)
        listed = (found.status.get("addresses") or ()) if found else ()
        known = next((one["address"] for one in listed if one["type"] == "InternalIP"), "")
        return known or f"10.224.{(len(node) * 7 + sum(node.encode())) % 250}.{sum(node.encode()[::2]) % 250 + 4}"

    def _start(self, pod: Stored | None) -> None:
        if pod is None or pod.terminating or pod.status.get("phase") != "Pending":
            return
        node = self._store.node(pod.spec["nodeName"])
        if node is None or not is_true(node, "Ready"):
            return  # picked up again when the node is ready
        now = self._store.now_text()
        self._addresses += 1
        host = self._address(node.name)
        address = f"10.244.{self._addresses // 250 % 250}.{self._addresses % 250 + 2}"
        status = self._with_readiness(pod.status, "True", {})
        status |= {
            "phase": "Running",
            "startTime": now,
            "hostIP": host,
            "hostIPs": [{"ip": host}],
            "podIP": address,
            "podIPs": [{"ip": address}],
            "containerStatuses": [_container(one, {"running": {"startedAt": now}}) for one in pod.spec["containers"]],
        }
        started = self._registry.set_status(pod, status)
        self._end_later(started)

    def _with_readiness(self, status: Json, value: str, more: Json) -> Json:
        now = self._store.now_text()
        begun = ("PodReadyToStartContainers", "Initialized") if value == "True" else ()
        for type_ in (*begun, "ContainersReady", "Ready"):
            status = with_condition(status, {"type": type_, "status": value, "lastProbeTime": None, **more}, now)
        return status

    def _end_later(self, pod: Stored, ran: float = 0.0) -> None:
        seconds = _seconds(pod, RUN_SECONDS)
        owner = controller_of(pod)
        if seconds is None and owner is not None and owner["kind"] == "Job":
            seconds = draw(self._draws, self._timing.job_run)
        if seconds is not None:
            uid, key = pod.uid, pod.key
            self._later(max(seconds - ran, 0.0), lambda: self._ended(self._current(uid, key)))

    def _ended(self, pod: Stored | None) -> None:
        if pod is None or pod.terminating or is_finished(pod):
            return
        now = self._store.now_text()
        status = self._with_readiness(pod.status, "False", {"reason": "PodCompleted"})
        ended = {"exitCode": 0, "reason": "Completed", "startedAt": pod.status.get("startTime"), "finishedAt": now}
        status["containerStatuses"] = [_container(one, {"terminated": ended}) for one in pod.spec["containers"]]
        self._registry.set_status(pod, {**status, "phase": "Succeeded"})

    def _stopped(self, pod: Stored | None) -> None:
        if pod is None or not pod.terminating:
            return
        if pod.metadata.get("finalizers"):
            self._registry.edit_metadata(pod, lambda metadata: metadata.update(deletionGracePeriodSeconds=0))
            return
        self._registry.delete(pod, DeleteOptions(grace=0))


def _seconds(pod: Stored, annotation: str) -> float | None:
    text = pod.annotations.get(annotation)
    try:
        return max(float(text), 0.0) if text is not None else None
    except ValueError:  # not a number: as if it were not there, like any annotation that nobody understands
        return None


def _container(container: Json, state: Json) -> Json:
    running = "running" in state
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": running,
        "started": running,
        "restartCount": 0,
        "state": state,
        "lastState": {},
    }
