"""What becomes of nodes that fall silent, and of the pods on them: taints, taint-based eviction, pod GC.

Sources: pkg/controller/{nodelifecycle,tainteviction,podgc} of Kubernetes 1.36.
"""

from __future__ import annotations

import random

from local.kube.admission import NOT_READY, UNREACHABLE
from local.kube.controllers.kubelet import KUBELET_ANNOTATION
from local.kube.controllers.needs import UNSCHEDULABLE_TAINT, tolerates
from local.kube.controllers.timing import Timing, draw
from local.kube.controllers.work import WorkQueue
from local.kube.kinds import NODE, POD, Json, Key
from local.kube.objects import condition, is_finished, is_ready, with_condition
from local.kube.registry import DeleteOptions, Registry
from local.kube.store import DELETED, Change, Stored

_OURS = frozenset({(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute"), (UNREACHABLE, "NoSchedule")}) | {
    (UNREACHABLE, "NoExecute"),
    (UNSCHEDULABLE_TAINT, "NoSchedule"),
}


class NodeLifecycle:
    """Taints by condition, and evicts by taint."""

    def __init__(self, registry: Registry, draws: random.Random, timing: Timing) -> None:
        self._registry, self._store, self._timeline = registry, registry.store, registry.timeline
        self._draws, self._timing = draws, timing
        self._queue: WorkQueue[str] = WorkQueue(registry.timeline, self._sync)
        self._store.subscribe(self._note)

    def _note(self, change: Change) -> None:
        if change.new.kind is NODE:
            self._note_node(change)
        elif change.new.kind is POD and change.type != DELETED:
            self._note_pod(change)

    def _note_pod(self, change: Change) -> None:
        node = change.new.spec.get("nodeName")
        if not node or (change.old is not None and change.old.spec.get("nodeName")):
            return
        found = self._store.node(node)
        if found is None:
            self._collect_later(node)
        elif any(taint["effect"] == "NoExecute" for taint in found.spec.get("taints") or ()):
            self._expel(found, change.new)

    def _note_node(self, change: Change) -> None:
        node = change.new
        if change.type == DELETED:
            self._collect_later(node.name)
            return
        had = change.old is not None and KUBELET_ANNOTATION in change.old.annotations
        if had and KUBELET_ANNOTATION not in node.annotations:
            uid = node.uid
            self._timeline.call_later(self._timing.node_silence, lambda: self._lost(node.name, uid))
        self._queue.add(node.name)

    def _lost(self, name: str, uid: str) -> None:
        node = self._store.node(name)
        if node is None or node.uid != uid or KUBELET_ANNOTATION in node.annotations:
            return
        status = node.status
        for type_ in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready"):
            new = {"type": type_, "status": "Unknown", "reason": "NodeStatusUnknown"}
            new["message"] = "Kubelet stopped posting node status."
            status = with_condition(status, new, self._store.now_text())
        self._registry.set_status(node, status)

    def _sync(self, name: str) -> None:
        node = self._store.node(name)
        if node is None:
            return
        taints = [one for one in node.spec.get("taints") or () if (one["key"], one["effect"]) not in _OURS]
        wanted = self._wanted(node)
        old = {(one["key"], one["effect"]): one for one in node.spec.get("taints") or ()}
        for key, effect in wanted:
            added = {"timeAdded": self._store.now_text()} if effect == "NoExecute" else {}
            taints.append(old.get((key, effect)) or {"key": key, "effect": effect, **added})
        spec = {name: value for name, value in node.spec.items() if name != "taints"}
        node = self._store.replace(node, {**node.body, "spec": spec | ({"taints": taints} if taints else {})})
        if any(effect == "NoExecute" for _, effect in wanted):
            self._mark_pods(name)
        for pod in self._store.pods_on(name):
            self._expel(node, pod)

    def _wanted(self, node: Stored) -> list[tuple[str, str]]:
        ready = condition(node, "Ready")
        wanted = [(UNSCHEDULABLE_TAINT, "NoSchedule")] if node.spec.get("unschedulable") else []
        if ready is None:
            return [*wanted, (NOT_READY, "NoSchedule")]
        if ready["status"] == "True":
            return wanted
        key = UNREACHABLE if ready["status"] == "Unknown" else NOT_READY
        return [*wanted, (key, "NoSchedule"), (key, "NoExecute")]

    def _mark_pods(self, node: str) -> None:
        for pod in self._store.pods_on(node):
            if is_ready(pod):
                new = {"type": "Ready", "status": "False", "lastProbeTime": None}
                self._registry.set_status(pod, with_condition(pod.status, new, self._store.now_text()))

    def _expel(self, node: Stored, pod: Stored) -> None:
        """Delete the pod when its toleration of the node's NoExecute taints ends."""
        taints = [one for one in node.spec.get("taints") or () if one["effect"] == "NoExecute"]
        if not taints or pod.terminating:
            return
        seconds = _patience(pod, taints)
        if seconds is None:
            return
        uid, key, names = pod.uid, pod.key, {one["key"] for one in taints}
        self._timeline.call_later(seconds, lambda: self._expelled(uid, key, names))

    def _expelled(self, uid: str, key: Key, taints: set[str]) -> None:
        pod = self._store.get(POD, key)
        node = self._store.node(pod.spec.get("nodeName", "")) if pod is not None else None
        if pod is None or node is None or pod.uid != uid or pod.terminating:
            return
        still = [one for one in node.spec.get("taints") or () if one["effect"] == "NoExecute" and one["key"] in taints]
        if still and _patience(pod, still) is not None:
            new = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
            new["message"] = "Taint manager: deleting due to NoExecute taint"
            marked = self._registry.set_status(pod, with_condition(pod.status, new, self._store.now_text()))
            self._registry.delete(marked)

    def _collect_later(self, node: str) -> None:
        self._timeline.call_later(draw(self._draws, self._timing.orphan_pods), lambda: self._collect(node))

    def _collect(self, name: str) -> None:
        if self._store.node(name) is not None:
            return
        for pod in self._store.pods_on(name):
            status: Json = {**pod.status}
            if not is_finished(pod):
                new = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}
                new["message"] = "PodGC: node no longer exists"
                status = with_condition({**status, "phase": "Failed"}, new, self._store.now_text())
            self._registry.delete(self._registry.set_status(pod, status), DeleteOptions(grace=0))


def _patience(pod: Stored, taints: list[Json]) -> float | None:
    """Seconds that the pod tolerates these taints; None = for ever."""
    tolerations = pod.spec.get("tolerations") or []
    if not all(tolerates(tolerations, taint) for taint in taints):
        return 0.0
    used = [one for one in tolerations if any(tolerates([one], taint) for taint in taints)]
    limits = [float(one["tolerationSeconds"]) for one in used if one.get("tolerationSeconds") is not None]
    return max(min(limits), 0.0) if limits else None
