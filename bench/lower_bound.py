"""Prices that no packing can beat: ``python -m bench.lower_bound [--loose] FILE...``, where scipy is installed.

*Loose*: pods and nodes may be cut at will, each pool's cpu, memory, GPUs and pod places are pooled, and pods kept apart
need as many nodes as they are. *Tight*: pods stay whole, only nodes are cut: the linear program over all ways to
fill a node (Gilmore and Gomory), by column generation; where all nodes cost the same, they stay whole as well. Its
value lies between `tight` and `tight_at_most`: the lower one is proved by exact prices of the fillings (Farley's bound)
and is what plans are judged by; the upper one is what the fillings found so far reach. Where exact prices can't be had
(hundreds of shapes), `tight` is the loose bound.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import (  # type: ignore[import-not-found,import-untyped,unused-ignore] # not a dependency of ours
    Bounds,
    LinearConstraint,
    linprog,
    milp,
)
from scipy.sparse import coo_matrix, csc_matrix  # type: ignore[import-not-found,import-untyped,unused-ignore] # as above

from bench.workloads import takes

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

EXACT_SHAPES = 60
"""With more shapes than that, an exact search for the best filling doesn't end in time."""

_CLOSED = 1e-4  # of the price: below it, lower and upper bound are called the same
_EXACT_ROUNDS = 60
_GREEDY_ROUNDS = 2  # further ones hardly lower the upper bound
_PACKINGS = 2
_SHAKES = 2
_TRUSTS = (1.0, 0.5, 0.2)
_SEARCH_NODES = 2_000  # of one exact search; its own bound holds even where it is cut short


@dataclass(frozen=True, slots=True)
class Part:
    """Shapes and pools that share nothing with the rest: needs and rooms by (cpu, memory, GPU, pods)."""

    needs: Array
    counts: Array
    most: Array  # pods of a shape that one node may hold for being kept apart; inf for the others
    rooms: Array
    prices: Array
    suits: Mask

    @property
    def caps(self) -> Array:
        """Pods of each shape that an empty node of each pool may hold (shapes by pools)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(self.needs[:, None, :] > 0, self.rooms[None, :, :] / self.needs[:, None, :], np.inf)
        held = np.floor(room.min(axis=2) + 1e-9)
        limit = np.minimum(self.most, self.counts)[:, None]
        capped: Array = np.where(self.suits, np.minimum(held, limit), 0.0)
        return capped


def main(arguments: Sequence[str]) -> int:
    """Print one line of JSON for each workload file."""
    loose_only = "--loose" in arguments
    for name in arguments:
        if not name.startswith("--"):
            print(json.dumps(bounds(json.loads(Path(name).read_text()), tight=not loose_only)), flush=True)
    return 0


def bounds(workload: dict[str, Any], *, tight: bool = True) -> dict[str, Any]:
    """All bounds of one workload, prices per hour rounded down to what is proved."""
    whole = part_of(workload)
    loose, _ = fluid(whole)
    nodes, _ = fluid(replace(whole, prices=np.ones_like(whole.prices)))
    found = {"workload": workload["name"], "loose": _down(loose), "nodes": math.ceil(nodes - 1e-6)}
    if tight:
        each = [configurations(part) for part in split(whole)]
        low, high = sum(pair[0] for pair in each), sum(pair[1] for pair in each)
        if len(set(whole.prices)) == 1:  # then nodes come whole, too
            low = max(low, math.ceil(nodes - 1e-6) * float(whole.prices[0]))
        found |= {"tight": _down(max(low, loose)), "tight_at_most": round(max(high, low, loose), 4)}
    return found


def part_of(workload: dict[str, Any]) -> Part:
    """The workload in numbers."""
    pools, pods = workload["pools"], workload["pods"]
    return Part(
        needs=np.array([[pod["cpu_m"], pod["mem_mi"], pod["gpu"], 1] for pod in pods], dtype=np.float64),
        counts=np.array([pod["count"] for pod in pods], dtype=np.float64),
        most=np.array([1.0 if pod.get("anti_hostname") else np.inf for pod in pods]),
        rooms=np.array(
            [[pool["cpu_m"], pool["mem_mi"], pool["gpu"], pool["pods"]] for pool in pools], dtype=np.float64
        ),
        prices=np.array([pool["price"] for pool in pools]),
        suits=np.array([[takes(pool, pod) for pool in pools] for pod in pods]),
    )


def split(whole: Part) -> Iterator[Part]:
    """Its parts: two shapes belong together when some pool takes both."""
    left = set(range(len(whole.counts)))
    while left:
        rows = {left.pop()}
        while True:
            pools: Mask = np.asarray(whole.suits[sorted(rows)].any(axis=0))
            joined = {row for row in left if (whole.suits[row] & pools).any()}
            if not joined:
                break
            rows |= joined
            left -= joined
        chosen = np.array(sorted(rows), dtype=np.intp)
        yield Part(
            whole.needs[chosen],
            whole.counts[chosen],
            whole.most[chosen],
            whole.rooms[pools],
            whole.prices[pools],
            whole.suits[chosen][:, pools],
        )


def fluid(part: Part) -> tuple[float, Array]:
    """The loose bound, and what it says each shape is worth."""
    pairs = np.argwhere(part.suits)
    kinds = len(part.rooms)
    shapes, columns = pairs[:, 0], kinds + np.arange(len(pairs))
    rows, cols, values, number = [], [], [], 0
    for kind in range(kinds):
        own = pairs[:, 1] == kind
        for axis in np.flatnonzero(part.rooms[kind] > 0):
            used = part.needs[shapes[own], axis] / part.rooms[kind, axis]
            rows.append(np.full(1 + own.sum(), number))
            cols.append(np.concatenate([[kind], columns[own]]))
            values.append(np.concatenate([[-1.0], used]))
            number += 1
    at_most = np.zeros(number)
    for shape in np.flatnonzero(part.most < np.inf):
        rows.append(np.full(kinds, number))
        cols.append(np.arange(kinds))
        values.append(np.full(kinds, -1.0))
        at_most = np.append(at_most, -part.counts[shape] / part.most[shape])
        number += 1
    size = kinds + len(pairs)
    above = coo_matrix((np.concatenate(values), (np.concatenate(rows), np.concatenate(cols))), shape=(number, size))
    equal = coo_matrix((np.ones(len(pairs)), (shapes, columns)), shape=(len(part.counts), size))
    cost = np.concatenate([part.prices, np.zeros(len(pairs))])
    solved = linprog(cost, A_ub=above, b_ub=at_most, A_eq=equal, b_eq=part.counts, method="highs")
    if solved.status:
        raise ValueError(f"no bound: {solved.message}")
    return float(solved.fun), np.asarray(solved.eqlin.marginals)


def configurations(part: Part) -> tuple[float, float]:
    """Lower and upper bound of the tight program."""
    exact = len(part.counts) <= EXACT_SHAPES
    low, steady = fluid(part)
    caps, columns, rng = part.caps, _Columns(part), np.random.default_rng(1)
    columns.start(caps, steady, rng)
    for _ in range(_EXACT_ROUNDS if exact else _GREEDY_ROUNDS):
        high, worth = columns.solve()
        if high - low <= _CLOSED * high:
            break
        before = len(columns.costs)
        for trust in _TRUSTS:  # the master's values jump from round to round: the fluid ones hold them
            guide = trust * worth + (1 - trust) * steady
            for kind, fill in _greedy(part, caps, guide, rng, 1 if exact else _SHAKES):
                columns.add(kind, fill, worth)
        if exact and len(columns.costs) == before:
            low = max(low, _price_exactly(part, caps, worth, columns))
        if len(columns.costs) == before:
            break
    return low, high


class _Columns:
    """The ways to fill a node found so far."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self.costs: list[float] = []
        self._fills: list[tuple[npt.NDArray[np.intp], Array]] = []
        self._known: set[bytes] = set()

    def start(self, caps: Array, worth: Array, rng: np.random.Generator) -> None:
        """Begin with nodes of one shape each, and with whole packings."""
        for shape, kind in np.argwhere(caps > 0):
            fill = np.zeros(len(self._part.counts))
            fill[shape] = caps[shape, kind]
            self._keep(int(kind), fill)
        for number in range(_PACKINGS):
            keenness = rng.uniform(1.0, 1.6)
            noise = rng.uniform(0.95, 1.05, len(worth)) if number else 1.0
            for kind, fill in _packing(self._part, caps, worth * noise, keenness):
                self._keep(kind, fill)

    def add(self, kind: int, fill: Array, worth: Array) -> None:
        """Keep a filling that is worth more than its node costs."""
        if float(fill @ worth) > self._part.prices[kind] * (1 + 1e-9):
            self._keep(kind, fill)

    def solve(self) -> tuple[float, Array]:
        """The price with these fillings, and what a pod of each shape is worth then."""
        rows = np.concatenate([rows for rows, _ in self._fills])
        values = np.concatenate([values for _, values in self._fills])
        starts = np.cumsum([0, *(len(rows) for rows, _ in self._fills)])
        matrix = csc_matrix((values, rows, starts), shape=(len(self._part.counts), len(self._fills)))
        solved = linprog(self.costs, A_ub=-matrix, b_ub=-self._part.counts, method="highs")
        if solved.status:
            raise ValueError(f"no bound: {solved.message}")
        return float(solved.fun), np.maximum(0.0, -np.asarray(solved.ineqlin.marginals))

    def _keep(self, kind: int, fill: Array) -> None:
        rows = np.flatnonzero(fill)
        key = bytes([kind]) + rows.tobytes() + fill[rows].tobytes()
        if key not in self._known:
            self._known.add(key)
            self.costs.append(float(self._part.prices[kind]))
            self._fills.append((rows, fill[rows]))


def _greedy(
    part: Part, caps: Array, worth: Array, rng: np.random.Generator, shakes: int
) -> Iterator[tuple[int, Array]]:
    """Good fillings at these values, several to a pool."""
    for kind in range(len(part.prices)):
        for keenness in (1.0, 1.4, 2.0):
            for shake in range(shakes):
                noise = 1.0 if not shake else rng.uniform(0.9, 1.1, len(worth))
                yield kind, _fill(part, kind, caps[:, kind], (np.maximum(worth, 0.0) * noise) ** keenness)


def _packing(part: Part, caps: Array, worth: Array, keenness: float) -> Iterator[tuple[int, Array]]:
    """Nodes for all pods, the one of most worth for its price first, each as often as the counts allow."""
    left, eager = part.counts.copy(), np.maximum(worth, 0.0) ** keenness
    best: dict[int, Array] = {}
    while left.any():
        for kind in range(len(part.prices)):
            if kind not in best or (best[kind] > left).any():
                best[kind] = _fill(part, kind, np.minimum(caps[:, kind], left), eager)
        kind = max(best, key=lambda each: float(best[each] @ worth) / part.prices[each])
        if not best[kind].any():
            return
        used = best[kind] > 0
        left -= best[kind] * (left[used] // best[kind][used]).min()
        yield kind, best[kind]


def _fill(part: Part, kind: int, cap: Array, eager: Array) -> Array:
    room, taken = part.rooms[kind].copy(), np.zeros(len(cap))
    rows = np.flatnonzero((cap > 0) & (eager > 0))
    while True:
        rows = rows[(part.needs[rows] <= room + 1e-9).all(axis=1) & (taken[rows] < cap[rows])]
        if not len(rows):
            return taken
        shares = part.needs[rows] / np.maximum(room, 1e-12)
        best = int(rows[(eager[rows] / np.sqrt((shares * shares).sum(axis=1))).argmax()])
        taken[best] += 1
        room -= part.needs[best]


def _price_exactly(part: Part, caps: Array, worth: Array, columns: _Columns) -> float:
    """Add the best filling of each pool.

    Returns Farley's bound: what all pods are worth, scaled until no filling is worth more than its node costs.
    """
    steepest = 1.0
    for kind, price in enumerate(part.prices):
        rows = np.flatnonzero((caps[:, kind] > 0) & (worth > 0))
        if not len(rows):
            continue
        solved = milp(
            -worth[rows],
            integrality=np.ones(len(rows)),
            bounds=Bounds(0, caps[rows, kind]),
            constraints=LinearConstraint(part.needs[rows].T, -np.inf, part.rooms[kind]),
            options={"mip_rel_gap": 2e-5, "node_limit": _SEARCH_NODES},
        )
        if solved.x is not None:
            fill = np.zeros(len(worth))
            fill[rows] = np.round(solved.x)
            columns.add(kind, fill, worth)
        steepest = max(steepest, -float(solved.mip_dual_bound) / price)
    return float(part.counts @ worth) / steepest


def _down(value: float) -> float:
    """Rounded down: a bound must not be rounded up past what was proved."""
    return math.floor(value * 1e4 + 1e-5) / 1e4


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
