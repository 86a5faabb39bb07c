"""What gangs lack: of how many pods, of which roles, and whether a placement gives it to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shared.model import BoundPods, Gang, NodeView, PodClass, PodRef, Snapshot
from shared.packing.allocation import Allocation, Question
from shared.packing.axes import Matrix
from shared.reading.gang_members import gang_name, role_name, title


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why a gang is not served: of `of` pods (of one `role`, if it is named) only `have` run or would."""

    have: int
    of: int
    role: str = ""

    def text(self, name: str) -> str:
        """`3 of 8 pods of default/bert`, `1 of 2 ps pods of default/bert`."""
        return f"{self.have} of {self.of} {self.role + ' ' if self.role else ''}pods of {title(name)}"


@dataclass(frozen=True, slots=True)
class Need:
    """A gang with pods that wait: `rows` are their classes by role, `running` its other members by role.

    The larger of `priority` goes first; it is that of the most urgent pod.
    """

    gang: Gang
    rows: Mapping[str, tuple[int, ...]]
    running: Mapping[str, int]
    priority: int

    @property
    def name(self) -> str:
        """As in `Gang.name`."""
        return self.gang.name

    def all_rows(self) -> list[int]:
        """Every class of its waiting pods."""
        return sorted(row for rows in self.rows.values() for row in rows)

    def shortage(self, pods: Mapping[int, int], rather: str = "") -> Shortage | None:
        """What is missing if so many pods of each class start beside those that run; of that role, `rather`."""
        have = Counter(self.running)
        for role, rows in self.rows.items():
            have[role] += sum(pods[row] for row in rows)
        lacking = shortages(self.gang, have)
        return next((each for each in lacking if rather and each.role == rather), next(iter(lacking), None))

    def required(self, classes: Sequence[PodClass]) -> dict[int, int]:
        """How many pods of each class have to start: roles first, then the smallest pods until there are enough."""
        needed: dict[int, int] = {}
        least = dict(self.gang.roles)
        for role, rows in self.rows.items():
            missing = least.get(role, 0) - self.running.get(role, 0)
            _take(needed, rows, missing, classes)
        missing = self.gang.minimum - sum(self.running.values()) - sum(needed.values())
        _take(needed, sorted(self.all_rows(), key=lambda row: (classes[row].shape.requests, row)), missing, classes)
        return needed


def shortages(gang: Gang, have: Mapping[str, int]) -> list[Shortage]:
    """What is missing if so many pods of each role start: roles first, then the minimum of all."""
    lacking = [Shortage(have.get(role, 0), least, role) for role, least in gang.roles if have.get(role, 0) < least]
    total = sum(have.values())
    return [*lacking, Shortage(total, gang.minimum)] if total < gang.minimum else lacking


def needs_of(classes: Sequence[PodClass], snapshot: Snapshot) -> list[Need]:
    """The gangs with pods among these classes: the most urgent first, then by name."""
    rows: dict[str, dict[str, list[int]]] = {}
    for row, each in enumerate(classes):
        if field := each.shape.gang:
            rows.setdefault(gang_name(field), {}).setdefault(role_name(field), []).append(row)
    known = {gang.name: gang for gang in snapshot.gangs}
    there = running(snapshot)
    found = [
        Need(
            known.get(name) or Gang(name, 0, problem="the snapshot says nothing of it"),
            {role: tuple(numbers) for role, numbers in sorted(roles.items())},
            there.get(name, {}),
            max(classes[row].shape.priority for numbers in roles.values() for row in numbers),
        )
        for name, roles in rows.items()
    ]
    return sorted(found, key=lambda need: (-need.priority, need.name))


def running(snapshot: Snapshot) -> dict[str, dict[str, int]]:
    """Members with a node, by gang and role; not those that move since Azure takes their node away."""
    found: dict[str, dict[str, int]] = {}
    for node in snapshot.nodes:
        for bound in node.bound:
            if bound.shape.gang and not _moves(node, bound):
                roles = found.setdefault(gang_name(bound.shape.gang), {})
                role = role_name(bound.shape.gang)
                roles[role] = roles.get(role, 0) + len(bound.pods)
    return found


def looking_for_room(snapshot: Snapshot) -> Iterator[tuple[str, tuple[PodRef, ...]]]:
    """Members without a node to stay on, by `PodShape.gang`."""
    for each in snapshot.pending:
        if each.shape.gang:
            yield each.shape.gang, each.pods
    for node in snapshot.nodes:
        for bound in node.bound:
            if bound.shape.gang and _moves(node, bound):
                yield bound.shape.gang, bound.pods


def _moves(node: NodeView, bound: BoundPods) -> bool:
    return node.evicting_at is not None and bound.comes_again


def missing_pods(need: Need, classes: Sequence[PodClass]) -> Shortage | None:
    """What is missing if all pods that exist started."""
    return need.shortage({row: len(classes[row].pods) for row in need.all_rows()})


def short(needs: Iterable[Need], classes: Sequence[PodClass], allocation: Allocation) -> Iterator[Need]:
    """Those that the allocation does not serve."""
    for need in needs:
        if need.shortage(placed(need, classes, allocation)) is not None:
            yield need


def placed(need: Need, classes: Sequence[PodClass], allocation: Allocation) -> dict[int, int]:
    """How many pods of each of the gang's classes have a place."""
    return {row: len(classes[row].pods) - allocation.left[row] for row in need.all_rows()}


def shares_of(question: Question) -> Matrix:
    """What a pod of each class takes of the largest node, by resource."""
    rooms = np.concatenate([question.kind_rooms, question.site_rooms])
    shares: Matrix = question.needs / np.maximum(rooms.max(axis=0, initial=1.0), 1.0)
    return shares


class Bound:
    """The most that a gang could get if it had all nodes, and every pool, to itself: each class alone, rules aside."""

    def __init__(self, classes: Sequence[PodClass], question: Question, rows: Sequence[int]) -> None:
        self._classes, self._question = classes, question
        self._number = {row: number for number, row in enumerate(rows)}
        self._rooms = np.concatenate([question.kind_rooms, question.site_rooms])
        self._nodes = np.concatenate([question.limits, np.ones(len(question.sites), dtype=np.int64)])

    def shortage(self, need: Need) -> Shortage | None:
        """What is missing even so: then no plan can serve the gang."""
        return need.shortage({row: self._slots(row) for row in need.all_rows()})

    def _slots(self, row: int) -> int:
        number, pods = self._number[row], len(self._classes[row].pods)
        need, open_to = self._question.needs[number], self._question.mask(number)
        asked = need > 0
        fits = np.floor(self._rooms[open_to][:, asked] / need[asked]).min(axis=1)
        each = np.minimum(fits, min(pods, int(self._question.most[number])))
        return int(min(pods, (each * np.minimum(self._nodes[open_to], pods)).sum()))


def _take(needed: dict[int, int], rows: Iterable[int], missing: int, classes: Sequence[PodClass]) -> None:
    for row in rows:
        number = min(missing, len(classes[row].pods) - needed.get(row, 0))
        if number > 0:
            needed[row] = needed.get(row, 0) + number
            missing -= number
