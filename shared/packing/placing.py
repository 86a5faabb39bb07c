"""Pods to nodes under rules between pods: what such rules allow is packed, and what was packed is held against them.

Rules by host name become limits: so many pods of a class to a node, and which classes must not meet on one. Rules by
wider labels (a zone, mostly) are decided before packing: each class is divided into parts, one for each set of nodes
that these labels can't tell apart. Pods without such rules are packed beside them and cost nothing more.

Limits and parts may promise too much or too little, so `shared.packing.mending` binds the outcome pod by pod on paper.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from shared.model import PodClass, PodShape
from shared.nodes.supply import Site
from shared.nodes.template_node import HOSTNAME_LABEL
from shared.packing.allocation import Allocation, Effort, Part, Question
from shared.packing.allowance import JointLimit
from shared.packing.answers import answers
from shared.packing.areas import Areas
from shared.packing.axes import UNBOUNDED
from shared.packing.census import Census, has_rules
from shared.packing.market import Counts, Mask
from shared.packing.mending import Mending
from shared.packing.pool_choice import PoolState
from shared.packing.rule_load import TOO_MANY_RULES, bearable
from shared.rules.crowd import Crowd
from shared.rules.pod_rules import selects
from shared.rules.tallies import Place


def allocate(
    classes: Sequence[PodClass],
    sites: Sequence[Site],
    states: Sequence[PoolState],
    around: Sequence[Place] = (),
    joint: Sequence[JointLimit] = (),
    effort: Effort = Effort.IMPROVED,
) -> Allocation:
    """Place all pods of these classes as well as may be. `around` are nodes that take no pods, but whose pods count;
    `joint` limits hold for several pools together, their costs in the order of `states`."""
    kept = bearable(classes, sites, around)
    if len(kept) < len(classes):
        return _widened(
            allocate([classes[number] for number in kept], sites, states, around, joint), kept, classes, states
        )
    question = Question(classes, sites, states, joint)
    whole = [Part(number, pods) for number, pods in enumerate(question.pods)]
    if not any(has_rules(shape) for shape in question.shapes):
        return answers(question, whole, effort=effort)[0]
    rules = _Rules(question, around)
    parts = [part for each in whole for part in rules.parts(each)]
    mended = []
    for packing in answers(question, parts, rules.clashes(parts), effort):
        allocation = _by_class(packing, parts, len(classes))
        if rules.surely_kept(allocation):
            return allocation
        mended.append(Mending(question, around, rules.sure, allocation).mended())
    return min(mended, key=lambda each: (sum(each.left), question.price(each)))


def _widened(
    allocation: Allocation, kept: Sequence[int], classes: Sequence[PodClass], states: Sequence[PoolState]
) -> Allocation:
    """The answer for some of the classes as one for all: the others wait."""
    left = [len(each.pods) for each in classes]
    for row, number in enumerate(kept):
        left[number] = allocation.left[row]
    waits = {state.pool.name: TOO_MANY_RULES for state in states}
    refusals = dict.fromkeys(set(range(len(classes))).difference(kept), waits)
    return Allocation(
        {site: {kept[row]: pods for row, pods in content.items()} for site, content in allocation.on_sites.items()},
        [(pool, {kept[row]: pods for row, pods in content.items()}) for pool, content in allocation.bought],
        left,
        refusals | {kept[row]: reasons for row, reasons in allocation.refusals.items()},
    )


def _by_class(allocation: Allocation, parts: Sequence[Part], classes: int) -> Allocation:
    """The answer with the parts of each class put together again."""
    left = [0] * classes
    for part, pods in zip(parts, allocation.left, strict=True):
        left[part.number] += pods
    return Allocation(
        {site: _joined(content, parts) for site, content in allocation.on_sites.items()},
        [(pool, _joined(content, parts)) for pool, content in allocation.bought],
        left,
    )


def _joined(content: dict[int, int], parts: Sequence[Part]) -> dict[int, int]:
    joined: dict[int, int] = {}
    for row, pods in content.items():
        number = parts[row].number
        joined[number] = joined.get(number, 0) + pods
    return joined


class _Rules:
    """The rules of the classes as limits and parts; `sure` are the classes for whom limits say all there is."""

    def __init__(self, question: Question, around: Sequence[Place]) -> None:
        self._question = question
        self._shapes = question.shapes
        self._crowd = Crowd(self._shapes)
        daemons = [shape for state in question.states for shape in state.template.daemons]
        newcomers = [_by_host(shape) for shape in self._shapes]
        places = [*(Place(site.grounds, site.content) for site in question.sites), *around]
        self._hosts = Census([*newcomers, *daemons], places)
        self._areas = Areas(question, places, daemons)
        self._concerned = {
            number: None
            for number, shape in enumerate(self._shapes)
            if has_rules(shape)
            and (shape.near or self._hosts.concerns(newcomers[number]) or self._areas.concerns(number))
        }
        plain_daemons = not any(has_rules(shape) for shape in daemons)
        self.sure = {number for number in self._concerned if plain_daemons and self._is_sure(number)}

    def parts(self, whole: Part) -> Iterator[Part]:
        """The class as it is to be packed."""
        number = whole.number
        if number not in self._concerned:
            yield whole
            return
        limits = self._limits(number)
        if any(term.topology_key == HOSTNAME_LABEL for term in self._shapes[number].near):
            limits = np.zeros_like(limits)  # next to which pods it must be is known only when they are placed
        for pods, columns in self._areas.divided(number, limits):
            yield Part(number, pods, np.where(columns, limits, 0))

    def clashes(self, parts: Sequence[Part]) -> Mask | None:
        """Which parts must not share a node."""
        class_of = np.array([part.number for part in parts], dtype=np.intp)
        table: Mask | None = None
        for number in self._concerned:
            for term in self._shapes[number].apart:
                others = self._crowd.selected(term.selector)
                others = others[others != number]
                if term.topology_key != HOSTNAME_LABEL or not len(others):
                    continue
                if table is None:
                    table = np.zeros((len(parts), len(parts)), dtype=np.bool_)
                mine, theirs = class_of == number, np.isin(class_of, others)
                table[mine] |= theirs
                table[:, mine] |= theirs[:, None]
        return table

    def surely_kept(self, allocation: Allocation) -> bool:
        """Whether the answer needs no second look."""
        return all(number in self.sure and not allocation.left[number] for number in self._concerned)

    def _is_sure(self, number: int) -> bool:
        shape = self._shapes[number]
        if shape.near or self._areas.concerns(number) or len(shape.spread) > 1:
            return False
        return all(
            self._crowd.selected(rule.selector).tolist() == [number] and not self._hosts.poorest(_by_host(shape))
            for rule in shape.spread
        )

    def _limits(self, number: int) -> Counts:
        """How many pods of the class a node may have by rules about host names: by column, pools first, then sites."""
        shape = _by_host(self._shapes[number])
        pools, sites = len(self._question.states), len(self._question.sites)
        most = UNBOUNDED
        for rule in shape.spread:
            if selects(rule.selector, shape):
                most = min(most, rule.max_skew)
        if any(selects(term.selector, shape) for term in shape.apart):
            most = 1
        limits = np.full(pools + sites, most, dtype=np.int64)
        if sites:
            limits[pools:] = self._hosts.openings(shape)[:sites]
        return limits


def _by_host(shape: PodShape) -> PodShape:
    """The shape with its rules about sharing a host alone."""
    return replace(
        shape,
        near=(),
        apart=tuple(term for term in shape.apart if term.topology_key == HOSTNAME_LABEL),
        spread=tuple(rule for rule in shape.spread if rule.topology_key == HOSTNAME_LABEL),
    )
