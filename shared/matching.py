"""Which nodes suit which pods by labels and taints, for thousands of nodes and thousands of kinds of pods at once.

Nodes that no pod can tell apart (the labels that any pod asks for, and the taints, are equal) form one group and are
asked once; pods of equal demands are asked once too. An index from label values to groups keeps ten thousand pods that
each name a node of their own from being held against ten thousand nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from shared.model import NodeSelectorTerm, Pairs, PodShape, Requirement, Toleration
from shared.predicates import Ground, static_refusal

Mask = npt.NDArray[np.bool_]
_Demand = tuple[Pairs, tuple[NodeSelectorTerm, ...] | None, tuple[Toleration, ...], bool]
_NAME_FIELD = "metadata.name"


class Matcher:
    """Answers for a shape in which of the given places the static predicates hold; all shapes must be given before.

    A place is one ground, or several of which a pod must suit each (a node whose zone Azure chooses).
    """

    def __init__(self, places: Sequence[Sequence[Ground]], shapes: Iterable[PodShape]) -> None:
        keys, by_name = _distinguishing(shapes)
        groups: dict[object, int] = {}
        self._samples: list[Ground] = []
        group_of: list[int] = []
        for ground in (ground for grounds in places for ground in grounds):
            group = groups.setdefault(_told_apart(ground, keys, by_name), len(groups))
            if group == len(self._samples):
                self._samples.append(ground)
            group_of.append(group)
        self._group_of = np.array(group_of, dtype=np.intp)
        self._starts = np.cumsum([0, *(len(grounds) for grounds in places[:-1])]) if places else self._group_of
        self._index = self._indexed(keys, by_name)
        self._answers: dict[_Demand, Mask] = {}

    def mask(self, shape: PodShape) -> Mask:
        """One truth value for each place, in their order; shared between calls, not to be written to."""
        demand = (shape.node_selector, shape.affinity, shape.tolerations, bool(shape.not_modelled))
        known = self._answers.get(demand)
        if known is None:
            suits = np.zeros(len(self._samples), dtype=np.bool_)
            for group in self._candidates(shape):
                suits[group] = static_refusal(shape, self._samples[group]) is None
            known = self._answers[demand] = self._per_place(suits)
        return known

    def alike(self, place: int) -> int:
        """A number that two places of one ground share just when no pod can tell them apart."""
        return int(self._group_of[self._starts[place]])

    def _per_place(self, suits: Mask) -> Mask:
        answers = suits[self._group_of]
        if len(self._starts) == len(answers):
            return answers
        every: Mask = np.logical_and.reduceat(answers, self._starts)
        return every

    def _indexed(self, keys: frozenset[str], by_name: bool) -> dict[tuple[str, str], list[int]]:
        index: dict[tuple[str, str], list[int]] = {}
        for group, sample in enumerate(self._samples):
            for key, value in sample.labels.items():
                if key in keys:
                    index.setdefault((key, value), []).append(group)
            if by_name:
                index.setdefault((_NAME_FIELD, sample.name), []).append(group)
        return index

    def _candidates(self, shape: PodShape) -> Sequence[int]:
        """Groups that may suit: all, or those behind the most telling demand for one of a few values."""
        options: list[Sequence[int]] = [self._index.get(pair, []) for pair in shape.node_selector]
        terms = [_telling(term) for term in shape.affinity or ()]
        if shape.affinity is not None and all(terms):
            union = {group for term in terms if term for group in self._behind(term)}
            options.append(sorted(union))
        return min(options, key=len) if options else range(len(self._samples))

    def _behind(self, requirement: Requirement) -> Iterable[int]:
        for value in requirement.values:
            yield from self._index.get((requirement.key, value), ())


def _distinguishing(shapes: Iterable[PodShape]) -> tuple[frozenset[str], bool]:
    """The label keys that any shape asks for, and whether any asks for a node by name."""
    keys: set[str] = set()
    by_name = False
    for shape in shapes:
        keys.update(key for key, _ in shape.node_selector)
        for term in shape.affinity or ():
            keys.update(requirement.key for requirement in term.match_expressions)
            by_name = by_name or bool(term.match_fields)
    return frozenset(keys), by_name


def _told_apart(ground: Ground, keys: frozenset[str], by_name: bool) -> object:
    labels = tuple(sorted((key, value) for key, value in ground.labels.items() if key in keys)) if keys else ()
    return labels, ground.taints, ground.unschedulable, ground.name if by_name else ""


def _telling(term: NodeSelectorTerm) -> Requirement | None:
    """A requirement of the term that only listed values meet, if there is one."""
    return next(
        (
            requirement
            for requirement in (*term.match_fields, *term.match_expressions)
            if requirement.operator == "In" and (requirement.key == _NAME_FIELD) == (requirement in term.match_fields)
        ),
        None,
    )
