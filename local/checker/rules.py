"""The invariants that need the whole picture, one function each: evidence in, violations out, with time and names.

Where a `Watch` looked on, the others were judged by it as they happened; beside a real cluster there is none, and what
Azure's part tells is judged here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta

from local.checker.evidence import AzureEvidence, Evidence
from local.checker.notebook import some
from local.checker.refused import shut_pools
from local.checker.servable import fits
from local.checker.together import is_lost, served_in_part
from local.kube.kinds import NODE, POD
from local.kube.objects import is_finished

JOINED_WITHIN = timedelta(hours=1)
"""Boot, the wait for a node that does not come, two sweeps and a slow deletion."""

Rule = Callable[[Evidence], Iterator[str]]
AzureRule = Callable[[AzureEvidence], Iterator[str]]


def check(evidence: Evidence) -> tuple[str, ...]:
    """All violations, rule by rule."""
    return tuple(violation for rule in RULES for violation in rule(evidence))


def check_azure(evidence: AzureEvidence) -> tuple[str, ...]:
    """The violations that show without looking into the cluster."""
    return tuple(violation for rule in AZURE_RULES for violation in rule(evidence))


def _at(evidence: AzureEvidence, moment: datetime) -> str:
    return f"t={(moment - evidence.begun).total_seconds():.1f}s"


def never_above_maximum(evidence: AzureEvidence) -> Iterator[str]:
    """No accepted write asks for more than the pool's maximum, and never do more VMs exist."""
    for write in evidence.arm.writes:
        if write.maximum is not None and max(write.target, write.count) > write.maximum:
            yield (
                f"{_at(evidence, write.at)} above-maximum: {write.operation} of {write.resource} asked for"
                f" {write.target} ({write.count} there or coming), the maximum is {write.maximum}"
            )
    for pool in evidence.pools:
        when, most = _most([(vm.created_at, vm.deleting_at, 1) for vm in evidence.arm.vms if pool.holds(vm)])
        if most > pool.maximum:
            yield (
                f"{_at(evidence, when or evidence.begun)} above-maximum: pool {pool.name} had {most} VMs, its"
                f" maximum is {pool.maximum}"
            )


def nobody_lets_azure_choose(evidence: AzureEvidence) -> Iterator[str]:
    """No VM of an agent pool goes because somebody asked for fewer than there are: who goes is ours to say."""
    chosen = set(evidence.arm.chosen_by_azure)
    for vm in evidence.arm.vms:
        if vm.provider_id in chosen:
            yield f"{_at(evidence, vm.deleting_at or vm.created_at)} chosen-by-azure: {vm.name} went by a lower count"


def never_above_quota(evidence: AzureEvidence) -> Iterator[str]:
    """The cores of the VMs that exist never exceed what the subscription may have."""
    for name, limit in evidence.quota.limits().items():
        spans = []
        for vm in evidence.arm.vms:
            names, cores = evidence.quota.counts_for(vm)
            if name in names:
                spans.append((vm.created_at, vm.deleted_at, cores))
        when, most = _most(spans)
        if most > limit:
            yield f"{_at(evidence, when or evidence.begun)} above-quota: {most} cores of {name}, the quota is {limit}"


def _most(spans: Iterable[tuple[datetime, datetime | None, int]]) -> tuple[datetime | None, int]:
    """When the sum of the spans was highest, and how high; at one moment what ends goes first."""
    steps: list[tuple[datetime, int]] = []
    for begin, end, weight in spans:
        steps.append((begin, weight))
        if end is not None:
            steps.append((end, -weight))
    level, most, when = 0, 0, None
    for moment, step in sorted(steps):
        level += step
        if level > most:
            most, when = level, moment
    return when, most


def nothing_left_over(evidence: AzureEvidence) -> Iterator[str]:
    """At the end no pool stands above its minimum, and nothing of a VM that is gone is still there."""
    end = _at(evidence, evidence.now)
    for pool in evidence.pools:
        names = sorted(vm.name for vm in evidence.arm.live_vms() if pool.holds(vm))
        if len(names) > pool.minimum:
            yield (
                f"{end} left-over: pool {pool.name} has {len(names)} VMs, its minimum is {pool.minimum}: {some(names)}"
            )
    leaks = evidence.arm.leaks()
    yield from (f"{end} leaked-nic: {name}" for name in leaks.nics)
    yield from (f"{end} leaked-disk: {name}" for name in leaks.disks)


def no_node_is_left_over(evidence: Evidence) -> Iterator[str]:
    """At the end no Node stands that no VM carries."""
    end = _at(evidence, evidence.now)
    yield from (f"{end} leaked-node: {name} has no VM" for name in nodes_without_vm(evidence))


def no_machine_is_left_alone(evidence: Evidence) -> Iterator[str]:
    """At the end no VM of a pool stands for long without a Node: nobody could work there, and it costs all the same."""
    nodes = {node.name for node in evidence.store.all(NODE)}
    for vm in evidence.arm.live_vms():
        ours = vm.deleting_at is None and any(pool.holds(vm) for pool in evidence.pools)
        if ours and vm.computer_name.lower() not in nodes and evidence.now - vm.created_at > JOINED_WITHIN:
            yield f"{_at(evidence, evidence.now)} leaked-vm: {vm.name} has no node"


def nodes_without_vm(evidence: Evidence) -> list[str]:
    """Nodes that stand at the end though no VM carries them."""
    carried = {vm.computer_name.lower() for vm in evidence.arm.live_vms()}
    return sorted(
        node.name for node in evidence.cluster.nodes.values() if node.deleted is None and node.name not in carried
    )


def volumes_survive(evidence: AzureEvidence) -> Iterator[str]:
    """A persistent volume's disk is never deleted."""
    for disk in evidence.arm.persistent_volumes():
        if disk.deleted_at is not None:
            yield f"{_at(evidence, disk.deleted_at)} volume-deleted: {disk.name} was a persistent volume's disk"


def what_was_seen(evidence: Evidence) -> Iterator[str]:
    """What those who looked on have seen: `local.checker.watch`."""
    yield from evidence.seen


def events_are_handled(evidence: Evidence) -> Iterator[str]:
    """Of every event something came, or it is a dead letter."""
    yield from (f"{_at(evidence, evidence.now)} {words}" for words in evidence.events)


def gangs_start_together(evidence: Evidence) -> Iterator[str]:
    """No gang keeps nodes that it could not start with."""
    yield from (f"{_at(evidence, evidence.now)} {words}" for words in served_in_part(evidence))


def nobody_waits_in_vain(evidence: Evidence) -> Iterator[str]:
    """No pod is pending at the end that an empty node of some pool with room left could take, unless Azure has said
    within a day that the pool's size is not to be had, or others of its gang are lost for good."""
    live = evidence.arm.live_vms()
    shut = shut_pools(evidence.arm.refusals, evidence.pools, evidence.now)
    room = [pool for pool in evidence.pools if sum(pool.holds(vm) for vm in live) < pool.maximum]
    open_pools = [pool for pool in room if pool.name not in shut]
    end = _at(evidence, evidence.now)
    for pod in evidence.store.all(POD):
        if pod.spec.get("nodeName") or is_finished(pod) or is_lost(evidence, pod):
            continue
        for pool in open_pools:
            if fits(evidence.store, pod, pool):
                since = pod.metadata["creationTimestamp"]
                yield f"{end} unserved: {'/'.join(pod.key)} waits since {since}, pool {pool.name} could take it"
                break


def everything_ended(evidence: AzureEvidence) -> Iterator[str]:
    """Every orchestration came to a good end within the rules of its host, and every event was taken."""
    end = _at(evidence, evidence.now)
    yield from (f"{end} orchestration: {words}" for words in evidence.orchestrations)
    yield from (f"{end} host: {words}" for words in evidence.host)
    yield from (f"{end} dead-letter: {words}" for words in evidence.dead_letters)


AZURE_RULES: tuple[AzureRule, ...] = (
    never_above_maximum,
    nobody_lets_azure_choose,
    never_above_quota,
    nothing_left_over,
    volumes_survive,
    everything_ended,
)
RULES: tuple[Rule, ...] = (
    what_was_seen,
    nothing_left_over,
    everything_ended,
    events_are_handled,
    gangs_start_together,
    no_node_is_left_over,
    no_machine_is_left_alone,
    nobody_waits_in_vain,
)
