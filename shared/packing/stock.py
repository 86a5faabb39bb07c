"""Rooms on nodes that are there, coming or just decided on, and the putting of pods into what they have left."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from shared.packing.axes import UNBOUNDED, Matrix
from shared.packing.market import Counts, Mask, Rows, Vector

_FREE_TO_GO = 1e3  # more than any sum of slacks: nodes that could go are touched after all others


@dataclass(slots=True)
class Stock:
    """Nodes as rows of `room`, what they have left, and `content`, what was put on each: pods by class.

    `column` says for each node which entry of a class's mask speaks for it. `spare` marks the nodes to fill last.
    """

    room: Matrix
    column: Rows
    spare: Mask
    content: list[dict[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.content = self.content or [{} for _ in range(len(self.column))]

    def place(
        self,
        row: int,
        need: Vector,
        pods: int,
        open_to: Mask,
        *,
        most: int | Counts = UNBOUNDED,
        clashing: Mask | None = None,
    ) -> list[tuple[int, int]]:
        """Put up to `pods` pods of class `row` onto nodes, the fullest first; returns (node, pods) for each used.

        `open_to` is the class's mask (see `column`); `most` pods of the class go to one node (a number, or one for each
        column), and none where pods of a class are that `clashing` marks.
        """
        open_rows = open_to[self.column]
        for axis in np.flatnonzero(need).tolist():  # quicker than to compare rows, of which there may be thousands
            open_rows &= self.room[:, axis] >= need[axis]
        bounded = not isinstance(most, int) or most < UNBOUNDED
        allowed = self._allowed(row, most) if bounded else None
        if allowed is not None:
            open_rows &= allowed > 0
        if clashing is not None:
            kept_off = [bool(content) and bool(clashing[list(content)].any()) for content in self.content]
            open_rows &= ~np.array(kept_off, dtype=np.bool_)
        rows = np.flatnonzero(open_rows)
        if not pods or not len(rows):
            return []
        rows = rows[np.argsort(self._slack(rows), kind="stable")]
        asked = need > 0
        capacity = np.floor(self.room[rows][:, asked] / need[asked]).min(axis=1)
        if allowed is not None:
            capacity = np.minimum(capacity, allowed[rows])
        before = np.cumsum(capacity) - capacity
        numbers = np.clip(pods - before, 0.0, capacity)
        used = numbers > 0
        rows, numbers = rows[used], numbers[used]
        self.room[rows] -= numbers[:, None] * need
        placed = [(node, int(number)) for node, number in zip(rows.tolist(), numbers.tolist(), strict=True)]
        for node, number in placed:
            self.content[node][row] = self.content[node].get(row, 0) + number
        return placed

    def take_back(self, row: int, need: Vector, node: int, pods: int) -> None:
        """Undo a placing."""
        self.room[node] += pods * need
        self.content[node][row] -= pods
        if not self.content[node][row]:
            del self.content[node][row]

    def add(self, other: Stock) -> None:
        """Append another stock's nodes."""
        self.room = np.concatenate([self.room, other.room])
        self.column = np.concatenate([self.column, other.column])
        self.spare = np.concatenate([self.spare, other.spare])
        self.content += other.content

    def _allowed(self, row: int, most: int | Counts) -> Counts:
        """How many more pods of the class each node may get."""
        held = np.array([content.get(row, 0) for content in self.content], dtype=np.int64)
        left: Counts = (most if isinstance(most, int) else most[self.column]) - held
        return left

    def _slack(self, rows: Rows) -> Vector:
        whole = np.maximum(self.room.max(axis=0), 1.0)
        slack: Vector = (self.room[rows] / whole).sum(axis=1) + self.spare[rows] * _FREE_TO_GO
        return slack
