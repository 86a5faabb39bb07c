"""Rules by labels wider than a host name: how many pods of each class go to which zone (or rack, or region).

An area is a set of pools and nodes that no such rule tells apart. Pods of a class are dealt to areas one by one: to the
poorest by the class's spreads, then to where room is free, then to where it is cheapest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shared.model import PodShape
from shared.nodes.template_node import HOSTNAME_LABEL
from shared.packing.allocation import Question
from shared.packing.axes import UNBOUNDED
from shared.packing.census import Census
from shared.packing.market import Counts, Mask, Vector
from shared.rules.tallies import Place

_EVEN_FROM = 256  # pods of one class that are dealt one by one before the rest is shared out evenly


@dataclass(slots=True)
class _Room:
    """By area: pods of one class that fit on nodes that are there, that fit in all, and the least price of one."""

    free: Counts
    whole: Counts
    price: Vector


class Areas:
    """Deals classes to areas, in the order in which it is asked; `places` are all nodes, the sites first."""

    def __init__(self, question: Question, places: Sequence[Place], daemons: Sequence[PodShape]) -> None:
        self._question = question
        self._wide = [_by_area(shape) for shape in question.shapes]
        self._census = Census([*self._wide, *daemons], places)
        self._labels = [label for label in self._census.labels() if label != HOSTNAME_LABEL]
        self._areas = 0
        if self._labels:
            self._tell_apart()

    def concerns(self, number: int) -> bool:
        """Whether it matters to a rule to which areas the class goes."""
        return bool(self._labels) and self._census.concerns(self._wide[number], beside=HOSTNAME_LABEL)

    def divided(self, number: int, limits: Counts) -> Iterator[tuple[int, Mask]]:
        """The pods of the class by area, with its columns; without any column those for whom no area was found."""
        pods = self._question.pods[number]
        if not self.concerns(number):
            yield pods, np.ones(len(limits), dtype=np.bool_)
            return
        dealt = self._dealt(number, pods, limits)
        for area, share in enumerate(dealt):
            if share:
                yield share, self._area == area
        if rest := pods - sum(dealt):
            yield rest, np.zeros(len(limits), dtype=np.bool_)

    def _tell_apart(self) -> None:
        """Find the area of each column, and a place to stand for each area; full pools are in none."""
        states = self._question.states
        joined = [
            self._census.join(Place(state.template.grounds, possible=True)) if state.room else -1 for state in states
        ]
        self._place_of = np.array([*joined, *range(len(self._question.sites))], dtype=np.intp)
        values = [self._census.values_of(label) for label in self._labels]
        found: dict[object, int] = {}
        self._area = np.full(len(self._place_of), -1, dtype=np.intp)
        for column, place in enumerate(self._place_of.tolist()):
            if place >= 0:
                self._area[column] = found.setdefault(tuple(int(axis[place]) for axis in values), len(found))
        self._areas = len(found)
        self._sample = [int(self._place_of[int((self._area == area).argmax())]) for area in range(self._areas)]

    def _dealt(self, number: int, pods: int, limits: Counts) -> list[int]:
        """Pods by area."""
        shape, dealt, rest = self._wide[number], [0] * self._areas, pods
        room = self._room(number, limits)
        singly = bool(shape.spread or shape.apart)
        evenly = len(self._labels) == len(shape.spread) == 1 and not shape.apart and not shape.near
        while rest:
            areas = self._open(number, room, dealt)
            if not areas:
                break
            if evenly and pods - rest >= _EVEN_FROM and len(areas) >= self._census.domains(shape):
                step = min(rest // len(areas), *(int(room.whole[area]) - dealt[area] for area in areas))
                if step > 1:
                    for area in areas:
                        self._put(shape, area, step, dealt)
                    rest -= step * len(areas)
                    evenly = False
                    continue
            area = min(areas, key=lambda one: self._rank(shape, one, rest, room, dealt))
            step = 1 if singly else min(rest, int(room.whole[area]) - dealt[area])
            self._put(shape, area, step, dealt)
            rest -= step
        return dealt

    def _open(self, number: int, room: _Room, dealt: list[int]) -> list[int]:
        """The areas that rules let one more pod into, and that have room for it."""
        allowed = self._census.mask(self._wide[number])
        left = [area for area in range(self._areas) if room.whole[area] > dealt[area]]
        if not left or allowed is None:
            return left
        suits = self._question.mask(number) & (self._place_of >= 0) & allowed[self._place_of]
        return [area for area in left if suits[self._area == area].any()]

    def _rank(self, shape: PodShape, area: int, rest: int, room: _Room, dealt: list[int]) -> tuple[float, ...]:
        """The least comes first."""
        company = -float(min(rest, room.whole[area] - dealt[area])) if shape.near else 0.0
        level = self._census.level(shape, self._sample[area])
        return level, company, float(room.free[area] <= dealt[area]), float(room.price[area]), area

    def _put(self, shape: PodShape, area: int, pods: int, dealt: list[int]) -> None:
        self._census.add(shape, self._sample[area], pods)
        dealt[area] += pods

    def _room(self, number: int, limits: Counts) -> _Room:
        question, need = self._question, self._question.needs[number]
        pools = len(question.states)
        rooms = np.concatenate([question.kind_rooms, question.site_rooms])
        asked = need > 0
        fits = np.floor(rooms[:, asked] / need[asked]).min(axis=1)
        each = np.minimum(np.minimum(fits, limits), int(question.most[number])) * question.mask(number)
        number_of = np.concatenate([question.limits, np.ones(len(question.sites), dtype=np.int64)])
        whole = np.minimum(each * number_of, UNBOUNDED)
        inside = self._area >= 0
        prices = np.full(self._areas, np.inf)
        for pool in np.flatnonzero(inside[:pools] & (each[:pools] > 0)).tolist():
            area = self._area[pool]
            prices[area] = min(prices[area], question.prices[pool] / each[pool])
        free = whole.copy()
        free[:pools] = 0
        return _Room(
            np.bincount(self._area[inside], free[inside], self._areas).astype(np.int64),
            np.bincount(self._area[inside], whole[inside], self._areas).astype(np.int64),
            prices,
        )


def _by_area(shape: PodShape) -> PodShape:
    """The shape without its rules about sharing a host."""
    return replace(
        shape,
        near=tuple(term for term in shape.near if term.topology_key != HOSTNAME_LABEL),
        apart=tuple(term for term in shape.apart if term.topology_key != HOSTNAME_LABEL),
        spread=tuple(rule for rule in shape.spread if rule.topology_key != HOSTNAME_LABEL),
    )
