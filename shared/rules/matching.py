"""Which nodes suit which pods by labels and taints, for thousands of nodes and thousands of kinds of pods at once.

Nodes that no pod can tell apart (the labels that any pod asks for, and the taints, are equal) form one group and are
asked once; pods of equal demands are asked once too. What is asked of a label is asked of all groups in one step, and a
toleration only of the taints that have its key: ten thousand pods that each name a node, or tolerate a taint, of their
own are no trouble. The rules are those of `shared.rules.predicates.static_refusal`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from shared.model import NodeSelectorTerm, Pairs, PodShape, Requirement, Taint, Toleration, VolumePlace
from shared.rules.predicates import HARD_EFFECTS, UNSCHEDULABLE_TAINT, Ground, requirement_matches, tolerates

Mask = npt.NDArray[np.bool_]
_Demand = tuple[Pairs, tuple[NodeSelectorTerm, ...] | None, tuple[Toleration, ...], bool, tuple[VolumePlace, ...]]
_NAME_FIELD = "metadata.name"
_BY_NAME = "\0name"  # the key under which a node's name stands among its labels: no label has it
_ABSENT = 0
_MOST_KEPT = 10_000_000  # numbers of values that are kept, not found anew each time


class Matcher:
    """Answers for a shape in which of the given places the static predicates hold; all shapes must be given before.

    A place is one ground, or several of which a pod must suit each (a node whose zone Azure chooses).
    """

    def __init__(self, places: Sequence[Sequence[Ground]], shapes: Iterable[PodShape]) -> None:
        keys, by_name = _distinguishing(shapes)
        groups: dict[object, int] = {}
        samples: list[Ground] = []
        group_of: list[int] = []
        for ground in (ground for grounds in places for ground in grounds):
            group = groups.setdefault(_told_apart(ground, keys, by_name), len(groups))
            if group == len(samples):
                samples.append(ground)
            group_of.append(group)
        self._group_of = np.array(group_of, dtype=np.intp)
        self._starts = np.cumsum([0, *(len(grounds) for grounds in places[:-1])]) if places else self._group_of
        self._labels = _Labels(samples, keys, by_name=by_name)
        self._taints = _Taints(samples)
        self._nowhere = np.zeros(len(samples), dtype=np.bool_)
        self._answers: dict[_Demand, Mask] = {}

    def mask(self, shape: PodShape) -> Mask:
        """One truth value for each place, in their order; shared between calls, not to be written to."""
        demand = (shape.node_selector, shape.affinity, shape.tolerations, bool(shape.not_modelled), shape.volumes)
        known = self._answers.get(demand)
        if known is None:
            suits = self._nowhere if shape.not_modelled else self._suits(shape)
            known = self._answers[demand] = self._per_place(suits)
        return known

    def alike(self, place: int) -> int:
        """A number that two places of one ground share just when no pod can tell them apart."""
        return int(self._group_of[self._starts[place]])

    def _suits(self, shape: PodShape) -> Mask:
        suits = self._taints.tolerated(shape.tolerations)
        for key, value in shape.node_selector:
            suits = suits & self._labels.meeting(Requirement(key, "In", (value,)))
        for place in shape.volumes:
            suits = suits & self._labels.meeting_any(place.terms)
        return suits if shape.affinity is None else suits & self._labels.meeting_any(shape.affinity)

    def _per_place(self, suits: Mask) -> Mask:
        answers = suits[self._group_of]
        if len(self._starts) == len(answers):
            return answers
        every: Mask = np.logical_and.reduceat(answers, self._starts)
        return every


class _Labels:
    """The labels of all groups, key by key: a number for each value."""

    def __init__(self, samples: Sequence[Ground], keys: frozenset[str], *, by_name: bool) -> None:
        self._size = len(samples)
        self._found: dict[str, tuple[list[int], list[str]]] = {}
        for group, sample in enumerate(samples):
            for key, value in sample.labels.items():
                if key in keys:
                    self._note(key, group, value)
            if by_name:
                self._note(_BY_NAME, group, sample.name)
        self._columns: dict[str, tuple[npt.NDArray[np.intp], dict[str, int]]] = {}

    def meeting_any(self, terms: Iterable[NodeSelectorTerm]) -> Mask:
        """The groups that meet one of the terms; a term without any requirement is met by none."""
        suits = np.zeros(self._size, dtype=np.bool_)
        for term in terms:
            met: Mask | None = None
            for mask in self._parts(term):
                met = mask if met is None else met & mask
            if met is not None:
                suits |= met
        return suits

    def meeting(self, requirement: Requirement) -> Mask:
        """The groups that meet a requirement; each different value is asked once."""
        codes, numbers = self._column(requirement.key)
        if requirement.operator in {"In", "NotIn"}:
            wanted = [numbers[value] for value in requirement.values if value in numbers]
            mask: Mask = codes == wanted[0] if len(wanted) == 1 else np.isin(codes, wanted)
            return ~mask if requirement.operator == "NotIn" else mask
        answers = [requirement_matches(requirement, {})]
        answers += [requirement_matches(requirement, {requirement.key: value}) for value in numbers]
        return np.array(answers, dtype=np.bool_)[codes]

    def _parts(self, term: NodeSelectorTerm) -> Iterator[Mask]:
        for field in term.match_fields:
            known = field.key == _NAME_FIELD and len(field.values) == 1 and field.operator in {"In", "NotIn"}
            yield self.meeting(Requirement(_BY_NAME, field.operator if known else "", field.values))
        for requirement in term.match_expressions:
            yield self.meeting(requirement)

    def _note(self, key: str, group: int, value: str) -> None:
        groups, values = self._found.setdefault(key, ([], []))
        groups.append(group)
        values.append(value)

    def _column(self, key: str) -> tuple[npt.NDArray[np.intp], dict[str, int]]:
        """For each group the number of its value, and the numbers of all values."""
        known = self._columns.get(key)
        if known is None:
            groups, values = self._found.get(key, ([], []))
            numbers: dict[str, int] = {}
            codes = np.full(self._size, _ABSENT, dtype=np.intp)
            codes[groups] = [numbers.setdefault(value, len(numbers) + 1) for value in values]
            known = codes, numbers
            if (len(self._columns) + 1) * self._size <= _MOST_KEPT:
                self._columns[key] = known
        return known


class _Taints:
    """The taints of all groups that keep pods away, a cordon among them, and which groups have each."""

    def __init__(self, samples: Sequence[Ground]) -> None:
        self._groups: dict[Taint, list[int]] = {}
        self._number = np.zeros(len(samples), dtype=np.intp)
        for group, sample in enumerate(samples):
            taints = {taint for taint in sample.taints if taint.effect in HARD_EFFECTS}
            if sample.unschedulable:
                taints.add(UNSCHEDULABLE_TAINT)
            self._number[group] = len(taints)
            for taint in taints:
                self._groups.setdefault(taint, []).append(group)
        self._by_key: dict[str, list[Taint]] = {}
        for taint in self._groups:
            self._by_key.setdefault(taint.key, []).append(taint)
        self._answers: dict[tuple[Toleration, ...], Mask] = {}

    def tolerated(self, tolerations: tuple[Toleration, ...]) -> Mask:
        """The groups of whose taints each is tolerated."""
        known = self._answers.get(tolerations)
        if known is None:
            left = self._number.copy()
            for taint in self._forgiven(tolerations):
                left[self._groups[taint]] -= 1
            known = self._answers[tolerations] = left == 0
        return known

    def _forgiven(self, tolerations: Iterable[Toleration]) -> Iterable[Taint]:
        return {
            taint
            for toleration in tolerations
            for taint in (self._by_key.get(toleration.key, ()) if toleration.key else self._groups)
            if tolerates(toleration, taint)
        }


def _distinguishing(shapes: Iterable[PodShape]) -> tuple[frozenset[str], bool]:
    """The label keys that any shape asks for, and whether any asks for a node by name."""
    keys: set[str] = set()
    by_name = False
    for shape in shapes:
        keys.update(key for key, _ in shape.node_selector)
        for term in chain(shape.affinity or (), *(place.terms for place in shape.volumes)):
            keys.update(requirement.key for requirement in term.match_expressions)
            by_name = by_name or bool(term.match_fields)
    return frozenset(keys), by_name


def _told_apart(ground: Ground, keys: frozenset[str], by_name: bool) -> object:
    labels = tuple(sorted((key, value) for key, value in ground.labels.items() if key in keys)) if keys else ()
    return labels, ground.taints, ground.unschedulable, ground.name if by_name else ""
