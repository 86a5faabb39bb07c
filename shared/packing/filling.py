"""What to put on an empty node: again and again the pods that are worth most for their share of the room that is left.

The share is the length of a pod's needs, each axis in parts of what is left of it. So the score of thousands of classes
is one product of a matrix and a vector, once their needs are divided by their worth.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from shared.packing.axes import Matrix

Vector = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]
Content = tuple[tuple[int, int], ...]  # (class, pods of it), in the order of filling

LOOK = 1500
"""What one look at some classes costs beside them: as much as looking at that many more."""

_SIGHT = 512  # classes to choose from while a node is filled; 256 to 4096 tie
_CLOSING = 2048  # to choose from for the last of its room, which few fit
_PORTION = 4  # a quarter of what would fit at a time: the rest of the room may suit others better
_WIDE = 24  # axes (host ports are some) from which on only those are looked at that the last pick has changed
_TINY = 1e-12


class Filler:
    """Fills nodes for classes by their needs (a row each), at most `most` pods of one on a node, clashing ones apart.

    `work` counts what was looked at. `turn` says where to begin among many classes; each filling begins one further.
    """

    def __init__(self, needs: Matrix, most: Counts, clashes: Mask | None, eager: Vector, turn: int = 0) -> None:
        self._most, self._clashes, self._turn = most, clashes, turn
        self._clashing: Mask | None = None if clashes is None else np.asarray(clashes.any(axis=1))
        self._wide = needs.shape[1] > _WIDE
        self._needs, self._eager = needs, np.maximum(eager, _TINY)
        if not self._wide:
            self._by_axis = np.ascontiguousarray(needs.T)
            self._dear = np.square(self._by_axis / self._eager)
        self.work = 0

    def fill(self, room: Vector, rows: Rows, left: Counts, urgency: Vector | None = None) -> Content:
        """The content for a node of that room. Classes `rows` may go there, have pods `left`, and fit one by one.

        `urgency`, one number for each of `rows`, multiplies what their pods are worth here.
        """
        clash = self._clashing is not None and bool(self._clashing[rows].any())
        pods = np.minimum(left[rows], self._most[rows])
        if not clash and (pods @ self._needs[rows] <= room).all():
            return tuple(zip(rows.tolist(), pods.tolist(), strict=True))
        room, taken = room.copy(), dict[int, int]()
        for places in self._views(len(rows)):
            some = rows[places]
            eased = None if urgency is None else urgency[places]
            pods = np.minimum(left[some], self._most[some])
            for row, number in taken.items():
                pods[some == row] -= number
                if clash and self._clashes is not None:
                    pods[self._clashes[row][some]] = 0
            if self._wide:
                self._pick_wide(room, some, pods, eased, taken, clash=clash)
            else:
                self._pick(room, some, pods, eased, taken, clash=clash)
        return tuple(taken.items())

    def _views(self, classes: int) -> Iterator[slice]:
        """Of very many classes every so many-th, beginning elsewhere each time: few first, then more."""
        if classes > _SIGHT:
            self._turn += 1
            yield self._every(-(-classes // _SIGHT))
        yield self._every(-(-classes // _CLOSING))

    def _every(self, step: int) -> slice:
        return slice(self._turn % step, None, step)

    def _pick(  # the state of a filling
        self, room: Vector, rows: Rows, pods: Counts, urgency: Vector | None, taken: dict[int, int], *, clash: bool
    ) -> None:
        """Fill up what is left of the room, and count what was `taken`."""
        needs = self._by_axis.take(rows, axis=1)
        needs[:, pods <= 0] = np.inf
        dear: Matrix | None = None
        while True:
            self.work += LOOK + len(rows)
            (some,) = np.logical_and.reduce(needs <= room[:, None], axis=0).nonzero()
            if not len(some):
                return
            if dear is None:
                dear = self._dear.take(rows, axis=1)
                if urgency is not None:
                    dear /= np.square(urgency)
            if len(some) < len(rows):
                rows, pods, needs, dear = rows[some], pods[some], needs.take(some, axis=1), dear.take(some, axis=1)
            scarce = 1.0 / np.maximum(room, _TINY)
            best = int((scarce * scarce @ dear).argmin())
            row, need, number = int(rows[best]), needs[:, best], int(pods[best])
            if number > 1:
                number = max(1, int(min(number, 1.0 / (need * scarce).max()) // _PORTION))
            room -= number * need
            pods[best] -= number
            taken[row] = taken.get(row, 0) + number
            if not pods[best]:
                needs[:, best] = np.inf
            if clash and self._clashes is not None:
                needs[:, self._clashes[row][rows]] = np.inf

    def _pick_wide(
        self, room: Vector, rows: Rows, pods: Counts, urgency: Vector | None, taken: dict[int, int], *, clash: bool
    ) -> None:
        """The same where axes are many: only those are looked at anew that the last pick has changed."""
        needs, eager = self._needs[rows], self._eager[rows]
        if urgency is not None:
            eager = eager * urgency
        touched: slice | Rows = slice(None)
        lengths = _lengths(needs, room)
        while True:
            self.work += LOOK + len(rows)
            fits = (needs[:, touched] <= room[touched]).all(axis=1) & (pods > 0)
            if not fits.all():
                rows, needs, pods, eager, lengths = rows[fits], needs[fits], pods[fits], eager[fits], lengths[fits]
                if not len(rows):
                    return
            best = int((eager / np.sqrt(lengths)).argmax())
            row, need = int(rows[best]), needs[best]
            number = max(1, int(min(pods[best], 1.0 / (need / np.maximum(room, _TINY)).max()) // _PORTION))
            pods[best] -= number
            touched = np.flatnonzero(need)
            lengths -= _lengths(needs[:, touched], room[touched])
            room -= number * need
            lengths = np.maximum(lengths, 0.0) + _lengths(needs[:, touched], room[touched])
            taken[row] = taken.get(row, 0) + number
            if clash and self._clashes is not None:
                pods[self._clashes[row][rows]] = 0


def _lengths(needs: Matrix, room: Vector) -> Vector:
    """The square of each need's length, each axis as a share of the room."""
    shares = needs / np.maximum(room, _TINY)
    lengths: Vector = (shares * shares).sum(axis=1)
    return lengths
