"""How many rules between pods one plan weighs: a bound on its work, far above what real clusters ask.

A *tie* is a class of pods, waiting or running, and a selector of its own or of others that speaks of it: each of its
pods has to be counted by. Ten thousand classes that are each apart from all others have a hundred million. Classes
beyond the bound wait for the next plan, those of high priority before others.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from shared.model import PodClass, PodSelector, PodShape
from shared.nodes.supply import Site
from shared.packing.census import has_rules
from shared.rules.crowd import Crowd
from shared.rules.tallies import Place

MOST_TIES = 1_000_000
"""For each class once, and once for each of its pods: about as many as three seconds count."""

MOST_CLASHING = 4000
"""Classes that are apart from others: each is held against each."""

TOO_MANY_RULES = "Waits: there are more rules between pods than one plan weighs, and others come first"

_FEW_CLASSES = 50  # with rules: too few to be too many, whoever runs there


def bearable(classes: Sequence[PodClass], sites: Sequence[Site], around: Sequence[Place]) -> list[int]:
    """The numbers of the classes that are planned for now: all of them, unless their rules are too many."""
    shapes = [each.shape for each in classes]
    if sum(map(has_rules, shapes)) <= _FEW_CLASSES:
        return list(range(len(classes)))
    load = _Load(shapes, sites, around)
    weight = load.ties * np.array([1 + len(each.pods) for each in classes], dtype=np.int64) + load.there
    order = sorted(range(len(shapes)), key=lambda number: -shapes[number].priority)
    waits = (np.cumsum(weight[order]) > MOST_TIES) & (weight[order] > 0)
    waits |= (np.cumsum(load.clashing[order]) > MOST_CLASHING) & load.clashing[order]
    return sorted(number for number, heavy in zip(order, waits.tolist(), strict=True) if not heavy)


class _Load:
    """By class: the selectors that speak of it, those who run there and are counted for its sake, and whether it is
    apart from another class."""

    def __init__(self, shapes: Sequence[PodShape], sites: Sequence[Site], around: Sequence[Place]) -> None:
        contents = chain((site.content for site in sites), (place.content for place in around))
        there = list(dict.fromkeys(shape for content in contents for shape, _ in content))
        crowd, running = Crowd(shapes), Crowd(there)
        self.ties = np.zeros(len(shapes), dtype=np.int64)
        self.there = np.zeros(len(shapes), dtype=np.int64)
        self.clashing = np.zeros(len(shapes), dtype=np.bool_)
        for selector in {term.selector for shape in there for term in shape.apart}:
            self.ties[crowd.selected(selector)] += 1
        met: set[PodSelector] = set()
        for number, shape in enumerate(shapes):
            apart = {term.selector for term in shape.apart}
            for selector in _selectors(shape):
                if selector not in met:
                    met.add(selector)
                    self.ties[crowd.selected(selector)] += 1
                    self.there[number] += len(running.selected(selector))
                if selector in apart and (crowd.selected(selector) != number).any():
                    self.clashing[number] = True


def _selectors(shape: PodShape) -> set[PodSelector]:
    return {*(term.selector for term in (*shape.near, *shape.apart)), *(rule.selector for rule in shape.spread)}
