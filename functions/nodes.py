"""What touches a Node object and the pods on it. Each activity looks anew, and is safe to run twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from functions.outcomes import Busy, Json
from shared.adapters.errors import NotFound, StaleWrite, Throttled
from shared.adapters.protocols import ClusterApi
from shared.model import Drain, Movability
from shared.names import (
    CORDONED_BEFORE_ANNOTATION,
    EVICTING_AT_ANNOTATION,
    RETIRE_OPERATION_ANNOTATION,
    RETIRING_TAINT,
)
from shared.reading.drain import is_critical, movability, node_blocked_by

Check = Callable[[Json], None]
WRITES = 4
_TERMINATING = "deletionTimestamp"


@dataclass(slots=True)
class Load:
    """The pods of a node that a drain is concerned with."""

    moving: list[Json] = field(default_factory=list)
    ending: list[Json] = field(default_factory=list)  # evicted already, not gone yet
    waiting: list[Json] = field(default_factory=list)  # run to their end, and are not evicted
    blocked: str = ""
    blocking: list[Json] = field(default_factory=list)

    @property
    def remaining(self) -> int:
        """How many pods must still go."""
        return len(self.moving) + len(self.ending)

    @property
    def whole(self) -> int:
        """The same where nobody can be waited for."""
        return self.remaining + len(self.waiting)

    def next_tier(self) -> list[Json]:
        """The pods whose turn it is: those that the system needs most wait until all others are gone."""
        others = [pod for pod in self.moving if not is_critical(pod)]
        if others or not all(map(is_critical, self.ending)):
            return others
        return self.moving


@dataclass(slots=True)
class Evictions:
    """What became of pods that were to be evicted; those that a PodDisruptionBudget holds for now are asked again."""

    evicted: list[Json] = field(default_factory=list)
    held: list[Json] = field(default_factory=list)


def path_of(node: str) -> str:
    """The API path of a node."""
    return f"/api/v1/nodes/{node}"


def name_of(item: Json) -> str:
    """namespace/name, as messages show it."""
    meta = item["metadata"]
    return f"{meta.get('namespace', 'default')}/{meta['name']}"


def read_node(api: ClusterApi, order: Json) -> Json:
    """The Node, if it still is the one that was meant. Raises NotFound when it is gone, or another bears its name."""
    node = api.get(path_of(order["node"]))
    if order.get("uid") and node["metadata"].get("uid") != order["uid"]:
        raise NotFound(f"node {order['node']} was replaced by another one of its name")
    return node


def holder_of(node: Json) -> str:
    """The operation whose cordon the node bears, or ""."""
    annotations: Mapping[str, str] = node["metadata"].get("annotations") or {}
    return annotations.get(RETIRE_OPERATION_ANNOTATION, "")


def is_cordoned(node: Json) -> bool:
    """Whether anybody has cordoned it."""
    return bool(node.get("spec", {}).get("unschedulable"))


def provider_id(node: Json) -> str:
    """A Node's providerID, in one case."""
    return str(node.get("spec", {}).get("providerID", "")).casefold()


def is_ready(node: Json) -> bool:
    """Whether the kubelet says so."""
    conditions = node.get("status", {}).get("conditions") or ()
    return any(item["type"] == "Ready" and item.get("status") == "True" for item in conditions)


def ready_since(node: Json) -> datetime | None:
    """Since when the kubelet says so; None while it does not."""
    conditions = node.get("status", {}).get("conditions") or ()
    times = [item.get("lastTransitionTime") for item in conditions if item["type"] == "Ready"]
    return datetime.fromisoformat(times[0]) if is_ready(node) and times and times[0] else None


def silent_since(node: Json) -> datetime | None:
    """Since when the kubelet has not said that it is ready; None while it does, or where nobody has ever noted it."""
    conditions = node.get("status", {}).get("conditions") or ()
    times = [item.get("lastTransitionTime") for item in conditions if item["type"] == "Ready"]
    return datetime.fromisoformat(times[0]) if not is_ready(node) and times and times[0] else None


def refuse_foreign(node: Json, op: str) -> None:
    """Raises Busy for a node that an administrator, its own annotations or another operation keeps."""
    name, holder = node["metadata"]["name"], holder_of(node)
    if holder and holder != op:
        raise Busy("duplicate", f"operation {holder} is at work on node {name}")
    if is_cordoned(node) and not holder:
        raise Busy("foreign", "cordoned by an administrator")
    refuse_opted_out(node)


def refuse_opted_out(node: Json) -> None:
    """Raises Busy for a node whose own annotations keep it; they may be set at any time."""
    opted_out = node_blocked_by(node["metadata"].get("annotations") or {})
    if opted_out:
        raise Busy("opted-out", opted_out)


def cordon(api: ClusterApi, order: Json, check: Check = lambda _: None, **annotations: str) -> Json:
    """Taint, annotate and cordon in one guarded write, of a node that `check` has nothing against as it is read for
    that. Raises StaleWrite when others keep writing."""
    for _ in range(WRITES):
        node = read_node(api, order)
        check(node)
        if holder_of(node) == order["op"] and is_cordoned(node) and _tainted(node):
            return node
        others = [taint for taint in node.get("spec", {}).get("taints") or [] if taint["key"] != RETIRING_TAINT]
        ours = {"key": RETIRING_TAINT, "value": order["op"], "effect": "NoSchedule"}
        notes = {RETIRE_OPERATION_ANNOTATION: order["op"], **annotations}
        if is_cordoned(node) and not holder_of(node):
            notes[CORDONED_BEFORE_ANNOTATION] = "true"
        try:
            return _write(api, node, {"unschedulable": True, "taints": [*others, ours]}, notes)
        except StaleWrite:
            continue
    raise StaleWrite(f"node {order['node']} was changed by others each time it was to be cordoned")


def uncordon(api: ClusterApi, node_name: str, op: str, *, lost: bool = False) -> bool:
    """Undo our cordon, and nobody else's; False when there was nothing of ours to undo. After somebody took our cordon
    off (`lost`), one that is there again is theirs."""
    for _ in range(WRITES):
        try:
            node = api.get(path_of(node_name))
        except NotFound:
            return False
        if holder_of(node) != op:
            return False
        others = [taint for taint in node.get("spec", {}).get("taints") or [] if taint["key"] != RETIRING_TAINT]
        ours = (RETIRE_OPERATION_ANNOTATION, EVICTING_AT_ANNOTATION, CORDONED_BEFORE_ANNOTATION)
        theirs = CORDONED_BEFORE_ANNOTATION in (node["metadata"].get("annotations") or {}) or (
            lost and is_cordoned(node)
        )
        spec = {"unschedulable": True if theirs else None, "taints": others or None}
        try:
            _write(api, node, spec, dict.fromkeys(ours))
        except StaleWrite:
            continue
        return True
    raise StaleWrite(f"node {node_name} was changed by others each time it was to be uncordoned")


def _tainted(node: Json) -> bool:
    return any(taint["key"] == RETIRING_TAINT for taint in node.get("spec", {}).get("taints") or [])


def _write(api: ClusterApi, node: Json, spec: Json, annotations: Mapping[str, Any]) -> Json:
    meta = {"resourceVersion": node["metadata"]["resourceVersion"], "annotations": dict(annotations)}
    return api.patch(path_of(node["metadata"]["name"]), {"metadata": meta, "spec": spec})


def load_of(api: ClusterApi, node: str, drain: Drain = Drain.EVICT) -> Load:
    """The pods on the node just now, by what a drain has to do about them in a pool with that setting."""
    pods, _ = api.list("/api/v1/pods", field_selector=f"spec.nodeName={node}")
    load = Load()
    for pod in pods:
        ending = _TERMINATING in pod["metadata"]
        what, why = movability(_as_if_staying(pod) if ending else pod, drain)
        if what is Movability.STAYS:
            continue
        if ending:
            load.ending.append(pod)
        elif what is Movability.WAITS:
            load.waiting.append(pod)
        elif what is Movability.BLOCKS:
            load.blocked = load.blocked or f"{name_of(pod)}: {why}"
            load.blocking.append(pod)
        else:
            load.moving.append(pod)
    return load


def _as_if_staying(pod: Json) -> Json:
    meta = {name: value for name, value in pod["metadata"].items() if name != _TERMINATING}
    return {**pod, "metadata": meta}


def attached_volumes(api: ClusterApi, node: str) -> list[str]:
    """Volumes that the attach/detach controller still holds on the node: its VM must not go while there are any."""
    return volumes_by_node(api).get(node, [])


def volumes_by_node(api: ClusterApi) -> dict[str, list[str]]:
    """The same of all nodes."""
    found, _ = api.list("/apis/storage.k8s.io/v1/volumeattachments")
    volumes: dict[str, list[str]] = {}
    for item in found:
        volumes.setdefault(item.get("spec", {}).get("nodeName", ""), []).append(item["metadata"]["name"])
    return volumes


def evict_all(api: ClusterApi, pods: list[Json], grace_seconds: int | None) -> Evictions:
    """Ask the Eviction API once for each pod."""
    asked = Evictions()
    for pod in pods:
        meta = pod["metadata"]
        wanted = pod.get("spec", {}).get("terminationGracePeriodSeconds")
        grace = None if grace_seconds is None or (wanted is not None and wanted <= grace_seconds) else grace_seconds
        try:
            api.evict(meta.get("namespace", "default"), meta["name"], meta.get("uid", ""), grace_seconds=grace)
        except Throttled:
            asked.held.append(pod)
        except (NotFound, StaleWrite):
            continue  # gone, or another pod has its name: the next look tells
        else:
            asked.evicted.append(pod)
    return asked
