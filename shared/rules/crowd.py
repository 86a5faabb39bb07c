"""Whom selectors speak of among many classes of pods, each requirement asked of all classes in one step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from shared.model import PodSelector, PodShape, Requirement
from shared.rules.pod_rules import selects
from shared.rules.predicates import requirement_matches

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]

_FEW = 64  # classes that are rather asked one by one
_REMEMBERED = 64  # answers: rules often share a selector, but as many different ones as classes would fill the memory


class Crowd:
    """Shapes by namespace and label, numbered as given; those without a namespace are in no rule."""

    def __init__(self, shapes: Sequence[PodShape]) -> None:
        self._shapes = shapes
        self._in_rules = np.array([bool(shape.namespace) for shape in shapes], dtype=np.bool_)
        self._known: dict[PodSelector, Rows] = {}
        self._namespaces: dict[str, list[int]] = {}
        self._values: dict[str, dict[str, list[int]]] = {}
        for number, shape in enumerate(shapes):
            self._namespaces.setdefault(shape.namespace, []).append(number)
            for key, value in shape.labels:
                self._values.setdefault(key, {}).setdefault(value, []).append(number)

    def selected(self, selector: PodSelector) -> Rows:
        """The numbers of the shapes of which the selector speaks, ascending."""
        known = self._known.get(selector)
        if known is None:
            known = self._found(selector)
            if len(self._known) < _REMEMBERED:
                self._known[selector] = known
        return known

    def _found(self, selector: PodSelector) -> Rows:
        few = self._behind_labels(selector)
        if few is not None:
            return np.array([number for number in few if selects(selector, self._shapes[number])], dtype=np.intp)
        found = self._in_rules
        if selector.namespaces is not None and not self._namespaces.keys() <= {*selector.namespaces, ""}:
            found = found & self._marked(self._namespaces.get(name, ()) for name in selector.namespaces)
        for requirement in selector.requirements:
            found = found & self._meeting(requirement)
        return np.flatnonzero(found)

    def _behind_labels(self, selector: PodSelector) -> list[int] | None:
        """All who have one of the values that the selector demands of some label, if these are few."""
        for requirement in selector.requirements:
            if requirement.operator == "In":
                values = self._values.get(requirement.key, {})
                groups = [values[value] for value in set(requirement.values) if value in values]
                if sum(map(len, groups)) <= _FEW:
                    return sorted(number for group in groups for number in group)
        return None

    def _meeting(self, requirement: Requirement) -> Mask:
        values = self._values.get(requirement.key, {})
        if requirement.operator in {"In", "NotIn"}:
            mask = self._marked(values.get(value, ()) for value in requirement.values)
            return ~mask if requirement.operator == "NotIn" else mask
        mask = np.full(len(self._shapes), requirement_matches(requirement, {}), dtype=np.bool_)
        for value, numbers in values.items():
            mask[numbers] = requirement_matches(requirement, {requirement.key: value})
        return mask

    def _marked(self, groups: Iterable[Sequence[int]]) -> Mask:
        mask = np.zeros(len(self._shapes), dtype=np.bool_)
        mask[[number for group in groups for number in group]] = True
        return mask
