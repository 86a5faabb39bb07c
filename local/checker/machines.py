"""The rules about VMs, disks and NICs, judged at the moment when something happens to one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

from local.arm.quota import Quota
from local.arm.state import Disk, Nic, Vm
from local.arm.truth import Refusal, Thing, What, Write
from local.checker.evidence import NODE_OPT_OUTS, POOL_TAG, PoolFacts
from local.checker.nodes import Nodes
from local.checker.notebook import Notebook, some
from local.checker.purchases import Purchases

CAPACITIES = frozenset({"scale_set.update", "agent_pool.update"})
SWEEPS = timedelta(minutes=10)  # two maintenance intervals
BOOT = timedelta(minutes=10)  # one boot: what Azure and the kubelet take together at the worst, with one failure


@dataclass(slots=True)
class Below:
    """Since when a pool has fewer machines than its minimum; said once."""

    since: datetime | None = None
    said: bool = False


class Machines:
    """Counts as it goes, so that each happening costs the same however many VMs there are."""

    def __init__(self, book: Notebook, nodes: Nodes, quota: Quota, purchases: Purchases) -> None:
        self._book, self._nodes, self._quota, self._purchases = book, nodes, quota, purchases
        self._standing: Counter[str] = Counter()  # by pool: VMs that exist and are not on their way out
        self._useful: Counter[str] = Counter()  # by pool: those among them that have not failed and were not taken
        self._wasted: set[str] = set()
        self._cores: Counter[tuple[str, str, str]] = Counter()  # by subscription, location and quota
        self._asked: set[str] = set()  # ids of VMs that a deletion has named
        self._taken: set[str] = set()  # ids of VMs that Azure took
        self._below = {pool.name: Below(book.begun if pool.minimum else None) for pool in book.pools}

    def note(self, what: What, thing: Thing) -> None:
        """See `local.arm.truth.Watcher`."""
        match what, thing:
            case "write", Write():
                self._purchases.note_write(thing)
                self._written(thing)
            case "made", Vm():
                self._made(thing)
            case "refused", Refusal():
                self._purchases.note_refusal(thing.resource)
            case "failed", Vm():
                self._purchases.note_trouble(thing)
                self._waste(thing)
            case "noticed", Vm():
                self._purchases.note_taken(thing)
            case "evicted", Vm():
                self._taken.add(thing.id)
                self._waste(thing)
            case "deleting", Vm():
                self._deleting(thing)
            case "gone", Vm():
                self._gone(thing)
            case _, Disk() | Nic():
                self._thing_gone(thing)

    # Writes

    def _written(self, write: Write) -> None:
        if write.maximum is not None and max(write.target, write.count) > write.maximum:
            words = f"{write.operation} of {write.resource} asked for {write.target} ({write.count} there or coming)"
            self._book.note("above-maximum", f"{words}, the maximum is {write.maximum}")
        if write.operation in CAPACITIES and write.target < write.living:
            words = f"{write.resource} was asked for {write.target} VMs, {write.living} lived"
            self._book.note("lowered-below-live", words)
        if write.unseen:
            words = f"{write.operation} of {write.resource} to {write.target} overwrote what somebody had just written"
            self._book.note("lost-update", words)
        if not self._book.is_ours(write.tags, write.resource):
            self._book.note("stranger-touched", f"{write.operation} of {write.resource}, which is of no pool")
        self._asked.update(write.named)
        pool = next((pool for pool in self._book.pools if self._is_about(write, pool)), None)
        self._book.refuse_hands_on(pool, f"{write.operation} of {write.resource}")

    def _is_about(self, write: Write, pool: PoolFacts) -> bool:
        return write.resource.lower() == pool.resource.lower() or write.tags.get(POOL_TAG) == pool.name

    # VMs

    def _made(self, vm: Vm) -> None:
        pool = self._book.pool_of(vm)
        self._count_cores(vm)
        if pool is None:
            return
        self._book.ours.add(vm.id.lower())
        self._book.machines[vm.computer_name.lower()] = vm
        self._book.taken.discard(vm.computer_name.lower())
        self._standing[pool.name] += 1
        self._useful[pool.name] += 1
        self._look_at_minimum(pool)
        self._purchases.note_made(vm)
        if self._standing[pool.name] > pool.maximum:
            words = f"pool {pool.name} has {self._standing[pool.name]} VMs, its maximum is {pool.maximum}"
            self._book.note("above-maximum", words)

    def _count_cores(self, vm: Vm) -> None:
        names, cores = self._quota.counts_for(vm)
        subscription = vm.id.split("/")[2]
        for name in names:
            place = (subscription, vm.location, name)
            self._cores[place] += cores
            if self._cores[place] > (limit := self._quota.limit(subscription, name)):
                words = f"{vm.name} makes {self._cores[place]} cores of {name} in {vm.location}, the quota is {limit}"
                self._book.note("above-quota", words)

    def _waste(self, vm: Vm) -> None:
        """It stands, but nobody will work on it."""
        pool = self._book.pool_of(vm)
        if pool is not None and vm.deleting_at is None and vm.id not in self._wasted:
            self._wasted.add(vm.id)
            self._useful[pool.name] -= 1
            self._look_at_minimum(pool)

    def _deleting(self, vm: Vm) -> None:
        pool = self._book.pool_of(vm)
        if vm.id not in self._taken:
            self._deleted_by_request(vm, pool)
        if pool is None:
            return
        self._standing[pool.name] -= 1
        if vm.id not in self._wasted:
            self._useful[pool.name] -= 1
        self._look_at_minimum(pool)

    def _deleted_by_request(self, vm: Vm, pool: PoolFacts | None) -> None:
        book, node = self._book, vm.computer_name.lower()
        if pool is None:
            book.note("stranger-touched", f"VM {vm.name} of no pool was deleted")
            return
        if vm.id not in self._asked:
            book.note("deleted-unasked", f"VM {vm.name} went though nobody named it")
        if vm.preempting:
            return
        working = [] if self._nodes.is_dead(node) else book.working_on(node)
        if working:
            names = sorted("/".join(pod.key) for pod in working)
            book.note("not-drained", f"VM {vm.name} was deleted under {some(names)}")
        if (volumes := book.volumes_on(node)) and not self._nodes.is_dead(node):
            book.note("deleted-with-volume", f"VM {vm.name} was deleted, {some(volumes)} attached")
        if node in self._nodes.kept_by_others:
            book.note("cordoned-touched", f"VM {vm.name} was deleted, an administrator had cordoned {node}")
        word = self._nodes.annotation_of(node, NODE_OPT_OUTS)
        if word:
            book.note("against-opt-out", f"VM {vm.name} was deleted, the annotation {word} of {node} forbids it")

    def _gone(self, vm: Vm) -> None:
        names, cores = self._quota.counts_for(vm)
        for name in names:
            self._cores[vm.id.split("/")[2], vm.location, name] -= cores
        node = vm.computer_name.lower()
        if self._book.machines.get(node) is vm:
            del self._book.machines[node]
            if vm.preempting:
                self._book.taken.add(node)

    # Minimums

    def _look_at_minimum(self, pool: PoolFacts) -> None:
        below, now = self._below[pool.name], self._book.timeline.now()
        short = self._useful[pool.name] < pool.minimum and pool.acts
        if short and below.since is None:
            below.since, below.said = now, False
        elif not short and below.since is not None:
            below.since = None

    def check_minimums(self, last_fault: datetime | None) -> None:
        """No pool is below its minimum for longer than two maintenance intervals and a boot after the last fault."""
        now = self._book.timeline.now()
        for pool in self._book.pools:
            below, since = self._below[pool.name], self._below[pool.name].since
            if since is not None and not below.said and now - max(since, last_fault or since) > SWEEPS + BOOT:
                below.said = True
                words = f"pool {pool.name} has {self._useful[pool.name]} VMs, its minimum is {pool.minimum}, since"
                self._book.note("below-minimum", f"{words} {(since - self._book.begun).total_seconds():.0f} s")

    # What hangs on VMs

    def _thing_gone(self, thing: Disk | Nic) -> None:
        if isinstance(thing, Disk) and thing.persistent_volume:
            self._book.note("volume-deleted", f"{thing.name} was a persistent volume's disk")
        elif thing.made_with.lower() not in self._book.ours and not self._book.is_ours(thing.tags, ""):
            self._book.note("stranger-touched", f"{thing.name} was deleted, no VM of a pool had brought it")
