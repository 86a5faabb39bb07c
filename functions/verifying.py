"""A snapshot is a claim, no proof: before anything is bought, the pods that it is bought for are read again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from shared.adapters.errors import NotFound, OutsideError
from shared.adapters.protocols import ClusterApi
from shared.model import Gang, PodClass, PodRef, Snapshot
from shared.reading.gang_members import gang_name, role_name

SAMPLE = 20  # pods per class that are read again before anything is bought for the class
MOST_READ = 200  # pods read one by one; beyond that, one list of all pods without a node is quicker
FEW = 40  # read one by one in any case
PER_PAGE = 15  # so many waiting pods are listed in the time that one is read by itself, a page of 500 at a time


def without_gone(api: ClusterApi, snapshot: Snapshot, wanted: frozenset[PodRef]) -> Snapshot | None:
    """The snapshot without pods that no longer wait; None when all of those that were looked at, a sample of the
    `wanted` ones, still do."""
    whole = _gangs_of(snapshot, wanted)
    sample = [pod for group in snapshot.pending for pod in _sample(group, wanted, whole)]
    waiting_pods = sum(len(group.pods) for group in snapshot.pending)
    singly = len(sample) <= FEW or (len(sample) <= MOST_READ and len(sample) * PER_PAGE <= waiting_pods)
    if singly and _all_wait(api, sample):
        return None
    waiting = _waiting_now(api)
    kept = [replace(each, pods=tuple(pod for pod in each.pods if pod.uid in waiting)) for each in snapshot.pending]
    if sum(len(pods.pods) for pods in kept) == waiting_pods:
        return None
    pending, gangs = tuple(pods for pods in kept if pods.pods), _still_needed(api, snapshot, waiting)
    return replace(snapshot, pending=pending, gangs=gangs)


def _sample(group: PodClass, wanted: frozenset[PodRef], whole: frozenset[str]) -> tuple[PodRef, ...]:
    """Up to SAMPLE pods that something is bought for, spread over the class: who was bound first stands together.

    All pods of a gang: one that is gone may keep it from starting.
    """
    if gang_name(group.shape.gang) in whole:
        return group.pods
    named = tuple(pod for pod in group.pods if pod in wanted)
    return named[:: max(1, -(-len(named) // SAMPLE))]


def _gangs_of(snapshot: Snapshot, wanted: frozenset[PodRef]) -> frozenset[str]:
    return frozenset(
        gang_name(group.shape.gang)
        for group in snapshot.pending
        if group.shape.gang and any(pod in wanted for pod in group.pods)
    )


def _all_wait(api: ClusterApi, pods: list[PodRef]) -> bool:
    answers = api.get_each([f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}" for pod in pods])
    for pod, found in zip(pods, answers, strict=True):
        if isinstance(found, NotFound):
            return False
        if isinstance(found, OutsideError):
            raise found
        meta = found["metadata"]
        if pod.uid and meta.get("uid", "") != pod.uid:
            return False
        if "deletionTimestamp" in meta or found.get("spec", {}).get("nodeName"):
            return False
    return True


def _waiting_now(api: ClusterApi) -> frozenset[str]:
    """The uids of all pods without a node: read only when a sample has shown that the snapshot is out of date, or would
    be so large that it is no saving."""
    found, _ = api.list("/api/v1/pods", field_selector="spec.nodeName=")
    return frozenset(pod["metadata"]["uid"] for pod in found if "deletionTimestamp" not in pod["metadata"])


def _still_needed(api: ClusterApi, snapshot: Snapshot, waiting: frozenset[str]) -> tuple[Gang, ...]:
    """The gangs, less the members that found a node since; those that are gone are missed."""
    missed = [(each.shape.gang, pod) for each in snapshot.pending if each.shape.gang for pod in each.pods]
    missed = [(field, pod) for field, pod in missed if pod.uid not in waiting]
    if not missed:
        return snapshot.gangs
    found, _ = api.list("/api/v1/pods")
    bound = {pod["metadata"]["uid"] for pod in found if pod["spec"].get("nodeName")}
    placed = Counter(field for field, pod in missed if pod.uid in bound)
    return tuple(_less(gang, placed) for gang in snapshot.gangs)


def _less(gang: Gang, placed: Counter[str]) -> Gang:
    off = Counter[str]()
    for field, number in placed.items():
        if gang_name(field) == gang.name:
            off[role_name(field)] += number
    roles = tuple((role, max(0, least - off[role])) for role, least in gang.roles)
    return replace(gang, minimum=max(0, gang.minimum - off.total()), roles=roles)
