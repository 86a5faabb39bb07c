"""Counting pods by the values of topology labels: what the rules of `shared.packing.census` are decided with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from shared.model import PodShape, Spread
from shared.rules.predicates import Ground

Mask = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]
Row = TypeVar("Row", Mask, Counts)

MISSING, UNCERTAIN = -1, -2
"""Instead of a value: the label is not there, or Azure has still to choose."""


@dataclass(frozen=True, slots=True)
class Place:
    """A node, there or to come, and the pods on it by shape. Several grounds: Azure will choose one of them.

    A `possible` one is there only if pods go to it: it is none to those that can't.
    """

    grounds: tuple[Ground, ...]
    content: tuple[tuple[PodShape, int], ...] = ()
    possible: bool = False


class Axis:
    """The values of one topology label over all places, as numbers; a host name to come is unlike any other."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.values: dict[str, int] = {}
        self.codes: list[int] = []
        self.possible: dict[int, tuple[int, ...]] = {}
        self.width = 16
        self.tallies: list[Tally] = []
        self.domains: list[Domain] = []
        self._array = np.zeros(0, dtype=np.int64)

    def add(self, place: Place) -> None:
        """Append a place."""
        found = [ground.labels.get(self.key) for ground in place.grounds]
        distinct = {value if value is None or "\0" not in value else f"{value}{len(self.codes)}" for value in found}
        numbers = [MISSING if each is None else self.values.setdefault(each, len(self.values)) for each in distinct]
        if len(numbers) > 1:
            self.possible[len(self.codes)] = tuple(sorted(number for number in numbers if number >= 0))
        self.codes.append(numbers[0] if len(numbers) == 1 else UNCERTAIN)
        if len(self.values) > self.width:
            self.width = 2 * len(self.values)
            for tally in self.tallies:
                tally.widen(self.width)
            for domain in self.domains:
                domain.widen(self.width)
        for domain in self.domains:
            domain.see(len(self.codes) - 1, place)

    def array(self) -> Counts:
        """One number for each place; below zero where the label is missing, or not known yet."""
        if len(self._array) != len(self.codes):
            self._array = np.array(self.codes, dtype=np.int64)
        return self._array

    def codes_of(self, place: int) -> tuple[int, ...]:
        """All values that the place has, or may have."""
        code = self.codes[place]
        return self.possible.get(place, ()) if code < 0 else (code,)


class Domain:
    """Which places, and so which values of a label, count for spreads of one demand."""

    def __init__(self, axis: Axis, counts: Callable[[Place], bool]) -> None:
        self._axis, self._counts = axis, counts
        self.eligible: list[bool] = []
        self.values = np.zeros(axis.width, dtype=np.bool_)
        axis.domains.append(self)

    def widen(self, width: int) -> None:
        """Make room for values that came up since."""
        self.values = _wider(self.values, width)

    def see(self, number: int, place: Place) -> None:
        """Take in a new place."""
        self.eligible.append(self._counts(place))
        if self.eligible[number]:
            self.values[list(self._axis.codes_of(number))] = True


class Tally:
    """How many pods that count for a rule each value of its label has."""

    def __init__(self, axis: Axis) -> None:
        self.axis = axis
        self.counts = np.zeros(axis.width, dtype=np.int64)
        axis.tallies.append(self)

    def widen(self, width: int) -> None:
        """Make room for values that came up since."""
        self.counts = _wider(self.counts, width)

    def counts_pods_of(self, shape: PodShape) -> bool:  # noqa: ARG002 - for those who do ask
        """Whether pods of a shape count, given that the rule selects them."""
        return True

    def add(self, place: int, pods: int) -> None:
        """Count pods at a place; one that may be in several zones counts in all, which is worst for being apart."""
        for code in self.axis.codes_of(place):
            self.counts[code] += pods

    def present(self) -> Mask:
        """The places whose value, or one of whose possible values, has such a pod."""
        codes = self.axis.array()
        found: Mask = (codes >= 0) & (self.counts[np.maximum(codes, 0)] > 0)
        for place, possible in self.axis.possible.items():
            found[place] = bool((self.counts[list(possible)] > 0).any())
        return found

    def at(self, place: int) -> int:
        """The most such pods that a value of the place has."""
        return max((int(self.counts[code]) for code in self.axis.codes_of(place)), default=0)


class Company(Tally):
    """Pods whose nearness is asked for: those at a place that may be anywhere are near nothing, but they are there."""

    def __init__(self, axis: Axis) -> None:
        super().__init__(axis)
        self._somewhere = 0

    def add(self, place: int, pods: int) -> None:
        """Count pods at a place."""
        if (code := self.axis.codes[place]) >= 0:
            self.counts[code] += pods
        elif self.axis.codes_of(place):
            self._somewhere += pods

    def anywhere(self) -> bool:
        """Whether there is any such pod where the label is, or will be."""
        return self._somewhere > 0 or bool(self.counts.any())


class Spreading(Tally):
    """Pods of a spread, and which values of its label count at all. Pods that may be anywhere count only against."""

    def __init__(self, axis: Axis, rule: Spread, domain: Domain) -> None:
        super().__init__(axis)
        self.rule, self.domain = rule, domain
        self._maybe: dict[int, int] = {}
        self._owners: dict[int, int] = {}
        self._least: tuple[int, int] = (-1, 0)

    def counts_pods_of(self, shape: PodShape) -> bool:
        """Those that are being deleted do not."""
        return not shape.leaving

    def add(self, place: int, pods: int) -> None:
        """Count pods at a place, if its value counts."""
        if not self.domain.eligible[place]:
            return
        if (code := self.axis.codes[place]) >= 0:
            self.counts[code] += pods
            self._least = (-1, 0)
        else:
            for each in self.axis.codes_of(place):
                self._maybe[each] = self._maybe.get(each, 0) + pods

    def own(self, place: int, pods: int) -> None:
        """Pods that have this constraint themselves come to the place: who comes beside them must not break it."""
        for code in self.axis.codes_of(place):
            self._owners[code] = self._owners.get(code, 0) + pods

    def upset(self) -> Mask:
        """The places where one more pod that counts, but is not bound by the constraint, would break it for others."""
        codes = self.axis.array()
        found = np.zeros(len(codes), dtype=np.bool_)
        full = [code for code, pods in self._owners.items() if pods > 0 and self.has(code) > self.most(1)]
        for code in full:
            found |= codes == code
        for place, possible in self.axis.possible.items():
            found[place] = any(code in full for code in possible)
        return found

    def upset_at(self, place: int) -> bool:
        """`upset` for one place."""
        return any(
            self._owners.get(code, 0) > 0 and self.has(code) > self.most(1) for code in self.axis.codes_of(place)
        )

    def least(self) -> int:
        """How many the poorest value has."""
        places = len(self.domain.eligible)
        if self._least[0] != places:
            found = self.counts[self.domain.values]
            self._least = places, int(found.min()) if len(found) >= max(1, self.rule.min_domains) else 0
        return self._least[1]

    def most(self, own: int) -> int:
        """The most that a value may have before one more pod comes."""
        return self.rule.max_skew + self.least() - own

    def has(self, code: int) -> int:
        """How many a value has, at worst."""
        return int(self.counts[code]) + self._maybe.get(code, 0)

    def open(self, own: int) -> Mask:
        """The places that may get one more; `own` is 1 if the newcomer itself counts."""
        codes = self.axis.array()
        counts = self.counts
        if self._maybe:
            counts = counts.copy()
            for code, pods in self._maybe.items():
                counts[code] += pods
        found: Mask = (codes >= 0) & (counts[np.maximum(codes, 0)] <= self.most(own))
        return found


def _wider(row: Row, width: int) -> Row:
    wider = np.zeros(width, dtype=row.dtype)
    wider[: len(row)] = row
    return wider
