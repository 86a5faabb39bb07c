"""Preferences break ties: a finished allocation, with pods moved to where they would rather be, at no price at all.

What is bought costs the same afterwards, and holds the same pods on as many nodes. Moved are, if a pod's preferences
gain by it:

- a whole new node, to another pool of the very same known price and priority (Spot is never as good as Regular) that
  holds its content too and may be bought from;
- a pod on a node that is there and busy, to another such node with room left. Empty, idle and coming nodes keep what
  they have: who fills them, and who leaves them alone, decides which nodes can go.

Pods that have rules about other pods, or that such a rule is about, stay where the rules let them be; and so do nodes
of a pool that stands in for another one, since its place in the list of fallbacks was the user's word. Preferences are
weighed as kube-scheduler weighs them by default: node affinity, pod affinity and spread alike, each between 0 and 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from shared.model import PodClass, Preferences, Priority
from shared.nodes.supply import Site
from shared.nodes.template_node import HOSTNAME_LABEL
from shared.packing.allocation import Allocation, Question
from shared.packing.allowance import JointLimit
from shared.packing.axes import UNBOUNDED
from shared.packing.census import has_rules
from shared.packing.market import Vector
from shared.packing.pool_choice import PoolState, fallbacks, known_price
from shared.rules.predicates import Ground, term_matches

Content = dict[int, int]

_MOST_LOOKS = 4_000  # at new nodes, and at pods on nodes that are there
_FEW = 500  # new nodes are looked at twice
_MOST_CHOICES = 256  # nodes among which a pod may choose
_DIGITS = 9


def prefer(
    allocation: Allocation,
    classes: Sequence[PodClass],
    sites: Sequence[Site],
    states: Sequence[PoolState],
    joint: Sequence[JointLimit] = (),
) -> Allocation:
    """The allocation of these classes, with ties broken by what their pods prefer."""
    if not any(each.shape.preferred for each in classes):
        return allocation
    return _Ties(Question(classes, sites, states, joint), allocation).broken()


class _Ties:
    def __init__(self, question: Question, allocation: Allocation) -> None:
        self._question, self._allocation = question, allocation
        self._bought = [(pool, dict(content)) for pool, content in allocation.bought]
        self._on_sites = {site: dict(content) for site, content in allocation.on_sites.items()}
        self._wishes = _Wishes(question)
        for pool, content in self._bought:
            self._wishes.count(pool, content, 1)
        for site, content in self._on_sites.items():
            self._wishes.count(question.site_column(site), content, 1)
        pools = np.array([pool for pool, _ in self._bought], dtype=np.intp)
        self._numbers = np.bincount(pools, minlength=len(question.states))
        shapes = question.shapes
        self._free = [not has_rules(shape) and not shape.namespace for shape in shapes]
        self._eager = {row for row, shape in enumerate(shapes) if shape.preferred and self._free[row]}

    def broken(self) -> Allocation:
        """The allocation as it is now preferred."""
        self._move_nodes()
        self._move_pods()
        on_sites = {site: content for site, content in self._on_sites.items() if content}
        return replace(self._allocation, on_sites=on_sites, bought=self._bought)

    def _move_nodes(self) -> None:
        """All of them out, and one by one to where its pods like it best with who is there already; then once more."""
        equal = self._equal_pools()
        movable = [
            number for number, (pool, content) in enumerate(self._bought) if pool in equal and self._may_move(content)
        ]
        movable = movable[:_MOST_LOOKS]
        for number in movable:
            self._wishes.count(*self._bought[number], -1)
        for again in range(2 if len(movable) <= _FEW else 1):
            before = list(self._bought)
            for number in movable:
                pool, content = self._bought[number]
                if again:
                    self._wishes.count(pool, content, -1)
                best = self._best_pool(pool, content, equal[pool])
                self._wishes.count(best, content, 1)
                self._bought[number] = (best, content)
            if self._bought == before:
                break

    def _may_move(self, content: Content) -> bool:
        return not self._eager.isdisjoint(content) and all(self._free[row] for row in content)

    def _equal_pools(self) -> dict[int, list[int]]:
        """The pools of one price and priority, by pool, where there are two; none that stands in for another one."""
        states, prices = self._question.states, np.round(self._question.prices, _DIGITS).tolist()
        limits = self._question.limits
        shut = [place for place in range(len(states)) if not limits[place]]
        bound = {each for place in shut for each in fallbacks(place, states, limits)}
        groups: dict[tuple[float, Priority], list[int]] = {}
        for number, state in enumerate(states):
            if limits[number] and number not in bound and known_price(state.pool) is not None:
                groups.setdefault((prices[number], state.pool.priority), []).append(number)
        return {number: group for group in groups.values() if len(group) > 1 for number in group}

    def _best_pool(self, pool: int, content: Content, equal: Sequence[int]) -> int:
        """The pool that the node's pods like best, its own among equals."""
        self._numbers[pool] -= 1
        left = self._question.allowance().spent(self._numbers).left
        best, most = pool, self._wishes.fondness(content, pool)
        for other in equal:
            if other != pool and left[other] > 0 and self._holds(other, content):
                fondness = self._wishes.fondness(content, other)
                if fondness > most:
                    best, most = other, fondness
        self._numbers[best] += 1
        return best

    def _holds(self, pool: int, content: Content) -> bool:
        question = self._question
        rows = list(content)
        load = np.array([content[row] for row in rows], dtype=np.float64) @ question.needs[rows]
        return bool((load <= question.kind_rooms[pool]).all()) and all(question.mask(row)[pool] for row in rows)

    def _move_pods(self) -> None:
        question = self._question
        rows = [row for row in sorted(self._eager) if question.most[row] >= UNBOUNDED]
        open_to = np.array([not (site.coming or site.lacks or site.fresh or site.idle) for site in question.sites])
        if not rows or open_to.sum() < 2:
            return
        room = question.site_rooms.copy()
        for site, content in self._on_sites.items():
            for row, pods in content.items():
                room[site] -= pods * question.needs[row]
        looks = 0
        for row in rows:
            mask = question.mask(row)[len(question.states) :] & open_to
            for site in [site for site in sorted(self._on_sites) if open_to[site] and row in self._on_sites[site]]:
                for _ in range(self._on_sites[site][row]):
                    looks += 1
                    if looks > _MOST_LOOKS or not self._move_pod(row, site, np.where(mask[:, None], room, -1.0), room):
                        break

    def _move_pod(self, row: int, site: int, choice: Vector, room: Vector) -> bool:
        """Move one pod to the node that it likes best, if it likes one better than where it is."""
        question, one = self._question, {row: 1}
        need = question.needs[row]
        self._wishes.count(question.site_column(site), one, -1)
        best, most = site, self._wishes.fondness(one, question.site_column(site))
        for other in np.flatnonzero((need <= choice).all(axis=1))[:_MOST_CHOICES].tolist():
            fondness = self._wishes.fondness(one, question.site_column(other))
            if fondness > most:
                best, most = other, fondness
        self._wishes.count(question.site_column(best), one, 1)
        if best == site:
            return False
        room[site] += need
        room[best] -= need
        for place, change in ((site, -1), (best, 1)):
            content = self._on_sites.setdefault(place, {})
            content[row] = content.get(row, 0) + change
            if not content[row]:
                del content[row]
        return True


class _Wishes:
    """How well places (columns of the question: pools, then sites) suit what pods prefer, with who is where now."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._shapes = question.shapes
        self._keys = [_topology_keys(shape.preferred) for shape in self._shapes]
        self._areas: dict[tuple[int, str], str] = {}
        self._node_shares: dict[tuple[int, int], float] = {}
        self._there: dict[tuple[int, str], Counter[str]] = {}
        rows = {shape: row for row, shape in enumerate(self._shapes) if shape.preferred}
        for number, site in enumerate(question.sites):
            for shape, pods in site.content:
                if shape.preferred and shape in rows:
                    self.count(question.site_column(number), {rows[shape]: pods}, 1)

    def count(self, column: int, content: Content, sign: int) -> None:
        """Pods come to a place, or leave it."""
        for row, pods in content.items():
            for key in self._keys[row]:
                area = self._area(column, key)
                if area:
                    self._there.setdefault((row, key), Counter())[area] += sign * pods

    def fondness(self, content: Content, column: int) -> float:
        """How much these pods like the place; higher is better, equal is equal to nine digits."""
        return round(sum(pods * self._of_one(row, column) for row, pods in content.items()), _DIGITS)

    def _of_one(self, row: int, column: int) -> float:
        wishes = self._shapes[row].preferred
        if wishes is None:
            return 0.0
        total = self._of_nodes(row, column)
        weights = sum(weight for weight, _ in (*wishes.near, *wishes.apart))
        near = sum(weight * self._share(row, key, column) for weight, key in wishes.near)
        apart = sum(weight * (1.0 - self._share(row, key, column)) for weight, key in wishes.apart)
        total += (near + apart) / weights if weights else 0.0
        spread = sum(1.0 - self._share(row, key, column) for key in wishes.spread)
        return total + (spread / len(wishes.spread) if wishes.spread else 0.0)

    def _of_nodes(self, row: int, column: int) -> float:
        """The share of the weights of preferred node affinity that the place has, wherever Azure puts it."""
        known = self._node_shares.get((row, column))
        if known is None:
            wishes = self._shapes[row].preferred
            terms = wishes.nodes if wishes else ()
            grounds = self._grounds(column)
            has = sum(weight for weight, term in terms if all(term_matches(term, ground) for ground in grounds))
            whole = sum(weight for weight, _ in terms)
            known = self._node_shares[row, column] = has / whole if whole else 0.0
        return known

    def _share(self, row: int, key: str, column: int) -> float:
        """How many of the pod's kind are in the place's area, as a share of the area that has most."""
        there = self._there.get((row, key))
        most = max(there.values(), default=0) if there else 0
        return there[self._area(column, key)] / most if there and most > 0 else 0.0

    def _area(self, column: int, key: str) -> str:
        """The value of the label there; "" where there is none, or none can be told before the node is there."""
        known = self._areas.get((column, key))
        if known is None:
            values = {ground.labels.get(key, "") for ground in self._grounds(column)}
            own_name = key == HOSTNAME_LABEL and column < len(self._question.states)
            known = self._areas[column, key] = "" if own_name or len(values) > 1 else values.pop()
        return known

    def _grounds(self, column: int) -> tuple[Ground, ...]:
        pools = len(self._question.states)
        if column < pools:
            return self._question.states[column].template.grounds
        return self._question.sites[column - pools].grounds


def _topology_keys(wishes: Preferences | None) -> tuple[str, ...]:
    if wishes is None:
        return ()
    return tuple(sorted({*wishes.spread, *(key for _, key in (*wishes.near, *wishes.apart))}))
