"""Pods as the scheduler sees them: who is waiting for room, and which pods are interchangeable.

A shape is canonical: whatever order cannot change a scheduling decision is sorted away, so that equal needs give equal
shapes. Equal shapes are the same object, which keeps grouping 15,000 pods a matter of milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from shared.model import HostPort, NodeSelectorTerm, PodClass, PodRef, PodShape, Toleration
from shared.reading.gang_members import SCHEDULERS, Membership, counts_ended, membership
from shared.reading.resources import request_tuple
from shared.reading.volumes import NO_NEEDS, Storage, VolumeNeeds, needs_of
from shared.rules.node_terms import selector_terms
from shared.rules.pod_preferences import preferences_of
from shared.rules.pod_rules import INTER_POD_AFFINITY, NOBODY, Interest, rules_of

Json = dict[str, Any]

DEFAULT_SCHEDULER = "default-scheduler"

_EMPTY: Json = {}


@dataclass(frozen=True, slots=True)
class ParsedPod:
    """One pod as the planner needs it."""

    ref: PodRef
    shape: PodShape
    nominated: str = ""


def classes_of(pods: Iterable[ParsedPod]) -> list[PodClass]:
    """Pods by shape and nominated node, in the order in which they come.

    Quick, and no more than nearly right: see `PodShape.demands`. Whoever needs every shape just once joins the equal.
    """
    found: dict[tuple[object, object, str], list[PodRef]] = {}
    samples: list[PodShape] = []
    for pod in pods:
        shape = pod.shape
        try:
            found[shape.demands, shape.requests, pod.nominated].append(pod.ref)
        except KeyError:
            found[shape.demands, shape.requests, pod.nominated] = [pod.ref]
            samples.append(shape)
    return [
        PodClass(shape, tuple(refs), nominated)
        for shape, ((*_, nominated), refs) in zip(samples, found.items(), strict=True)
    ]


def pod_ref(pod: Json) -> PodRef:
    """Which pod this is; a manifest that never met an API server has no uid."""
    meta = pod["metadata"]
    return PodRef(meta.get("namespace", "default"), meta["name"], meta.get("uid", ""))


def owner_kind(pod: Json) -> str:
    """The kind of the pod's controller, "" for a bare pod."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((str(owner.get("kind", "")) for owner in owners if owner.get("controller")), "")


def is_terminal(pod: Json) -> bool:
    """Whether the pod has ended: it takes no room any more."""
    return (pod.get("status") or _EMPTY).get("phase") in {"Succeeded", "Failed"}


def is_terminating(pod: Json) -> bool:
    """Whether the pod is on its way out: it takes room still, and needs no eviction."""
    return "deletionTimestamp" in pod["metadata"]


def is_pending_candidate(pod: Json) -> bool:
    """Whether a new node could be what this pod waits for.

    Left out: bound, ended and terminating pods, gated ones, those of another scheduler (unless it starts gangs),
    DaemonSet pods (they come with their node), and those that the scheduler holds back for another reason than want of
    room. A pod that the scheduler has said nothing about counts: a dump may catch it there. So does one with a
    nominated node (`nominated_node`): whether it can have the room there is told by what else is on the node.
    """
    spec = pod.get("spec") or _EMPTY
    status = pod.get("status") or _EMPTY
    if spec.get("nodeName") or spec.get("schedulingGates"):
        return False
    if is_terminating(pod) or is_terminal(pod) or not _is_for_us(pod, spec.get("schedulerName", DEFAULT_SCHEDULER)):
        return False
    return _awaits_room(status.get("conditions") or ()) and owner_kind(pod) != "DaemonSet"


def member(pod: Json) -> Membership | None:
    """What a pod that is alive, or has ended well, means for its gang; None for a pod of no gang."""
    found = membership(pod)
    if found is None or is_terminating(pod):
        return None
    status = pod.get("status") or _EMPTY
    if is_terminal(pod):
        well = status.get("phase") == "Succeeded" and counts_ended(found)
        return replace(found, settled=True) if well else None
    return found


def nominated_node(pod: Json) -> str:
    """The node that a pending pod was told to go to, by preemption or by whoever made the node for it; "" for none."""
    return str((pod.get("status") or _EMPTY).get("nominatedNodeName") or "")


def shape_of(pod: Json, interest: Interest = NOBODY, storage: Storage | None = None) -> PodShape:
    """The pod's equivalence class, `interest` being what the rules in play are about. Also takes a pod template.

    `storage` is None where nothing is known of claims and volumes. Raises ValueError naming a malformed quantity.
    """
    spec = pod.get("spec") or _EMPTY
    affinity = spec.get("affinity")
    rules = rules_of(pod)
    volumes = needs_of(pod, storage) if spec.get("volumes") else NO_NEEDS
    namespace, labels = interest.read(*_identity(pod)) if interest.selectors else ("", ())
    return _shared(
        PodShape(
            requests=tuple(sorted(request_tuple(pod) + volumes.requests)) if volumes.requests else request_tuple(pod),
            node_selector=tuple(sorted((spec.get("nodeSelector") or _EMPTY).items())),
            affinity=_required_node_affinity(affinity) if affinity else None,
            tolerations=_tolerations(spec.get("tolerations") or ()),
            host_ports=tuple(sorted(set(_host_ports(spec)), key=_port_order)),
            priority=spec.get("priority") or 0,
            not_modelled=tuple(_not_modelled(spec, volumes, undecided=rules.undecided)),
            namespace=namespace,
            labels=labels,
            near=rules.near,
            apart=rules.apart,
            spread=rules.spread,
            leaving=bool(namespace) and is_terminating(pod),
            gang=_gang(pod),
            preferred=preferences_of(pod),
            volumes=volumes.places,
        )
    )


def _is_for_us(pod: Json, scheduler: str) -> bool:
    return scheduler == DEFAULT_SCHEDULER or (scheduler in SCHEDULERS and membership(pod) is not None)


def _gang(pod: Json) -> str:
    """A pod on its way out counts for its gang no more."""
    found = membership(pod)
    return "" if found is None or is_terminating(pod) else found.field


@lru_cache(maxsize=16384)
def _shared(shape: PodShape) -> PodShape:
    return shape


def _awaits_room(conditions: Iterable[Json]) -> bool:
    scheduled = next((condition for condition in conditions if condition.get("type") == "PodScheduled"), None)
    return scheduled is None or (scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable")


def _required_node_affinity(affinity: Json) -> tuple[NodeSelectorTerm, ...] | None:
    """None when nothing is required."""
    required = (affinity.get("nodeAffinity") or _EMPTY).get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if required is None else selector_terms(required)


def _tolerations(written: Iterable[Json]) -> tuple[Toleration, ...]:
    return _toleration_set(
        tuple(
            (item.get("key") or "", item.get("operator") or "Equal", item.get("value") or "", item.get("effect") or "")
            for item in written
        )
    )


@lru_cache(maxsize=4096)
def _toleration_set(written: tuple[tuple[str, str, str, str], ...]) -> tuple[Toleration, ...]:
    return tuple(Toleration(*fields) for fields in sorted(set(written)))


def _host_ports(spec: Json) -> Iterator[HostPort]:
    """Ports on the node's address, of containers and sidecars; with hostNetwork every container port is one."""
    sidecars = (item for item in spec.get("initContainers") or () if item.get("restartPolicy") == "Always")
    for container in (*(spec.get("containers") or ()), *sidecars):
        for port in container.get("ports") or ():
            number = port.get("hostPort") or (port.get("containerPort") if spec.get("hostNetwork") else 0)
            if number:
                address = port.get("hostIP") or ""
                yield HostPort("" if address == "0.0.0.0" else address, port.get("protocol") or "TCP", number)  # noqa: S104 - compared, not bound


def _port_order(port: HostPort) -> tuple[int, str, str]:
    return (port.port, port.protocol, port.ip)


def _identity(pod: Json) -> tuple[str, Json]:
    meta = pod.get("metadata") or _EMPTY
    return meta.get("namespace") or "default", meta.get("labels") or _EMPTY


def _not_modelled(spec: Json, volumes: VolumeNeeds, *, undecided: bool) -> Iterator[str]:
    """Scheduler rules that this pod calls for and the core cannot judge, by the plugin's name where it has one."""
    if undecided:
        yield INTER_POD_AFFINITY
    yield from volumes.not_modelled
    if spec.get("resourceClaims"):
        yield "DynamicResources"
    if spec.get("workloadRef"):  # of Kubernetes 1.35, gone since
        yield "GangScheduling"
