"""How many rules between pods one plan weighs: a bound on its work, far above what real clusters ask.

A *tie* is a class of pods and a selector, of its own or of others, that speaks of it: each has to be counted by. Ten
thousand classes that are each apart from all others have a hundred million. Classes beyond the bound wait for the next
plan, those of high priority before others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from shared.census import has_rules
from shared.crowd import Crowd
from shared.model import PodClass, PodSelector, PodShape
from shared.supply import Site
from shared.tallies import Place

MOST_TIES = 1_000_000
"""About as many as three seconds count."""

_FEW_CLASSES = 100  # with rules: too few to be more than those who are there, and their rules, can bear

TOO_MANY_RULES = "Waits: there are more rules between pods than one plan weighs, and others come first"


def bearable(classes: Sequence[PodClass], sites: Sequence[Site], around: Sequence[Place]) -> list[int]:
    """The numbers of the classes that are planned for now: all of them, unless their rules are too many."""
    shapes = [each.shape for each in classes]
    if sum(map(has_rules, shapes)) <= _FEW_CLASSES:
        return list(range(len(classes)))
    ties = np.zeros(len(shapes), dtype=np.int64)
    crowd = Crowd(shapes)
    for selector in _selectors(shapes, sites, around):
        ties[crowd.selected(selector)] += 1
    order = sorted(range(len(shapes)), key=lambda number: -shapes[number].priority)
    heavy = np.cumsum(ties[order]) > MOST_TIES
    return sorted(number for number, waits in zip(order, heavy.tolist(), strict=True) if not (waits and ties[number]))


def _selectors(shapes: Iterable[PodShape], sites: Iterable[Site], around: Iterable[Place]) -> set[PodSelector]:
    """Of all rules of those who come, and of what keeps those who are there apart from others."""
    contents = chain((site.content for site in sites), (place.content for place in around))
    there = {shape for content in contents for shape, _ in content}
    selectors = {term.selector for shape in there for term in shape.apart}
    for shape in shapes:
        selectors.update(term.selector for term in (*shape.near, *shape.apart))
        selectors.update(rule.selector for rule in shape.spread)
    return selectors
