"""Pods to nodes: first onto what is there and coming, then onto what is cheapest to buy.

Busy nodes are filled first, the fullest before the others, so that the rest can go. Nodes that hold nothing yet are
filled by the same packing that would buy them: planning again for the same pods, while their nodes are on the way, then
ends in the same nodes and buys nothing twice.

All pods are packed together, since that is cheapest. Only if room runs out for some while pods of lower priority were
served is it done again, one priority after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from shared.model import PodClass
from shared.nodes.supply import Site
from shared.packing.allowance import Allowance, JointLimit
from shared.packing.axes import Axes, Matrix
from shared.packing.market import Bin, Counts, Market, Mask, Packer, Rows, Vector, fitting, worths
from shared.packing.pool_choice import PoolState, buying_rounds, effective_prices
from shared.packing.stock import Stock
from shared.rules.matching import Matcher

_MOST_FRESH_KINDS = 64  # nodes of further kinds are filled one by one, which is cheap but wastes a little
_MOST_LEVELS = 16  # priorities below the sixteenth are served together


class Effort(Enum):
    """How much work goes into a plan."""

    FIRST = "first"  # the heuristics alone, in milliseconds
    IMPROVED = "improved"  # what they found, made cheaper while the budget of work lasts


@dataclass(frozen=True, slots=True)
class Allocation:
    """What became of each class (a row): pods by site, the nodes to buy (pool, pods by class), and pods `left` over.

    `refusals`: for classes with pods left, what rules between pods say against a new node, by pool.
    """

    on_sites: dict[int, dict[int, int]]
    bought: list[tuple[int, dict[int, int]]]
    left: list[int]
    refusals: Mapping[int, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Part:
    """Pods of one class that are packed as a class of their own.

    `limits` says how many of them one node may have, by column (pools, then sites); None: what it has room for.
    """

    number: int
    pods: int
    limits: Counts | None = None


class Question:
    """Classes, sites and pools in numbers: the needs of classes, the rooms of sites and of new nodes."""

    def __init__(
        self,
        classes: Sequence[PodClass],
        sites: Sequence[Site],
        states: Sequence[PoolState],
        joint: Sequence[JointLimit] = (),
    ) -> None:
        self.sites, self.states, self.joint = sites, states, joint
        self.shapes = [each.shape for each in classes]
        self.pods = [len(each.pods) for each in classes]
        rooms = [(site.free, site.host_ports) for site in sites]
        kinds = [(state.template.free, state.template.host_ports) for state in states]
        axes = Axes(self.shapes, [*rooms, *kinds])
        self.needs, self.most = axes.needs(self.shapes), axes.most(self.shapes)
        self.site_rooms, self.kind_rooms = axes.rooms(rooms), axes.rooms(kinds)
        self.prices = effective_prices([state.pool for state in states], self.kind_rooms)
        self.limits = Allowance(np.array([state.room for state in states], dtype=np.int64), joint).left
        grounds = [*(state.template.grounds for state in states), *(site.grounds for site in sites)]
        self._matcher = Matcher(grounds, self.shapes)

    def mask(self, number: int) -> Mask:
        """Where the class may go by labels and taints: pools first, then sites."""
        return self._matcher.mask(self.shapes[number])

    def allowance(self, given_back: Counts | None = None) -> Allowance:
        """What may be bought of each pool, before anything is; if so many nodes of each were not there or coming."""
        if given_back is None:
            return Allowance(self.limits, self.joint)
        own = np.array([state.room for state in self.states], dtype=np.int64) + given_back
        joint = [replace(limit, left=limit.left + int(np.dot(limit.costs, given_back))) for limit in self.joint]
        return Allowance(own, joint)

    def price(self, allocation: Allocation) -> float:
        """What the nodes to buy cost per hour, prices that are not known estimated."""
        return float(sum(self.prices[pool] for pool, _ in allocation.bought))

    def site_column(self, site: int) -> int:
        """A site's place in a mask."""
        return len(self.states) + site

    def alike(self, column: int) -> int:
        """A number that two columns of one ground share just when no pod can tell them apart."""
        return self._matcher.alike(column)


class Problem:
    """The question with its classes in parts, unchanged by attempts to answer it."""

    def __init__(self, question: Question, parts: Sequence[Part], clashes: Mask | None) -> None:
        self.sites, self.states = question.sites, question.states
        self._question, self._parts = question, parts
        numbers = [part.number for part in parts]
        self.priorities = [question.shapes[number].priority for number in numbers]
        self.counts = np.array([part.pods for part in parts], dtype=np.int64)
        self.needs, self.site_rooms = question.needs[numbers], question.site_rooms
        self.clashes = clashes
        self.most = question.most[numbers]
        for row, part in enumerate(parts):
            if part.limits is not None:
                self.most[row] = min(self.most[row], max(1, part.limits[: len(self.states)].max(initial=0)))
        allowed = np.array([self.mask(row)[: len(self.states)] for row in range(len(parts))])
        self.market = Market(self.needs, self.most, question.kind_rooms, question.prices, allowed, clashes)
        self.suits = fitting(self.market)
        self.limits, self.allowance = question.limits, question.allowance
        self.rounds = buying_rounds(self.states, self.limits, self.market, self.suits)
        self.busy, self.fresh = self._sorted_sites()

    def clashing(self, row: int) -> Mask | None:
        """The parts with which this one must not share a node, if there are any."""
        return self.clashes[row] if self.clashes is not None and self.clashes[row].any() else None

    def mask(self, row: int) -> Mask:
        """Where the part may go: pools first, then sites."""
        part = self._parts[row]
        allowed = self._question.mask(part.number)
        return allowed if part.limits is None else allowed & (part.limits > 0)

    def most_on(self, row: int) -> int | Counts:
        """How many of the part one node may have: a number, or one for each column."""
        limits = self._parts[row].limits
        return (
            int(self.most[row]) if limits is None else np.minimum(limits, self._question.most[self._parts[row].number])
        )

    def site_column(self, site: int) -> int:
        """A site's place in a mask."""
        return self._question.site_column(site)

    def first_round(self, given_back: Counts) -> Mask:
        """The first of the rounds, if so many nodes of each pool were not there or coming."""
        pools = zip(self.states, given_back.tolist(), strict=True)
        states = [replace(state, present=state.present - number) for state, number in pools]
        rooms = np.array([state.room for state in states], dtype=np.int64)
        limits = np.minimum(self.allowance(given_back).left, rooms)
        return buying_rounds(states, limits, self.market, self.suits)[0]

    def fresh_pools(self) -> list[int]:
        """The pool of each kind of fresh sites."""
        pools = {state.pool.name: number for number, state in enumerate(self.states)}
        return [pools[self.sites[group[0]].pool] for group in self.fresh]

    def fresh_market(self) -> Market:
        """Fresh sites, by kind, as if they were to be bought."""
        samples = [group[0] for group in self.fresh]
        columns = [self.site_column(site) for site in samples]
        return replace(
            self.market,
            rooms=self.site_rooms[samples],
            prices=self.market.prices[self.fresh_pools()],
            allowed=np.array([self.mask(row)[columns] for row in range(len(self.counts))]),
        )

    def by_size(self, rows: Sequence[int]) -> list[int]:
        """Rows by priority, then those first that can't be bought for, then the largest."""
        rooms = np.concatenate([self.site_rooms, self.market.rooms])
        sizes = (self.needs / np.maximum(rooms.max(axis=0, initial=1.0), 1.0)).max(axis=1)
        elsewhere: list[bool] = np.asarray(self.suits.any(axis=1)).tolist()
        return sorted(rows, key=lambda row: (-self.priorities[row], elsewhere[row], -float(sizes[row]), row))

    def worth(self, counts: Counts, open_pools: Mask | None = None) -> Vector:
        """What a pod of each class is worth at what can be bought now; failing that, at what could be bought."""
        now = worths(self.market, counts, self.suits & (self.limits > 0 if open_pools is None else open_pools))
        if (now > 0).all():
            return now
        ever = worths(self.market, counts, self.suits)
        sizes = (self.needs / np.maximum(self.site_rooms.max(axis=0, initial=1.0), 1.0)).max(axis=1)
        valued: Vector = np.where(now > 0, now, np.where(ever > 0, ever, sizes))
        return valued

    def unfair(self, allocation: Allocation) -> bool:
        """Whether somebody went short of room that pods of lower priority were given."""
        if len(set(self.priorities)) == 1:
            return False
        pools = np.full(len(self.states), np.inf)
        for pool, content in allocation.bought:
            pools[pool] = min(pools[pool], *(self.priorities[row] for row in content))
        for limit in self._question.joint:
            sharing = np.array(limit.costs) > 0
            pools[sharing] = pools[sharing].min(initial=np.inf)
        sites = np.full(len(self.sites), np.inf)
        for site, content in allocation.on_sites.items():
            sites[site] = min(self.priorities[row] for row in content)
        short = [row for row, pods in enumerate(allocation.left) if pods]
        return any(self._outdone(row, pools, sites) for row in short)

    def levels(self) -> list[list[int]]:
        """Rows of equal priority, the highest first."""
        ranks = sorted(set(self.priorities), reverse=True)[: _MOST_LEVELS - 1]
        levels = [[row for row, priority in enumerate(self.priorities) if priority == rank] for rank in ranks]
        rest = [row for row, priority in enumerate(self.priorities) if priority not in ranks]
        return [*levels, rest] if rest else levels

    def _outdone(self, row: int, pools: Vector, sites: Vector) -> bool:
        """Whether a pool or site that would take the class serves a lower priority (the lowest there is given)."""
        if (self.suits[row] & (pools < self.priorities[row])).any():
            return True
        lower = sites < self.priorities[row]
        if not lower.any():
            return False
        holds = (self.needs[row] <= self.site_rooms).all(axis=1) & self.mask(row)[len(self.states) :]
        return bool((holds & lower).any())

    def _sorted_sites(self) -> tuple[list[int], list[list[int]]]:
        """Sites to be filled one by one, and the fresh ones by kind: alike to every pod, and of equal room."""
        pools = {state.pool.name: number for number, state in enumerate(self.states)}
        busy: list[int] = []
        fresh: dict[object, list[int]] = {}
        for number, site in enumerate(self.sites):
            column = self.site_column(number)
            key = (site.pool, self._question.alike(column), self.site_rooms[number].tobytes())
            if (
                site.fresh
                and self._as_new(column, pools.get(site.pool))
                and (key in fresh or len(fresh) < _MOST_FRESH_KINDS)
            ):
                fresh.setdefault(key, []).append(number)
            else:
                busy.append(number)
        return busy, list(fresh.values())

    def _as_new(self, column: int, pool: int | None) -> bool:
        """Whether a pool's node that holds nothing yet can be filled as its new ones are."""
        if pool is None:
            return False
        return all(part.limits is None or part.limits[column] == part.limits[pool] for part in self._parts)


class Attempt:
    """One way through the levels: what is used up on the way.

    Afterwards `waiting` says how many pods of each class found no busy node, `bins` what was bought for them, and
    `in_later_rounds` whether pools were turned to that are not every class's first choice. All for the last level.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._left = problem.counts.copy()
        self._allowance = problem.allowance()
        self._busy = self._stock(problem.site_rooms[problem.busy], [problem.site_column(n) for n in problem.busy])
        self._busy.spare = np.array([problem.sites[number].idle for number in problem.busy], dtype=np.bool_)
        self._fresh = [list(group) for group in problem.fresh]
        self._opened = self._stock(np.zeros((0, problem.needs.shape[1])), [])
        self._opened_as: list[tuple[int, bool]] = []  # (site, False) or (pool, True), for each opened node
        self.waiting = problem.counts
        self.bins: list[Bin] = []
        self.in_later_rounds = False

    def run(self, levels: Sequence[Sequence[int]]) -> Allocation:
        """Serve the classes level by level."""
        for rows in levels:
            self._serve(self._problem.by_size(rows))
        on_sites = self.on_busy()
        bought = []
        for (number, is_new), content in zip(self._opened_as, self._opened.content, strict=True):
            if is_new:
                bought.append((number, content))
            else:
                on_sites[number] = content
        return Allocation(on_sites, bought, self._left.tolist())

    def on_busy(self) -> dict[int, dict[int, int]]:
        """The pods on each busy node that got any."""
        return {site: content for site, content in zip(self._problem.busy, self._busy.content, strict=True) if content}

    def _serve(self, rows: list[int]) -> None:
        self._put(self._busy, rows)
        self._put(self._opened, rows)
        counts = np.zeros_like(self._left)
        counts[rows] = self._left[rows]
        self.waiting = counts.copy()
        if counts.any() and self._fresh:
            self._fill_fresh(rows, counts)
            counts[rows] = self._left[rows]
        if counts.any() and self._allowance.left.any():
            self._buy(rows, counts)
        short = [row for row in rows if self._left[row] and self._problem.suits[row].any()]
        self._put(self._opened, short)  # of thousands of classes a filling does not look at each

    def _put(self, stock: Stock, rows: list[int]) -> None:
        problem = self._problem
        if not len(stock.column):
            return
        for row in rows:
            pods = int(self._left[row])
            if pods:
                placed = stock.place(
                    row,
                    problem.needs[row],
                    pods,
                    problem.mask(row),
                    most=problem.most_on(row),
                    clashing=problem.clashing(row),
                )
                self._left[row] -= sum(number for _, number in placed)

    def _fill_fresh(self, rows: list[int], counts: Counts) -> None:
        problem = self._problem
        market, columns = problem.fresh_market(), [problem.site_column(group[0]) for group in problem.fresh]
        limits = np.array([len(group) for group in self._fresh], dtype=np.int64)
        packer = Packer(market, counts, Allowance(limits), problem.worth(counts))
        bins = packer.take(fitting(market))
        sites = [self._fresh[each.kind].pop(0) for each in bins for _ in range(each.times)]
        self._open(bins, market, [(site, False) for site in sites], columns)
        self._left[rows] = packer.left[rows]

    def _buy(self, rows: list[int], counts: Counts) -> None:
        problem = self._problem
        packer = Packer(problem.market, counts, self._allowance, problem.worth(counts))
        for number, usable in enumerate(problem.rounds):
            if number:
                self._put(self._opened, rows)
                packer.left[rows] = self._left[rows]
            bins = packer.take(usable)
            self.bins += bins
            self.in_later_rounds |= bool(number and bins)
            names = [(each.kind, True) for each in bins for _ in range(each.times)]
            self._open(bins, problem.market, names, range(len(problem.states)))
            self._left[rows] = packer.left[rows]
            if not self._left[rows].any():
                break

    def _open(self, bins: list[Bin], market: Market, names: list[tuple[int, bool]], columns: Sequence[int]) -> None:
        """Keep the nodes just taken, for what comes later; `columns` says where in a mask each kind stands."""
        if not bins:
            return
        rooms = []
        for each in bins:
            rows, pods = [row for row, _ in each.content], [number for _, number in each.content]
            rooms.append(market.rooms[each.kind] - np.array(pods, dtype=np.float64) @ market.needs[rows])
        times = [each.times for each in bins]
        contents = [dict(each.content) for each in bins for _ in range(each.times)]
        room = np.repeat(np.array(rooms), times, axis=0)
        self._opened.add(self._stock(room, np.repeat([columns[each.kind] for each in bins], times), contents))
        self._opened_as += names

    @staticmethod
    def _stock(room: Matrix, columns: Sequence[int] | Rows, contents: list[dict[int, int]] | None = None) -> Stock:
        column: Rows = np.array(columns, dtype=np.intp)
        return Stock(room, column, np.zeros(len(columns), dtype=np.bool_), contents or [])
