"""What pods say about other pods: required affinity and anti-affinity, and DoNotSchedule spread constraints.

Read as kube-scheduler's plugins InterPodAffinity and PodTopologySpread read them. Namespaces and label keys that a rule
takes from its own pod are written into the rule, so that it means the same whoever looks at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, TypeVar

from shared.model import Pairs, PodSelector, PodShape, PodTerm, Requirement, Spread
from shared.rules.predicates import requirement_matches

Json = dict[str, Any]
Rule = TypeVar("Rule", PodTerm, Spread)
T = TypeVar("T")

NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"  # the API server puts it on every namespace
INTER_POD_AFFINITY = "InterPodAffinity"

_EMPTY: Json = {}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_NO_POD = (Requirement("", "In", ()),)  # an absent selector selects nothing, an empty one everything
_DENIALS = ("NotIn", "DoesNotExist")


@dataclass(frozen=True, slots=True)
class PodRules:
    """A pod's own rules; `undecided` when one hangs on labels of namespaces, which nothing here knows."""

    near: tuple[PodTerm, ...] = ()
    apart: tuple[PodTerm, ...] = ()
    spread: tuple[Spread, ...] = ()
    undecided: bool = False

    def selectors(self) -> Iterator[PodSelector]:
        """Of every rule."""
        yield from (term.selector for term in (*self.near, *self.apart))
        yield from (constraint.selector for constraint in self.spread)


NO_RULES = PodRules()


def rules_of(pod: Json) -> PodRules:
    """The pod's rules. Terms that only prefer, and constraints that schedule anyway, rule no node out."""
    spec = pod.get("spec") or _EMPTY
    affinity, constraints = spec.get("affinity") or _EMPTY, spec.get("topologySpreadConstraints")
    near = (affinity.get("podAffinity") or _EMPTY).get(_REQUIRED)
    apart = (affinity.get("podAntiAffinity") or _EMPTY).get(_REQUIRED)
    if not near and not apart and not constraints:
        return NO_RULES
    meta = pod.get("metadata") or _EMPTY
    home, labels = meta.get("namespace") or "default", meta.get("labels") or _EMPTY
    written = [*(near or ()), *(apart or ())]
    return PodRules(
        _distinct(term_of(term, home, labels) for term in near or ()),
        _distinct(term_of(term, home, labels) for term in apart or ()),
        _distinct(
            spread_of(item, home, labels)
            for item in constraints or ()
            if item.get("whenUnsatisfiable") != "ScheduleAnyway"
        ),
        any(_named_namespaces(term.get("namespaceSelector")) is None for term in written),
    )


def selects(selector: PodSelector, shape: PodShape) -> bool:
    """Whether the rule speaks of pods of this shape; of those that no rule in play selects it does not."""
    return bool(shape.namespace) and speaks_of(selector, shape.namespace, dict(shape.labels))


def matches_selector(selector: Json, labels: Mapping[str, str]) -> bool:
    """Whether a label selector as Kubernetes writes it selects these labels; an empty one selects all."""
    return all(requirement_matches(requirement, labels) for requirement in _requirements(selector))


class Register(Generic[T]):
    """Things filed under selectors, found by labels without asking every selector."""

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], list[tuple[PodSelector, T]]] = {}
        self._others: list[tuple[PodSelector, T]] = []

    def file(self, selector: PodSelector, thing: T) -> None:
        """Add a thing: under one of a few values that the selector demands of a label, if it does so."""
        telling = next((each for each in selector.requirements if each.operator == "In"), None)
        if telling is None:
            self._others.append((selector, thing))
        else:
            for value in telling.values:
                self._by_label.setdefault((telling.key, value), []).append((selector, thing))

    def found(self, namespace: str, labels: Mapping[str, str]) -> Iterator[T]:
        """What is filed under selectors that select a pod with these labels."""
        asked = (self._by_label.get(label, ()) for label in labels.items())
        for selector, thing in chain(self._others, *asked):
            if speaks_of(selector, namespace, labels):
                yield thing


class Interest:
    """The selectors in play: they say what a shape must hold of a pod's labels.

    A label stays where a selector that selects the pod names it, or where any selector demands its absence or other
    values: with the rest gone, every selector still says of the pod what it said before.
    """

    def __init__(self, selectors: Iterable[PodSelector] = ()) -> None:
        self.selectors = frozenset(selectors)
        self._register: Register[PodSelector] = Register()
        for selector in self.selectors:
            self._register.file(selector, selector)
        self._denied = {
            requirement.key
            for selector in self.selectors
            for requirement in selector.requirements
            if requirement.operator in _DENIALS
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Interest) and self.selectors == other.selectors

    __hash__ = None  # type: ignore[assignment]  # compared, never a key

    def read(self, namespace: str, labels: Mapping[str, str]) -> tuple[str, Pairs]:
        """A shape's `namespace` and `labels`."""
        selecting = list(self._register.found(namespace, labels))
        if not selecting:
            return "", ()
        keys = self._denied.union(each.key for selector in selecting for each in selector.requirements)
        return namespace, tuple(sorted((key, value) for key, value in labels.items() if key in keys))


NOBODY = Interest()
"""No rule is in play."""


def speaks_of(selector: PodSelector, namespace: str, labels: Mapping[str, str]) -> bool:
    """Whether a selector selects a pod with these labels."""
    if selector.namespaces is not None and namespace not in selector.namespaces:
        return False
    return all(requirement_matches(requirement, labels) for requirement in selector.requirements)


def term_of(term: Json, home: str, labels: Mapping[str, str]) -> PodTerm:
    """A term of pod affinity, as a pod with these labels, at `home` in that namespace, means it."""
    namespaces = set(term.get("namespaces") or ())
    if (chooser := term.get("namespaceSelector")) is None:
        return PodTerm(
            PodSelector(tuple(sorted(namespaces or {home})), _selection(term, labels)), term.get("topologyKey") or ""
        )
    named = _named_namespaces(chooser)
    # All of them, where labels of namespaces would have to be known: a pod that is kept apart stays so.
    scope = None if not named else tuple(sorted(namespaces | named))
    return PodTerm(PodSelector(scope, _selection(term, labels)), term.get("topologyKey") or "")


def _named_namespaces(chooser: Json | None) -> set[str] | None:
    """The namespaces that a selector names; empty for all of them (or for no selector); None when it can't be known."""
    if not chooser:
        return set()
    found = _requirements(chooser)
    if not found:
        return set()
    if any(each.key != NAMESPACE_NAME_LABEL or each.operator != "In" for each in found):
        return None
    return set.intersection(*(set(each.values) for each in found)) or {""}


def spread_of(item: Json, home: str, labels: Mapping[str, str]) -> Spread:
    """A spread constraint, as a pod with these labels in the namespace `home` means it."""
    return Spread(
        PodSelector((home,), _selection(item, labels)),
        item.get("topologyKey") or "",
        item.get("maxSkew") or 1,
        item.get("minDomains") or 1,
        item.get("nodeAffinityPolicy") != "Ignore",
        item.get("nodeTaintsPolicy") == "Honor",
    )


def _selection(rule: Json, labels: Mapping[str, str]) -> tuple[Requirement, ...]:
    """The label selector with the pod's own values of (mis)matchLabelKeys in it; newer API servers write them there."""
    selector = rule.get("labelSelector")
    if selector is None:
        return _NO_POD
    found = _requirements(selector)
    for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        found |= {Requirement(key, operator, (labels[key],)) for key in rule.get(field) or () if key in labels}
    return tuple(sorted(found, key=repr))


def _requirements(selector: Json) -> set[Requirement]:
    return {
        *(Requirement(key, "In", (value,)) for key, value in (selector.get("matchLabels") or _EMPTY).items()),
        *(
            Requirement(item["key"], item["operator"], tuple(sorted(item.get("values") or ())))
            for item in selector.get("matchExpressions") or ()
        ),
    }


def _distinct(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    return tuple(sorted(set(rules), key=repr))
