"""Which pods run where, as far as rules between pods ask; and whether such rules let one more pod onto a node.

The rules are those of kube-scheduler's plugins InterPodAffinity and PodTopologySpread (filters only), read literally:
required affinity counts only pods that match all its terms, and lets the first of a group that wants its own company
in anywhere; existing pods' anti-affinity counts against newcomers; a spread counts no pod that is being deleted, and
only nodes that carry all its labels and that its two policies let in.

A node to come whose zone Azure chooses is counted at its worst: it is near nothing, apart from nothing in any of its
zones, and takes no pod with a spread over zones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from shared.axes import UNBOUNDED
from shared.model import PodSelector, PodShape, PodTerm, Spread
from shared.pod_rules import INTER_POD_AFFINITY, selects
from shared.predicates import Ground, matches_node_affinity, taint_toleration

Mask = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]

POD_TOPOLOGY_SPREAD = "PodTopologySpread"
WAITS = "Waits: it would upset the rules of pods that are planned beside it"
"""Not now: once those are bound they can't be upset any more, and the next plan serves it."""

ZONE_NOT_CHOOSABLE = "ZoneNotChoosable: one pool per zone serves it"

_MISSING, _UNCERTAIN = -1, -2
_KEY_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Place:
    """A node, there or to come, and the pods on it by shape. Several grounds: Azure will choose one of them.

    A `possible` one is there only if pods go to it: it is none to those that can't.
    """

    grounds: tuple[Ground, ...]
    content: tuple[tuple[PodShape, int], ...] = ()
    possible: bool = False


def has_rules(shape: PodShape) -> bool:
    """Whether rules about other pods concern it: its own, or somebody's that select it."""
    return bool(shape.namespace or shape.near or shape.apart or shape.spread)


class Axis:
    """The values of one topology label over all places, as numbers; a host name to come is unlike any other."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.values: dict[str, int] = {}
        self.codes: list[int] = []
        self.possible: dict[int, tuple[int, ...]] = {}
        self._array = np.zeros(0, dtype=np.int64)

    def add(self, place: Place) -> None:
        """Append a place."""
        found = [ground.labels.get(self.key) for ground in place.grounds]
        distinct = {value if value is None or "\0" not in value else f"{value}{len(self.codes)}" for value in found}
        numbers = [_MISSING if each is None else self.values.setdefault(each, len(self.values)) for each in distinct]
        if len(numbers) > 1:
            self.possible[len(self.codes)] = tuple(sorted(number for number in numbers if number >= 0))
        self.codes.append(numbers[0] if len(numbers) == 1 else _UNCERTAIN)

    def array(self) -> Counts:
        """One number for each place; below zero where the label is missing, or not known yet."""
        if len(self._array) != len(self.codes):
            self._array = np.array(self.codes, dtype=np.int64)
        return self._array

    def codes_of(self, place: int) -> tuple[int, ...]:
        """All values that the place has, or may have."""
        code = self.codes[place]
        return self.possible.get(place, ()) if code < 0 else (code,)


class _Tally:
    """How many pods that count for a rule each value of its label has."""

    def __init__(self, axis: Axis, counted: Callable[[PodShape], bool]) -> None:
        self.axis, self.counted = axis, counted
        self.counts = np.zeros(16, dtype=np.int64)

    def fit(self) -> None:
        """Make room for values that came up since."""
        if len(self.counts) < len(self.axis.values) + 1:
            wider = np.zeros(2 * len(self.axis.values) + 2, dtype=np.int64)
            wider[: len(self.counts)] = self.counts
            self.counts = wider

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


class _Company(_Tally):
    """Pods whose nearness is asked for: those at a place that may be anywhere are near nothing."""

    def add(self, place: int, pods: int) -> None:
        """Count pods at a place."""
        if (code := self.axis.codes[place]) >= 0:
            self.counts[code] += pods


class _Spreading(_Tally):
    """Pods of a spread, and which values of its label count at all. Pods that may be anywhere count only against."""

    def __init__(
        self, axis: Axis, rule: Spread, counted: Callable[[PodShape], bool], domain: Callable[[Place], bool]
    ) -> None:
        super().__init__(axis, counted)
        self.rule, self._is_domain = rule, domain
        self._eligible: list[bool] = []
        self._maybe: dict[int, int] = {}
        self.domain = np.zeros(16, dtype=np.bool_)
        self._owners: dict[int, int] = {}
        self._least: int | None = None

    def see(self, number: int, place: Place) -> None:
        """Take in a new place."""
        self.fit()
        if len(self.domain) < len(self.counts):
            wider = np.zeros(len(self.counts), dtype=np.bool_)
            wider[: len(self.domain)] = self.domain
            self.domain = wider
        self._eligible.append(self._is_domain(place))
        if self._eligible[number]:
            self.domain[list(self.axis.codes_of(number))] = True
            self._least = None

    def add(self, place: int, pods: int) -> None:
        """Count pods at a place, if its value counts."""
        if not self._eligible[place]:
            return
        if (code := self.axis.codes[place]) >= 0:
            self.counts[code] += pods
            self._least = None
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
        if self._least is None:
            found = self.counts[self.domain]
            self._least = int(found.min()) if len(found) >= max(1, self.rule.min_domains) else 0
        return self._least

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


@dataclass(slots=True)
class _Rulings:
    """A shape's rules as tallies."""

    near: list[_Company] = field(default_factory=list)
    starts_a_group: bool = False
    apart: list[_Tally] = field(default_factory=list)
    spread: list[tuple[_Spreading, int]] = field(default_factory=list)
    watched: list[_Spreading] | None = None


class Census:
    """Places with the pods on them; `newcomers` are the shapes that will be asked about or added."""

    def __init__(self, newcomers: Iterable[PodShape], places: Iterable[Place]) -> None:
        self._newcomers = list(dict.fromkeys(newcomers))
        places = list(places)
        there = dict.fromkeys(shape for place in places for shape, _ in place.content)
        self._terms = list(dict.fromkeys(term for shape in (*self._newcomers, *there) for term in shape.apart))
        self._axes: dict[str, Axis] = {}
        self._tallies: dict[object, _Tally] = {}
        self._counting: dict[PodShape, list[_Tally]] = {}
        self._selected: dict[tuple[PodSelector, PodShape], bool] = {}
        self._rulings = {shape: self._ruled(shape) for shape in self._newcomers if has_rules(shape)}
        self.places: list[Place] = []
        for place in places:
            self.join(place)

    def join(self, place: Place) -> int:
        """Append a place with its pods and return its number."""
        number = len(self.places)
        self.places.append(place)
        for axis in self._axes.values():
            axis.add(place)
        for tally in self._tallies.values():
            if isinstance(tally, _Spreading):
                tally.see(number, place)
            else:
                tally.fit()
        for shape, pods in place.content:
            self._count(shape, number, pods)
        return number

    def add(self, shape: PodShape, place: int, pods: int) -> None:
        """Newcomers of the shape come to the place; go, if `pods` is below zero."""
        self._count(shape, place, pods)
        rulings = self._rulings.get(shape)
        if rulings is not None:
            for spreading, _ in rulings.spread:
                spreading.own(place, pods)

    def mask(self, shape: PodShape) -> Mask | None:
        """The places where these rules let one more pod in; None: everywhere."""
        rulings = self._rulings.get(shape)
        if rulings is None:
            return None
        watched = self._watched(shape, rulings)
        if not (rulings.near or rulings.apart or rulings.spread or watched):
            return None
        open_to = np.ones(len(self.places), dtype=np.bool_)
        first = self._first_of_group(rulings)
        for company in rulings.near:
            codes = company.axis.array()
            open_to &= (codes >= 0) if first else (codes >= 0) & (company.counts[np.maximum(codes, 0)] > 0)
        for tally in rulings.apart:
            open_to &= ~tally.present()
        for spreading, own in rulings.spread:
            open_to &= spreading.open(own)
        for spreading in watched:
            open_to &= ~spreading.upset()
        return open_to

    def refusal(self, shape: PodShape, place: int) -> str | None:
        """Why these rules keep one more pod from the place, or None."""
        rulings = self._rulings.get(shape)
        if rulings is None:
            return None
        return (
            self._not_near(rulings, place)
            or self._not_apart(rulings, place)
            or _not_spread(rulings, place)
            or _upset(self._watched(shape, rulings), place)
        )

    def labels(self) -> list[str]:
        """The topology labels of all rules that matter to the newcomers."""
        return list(self._axes)

    def values_of(self, label: str) -> Counts:
        """A number for the value of that label at each place; below zero: missing, or not known yet."""
        return self._axes[label].array()

    def concerns(self, shape: PodShape, beside: str = "") -> bool:
        """Whether any rule holds for pods of the shape, or counts them; save those by the label `beside`."""
        rulings = self._rulings.get(shape) or _Rulings()
        tallies = [*rulings.near, *rulings.apart, *(each for each, _ in rulings.spread), *self._counters(shape)]
        return any(tally.axis.key != beside for tally in tallies)

    def openings(self, shape: PodShape) -> Counts:
        """How many more pods of the shape each place may get, were the poorest values to stay as poor as they are."""
        open_to = self.mask(shape)
        found = np.full(len(self.places), UNBOUNDED, dtype=np.int64)
        if open_to is None:
            return found
        rulings = self._rulings[shape]
        for spreading, own in rulings.spread:
            if own:
                codes = np.maximum(spreading.axis.array(), 0)
                found = np.minimum(found, spreading.most(0) - spreading.counts[codes])
        if any(tally.counted(shape) for tally in rulings.apart):
            found = np.minimum(found, 1)
        openings: Counts = np.where(open_to, found, 0)
        return openings

    def poorest(self, shape: PodShape) -> int:
        """The highest count that a spread of the shape finds everywhere; 0 where one finds a value without any."""
        rulings = self._rulings.get(shape) or _Rulings()
        return max((spreading.least() for spreading, _ in rulings.spread), default=0)

    def level(self, shape: PodShape, place: int) -> int:
        """How many pods the spreads of the shape count in the place's values, in all."""
        rulings = self._rulings.get(shape) or _Rulings()
        codes = [(spreading, spreading.axis.codes[place]) for spreading, _ in rulings.spread]
        return sum(spreading.has(code) for spreading, code in codes if code >= 0)

    def domains(self, shape: PodShape) -> int:
        """The most values that a spread of the shape looks at."""
        rulings = self._rulings.get(shape) or _Rulings()
        return max((int(spreading.domain.sum()) for spreading, _ in rulings.spread), default=0)

    def _not_near(self, rulings: _Rulings, place: int) -> str | None:
        first = self._first_of_group(rulings)
        for company in rulings.near:
            code = company.axis.codes[place]
            if code == _UNCERTAIN:
                return ZONE_NOT_CHOOSABLE
            if code == _MISSING:
                return f"{INTER_POD_AFFINITY}: required affinity needs the node label {_key(company)}"
            if not first and not company.counts[code]:
                return f"{INTER_POD_AFFINITY}: no pod that required affinity asks for is in its {_key(company)}"
        return None

    @staticmethod
    def _not_apart(rulings: _Rulings, place: int) -> str | None:
        for tally in rulings.apart:
            if tally.at(place):
                return f"{INTER_POD_AFFINITY}: required anti-affinity with a pod in its {_key(tally)}"
        return None

    @staticmethod
    def _first_of_group(rulings: _Rulings) -> bool:
        return rulings.starts_a_group and not any(company.counts.any() for company in rulings.near)

    def _count(self, shape: PodShape, place: int, pods: int) -> None:
        for tally in self._counters(shape):
            tally.add(place, pods)

    def _watched(self, shape: PodShape, rulings: _Rulings) -> list[_Spreading]:
        """Others' constraints that count pods of the shape."""
        if rulings.watched is None:
            own = [spreading for spreading, _ in rulings.spread]
            rulings.watched = [
                tally for tally in self._counters(shape) if isinstance(tally, _Spreading) and tally not in own
            ]
        return rulings.watched

    def _counters(self, shape: PodShape) -> list[_Tally]:
        known = self._counting.get(shape)
        if known is None:
            known = self._counting[shape] = [each for each in self._tallies.values() if each.counted(shape)]
        return known

    def _ruled(self, shape: PodShape) -> _Rulings:
        rulings = _Rulings()
        company = tuple(term.selector for term in shape.near)
        for term in shape.near:
            key = ("near", company, term.topology_key)
            rulings.near.append(self._tally(key, term.topology_key, _Company, self._all_select(company)))  # type: ignore[arg-type]  # as made
        rulings.starts_a_group = bool(company) and all(self._selects(each, shape) for each in company)
        for term in shape.apart:
            key = ("apart", (term.selector,), term.topology_key)
            rulings.apart.append(self._tally(key, term.topology_key, _Tally, self._all_select((term.selector,))))
        for term in self._terms:
            if self._selects(term.selector, shape):
                rulings.apart.append(self._tally(("holds", term), term.topology_key, _Tally, _holder_of(term)))
        for rule in shape.spread:
            rulings.spread.append((self._spreading(shape, rule), int(self._selects(rule.selector, shape))))
        return rulings

    def _tally(
        self,
        key: object,
        topology_key: str,
        kind: Callable[[Axis, Callable[[PodShape], bool]], _Tally],
        counted: Callable[[PodShape], bool],
    ) -> _Tally:
        known = self._tallies.get(key)
        if known is None:
            known = self._tallies[key] = kind(self._axis(topology_key), counted)
        return known

    def _spreading(self, shape: PodShape, rule: Spread) -> _Spreading:
        keys = tuple(each.topology_key for each in shape.spread)
        demand = (shape.node_selector, shape.affinity) if rule.honors_affinity else ()
        key = ("spread", rule, keys, demand, shape.tolerations)
        known = self._tallies.get(key)
        if known is None:
            known = self._tallies[key] = _Spreading(
                self._axis(rule.topology_key),
                rule,
                lambda other: not other.leaving and self._selects(rule.selector, other),
                lambda place: _counts_for(place, shape, rule, keys),
            )
        assert isinstance(known, _Spreading)  # noqa: S101 - by its key
        return known

    def _axis(self, key: str) -> Axis:
        return self._axes.setdefault(key, Axis(key))

    def _selects(self, selector: PodSelector, shape: PodShape) -> bool:
        known = self._selected.get((selector, shape))
        if known is None:
            known = self._selected[selector, shape] = selects(selector, shape)
        return known

    def _all_select(self, selectors: Sequence[PodSelector]) -> Callable[[PodShape], bool]:
        return lambda shape: all(self._selects(selector, shape) for selector in selectors)


def _holder_of(term: PodTerm) -> Callable[[PodShape], bool]:
    return lambda shape: term in shape.apart


def _counts_for(place: Place, shape: PodShape, rule: Spread, keys: Sequence[str]) -> bool:
    """Whether the values of a place are domains of the constraint (`calPreFilterState` of the plugin)."""
    return any(
        all(key in ground.labels for key in keys)
        and (not rule.honors_affinity or matches_node_affinity(shape, ground))
        and (not (rule.honors_taints or place.possible) or taint_toleration(shape, ground) is None)
        for ground in place.grounds
    )


def _not_spread(rulings: _Rulings, place: int) -> str | None:
    for spreading, own in rulings.spread:
        code = spreading.axis.codes[place]
        if code == _UNCERTAIN:
            return ZONE_NOT_CHOOSABLE
        if code == _MISSING:
            return f"{POD_TOPOLOGY_SPREAD}: needs the node label {_key(spreading)}"
        has, least = spreading.has(code), spreading.least()
        if has > spreading.most(own):
            return (
                f"{POD_TOPOLOGY_SPREAD}: its {_key(spreading)} has {has} such pods, the poorest {least}, "
                f"maxSkew is {spreading.rule.max_skew}"
            )
    return None


def _upset(watched: Iterable[_Spreading], place: int) -> str | None:
    for spreading in watched:
        if spreading.upset_at(place):
            return WAITS
    return None


def _key(tally: _Tally) -> str:
    return tally.axis.key[:_KEY_SHOWN]
