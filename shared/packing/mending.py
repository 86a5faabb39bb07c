"""What was packed, held against the rules between pods: every pod is bound on paper, one by one, as it would be.

All nodes of the plan stand, then its pods come: first those without a spread of their own, since nothing keeps them
from coming first, then the others in rounds, one of each class to each of its nodes at a time. Whoever is refused in
the end is taken out and tried everywhere else, on one more new node last; such a node is taken only if everything can
still be bound with it there. Who would push a value above what a spread of others in the plan allows waits for the
next plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from shared.nodes.template_node import HOSTNAME_LABEL
from shared.packing.allocation import Allocation, Question
from shared.packing.axes import UNBOUNDED, Matrix
from shared.packing.census import WAITS, Census, has_rules
from shared.packing.market import Rows, Vector
from shared.rules.tallies import Place

Content = dict[int, int]  # pods by class
_Bound = tuple[int, int, int]  # (node, class, pods)

_ROUNDS = 3  # of mending: who comes first in a group decides for others, and nodes that end empty are given up
_MOST_TRIALS = 200  # new nodes that are tried for pods which were refused elsewhere
_MOST_WORK = 600_000  # counts that are made or asked for while new nodes are tried and pods are bound, about 2 s
_MOST_CHECKS = 100_000  # of pods that wait for others to be bound first, in one binding; and a few for each pod
_MOST_FAILURES = 10_000  # searches for a place that end without one, about 2 s
_MOST_SEARCHED = 40_000_000  # nodes that are looked at while places for single pods are sought, about 2 s


@dataclass(slots=True)
class _Table:
    """The nodes as rows; `whole` is the most room that any has along each axis."""

    room: Matrix
    columns: Rows
    places: Rows
    whole: Vector


class Mending:
    """One answer, being mended. Nodes are numbered: sites, then what is bought; `sure` classes need no check."""

    def __init__(
        self, question: Question, around: Sequence[Place], sure: Collection[int], allocation: Allocation
    ) -> None:
        self._question, self._around, self._sure = question, list(around), frozenset(sure)
        self._pools = [pool for pool, _ in allocation.bought]
        sites = [dict(allocation.on_sites.get(site, {})) for site in range(len(question.sites))]
        self._content: list[Content] = [*sites, *(dict(content) for _, content in allocation.bought)]
        self._left = list(allocation.left)
        self._trials, self._work, self._searched, self._failures = 0, 0, 0, 0
        self._table: _Table | None = None
        self._daemons = [shape for state in question.states for shape in state.template.daemons]

    def mended(self) -> Allocation:
        """The answer as it holds."""
        census, _ = self._without_refused()
        for _ in range(_ROUNDS):
            census = self._place_left(census)
            fewer = self._give_up_empty_nodes()
            census, refused = self._without_refused()
            if not (fewer or refused) or not any(self._left):
                break
        sites = len(self._question.sites)
        return Allocation(
            {site: content for site, content in enumerate(self._content[:sites]) if content},
            [(pool, content) for pool, content in zip(self._pools, self._content[sites:], strict=True) if content],
            self._left,
            {number: self._reasons(number, census) for number, pods in enumerate(self._left) if pods},
        )

    def _without_refused(self) -> tuple[Census, bool]:
        """Bind all; take out whom that leaves without a node, and say whether there was anybody."""
        census, refused = self._bind(self._content, self._pools)
        for node, number, pods in refused:
            self._content[node][number] -= pods
            if not self._content[node][number]:
                del self._content[node][number]
            self._left[number] += pods
        return census, bool(refused)

    def _give_up_empty_nodes(self) -> bool:
        sites = len(self._question.sites)
        kept = [node for node in range(sites, len(self._content)) if self._content[node]]
        if len(kept) == len(self._pools):
            return False
        self._pools = [self._pools[node - sites] for node in kept]
        self._content = [*self._content[:sites], *(self._content[node] for node in kept)]
        return True

    def _bind(self, contents: Sequence[Content], pools: Sequence[int]) -> tuple[Census, list[_Bound]]:
        """A census with all nodes and every pod that could be bound; and those that could not."""
        shapes = self._question.shapes
        census = Census(
            [*shapes, *self._daemons],
            [
                *(Place(site.grounds, site.content) for site in self._question.sites),
                *self._around,
                *(self._new_place(pool) for pool in pools),
            ],
        )
        self._work += len(census.places) + census.size()
        waiting: list[_Bound] = []
        for node, content in enumerate(contents):
            for number, pods in content.items():
                if number in self._sure or not has_rules(shapes[number]):
                    census.add(shapes[number], self._place(node), pods)
                else:
                    waiting.append((node, number, pods))
        waiting = self._interleaved(waiting, pools)
        checks = _MOST_CHECKS + 4 * sum(pods for _, _, pods in waiting)
        while waiting:
            still = list(self._one_round(census, waiting))
            checks -= len(waiting)
            self._work += len(waiting)
            if still == waiting or checks < 0:
                waiting = still
                break
            waiting = still
        return census, waiting

    def _interleaved(self, waiting: Sequence[_Bound], pools: Sequence[int]) -> list[_Bound]:
        """In the order of binding; a class takes one node of each pool in turn, so that zones fill evenly."""
        shapes, turns = self._question.shapes, Counter[tuple[int, object]]()
        pool_of = [*(site.pool for site in self._question.sites), *pools]
        ranked = []
        for node, number, pods in waiting:
            shape, key = shapes[number], (number, pool_of[node])
            turns[key] += 1
            ranked.append(((bool(shape.spread), bool(shape.near), number, turns[key], node), (node, number, pods)))
        return [each for _, each in sorted(ranked)]

    def _one_round(self, census: Census, waiting: Sequence[_Bound]) -> Iterator[_Bound]:
        for node, number, pods in waiting:
            shape, place = self._question.shapes[number], self._place(node)
            bound = 0
            if census.refusal(shape, place) is None:
                bound = 1 if shape.spread or shape.apart else pods
                census.add(shape, place, bound)
            if pods > bound:
                yield node, number, pods - bound

    def _place_left(self, census: Census) -> Census:
        """Put pods without a node wherever one takes them, new nodes last; again while that gets anywhere."""
        self._table = None
        shapes = self._question.shapes
        order = sorted(
            (number for number, pods in enumerate(self._left) if pods),
            key=lambda number: (-shapes[number].priority, bool(shapes[number].near), number),
        )
        before = -1
        while before != sum(self._left):
            before = sum(self._left)
            for number in order:
                if self._failures < _MOST_FAILURES:
                    census = self._place_class(number, census)
        return census

    def _place_class(self, number: int, census: Census) -> Census:
        while self._left[number]:
            node = self._best_node(number, census)
            if node is None:
                grown = self._grown(number)
                if grown is None:
                    self._failures += 1
                    break
                census = grown
            else:
                census.add(self._question.shapes[number], self._place(node), 1)
                self._take(node, number)
        return census

    def _take(self, node: int, number: int) -> None:
        self._content[node][number] = self._content[node].get(number, 0) + 1
        self._left[number] -= 1
        if self._table is not None:
            self._table.room[node] -= self._question.needs[number]

    def _best_node(self, number: int, census: Census) -> int | None:
        """The fullest node that takes one more; for pods that want company one that takes many."""
        if not self._content:
            return None
        self._searched += len(self._content)
        if self._searched > _MOST_SEARCHED:
            return None
        table = self._table = self._table or self._tabled()
        need, room = self._question.needs[number], table.room
        open_to = self._question.mask(number)[table.columns] & (need <= room).all(axis=1)
        allowed = census.mask(self._question.shapes[number])
        if allowed is not None:
            open_to &= allowed[table.places]
        most = int(self._question.most[number])
        nodes = np.flatnonzero(open_to)
        if most < UNBOUNDED:
            held = [self._content[node].get(number, 0) < most for node in nodes.tolist()]
            nodes = nodes[np.array(held, dtype=np.bool_)]
        if not len(nodes):
            return None
        slack = (room[nodes] / table.whole).sum(axis=1)
        if self._question.shapes[number].near:
            asked = need > 0
            company = np.floor(room[nodes][:, asked] / need[asked]).min(axis=1)
            slack -= 1e3 * np.minimum(company, self._left[number])
        return int(nodes[int(slack.argmin())])

    def _grown(self, number: int) -> Census | None:
        """With one more new node, a pod of the class on it, everything else bound as before; None if that can't be."""
        for pool in self._pools_by_price(number):
            if self._trials >= _MOST_TRIALS or self._work > _MOST_WORK:
                return None
            self._trials += 1
            census, refused = self._bind([*self._content, {number: 1}], [*self._pools, pool])
            if not refused:
                self._pools.append(pool)
                self._content.append({})
                self._table = None
                self._take(len(self._content) - 1, number)
                return census
        return None

    def _pools_by_price(self, number: int) -> list[int]:
        """Pools that may grow and whose empty node takes the pod, by the price of a pod's share of a full one.

        For a group that must share a host those come first whose node holds most of it.
        """
        question, need = self._question, self._question.needs[number]
        bought = np.bincount(np.array(self._pools, dtype=np.intp), minlength=len(question.states))
        open_to = question.mask(number)[: len(question.states)] & (need <= question.kind_rooms).all(axis=1)
        open_to &= question.allowance().spent(bought).left > 0
        asked = need > 0
        fits = np.floor(question.kind_rooms[:, asked] / need[asked]).min(axis=1)
        held = np.clip(fits, 1, min(self._left[number], int(question.most[number])))
        share = question.prices / held
        on_one = any(term.topology_key == HOSTNAME_LABEL for term in question.shapes[number].near)
        together = held if on_one else np.zeros_like(held)
        pools = np.flatnonzero(open_to).tolist()
        return sorted(pools, key=lambda pool: (-float(together[pool]), float(share[pool]), pool))

    def _tabled(self) -> _Table:
        """Each node's room that is left, and where it stands in masks and in a census."""
        question, sites = self._question, len(self._question.sites)
        room = np.concatenate([question.site_rooms, question.kind_rooms[self._pools]])
        for node, content in enumerate(self._content):
            for number, pods in content.items():
                room[node] -= pods * question.needs[number]
        columns = np.array([*map(question.site_column, range(sites)), *self._pools], dtype=np.intp)
        places = np.array([self._place(node) for node in range(len(self._content))], dtype=np.intp)
        return _Table(room, columns, places, np.maximum(room.max(axis=0), 1.0))

    def _place(self, node: int) -> int:
        """A node's number in a census, where the nodes around come after the sites."""
        return node if node < len(self._question.sites) else node + len(self._around)

    def _new_place(self, pool: int) -> Place:
        template = self._question.states[pool].template
        return Place(template.grounds, tuple((shape, 1) for shape in template.daemons))

    def _reasons(self, number: int, census: Census) -> dict[str, str]:
        """Why a new node of each pool would not take the pod, as far as rules between pods go."""
        found = {}
        for pool, state in enumerate(self._question.states):
            place = census.join(self._new_place(pool))
            reason = census.refusal(self._question.shapes[number], place)
            found[state.pool.name] = reason or WAITS
        return found
