"""Answers to one packing problem, the best first: that of the heuristics, and what can be made of it.

Improving must not upset what is under way. Pods whose nodes are coming are planned for again and again until these are
there, and a plan packed tighter than the heuristics can would look to them as if nodes were missing. So the problem is
first solved as if nothing were coming: the same pods then end in the same nodes, and those that are coming are not
bought again. Where that leaves something to buy, filling what is coming first is tried as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from shared.packing.allocation import Allocation, Attempt, Effort, Part, Problem, Question
from shared.packing.allowance import Allowance, JointLimit
from shared.packing.market import Bin, Mask, Packer, fitting
from shared.packing.repacking import WORK, Repacking

_AS_GOOD_AS_FREE = 0.01  # of its price is what a node counts for that is coming anyway
_CENT = 1e-9  # prices that differ by less are equal


def answers(
    question: Question, parts: Sequence[Part], clashes: Mask | None = None, effort: Effort = Effort.IMPROVED
) -> list[Allocation]:
    """Place the parts (the rows of the answers) as well as may be, the best answer first.

    `clashes`: which must not share a node. The second answer, if there is one, is that of the heuristics alone.
    """
    problem = Problem(question, parts, clashes)
    attempt = Attempt(problem)
    first = attempt.run([list(range(len(parts)))])
    better = None if effort is Effort.FIRST else _Better(question, problem, attempt, first).found()
    if better is not None:
        return [better, first]
    return [Attempt(problem).run(problem.levels())] if problem.unfair(first) else [first]


class _Better:
    """What the heuristics found, made cheaper where that can be done."""

    def __init__(self, question: Question, problem: Problem, attempt: Attempt, first: Allocation) -> None:
        self._question, self._problem, self._attempt, self._first = question, problem, attempt, first
        served = problem.suits.any(axis=1)
        self._counts = np.where(served, attempt.waiting, 0)
        self._hopeless: list[int] = np.where(served, 0, first.left).tolist()
        self._housed = bool((~served & (attempt.waiting > np.array(first.left))).any())
        self._pools = problem.fresh_pools()
        self._coming = np.zeros(len(problem.states), dtype=np.int64)
        for pool, group in zip(self._pools, problem.fresh, strict=True):
            self._coming[pool] += len(group)

    def found(self) -> Allocation | None:
        """An answer that leaves no more pods over and is cheaper, or leaves fewer over; or None."""
        short = sum(self._first.left) - sum(self._hopeless)
        if self._housed or not (short or self._first.bought):
            return None  # what no pool takes, but a fresh node does, has no place among what is packed anew
        if not self._pools and (short or self._attempt.in_later_rounds):
            return None  # what counts then is that there are nodes, and whose turn it is, not what they cost
        best, least = None, np.inf if short else self._question.price(self._first) - _CENT
        for way in (self._as_if_nothing_came, self._on_top_of_what_comes):
            answer = way()
            if answer is not None and self._question.price(answer) <= least:
                best, least = answer, self._question.price(answer) + _CENT
            if not self._pools or (best is not None and not best.bought):
                break
        return best

    def _as_if_nothing_came(self) -> Allocation | None:
        problem, usable = self._problem, self._problem.rounds[0]
        allowance = self._question.allowance(self._coming if self._pools else None)
        worth = problem.worth(self._counts, allowance.left > 0)
        bins = self._attempt.bins
        if self._pools:
            usable = problem.first_round(self._coming)
            packer = Packer(problem.market, self._counts, allowance.spent(np.zeros_like(self._coming)), worth)
            bins = packer.take(usable)
            if packer.left.any():
                return None
        improved = Repacking(problem.market, usable, allowance, worth).improved(bins)
        return None if improved is self._attempt.bins else self._settled(improved)

    def _on_top_of_what_comes(self) -> Allocation | None:
        """Nodes that are coming as kinds of their own (first), at hardly any price."""
        problem, groups = self._problem, self._problem.fresh
        coming, market = problem.fresh_market(), problem.market
        both = replace(
            market,
            rooms=np.concatenate([coming.rooms, market.rooms]),
            prices=np.concatenate([coming.prices * _AS_GOOD_AS_FREE, market.prices]),
            allowed=np.concatenate([coming.allowed, market.allowed], axis=1),
        )
        usable = np.concatenate([fitting(coming), problem.rounds[0]], axis=1)
        joint = [JointLimit((*[0] * len(groups), *limit.costs), limit.left) for limit in self._question.joint]
        own = np.concatenate([np.array([len(group) for group in groups], dtype=np.int64), self._question.limits])
        worth = problem.worth(self._counts)
        packer = Packer(both, self._counts, Allowance(own, joint), worth)
        bins = packer.take(usable)
        if packer.left.any():
            return None
        bins = Repacking(both, usable, Allowance(own, joint), worth, WORK // 4).improved(bins)
        on_sites, bought, given = self._attempt.on_busy(), [], [0] * len(groups)
        for each in bins:
            for _ in range(each.times):
                if each.kind < len(groups):
                    on_sites[groups[each.kind][given[each.kind]]] = dict(each.content)
                    given[each.kind] += 1
                else:
                    bought.append((each.kind - len(groups), dict(each.content)))
        return Allocation(on_sites, bought, self._hopeless)

    def _settled(self, bins: Sequence[Bin]) -> Allocation | None:
        """The bins on nodes that are coming, as far as there are such; the others bought, if they may be."""
        on_sites, bought = self._attempt.on_busy(), []
        free = [list(group) for group in self._problem.fresh]
        for each in sorted(bins, key=lambda each: (-self._size(each), each.kind)):
            groups = self._groups(each) if self._pools else []
            for _ in range(each.times):
                group = next((number for number in groups if free[number]), None)
                if group is None:
                    bought.append((each.kind, dict(each.content)))
                else:
                    on_sites[free[group].pop(0)] = dict(each.content)
        numbers = np.bincount(np.array([pool for pool, _ in bought], dtype=np.intp), minlength=len(self._coming))
        if not self._question.allowance().holds(numbers):
            return None
        return Allocation(on_sites, bought, self._hopeless)

    def _size(self, each: Bin) -> float:
        if not self._pools:
            return 0.0
        market = self._problem.market
        load = sum(pods * market.needs[row] for row, pods in each.content)
        return round(float((load / np.maximum(market.rooms.max(axis=0), 1.0)).sum()), 9)

    def _groups(self, each: Bin) -> list[int]:
        """The kinds of nodes on their way that can stand for a node of this content, the smallest first."""
        problem = self._problem
        rows = [row for row, _ in each.content]
        load = np.array([pods for _, pods in each.content], dtype=np.float64) @ problem.needs[rows]
        fit = []
        for number, (pool, group) in enumerate(zip(self._pools, problem.fresh, strict=True)):
            room, column = problem.site_rooms[group[0]], problem.site_column(group[0])
            if pool == each.kind and (load <= room).all() and all(problem.mask(row)[column] for row in rows):
                fit.append((float(room.sum()), number))
        return [number for _, number in sorted(fit)]
