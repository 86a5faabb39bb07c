"""How many nodes of each pool may still be bought, where one limit (a quota, say) holds for several pools together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shared.packing.axes import UNBOUNDED

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class JointLimit:
    """A node of pool i takes `costs[i]` of what several pools may have together (vCPUs, nodes); `left` is there."""

    costs: tuple[int, ...]
    left: int

    def room(self, cost: int) -> int:
        """How many nodes of that cost it still takes."""
        return max(0, self.left) // cost if cost else UNBOUNDED


class Allowance:
    """What may be bought of each pool, on its own (`limits`) and under `joint` limits, while things are bought.

    An improvement that gives nodes up or exchanges them starts anew: `spent(bought)` says what is left then.
    """

    def __init__(self, limits: Counts, joint: Sequence[JointLimit] = ()) -> None:
        self._limits, self._joint = limits, tuple(joint)
        self._own = limits.copy()
        self._costs = np.array([limit.costs for limit in joint], dtype=np.int64).reshape(len(joint), len(limits))
        self._left = np.array([max(0, limit.left) for limit in joint], dtype=np.int64)
        self.left: Counts = self._most()

    def take(self, pool: int, nodes: int) -> None:
        """Nodes of a pool are bought; no more of them than `left` says."""
        self._own[pool] -= nodes
        if len(self._left):
            self._left -= nodes * self._costs[:, pool]
            self.left = self._most()
        else:
            self.left[pool] -= nodes

    def spent(self, bought: Counts) -> Allowance:
        """The same limits after these nodes of each pool, and nothing else, are bought."""
        after = Allowance(self._limits, self._joint)
        for pool in np.flatnonzero(bought).tolist():
            after.take(pool, int(bought[pool]))
        return after

    def holds(self, bought: Counts) -> bool:
        """Whether so many nodes of each pool may be bought, counted from the start."""
        within = bool((bought <= self._limits).all())
        return within and all(int(np.dot(limit.costs, bought)) <= max(0, limit.left) for limit in self._joint)

    def _most(self) -> Counts:
        most = self._own.copy()
        for costs, left in zip(self._costs, self._left.tolist(), strict=True):
            paying = costs > 0
            most[paying] = np.minimum(most[paying], left // costs[paying])
        return most
