"""Nodes that are to be bought, made cheaper: the same pods on the same kinds of nodes, packed better.

Two moves. A node is *given up* when its pods fit into what others leave free. And the nodes that give least worth for
their price are *packed anew*: what their pods are worth among themselves says more than what they were worth among all,
and worth is shaken a little, differently each time, so that other packings are met. The best answer so far is always
at hand, and none is taken that costs more.

The budget counts work, never time: equal input, equal answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from shared.packing.allowance import Allowance
from shared.packing.axes import Matrix
from shared.packing.exact import cheapest
from shared.packing.filling import LOOK
from shared.packing.market import KEENNESS, Bin, Counts, Market, Mask, Packer, Rows, Vector, fluid_work, worths

WORK = 12_000_000
"""What may be looked at in all (see `filling.LOOK`): about 110 ms, measured as docs/benchmarks.md says."""

_MOST_ROUNDS = 12  # more of them gain under 0.1 % of price
_SHARE = 0.2  # of the nodes are packed anew; 0.15 to 0.3 tie, half is slower and no better
_SHAKEN = 0.1  # by so much at most; 0.03 to 0.1 tie
_KEENNESSES = (KEENNESS, 1.2, 1.6, 1.0)  # in turn: each is best somewhere
_MOST_GIVEN_UP = 150  # patterns of nodes, the least efficient first: those after them hardly ever can be
_GOLDEN = 0.6180339887498949
_CENT = 1e-9  # prices that differ by less are equal


class Repacking:
    """Improves bins of a market; `usable` says which class may go to which kind, and fits. `work` is what is spent."""

    def __init__(self, market: Market, usable: Mask, allowance: Allowance, worth: Vector, budget: int = WORK) -> None:
        self._market, self._usable, self._allowance, self._worth = market, usable, allowance, worth
        self._budget = budget
        self.work = 0

    def improved(self, bins: list[Bin]) -> list[Bin]:
        """No dearer, of the same pods, within the allowance; the very same if they can't be bettered."""
        return self._unless_few(self._improved(bins))

    def _improved(self, bins: list[Bin]) -> list[Bin]:
        least, last = self._beyond_improvement(bins), 0
        if self.price(bins) < least:
            return bins
        best = self._with_some_given_up(bins)
        for turn in range(min(_MOST_ROUNDS, sum(each.times for each in bins))):
            before = self.work
            if before + last > self._budget or self.price(best) < least:
                break
            tried = self._packed_anew(best, turn)
            if tried is not None:
                tried = self._with_some_given_up(tried)
                if self.price(tried) <= self.price(best) + _CENT and self._allowance.holds(self._numbers(tried)):
                    best = tried
            last = self.work - before
        return best

    def _unless_few(self, best: list[Bin]) -> list[Bin]:
        """For a few pods the cheapest of all ways, where that is cheaper."""
        exact = cheapest(self._market, self._usable, best)
        if exact is None or self.price(exact) >= self.price(best) - _CENT:
            return best
        return exact if self._allowance.holds(self._numbers(exact)) else best

    def _beyond_improvement(self, bins: Sequence[Bin]) -> float:
        """A price below which nothing can be gained: the bound, and one whole node if all nodes are of one kind."""
        pods = np.zeros(len(self._worth), dtype=np.int64)
        for each in bins:
            for row, number in each.content:
                pods[row] += number * each.times
        kinds = np.flatnonzero(self._usable[pods > 0].any(axis=0))
        step = float(self._market.prices[kinds[0]]) if len(kinds) == 1 else 0.0
        bound = float(pods @ self._worth)
        return bound + step * (1.0 - _CENT) + _CENT

    def price(self, bins: Sequence[Bin]) -> float:
        """Per hour, of all of them."""
        return float(sum(self._market.prices[each.kind] * each.times for each in bins))

    def _numbers(self, bins: Sequence[Bin]) -> Counts:
        """Nodes by kind."""
        numbers = np.zeros(len(self._market.prices), dtype=np.int64)
        for each in bins:
            numbers[each.kind] += each.times
        return numbers

    def _by_efficiency(self, bins: Sequence[Bin]) -> list[Bin]:
        """Those that give least worth for their price first."""
        worth, prices = self._worth.tolist(), self._market.prices.tolist()

        def efficiency(each: Bin) -> float:
            value: float = sum(worth[row] * pods for row, pods in each.content)
            return round(value / float(prices[each.kind]), 9)

        return sorted(bins, key=efficiency)

    def _packed_anew(self, bins: Sequence[Bin], turn: int) -> list[Bin] | None:
        """With other nodes for the least efficient ones; None if not all of their pods found room."""
        drop = max(1, int(sum(each.times for each in bins) * _SHARE))
        counts = np.zeros(len(self._worth), dtype=np.int64)
        kept = []
        for each in self._by_efficiency(bins):
            dropped = min(each.times, drop)
            drop -= dropped
            for row, pods in each.content:
                counts[row] += dropped * pods
            if dropped < each.times:
                kept.append(replace(each, times=each.times - dropped))
        rows = np.flatnonzero(counts)
        found = self._pack(rows, counts[rows], self._allowance.spent(self._numbers(kept)), turn)
        return None if found is None else kept + found

    def _pack(self, rows: Rows, counts: Counts, allowance: Allowance, turn: int) -> list[Bin] | None:
        part, usable = self._market.some(rows), self._usable[rows]
        now = worths(part, counts, usable & (allowance.left > 0))
        worth = np.where(now > 0, now, self._worth[rows])
        self.work += fluid_work(usable)
        phase = np.modf((rows + 1) * (_GOLDEN * (2 * turn + 1)))[0]
        eager = worth ** _KEENNESSES[turn % len(_KEENNESSES)] * (1.0 + _SHAKEN * (2.0 * phase - 1.0))
        packer = Packer(part, counts, allowance, worth, eager, turn)
        bins = packer.take(usable)
        self.work += packer.work
        if packer.left.any():
            return None
        names = rows.tolist()
        return [replace(each, content=tuple((names[row], pods) for row, pods in each.content)) for each in bins]

    def _with_some_given_up(self, bins: list[Bin]) -> list[Bin]:
        floor = _Floor(self._market, self._usable, self._by_efficiency(bins), self._worth)
        for pattern in range(min(len(bins), _MOST_GIVEN_UP)):
            while floor.give_up(pattern):
                pass
        self.work += floor.work
        return floor.bins()


class _Floor:
    """Bins as patterns with the room that each node of a pattern has left."""

    def __init__(self, market: Market, usable: Mask, bins: Sequence[Bin], worth: Vector) -> None:
        self._market, self._usable = market, usable
        self._worth = worth.tolist()
        self._whole = np.maximum(market.rooms.max(axis=0), 1.0)
        self._kinds: Rows = np.array([each.kind for each in bins], dtype=np.intp)
        self._times: Counts = np.array([each.times for each in bins], dtype=np.int64)
        self._content = [dict(each.content) for each in bins]
        self._room: Matrix = market.rooms[self._kinds].copy()
        for pattern, each in enumerate(bins):
            for row, pods in each.content:
                self._room[pattern] -= pods * market.needs[row]
        self.work = 0

    def bins(self) -> list[Bin]:
        """What stands."""
        return [
            Bin(int(kind), tuple(content.items()), int(times), sum(self._worth[row] * n for row, n in content.items()))
            for kind, content, times in zip(self._kinds, self._content, self._times, strict=True)
            if times
        ]

    def give_up(self, pattern: int) -> bool:
        """Move all pods of one node of the pattern into room that others have left; say whether that could be done."""
        if not self._times[pattern]:
            return False
        before = self._kinds, self._times.copy(), self._room.copy(), len(self._content)
        self._times[pattern] -= 1
        moved: list[tuple[int, int, int]] = []
        for row, pods in sorted(self._content[pattern].items(), key=lambda each: (-self._worth[each[0]], each[0])):
            left = pods
            while left:
                target = self._roomiest_fit(row)
                if target is None:
                    self._kinds, self._times, self._room = before[:3]
                    self._take_back(moved, before[3])
                    return False
                target = self._single(target)
                left -= self._put(target, row, left, moved)
        return True

    def _roomiest_fit(self, row: int) -> int | None:
        """The fullest pattern that takes one more pod of the class."""
        self.work += LOOK + self._room.size
        need = self._market.needs[row]
        open_to = self._usable[row, self._kinds] & (self._times > 0) & (need <= self._room).all(axis=1)
        (found,) = open_to.nonzero()
        if not len(found):
            return None
        found = found[np.argsort((self._room[found] / self._whole).sum(axis=1), kind="stable")]
        return next((node for node in found.tolist() if self._takes(node, row)), None)

    def _takes(self, node: int, row: int) -> bool:
        content, clashes = self._content[node], self._market.clashes
        if content.get(row, 0) >= self._market.most[row]:
            return False
        return clashes is None or not any(clashes[row, other] for other in content)

    def _single(self, pattern: int) -> int:
        """One node of the pattern as a pattern of its own."""
        if self._times[pattern] == 1:
            return pattern
        self._times[pattern] -= 1
        self._kinds = np.append(self._kinds, self._kinds[pattern])
        self._times = np.append(self._times, 1)
        self._room = np.concatenate([self._room, self._room[pattern : pattern + 1]])
        self._content.append(dict(self._content[pattern]))
        return len(self._content) - 1

    def _put(self, node: int, row: int, pods: int, moved: list[tuple[int, int, int]]) -> int:
        need, content = self._market.needs[row], self._content[node]
        asked = need > 0
        fits = int((self._room[node][asked] / need[asked]).min())
        number = min(pods, max(1, fits), int(self._market.most[row]) - content.get(row, 0))
        content[row] = content.get(row, 0) + number
        self._room[node] -= number * need
        moved.append((node, row, number))
        return number

    def _take_back(self, moved: Sequence[tuple[int, int, int]], patterns: int) -> None:
        for node, row, number in moved:
            self._content[node][row] -= number
            if not self._content[node][row]:
                del self._content[node][row]
        del self._content[patterns:]
