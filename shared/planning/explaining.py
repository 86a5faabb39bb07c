"""Why pods that a plan serves go where they go, what they cost there, and what would have been next best.

One entry for each class of pods and each pool (or all nodes that are there, or that come): small however many pods
there are. It is told from the finished plan, so that a plan for which nobody asks why costs nothing more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from shared.model import Config, Ledger, Plan, PodClass, PodRef, Served, Snapshot, Supply
from shared.packing.allocation import Question
from shared.packing.census import has_rules
from shared.packing.market import Mask, Vector
from shared.packing.pool_choice import fallbacks, known_price
from shared.planning.bounds import Bounds, bounds_now
from shared.planning.plan import demand, pools_now

MOST_EXPLAINED = 500
"""Entries of one plan, the dearest: enough for anybody to read, and few enough for a blob."""

_DIGITS = 6


def explain(
    made: Plan, snapshot: Snapshot, config: Config, ledger: Ledger, now: datetime, most: int = MOST_EXPLAINED
) -> tuple[Served, ...]:
    """What `Plan.served` holds, the dearest first, `most` entries at most. The plan was made from these arguments."""
    classes = demand(snapshot)
    number_of = {pod: number for number, each in enumerate(classes) for pod in each.pods}
    groups = [
        *_groups(Supply.THERE, [(each.target, each.pods) for each in (*made.fits_existing, *made.reuse)], number_of),
        *_groups(Supply.COMING, [(each.target, each.pods) for each in made.fits_upcoming], number_of),
    ]
    if not made.deltas:
        return tuple(_at_no_cost(group) for group in _dearest(groups, most))
    states = pools_now(snapshot, config, ledger, now)
    choice = _Choice(classes, bounds_now(snapshot, config, ledger, now, states), made)
    groups += choice.groups(made, number_of)
    return tuple(
        choice.entry(group) if group.supply is Supply.NEW else _at_no_cost(group) for group in _dearest(groups, most)
    )


@dataclass(slots=True)
class _Group:
    """Pods of one class in one kind of place."""

    number: int
    example: PodRef
    supply: Supply
    target: str
    pods: int = 0
    nodes: int = 0
    cost: float = 0.0


def _dearest(groups: list[_Group], most: int) -> list[_Group]:
    return sorted(groups, key=lambda each: (-each.cost, -each.pods, each.supply, each.number, each.target))[:most]


def _groups(
    supply: Supply, places: Sequence[tuple[str, Sequence[PodRef]]], number_of: Mapping[PodRef, int]
) -> list[_Group]:
    """By class; a group's target is the first of its nodes."""
    groups: dict[int, _Group] = {}
    for target, pods in places:
        met: set[int] = set()
        for pod in pods:
            number = number_of[pod]
            group = groups.get(number)
            if group is None:
                group = groups[number] = _Group(number, pod, supply, target)
            group.pods += 1
            group.nodes += number not in met
            met.add(number)
    return list(groups.values())


def _at_no_cost(group: _Group) -> Served:
    why = "OnTheWay: nodes that were asked for, or are joining, have room for them"
    if group.supply is Supply.THERE:
        more = f" and {group.nodes - 1} more have" if group.nodes > 1 else " has"
        why = f"Room: {group.target}{more} room for them"
    return Served(group.example, group.pods, group.supply, group.target, group.nodes, why)


class _Choice:
    """Classes and pools in numbers, as the plan found them."""

    def __init__(self, classes: Sequence[PodClass], bounds: Bounds, made: Plan) -> None:
        states = bounds.states
        question = Question(classes, (), states)
        self._classes, self._states, self._bounds = classes, states, bounds
        added = {delta.pool: delta.add for delta in made.deltas}
        self._added = [added.get(state.pool.name, 0) for state in states]
        self._most = [bounds.most(pool, [0] * len(states)) for pool in range(len(states))]
        self._number = {state.pool.name: number for number, state in enumerate(states)}
        self._known = np.array([known_price(state.pool) is not None for state in states], dtype=np.bool_)
        rooms = np.where(question.kind_rooms > 0, question.kind_rooms, np.inf)
        fits = [(question.needs <= room).all(axis=1) for room in question.kind_rooms]
        parts = [(question.needs / room).max(axis=1) for room in rooms]
        allowed = np.array([question.mask(number)[: len(states)] for number in range(len(classes))])
        self._part = np.stack(parts, axis=1)
        self._suits: Mask = allowed & np.stack(fits, axis=1)
        self._weight: Vector = question.prices

    def groups(self, made: Plan, number_of: Mapping[PodRef, int]) -> Iterator[_Group]:
        """The pods of each class and pool, each with its part of the price."""
        for delta in made.deltas:
            pool = self._number[delta.pool]
            parts = self._part[:, pool]
            groups: dict[int, _Group] = {}
            for node in delta.nodes:
                content = Counter(map(number_of.__getitem__, node.pods))
                per_part = self._price(pool) / sum(pods * float(parts[number]) for number, pods in content.items())
                for pod in node.pods:
                    groups.setdefault(number_of[pod], _Group(number_of[pod], pod, Supply.NEW, delta.pool))
                for number, pods in content.items():
                    group = groups[number]
                    group.pods += pods
                    group.nodes += 1
                    group.cost += pods * float(parts[number]) * per_part
            yield from groups.values()

    def entry(self, group: _Group) -> Served:
        """Why the pods of a group go to nodes of its pool."""
        number, pool = group.number, self._number[group.target]
        next_best = self._next_best(number, pool)
        return Served(
            example=group.example,
            pods=group.pods,
            supply=Supply.NEW,
            target=group.target,
            nodes=group.nodes,
            why=self._why(number, pool),
            cost=round(group.cost, _DIGITS) if self._known[pool] else None,
            share=self._share(number, pool),
            runner_up="" if next_best is None else self._name(next_best),
            runner_up_share=None if next_best is None else self._share(number, next_best),
        )

    def _why(self, number: int, pool: int) -> str:
        suits = np.flatnonzero(self._suits[number]).tolist()
        if suits == [pool]:
            return "OnlyPool: no other pool takes such pods"
        best = min(suits, key=lambda each: self._rank(number, each), default=pool)
        if best == pool or self._rank(number, best)[:2] == self._rank(number, pool)[:2]:
            return "CheapestShare: its share of a node costs least there"
        shut = self._shut(best)
        if shut:
            stands_in = not self._most[best] and pool in fallbacks(best, self._states, self._most)
            word = "Fallback: it stands in for" if stands_in else "NextCheapest: cheapest would be"
            return f"{word} {self._name(best)}, {shut}"
        if has_rules(self._classes[number].shape):
            return f"Rules: {self._name(best)} is cheaper, but takes no more of them by their rules about other pods"
        return f"Together: alone {self._name(best)} would be cheaper, but not with all who share these nodes"

    def _next_best(self, number: int, pool: int) -> int | None:
        """The pool that would take the class now, were `pool` not there."""
        others = [
            each for each in np.flatnonzero(self._suits[number]).tolist() if each != pool and not self._shut(each)
        ]
        return min(others, key=lambda each: self._rank(number, each), default=None)

    def _rank(self, number: int, pool: int) -> tuple[bool, float, int]:
        return not self._known[pool], round(float(self._part[number, pool] * self._weight[pool]), 12), pool

    def _shut(self, pool: int) -> str:
        return self._bounds.closed(pool, self._added)

    def _share(self, number: int, pool: int) -> float | None:
        return round(float(self._part[number, pool]) * self._price(pool), _DIGITS) if self._known[pool] else None

    def _price(self, pool: int) -> float:
        return known_price(self._states[pool].pool) or 0.0

    def _name(self, pool: int) -> str:
        return self._states[pool].pool.name
