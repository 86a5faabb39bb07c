"""Gangs: pods that start together or not at all, over several pools and roles, beside everybody else.

All pods are planned together. Only if a gang comes out short is there anything to decide:

1. A gang that no plan could serve (`gang_needs.Bound`) is taken out whole, and the rest planned again.
2. If others are short still, gangs contend for room: they are admitted one after the other, the most urgent first, then
   by name, each only if it can be served whole beside those before it. Many are tried at once, and halves of them
   where that fails, `MOST_TRIALS` times at most; the rest is then tried together and whoever comes short given up.
   Cheap packing may fail where room is tight, so a gang that is refused by itself is tried again in other orders: all
   before it first; the largest pods first, by all they ask for, and by each resource.
3. All who were admitted are planned with everybody else. Of pods of equal priority those that gangs need go first,
   since others can be served in part; members above the minimum come with the others.

A gang that is out leaves no trace in the plan: nothing is bought or kept for any of its pods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from shared.model import Plan, PodClass, PodShape, Snapshot
from shared.packing.allocation import Allocation, Effort, Question
from shared.packing.pool_choice import reasons
from shared.planning.bounds import Bounds
from shared.planning.gang_needs import (
    Bound,
    Need,
    looking_for_room,
    missing_pods,
    needs_of,
    placed,
    running,
    shares_of,
    short,
    shortages,
)
from shared.reading.gang_members import gang_name, role_name, title

MOST_TRIALS = 24
"""Plans made to find out which gangs go together: enough to find the last of ten thousand equal ones that fits."""

MOST_RETRIED = 8
"""Gangs for which all orders are tried."""

MOST_RESOURCES = 3
"""Resources by which pods are ordered: those that the gangs ask most of."""

MOST_STRIPS = 4
"""Rounds in which all gangs that come short are given up at once; one is nearly always enough."""

MOST_EXPLAINED = 16
"""Hopeless gangs that are planned for alone, to say how far they get; further ones are told from the first plan."""

Allocate = Callable[[Sequence[PodClass], Effort], Allocation]
Order = Mapping[int, int]  # ranks of classes: of equal priority the larger goes first
Told = dict[str, str]  # a reason for each pool


@dataclass(frozen=True, slots=True)
class Served:
    """The allocation of all classes, and for classes of gangs that are out the reasons, pool by pool."""

    allocation: Allocation
    told: Mapping[int, Told] = field(default_factory=dict)


def serve(
    classes: Sequence[PodClass],
    snapshot: Snapshot,
    bounds: Bounds,
    question: Callable[[Sequence[PodClass]], Question],
    allocate: Allocate,
    effort: Effort,
) -> Served:
    """`allocate` with every gang served whole or not at all; `effort` goes into plans that may be the last one."""
    if not any(each.shape.gang for each in classes):
        return Served(allocate(classes, effort))
    return _Serving(classes, snapshot, bounds, question, allocate, effort).run()


def withheld(plan: Plan, snapshot: Snapshot, acting: Collection[str]) -> Snapshot:
    """The snapshot with a problem for every gang that would start in part, were only these pools acted on.

    The very same snapshot if there is none.
    """
    idle = [delta for delta in plan.deltas if delta.pool not in acting]
    if not snapshot.gangs or not idle:
        return snapshot
    unbought = {pod: delta.pool for delta in idle for node in delta.nodes for pod in node.pods}
    gone = {*unbought, *(pod for each in plan.unserved for pod in each.pods)}
    have, lacking = running(snapshot), {}
    for member, pods in looking_for_room(snapshot):
        name, role = gang_name(member), role_name(member)
        roles = have.setdefault(name, {})
        roles[role] = roles.get(role, 0) + sum(pod not in gone for pod in pods)
        if (pool := next((unbought[pod] for pod in pods if pod in unbought), None)) is not None:
            lacking[name] = pool
    broken = {
        gang.name: f"{title(gang.name)} would need nodes of pool {lacking[gang.name]}, which only observes"
        for gang in snapshot.gangs
        if gang.name in lacking and shortages(gang, have[gang.name])
    }
    if not broken:
        return snapshot
    gangs = (replace(gang, problem=broken.get(gang.name, gang.problem)) for gang in snapshot.gangs)
    return replace(snapshot, gangs=tuple(gangs))


class _Serving:
    def __init__(
        self,
        classes: Sequence[PodClass],
        snapshot: Snapshot,
        bounds: Bounds,
        question: Callable[[Sequence[PodClass]], Question],
        allocate: Allocate,
        effort: Effort,
    ) -> None:
        self._classes, self._states, self._bounds = classes, bounds.states, bounds
        self._question, self._allocate, self._effort = question, allocate, effort
        self._needs = needs_of(classes, snapshot)
        self._singles = [row for row, each in enumerate(classes) if not each.shape.gang]
        self._told: dict[int, Told] = {}
        self._trials = self._retried = 0
        self._order: Order = {}

    def run(self) -> Served:
        """See `serve`."""
        gangs = [need for need in self._needs if not self._waits(need)]
        allocation = self._together(gangs)
        if lacking := self._short(gangs, allocation):
            gangs = self._without_hopeless(gangs, lacking, allocation)
            allocation = self._together(gangs)
            if self._short(gangs, allocation):
                allocation = self._final(self._admitted(gangs))
        return Served(allocation, self._told)

    def _waits(self, need: Need) -> bool:
        """Whether it is no use to plan for the gang yet."""
        if need.gang.problem:
            modelled = not need.gang.problem.startswith("NotModelled")
            self._tell(need, f"Gang: {need.gang.problem}" if modelled else need.gang.problem)
        elif (lack := missing_pods(need, self._classes)) is not None:
            self._tell(need, f"Gang: {lack.text(need.name)} exist")
        else:
            return False
        return True

    def _tell(self, need: Need, text: str) -> None:
        told = {state.pool.name: text for state in self._states}
        self._told.update(dict.fromkeys(need.all_rows(), told))

    def _short(self, gangs: Collection[Need], allocation: Allocation) -> list[Need]:
        return list(short(gangs, self._classes, allocation))

    # Which gangs are in

    def _without_hopeless(self, gangs: list[Need], lacking: list[Need], allocation: Allocation) -> list[Need]:
        rows = [row for need in lacking for row in need.all_rows()]
        bound = Bound(self._classes, self._question([self._classes[row] for row in rows]), rows)
        hopeless = [(need, lack) for need in lacking if (lack := bound.shortage(need)) is not None]
        for number, (need, lack) in enumerate(hopeless):
            self._explain(need, self._alone(need) if number < MOST_EXPLAINED else allocation, lack.role)
        gone = {need.name for need, _ in hopeless}
        return [need for need in gangs if need.name not in gone]

    def _admitted(self, gangs: list[Need]) -> list[Need]:
        """Those that can be served beside each other, in the order of their urgency."""
        kept: list[Need] = []
        undecided: list[Need] = []
        waiting = [gangs]
        while waiting:
            some = waiting.pop()
            if self._trials >= MOST_TRIALS:
                undecided += some
                continue
            self._trials += 1
            trial = self._required_only([*kept, *some])
            if not self._short([*kept, *some], trial):
                kept += some
            elif len(some) > 1:
                half = (len(some) + 1) // 2
                waiting += [some[half:], some[:half]]
            elif self._in_other_order(kept, some[0]):
                kept += some
        return self._stripped(kept, undecided) if undecided else kept

    def _in_other_order(self, kept: Sequence[Need], last: Need) -> bool:
        """Whether another order serves them all; it is then kept. If none does, the last one is told why."""
        gangs, before = [*kept, last], self._order
        self._order = {row: 1 for need in kept for row in need.all_rows()}
        trial = self._required_only(gangs)
        if not self._short(gangs, trial):
            return True
        if self._retried < MOST_RETRIED:
            self._retried += 1
            for order in self._orders(gangs):
                self._order = order
                if not self._short(gangs, self._required_only(gangs)):
                    return True
        self._order = before
        self._explain(last, trial)
        return False

    def _orders(self, gangs: Collection[Need]) -> Iterator[Order]:
        rows = [row for need in gangs for row in need.all_rows()]
        shares = shares_of(self._question([self._classes[row] for row in rows]))
        asked = (shares * [[len(self._classes[row].pods)] for row in rows]).sum(axis=0)
        resources = sorted(range(len(asked)), key=lambda axis: (-float(asked[axis]), axis))[:MOST_RESOURCES]
        for sizes in (shares.sum(axis=1), *(shares[:, axis] for axis in resources)):
            ranked = np.lexsort((-np.arange(len(rows)), sizes)).tolist()
            yield {rows[number]: rank for rank, number in enumerate(ranked)}

    def _stripped(self, kept: list[Need], undecided: list[Need]) -> list[Need]:
        for _ in range(MOST_STRIPS):
            allocation = self._required_only([*kept, *undecided])
            lacking = {need.name for need in self._short([*kept, *undecided], allocation)}
            if not lacking:
                return [*kept, *undecided]
            for need in undecided:
                if need.name in lacking:
                    self._explain(need, allocation)
            undecided = [need for need in undecided if need.name not in lacking]
        for need in undecided:
            self._tell(need, "Waits: more gangs contend for room than one plan decides on")
        return kept

    def _final(self, kept: list[Need]) -> Allocation:
        """Everybody with the gangs that are in: as always if that serves them, else with what they need first."""
        for attempt in (self._together, self._gangs_first):
            allocation = attempt(kept)
            if not self._short(kept, allocation):
                return allocation
        for _ in range(MOST_STRIPS):
            for need in (lacking := self._short(kept, allocation)):
                self._explain(need, allocation)
            gone = {need.name for need in lacking}
            kept = [need for need in kept if need.name not in gone]
            allocation = self._gangs_first(kept)
            if not self._short(kept, allocation):
                return allocation
        for need in kept:
            self._explain(need, allocation)
        return self._together([])

    # Plans

    def _together(self, gangs: Collection[Need]) -> Allocation:
        """Everybody but the gangs that are out, all alike."""
        rows = sorted([*self._singles, *(row for need in gangs for row in need.all_rows())])
        return self._planned([(row, self._classes[row]) for row in rows], self._effort)

    def _alone(self, need: Need) -> Allocation:
        return self._planned([(row, self._classes[row]) for row in need.all_rows()], Effort.FIRST)

    def _gangs_first(self, gangs: Collection[Need]) -> Allocation:
        needed = self._needed(gangs)
        return self._planned([*needed, *self._others(gangs, needed)], self._effort)

    def _required_only(self, gangs: Collection[Need]) -> Allocation:
        """What these gangs need, and whoever is more urgent than one of them."""
        needed = self._needed(gangs)
        least = min((part.shape.priority for _, part in needed), default=0)
        least -= least % len(self._classes)
        urgent = [each for each in self._others(gangs, needed) if each[1].shape.priority > least]
        return self._planned([*needed, *urgent], Effort.FIRST)

    def _needed(self, gangs: Collection[Need]) -> list[tuple[int, PodClass]]:
        return [
            (row, self._part(row, 0, pods, first=True))
            for need in gangs
            for row, pods in sorted(need.required(self._classes).items())
        ]

    def _others(self, gangs: Collection[Need], needed: Sequence[tuple[int, PodClass]]) -> list[tuple[int, PodClass]]:
        taken = {row: len(part.pods) for row, part in needed}
        rows = sorted([*self._singles, *(row for need in gangs for row in need.all_rows())])
        parts = ((row, self._part(row, taken.get(row, 0), None, first=False)) for row in rows)
        return [each for each in parts if each[1].pods]

    def _part(self, row: int, start: int, number: int | None, *, first: bool) -> PodClass:
        """Some pods of a class, before (`first`) or after all others of their priority."""
        whole = self._classes[row]
        pods = whole.pods[start:] if number is None else whole.pods[start : start + number]
        rank = self._order.get(row, 0) if first else 0
        priority = (2 * whole.shape.priority + first) * len(self._classes) + rank
        return PodClass(replace(whole.shape, priority=priority), pods)

    def _planned(self, parts: Sequence[tuple[int, PodClass]], effort: Effort) -> Allocation:
        """The allocation of these parts of classes, told by class; pods that are in no part are left."""
        rows = [row for row, _ in parts]
        answer = self._allocate([part for _, part in parts], effort) if parts else Allocation({}, [], [])
        left = [len(each.pods) for each in self._classes]
        for (row, part), rest in zip(parts, answer.left, strict=True):
            left[row] -= len(part.pods) - rest
        return Allocation(
            {site: _by_row(content, rows) for site, content in answer.on_sites.items()},
            [(pool, _by_row(content, rows)) for pool, content in answer.bought],
            left,
            {rows[number]: refusals for number, refusals in answer.refusals.items()},
        )

    # Reasons

    def _explain(self, need: Need, allocation: Allocation, role: str = "") -> None:
        """How far the gang gets in a plan that does not serve it, and what is in the way of the next pod.

        Of several roles that come short `role` is told of, if it is named.
        """
        lack = need.shortage(placed(need, self._classes, allocation), role)
        if lack is None:
            self._tell(need, f"Gang: {title(need.name)} fits only without others that go before it")
            return
        rows = need.rows.get(lack.role, ()) if lack.role else need.all_rows()
        row = next(row for row in rows if allocation.left[row])
        closed = self._bounds.all_closed(allocation.bought)
        shape: PodShape = self._classes[row].shape
        why = reasons(shape, self._states, closed, allocation.refusals.get(row, {}))
        told = {pool: f"Gang: {lack.text(need.name)} fit; {reason}" for pool, reason in why.items()}
        self._told.update(dict.fromkeys(need.all_rows(), told))


def _by_row(content: Mapping[int, int], rows: Sequence[int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for number, pods in content.items():
        found[rows[number]] = found.get(rows[number], 0) + pods
    return found
