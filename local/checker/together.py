"""No gang is served in part for long: what came of it is completed, or given back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta

from local.checker.evidence import NODE_OPT_OUTS, Evidence, attends, opt_out
from local.kube.kinds import NODE, POD
from local.kube.objects import controller_of, is_finished
from local.kube.store import Stored
from local.kube.truth import PodRecord

GANG, MINIMUM = "sluice.io/gang", "sluice.io/gang-min-member"
GIVEN_BACK_WITHIN = timedelta(minutes=30)
"""A hold for the fallback of 5 minutes, a drain of 15, and two sweeps, as the pools file has them by default."""


def served_in_part(evidence: Evidence, within: timedelta = GIVEN_BACK_WITHIN) -> Iterator[str]:
    """Nodes that were bought for a gang, hold nothing but members of it for longer than `within`, and that it could not
    start with.

    Members that nobody would make anew cannot be moved; nodes that stood before, or that somebody wants to keep, are
    not given back. Where nobody waits, the others have run to their end; where all ran at once, it had started, and has
    lost somebody since.
    """
    for name, members in sorted(_gangs(evidence).items()):
        bound = [pod for pod in members if pod.spec.get("nodeName")]
        least = max(int(pod.annotations.get(MINIMUM, 1)) for pod in members)
        if not 0 < len(bound) < min(least, len(members)) or any(is_finished(pod) for pod in members):
            continue
        if _had_started(evidence, members, least):
            continue
        nodes = sorted({str(pod.spec["nodeName"]) for pod in bound if _waits_in_vain(evidence, pod, members, within)})
        if nodes:
            yield f"gang-in-part: {'/'.join(name)} has {len(bound)} of {least}, and keeps {', '.join(nodes[:5])}"


def is_lost(evidence: Evidence, pod: Stored) -> bool:
    """Whether the pod's gang lacks members that nobody makes: it cannot start any more, whatever is bought."""
    name = pod.annotations.get(GANG)
    if not name:
        return False
    members = _gangs(evidence)[pod.namespace, name]
    whole = [one for one in members if one.status.get("phase") != "Failed"]
    return controller_of(pod) is None and len(whole) < int(pod.annotations.get(MINIMUM, 1))


def _gangs(evidence: Evidence) -> dict[tuple[str, str], list[Stored]]:
    found: dict[tuple[str, str], list[Stored]] = defaultdict(list)
    for pod in evidence.store.all(POD):
        if name := pod.annotations.get(GANG):
            found[pod.namespace, name].append(pod)
    return found


def _had_started(evidence: Evidence, members: list[Stored], least: int) -> bool:
    """Whether as many as it needs, with those that are gone by now, ran at the same time once."""
    owners = {(pod.namespace, str(owner["name"])) for pod in members if (owner := controller_of(pod)) is not None}
    records = [
        record
        for record in evidence.cluster.pods.values()
        if record.started is not None and (record.namespace, record.name.rpartition("-")[0]) in owners
    ]
    return any(sum(_ran(record, at) for record in records) >= least for record in records if (at := record.started))


def _ran(record: PodRecord, at: datetime) -> bool:
    return record.started is not None and record.started <= at and (record.deleted is None or record.deleted > at)


def _waits_in_vain(evidence: Evidence, pod: Stored, members: list[Stored], within: timedelta) -> bool:
    node = evidence.store.get(NODE, ("", str(pod.spec["nodeName"])))
    if node is None or opt_out(node.annotations, NODE_OPT_OUTS):
        return False
    record = evidence.cluster.pods[pod.uid]
    long_ago = record.scheduled is not None and evidence.now - record.scheduled > within
    return long_ago and controller_of(pod) is not None and _was_bought_for(evidence, str(pod.spec["nodeName"]), members)


def _was_bought_for(evidence: Evidence, node: str, members: list[Stored]) -> bool:
    begun = min(evidence.cluster.pods[pod.uid].created for pod in members)
    vms = [vm for vm in evidence.arm.live_vms() if vm.computer_name.lower() == node and vm.created_at >= begun]
    uids = {pod.uid for pod in members}
    others = [pod for pod in evidence.store.pods_on(node) if pod.uid not in uids and not attends(pod.metadata)]
    return bool(vms) and not others
