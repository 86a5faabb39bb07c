"""How the time of a plan grows: as the power of the pods of equal shape, and against n log n of distinct shapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench import ours, workloads
from bench.workloads import Workload

EQUAL_PODS = (4_000, 8_000, 16_000, 32_000)
DISTINCT_SHAPES = (500, 1_000, 2_000, 4_000)


@dataclass(frozen=True, slots=True)
class Growth:
    """Sizes, the fastest time at each (ms), and the fitted exponent: at 1 it grows as fast as what it is named by."""

    name: str
    sizes: tuple[int, ...]
    times: tuple[float, ...]
    exponent: float


def measure(repeats: int) -> list[Growth]:
    """Both fits."""
    return [
        _fit("pods of equal shape, against n", EQUAL_PODS, workloads.identical, float, repeats),
        _fit(
            "distinct shapes, against n log n",
            DISTINCT_SHAPES,
            workloads.all_distinct,
            lambda n: n * math.log(n),
            repeats,
        ),
    ]


def exponent(sizes: Sequence[float], times: Sequence[float]) -> float:
    """The slope of the straight line through the logarithms, by least squares."""
    xs, ys = [math.log(size) for size in sizes], [math.log(time) for time in times]
    middle, height = sum(xs) / len(xs), sum(ys) / len(ys)
    across = sum((x - middle) ** 2 for x in xs)
    return sum((x - middle) * (y - height) for x, y in zip(xs, ys, strict=True)) / across


def _fit(
    name: str, sizes: tuple[int, ...], make: Callable[[int], Workload], scale: Callable[[int], float], repeats: int
) -> Growth:
    packer = ours.PACKERS[ours.FIRST]
    times = tuple(ours.measure({"name": name, **make(size)}, packer, repeats).least for size in sizes)
    return Growth(name, sizes, times, exponent([scale(size) for size in sizes], times))
