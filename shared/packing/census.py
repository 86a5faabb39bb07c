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
from typing import TypeVar, cast

import numpy as np

from shared.model import PodSelector, PodShape, PodTerm, Spread
from shared.packing.axes import UNBOUNDED
from shared.rules.pod_rules import INTER_POD_AFFINITY, Register, selects
from shared.rules.predicates import matches_node_affinity, taint_toleration
from shared.rules.tallies import MISSING, UNCERTAIN, Axis, Company, Counts, Domain, Mask, Place, Spreading, Tally

Counting = TypeVar("Counting", bound=Tally)

POD_TOPOLOGY_SPREAD = "PodTopologySpread"
WAITS = "Waits: it would upset the rules of pods that are planned beside it"
"""Not now: once those are bound they can't be upset any more, and the next plan serves it."""

ZONE_NOT_CHOOSABLE = "ZoneNotChoosable: one pool per zone serves it"

_KEY_SHOWN = 80


def has_rules(shape: PodShape) -> bool:
    """Whether rules about other pods concern it: its own, or somebody's that select it."""
    return bool(shape.namespace or shape.near or shape.apart or shape.spread)


@dataclass(slots=True)
class _Rulings:
    """A shape's rules as tallies."""

    near: list[Company] = field(default_factory=list)
    starts_a_group: bool = False
    apart: list[Tally] = field(default_factory=list)
    spread: list[tuple[Spreading, int]] = field(default_factory=list)
    watched: list[Spreading] | None = None


class Census:
    """Places with the pods on them; `newcomers` are the shapes that will be asked about or added."""

    def __init__(self, newcomers: Iterable[PodShape], places: Iterable[Place]) -> None:
        self._newcomers = list(dict.fromkeys(newcomers))
        places = list(places)
        there = dict.fromkeys(shape for place in places for shape, _ in place.content)
        self._terms: Register[PodTerm] = Register()
        for term in dict.fromkeys(term for shape in (*self._newcomers, *there) for term in shape.apart):
            self._terms.file(term.selector, term)
        self._axes: dict[str, Axis] = {}
        self._domains: dict[object, Domain] = {}
        self._tallies: dict[object, Tally] = {}
        self._held: dict[PodTerm, Tally] = {}
        self._filed: Register[tuple[Tally, tuple[PodSelector, ...]]] = Register()
        self._counting: dict[PodShape, list[Tally]] = {}
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

    def size(self) -> int:
        """How many counts the newcomers' rules ask for, in all."""
        return sum(len(rulings.near) + len(rulings.apart) + len(rulings.spread) for rulings in self._rulings.values())

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
        if any(tally in self._counters(shape) for tally in rulings.apart):
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
        return max((int(spreading.domain.values.sum()) for spreading, _ in rulings.spread), default=0)

    def _not_near(self, rulings: _Rulings, place: int) -> str | None:
        first = self._first_of_group(rulings)
        for company in rulings.near:
            code = company.axis.codes[place]
            if code == UNCERTAIN:
                return ZONE_NOT_CHOOSABLE
            if code == MISSING:
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
        return rulings.starts_a_group and not any(company.anywhere() for company in rulings.near)

    def _count(self, shape: PodShape, place: int, pods: int) -> None:
        for tally in self._counters(shape):
            tally.add(place, pods)

    def _watched(self, shape: PodShape, rulings: _Rulings) -> list[Spreading]:
        """Others' constraints that count pods of the shape."""
        if rulings.watched is None:
            own = [spreading for spreading, _ in rulings.spread]
            rulings.watched = [
                tally for tally in self._counters(shape) if isinstance(tally, Spreading) and tally not in own
            ]
        return rulings.watched

    def _counters(self, shape: PodShape) -> list[Tally]:
        known = self._counting.get(shape)
        if known is None:
            known = [self._held[term] for term in shape.apart if term in self._held]
            if shape.namespace:
                for tally, others in self._filed.found(shape.namespace, dict(shape.labels)):
                    if tally.counts_pods_of(shape) and all(selects(other, shape) for other in others):
                        known.append(tally)
            self._counting[shape] = known
        return known

    def _ruled(self, shape: PodShape) -> _Rulings:
        company = tuple(term.selector for term in shape.near)
        near = [self._company(company, term.topology_key) for term in shape.near]
        apart = [self._neighbours(term) for term in shape.apart]
        if shape.namespace:
            apart += [self._holders(term) for term in self._terms.found(shape.namespace, dict(shape.labels))]
        spread = [(self._spreading(shape, rule), int(selects(rule.selector, shape))) for rule in shape.spread]
        starts = bool(company) and all(selects(each, shape) for each in company)
        return _Rulings(near, starts, apart, spread)

    def _company(self, selectors: tuple[PodSelector, ...], label: str) -> Company:
        """Pods that all of a shape's affinity terms select."""
        return self._tally(("near", selectors, label), lambda: Company(self._axis(label)), selectors)

    def _neighbours(self, term: PodTerm) -> Tally:
        """Pods that an anti-affinity term selects."""
        return self._tally(("apart", term), lambda: Tally(self._axis(term.topology_key)), (term.selector,))

    def _holders(self, term: PodTerm) -> Tally:
        """Pods that have the anti-affinity term themselves."""
        if term not in self._held:
            self._held[term] = Tally(self._axis(term.topology_key))
        return self._held[term]

    def _spreading(self, shape: PodShape, rule: Spread) -> Spreading:
        """Pods that a constraint counts, on nodes that count for this shape."""
        labels = tuple(each.topology_key for each in shape.spread)
        affinity = (shape.node_selector, shape.affinity) if rule.honors_affinity else ()
        demand = (rule.topology_key, labels, affinity, rule.honors_taints, shape.tolerations)
        axis = self._axis(rule.topology_key)
        if demand not in self._domains:
            self._domains[demand] = Domain(axis, lambda place: _counts_for(place, shape, rule, labels))
        domain = self._domains[demand]
        return self._tally(("spread", rule, demand), lambda: Spreading(axis, rule, domain), (rule.selector,))

    def _tally(self, key: object, new: Callable[[], Counting], selectors: tuple[PodSelector, ...]) -> Counting:
        """The tally of this key, which counts the pods that all these selectors select."""
        known = self._tallies.get(key)
        if known is None:
            made = self._tallies[key] = new()
            self._filed.file(selectors[0], (made, selectors[1:]))
            return made
        return cast(Counting, known)

    def _axis(self, key: str) -> Axis:
        return self._axes.setdefault(key, Axis(key))


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
        if code == UNCERTAIN:
            return ZONE_NOT_CHOOSABLE
        if code == MISSING:
            return f"{POD_TOPOLOGY_SPREAD}: needs the node label {_key(spreading)}"
        has, least = spreading.has(code), spreading.least()
        if has > spreading.most(own):
            return (
                f"{POD_TOPOLOGY_SPREAD}: its {_key(spreading)} has {has} such pods, the poorest {least}, "
                f"maxSkew is {spreading.rule.max_skew}"
            )
    return None


def _upset(watched: Iterable[Spreading], place: int) -> str | None:
    for spreading in watched:
        if spreading.upset_at(place):
            return WAITS
    return None


def _key(tally: Tally) -> str:
    return tally.axis.key[:_KEY_SHOWN]
