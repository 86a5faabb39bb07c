"""What a drain may do with each pod of a node, and with the node itself. The first rule that applies decides:

1. mirror and static pods, DaemonSet pods, pods that have ended or are ending: STAY, they go with the node;
2. `sluice.io/wait-for-completion: "true"`, or cluster-autoscaler's `safe-to-evict: on-completion`: WAITS, unless
   `karpenter.sh/do-not-disrupt` BLOCKS;
3. `cluster-autoscaler.kubernetes.io/safe-to-evict: "true"`: MOVES, its owner vouches for the rest;
4. `safe-to-evict: "false"` or `karpenter.sh/do-not-disrupt: "true"`: BLOCKS (so does a duration, Karpenter's newer
   form, for as long as it stands there: an hour too long on a node costs less than a run that is cut off);
5. in a pool with `drain: wait`, a pod that ends by itself (its restartPolicy is not Always): WAITS;
6. a bare pod, which nothing would make again: BLOCKS;
7. local storage (emptyDir on disk, hostPath), unless `safe-to-evict-local-volumes` names the volume: BLOCKS;
8. everything else MOVES, with the Eviction API, hence as its PodDisruptionBudget allows.

The annotations are cluster-autoscaler's and Karpenter's, so that a cluster that comes from either keeps its word. One
rule of cluster-autoscaler is left out on purpose: kube-system pods without a budget move like any other. They hold
whole nodes for ever there, and whoever needs one to stay can say so by annotation or budget.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from shared.model import Drain, Movability
from shared.names import WAIT_FOR_COMPLETION_ANNOTATION
from shared.reading.pods import is_terminal, is_terminating, owner_kind

Json = dict[str, Any]

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
ON_COMPLETION = "on-completion"
SAFE_LOCAL_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
SCALE_DOWN_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
MIRROR = "kubernetes.io/config.mirror"
CRITICAL = 2_000_000_000  # scheduling.k8s.io's SystemCriticalPriority
GRACE_SECONDS = 30  # Kubernetes' terminationGracePeriodSeconds where a pod says nothing
_DURATION = re.compile(r"(\d+(\.\d+)?(h|m|s))+")

_EMPTY: Json = {}
_MOVES = (Movability.MOVES, "")
_STAYS = (Movability.STAYS, "")


def movability(pod: Json, drain: Drain = Drain.EVICT) -> tuple[Movability, str]:
    """What a drain does with the pod, by its pool's `drain`; why it may not move where it BLOCKS, or WAITS and would
    otherwise block."""
    annotations = pod["metadata"].get("annotations") or _EMPTY
    if _goes_with_the_node(pod, annotations):
        return _STAYS
    if _waits_by_itself(annotations):
        opted_out = _disruption_forbidden(annotations)
        return (Movability.BLOCKS, opted_out) if opted_out else (Movability.WAITS, _lost_by_moving(pod, annotations))
    if annotations.get(SAFE_TO_EVICT) == "true":
        return _MOVES
    if opted_out := _opted_out(annotations):
        return Movability.BLOCKS, opted_out
    lost = _lost_by_moving(pod, annotations)
    if drain is Drain.WAIT and (pod.get("spec") or _EMPTY).get("restartPolicy", "Always") != "Always":
        return Movability.WAITS, lost
    return (Movability.BLOCKS, lost) if lost else _MOVES


def node_blocked_by(annotations: Mapping[str, str]) -> str:
    """Why the node's own annotations keep it, or ""."""
    for name in (SCALE_DOWN_DISABLED, DO_NOT_DISRUPT):
        if _says_no(annotations.get(name, "")):
            return f"NodeOptOut: annotation {name}"
    return ""


def _says_no(value: str) -> bool:
    return value == "true" or _DURATION.fullmatch(value) is not None


def why_moves(pod: Json) -> str:
    """Which rule lets a pod that MOVES be evicted, for the record."""
    if (pod["metadata"].get("annotations") or _EMPTY).get(SAFE_TO_EVICT) == "true":
        return f"annotation {SAFE_TO_EVICT}=true"
    return f"its {owner_kind(pod)} makes it again"


def is_critical(pod: Json) -> bool:
    """Whether the system needs it most: such pods leave a node after all others, as in the kubelet's graceful shutdown
    (its IsCriticalPod) and in Karpenter's drain, since the others' last moments may depend on them."""
    spec = pod.get("spec") or _EMPTY
    named = spec.get("priorityClassName") in {"system-cluster-critical", "system-node-critical"}
    return named or (spec.get("priority") or 0) >= CRITICAL


def grace_of(pod: Json) -> float:
    """Seconds that the pod may take to end."""
    wanted = (pod.get("spec") or _EMPTY).get("terminationGracePeriodSeconds")
    return float(GRACE_SECONDS if wanted is None else wanted)


def _goes_with_the_node(pod: Json, annotations: Mapping[str, str]) -> bool:
    return (
        MIRROR in annotations
        or is_terminal(pod)
        or is_terminating(pod)
        or owner_kind(pod) in {"DaemonSet", "Node"}  # a static pod's owner is the Node
    )


def _waits_by_itself(annotations: Mapping[str, str]) -> bool:
    wanted = annotations.get(WAIT_FOR_COMPLETION_ANNOTATION) == "true"
    return wanted or annotations.get(SAFE_TO_EVICT) == ON_COMPLETION


def _opted_out(annotations: Mapping[str, str]) -> str:
    if annotations.get(SAFE_TO_EVICT) == "false":
        return f"PodOptOut: annotation {SAFE_TO_EVICT}"
    return _disruption_forbidden(annotations)


def _disruption_forbidden(annotations: Mapping[str, str]) -> str:
    return f"PodOptOut: annotation {DO_NOT_DISRUPT}" if _says_no(annotations.get(DO_NOT_DISRUPT, "")) else ""


def _lost_by_moving(pod: Json, annotations: Mapping[str, str]) -> str:
    if not owner_kind(pod):
        return "BarePod: no controller would make it again"
    vouched = {name.strip() for name in annotations.get(SAFE_LOCAL_VOLUMES, "").split(",")}
    for volume in (pod.get("spec") or _EMPTY).get("volumes") or ():
        if _is_local(volume) and volume.get("name") not in vouched:
            return f"LocalStorage: volume {volume.get('name')}"
    return ""


def _is_local(volume: Json) -> bool:
    if "hostPath" in volume:
        return True
    return "emptyDir" in volume and (volume["emptyDir"] or _EMPTY).get("medium") != "Memory"
