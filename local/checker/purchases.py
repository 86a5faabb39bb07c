"""Never more nodes than the pods of the last minutes can need: no mistake is bought twice.

What they can need at the most is worked out apart from the planner, and generously: each class of pods that waited at
any time within one back-off period gets nodes of its own, of the pool that holds the fewest of them, by the stand-in
scheduler's own rules and by the smallest node of the pool that was ever seen. To that come minimums, headroom, nodes
that are exchanged for cheaper ones, and one. Machines that Azure failed or took, and those whose node did not come in
time, do not count as bought.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from local.arm.state import Vm
from local.arm.truth import Write
from local.checker.evidence import PoolFacts, attends
from local.checker.notebook import Notebook
from local.checker.servable import offers, takes
from local.kube.controllers.needs import Needs, needs_of, requests
from local.kube.kinds import DAEMON_SET, NODE, POD, Json
from local.kube.objects import is_finished
from local.kube.quantities import amount
from local.kube.store import DELETED, Change, Stored

WINDOW = timedelta(minutes=5)
"""The shortest back-off period: within it, nothing is bought for a class again."""
JOINS_WITHIN = timedelta(seconds=150)
"""After so long without a Ready node, a machine may be taken for one that does not come."""


@dataclass(slots=True)
class Purchase:
    """A VM of ours, and what became of it."""

    at: datetime
    vm: Vm
    in_vain: bool = False


class Purchases:
    """Follows pods that wait and VMs that are made."""

    def __init__(self, book: Notebook, *, swaps: bool) -> None:
        """`swaps`: nodes may be exchanged for cheaper ones, so that some are bought before their pods wait."""
        self._book, self._swaps = book, swaps
        self._waiting: dict[str, bytes] = {}  # class by pod uid
        self._left: deque[tuple[datetime, bytes]] = deque()  # classes of pods that waited, and since when no more
        self._demand: Counter[bytes] = Counter()  # pods by class: those that wait and those in `_left`
        self._needs: dict[bytes, Needs] = {}
        self._smallest: dict[str, dict[str, int]] = {}  # by pool: the least that a node of it was seen to offer
        self._bought: deque[Purchase] = deque()
        self._vacant: deque[tuple[datetime, int]] = deque()  # VMs that a write brought back, unasked
        self._trouble: dict[str, datetime] = {}  # by pool: when Azure failed there last
        self._weighed: datetime | None = None  # when, and what came of it
        self._counted = self._limit = 0

    def begin(self) -> None:
        """What stands already was never bought."""
        self._bought.clear()

    # Demand

    def note(self, change: Change) -> None:
        """See `local.kube.store.Listener`."""
        if change.new.kind is POD:
            self._note_pod(change)
        elif change.new.kind is NODE and change.type != DELETED:
            self._note_node(change.new)

    def note_taken(self, vm: Vm) -> None:
        """Azure takes a VM, now or soon: its pods will need another place."""
        self.note_trouble(vm)
        for pod in self._book.working_on(vm.computer_name.lower()):
            self._leave(self._class_of(pod))

    def note_refusal(self, resource: str) -> None:
        """Azure refuses a growth: where, is not told of VMs that stand alone."""
        refused = [pool for pool in self._book.pools if pool.resource.lower() == resource.lower()]
        now = self._book.timeline.now()
        self._trouble |= {pool.name: now for pool in refused or self._book.pools}

    def note_trouble(self, vm: Vm) -> None:
        """Azure fails a VM: it counts no more as bought."""
        pool = self._book.pool_of(vm)
        if pool is not None:
            self._trouble[pool.name] = self._book.timeline.now()
        for purchase in self._bought:
            purchase.in_vain |= purchase.vm is vm

    def _note_pod(self, change: Change) -> None:
        pod = change.new
        waits = change.type != DELETED and _waits(pod)
        known = self._waiting.get(pod.uid)
        if waits and known is None:
            key = self._waiting[pod.uid] = self._class_of(pod)
            self._demand[key] += 1
        elif not waits and known is not None:
            del self._waiting[pod.uid]
            self._left.append((self._book.timeline.now(), known))

    def _leave(self, key: bytes) -> None:
        self._demand[key] += 1
        self._left.append((self._book.timeline.now(), key))

    def _class_of(self, pod: Stored) -> bytes:
        needs = needs_of(self._book.store, pod)
        self._needs[needs.key] = needs
        return needs.key

    def _note_node(self, node: Stored) -> None:
        vm = self._book.machines.get(node.name)
        pool = self._book.pool_of(vm) if vm is not None else None
        if pool is None:
            return
        known = self._smallest.get(pool.name, pool.allocatable)
        offered = {name: amount(name, text) for name, text in (node.status.get("allocatable") or {}).items()}
        if any(offered.get(name, most) < most for name, most in known.items()):
            self._smallest[pool.name] = {name: min(most, offered.get(name, most)) for name, most in known.items()}
            for purchase in self._bought:  # those that come may be taken for as small: nobody knows yet
                purchase.in_vain |= pool.holds(purchase.vm)
        if any(_is_a_surprise(taint, pool) for taint in node.spec.get("taints") or ()):
            for purchase in self._bought:  # as with the smaller ones, if their nodes are still to come
                coming = self._book.store.get(NODE, ("", purchase.vm.computer_name.lower())) is None
                purchase.in_vain |= coming and pool.holds(purchase.vm)

    # Supply

    def note_write(self, write: Write) -> None:
        """Where a Flexible set keeps its capacity when VMs are deleted, whoever asks for one more while some go gets
        these anew as well: nothing that can be read tells this from a capacity that drops when they are gone."""
        if write.vacant:
            self._vacant.append((write.at, write.vacant))

    def note_made(self, vm: Vm) -> None:
        """A VM of ours was bought."""
        now = self._book.timeline.now()
        self._bought.append(Purchase(now, vm))
        if now == self._weighed:  # one of many that one write makes: the others were weighed a moment ago
            self._counted += 1
        else:
            self._forget()
            self._weighed, self._counted = now, sum(self._counts(purchase) for purchase in self._bought)
            self._limit = self._most()
        if self._counted > self._limit and self._counted > (most := self._limit + self._exchanged()):
            pods = sum(self._demand.values())
            words = f"{self._counted} nodes within {WINDOW.seconds // 60} min for {pods} pods"
            self._book.note("bought-too-much", f"{words}, which can need {most} at most; the last one is {vm.name}")
            self._bought.clear()
            self._weighed = None
        elif (pool := self._book.pool_of(vm)) is not None:
            self._weigh(pool)

    def _weigh(self, pool: PoolFacts) -> None:
        """The same for one pool: what its own classes can need, so that no other pool's room hides a mistake in it."""
        bought = [purchase for purchase in self._bought if pool.holds(purchase.vm)]
        if len(bought) <= 1 + pool.minimum + pool.headroom:
            return
        counted = sum(self._counts(purchase, pool) for purchase in bought)
        wanted = ((self._needs[key], pods) for key, pods in self._demand.items())
        most = sum(ceil(pods / self._per_node(needs, pool)) for needs, pods in wanted if takes(needs, pool))
        most += pool.minimum + pool.headroom + sum(count for _, count in self._vacant) + 1
        if counted > most and counted > (most := most + (self._exchanged() if pool.spot or self._swaps else 0)):
            words = f"{counted} nodes of pool {pool.name} within {WINDOW.seconds // 60} min"
            self._book.note("bought-too-much", f"{words}, which can need {most} at most")
            self._bought.clear()
            self._weighed = None

    def _forget(self) -> None:
        before = self._book.timeline.now() - WINDOW
        while self._bought and self._bought[0].at <= before:
            self._bought.popleft()
        while self._vacant and self._vacant[0][0] <= before:
            self._vacant.popleft()
        while self._left and self._left[0][0] <= before:
            _, key = self._left.popleft()
            self._demand[key] -= 1
            if not self._demand[key]:
                del self._demand[key]

    def _counts(self, purchase: Purchase, pool: PoolFacts | None = None) -> bool:
        vm, now = purchase.vm, self._book.timeline.now()
        if purchase.in_vain:
            return False
        if vm.deleting_at is not None:  # given back: with a gang that Azure served in part, for instance
            failed = self._trouble.get(pool.name) if pool is not None else max(self._trouble.values(), default=None)
            return failed is None or now - failed > WINDOW
        return now - purchase.at <= JOINS_WITHIN or self._book.is_ready(vm.computer_name.lower())

    def _most(self) -> int:
        spare = sum(pool.minimum + pool.headroom for pool in self._book.pools)
        spare += sum(count for _, count in self._vacant)
        return sum(self._nodes_for(key, pods) for key, pods in self._demand.items()) + spare + 1

    def _exchanged(self) -> int:
        """Nodes that may be bought to take others' place: Spot for on-demand, and whatever is cheaper."""
        busy = [vm for node, vm in self._book.machines.items() if self._book.working_on(node)]
        if self._swaps:
            return len(busy)
        return sum(not vm.spot for vm in busy) if any(pool.spot for pool in self._book.pools) else 0

    def _nodes_for(self, key: bytes, pods: int) -> int:
        needs = self._needs[key]
        fitting = [self._per_node(needs, pool) for pool in self._book.pools if takes(needs, pool)]
        return ceil(pods / min(fitting)) if fitting else 0

    def _per_node(self, needs: Needs, pool: PoolFacts) -> int:
        """How many pods of the class an empty node of the pool holds, at the least."""
        if needs.unknown or needs.ports or needs.volumes:
            return 1
        offered = offers(self._smallest.get(pool.name, pool.allocatable), self._overhead())
        counts = [offered.get(name, 0) // value for name, value in needs.requests.items()]
        return max(1, min((*counts, offered.get("pods", 110))))

    def _overhead(self) -> Counter[str]:
        """What DaemonSets take of every node."""
        total: Counter[str] = Counter()
        for owner in self._book.store.all(DAEMON_SET):
            total.update(requests(owner.spec["template"]["spec"]))
            total["pods"] += 1
        return total


def _is_a_surprise(taint: Json, pool: PoolFacts) -> bool:
    """Whether the pools file tells nothing of a taint that keeps pods off; Kubernetes' own come and go."""
    own = taint["key"].startswith(("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "sluice.io/"))
    return not own and taint["effect"] != "PreferNoSchedule" and taint["key"] not in {key for key, _, _ in pool.taints}


def _waits(pod: Stored) -> bool:
    spec = pod.spec
    off = spec.get("nodeName") or spec.get("schedulingGates") or pod.terminating or is_finished(pod)
    return not off and not attends(pod.metadata)
