"""What packing must show, as figures with limits, and whether they hold.

A bar whose figure can't be had (pods left unserved, a peer not run) is told apart: the first is a miss, the second is
not judged at all.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from bench.bounds import Bound
from bench.growth import Growth
from bench.ours import FIRST, IMPROVED

PEERS = ("k8sffd", "karpenter")
LONG = 300.0
"""Milliseconds: what an improved plan may take, and above which no peer may be faster."""

REALISED_BY_CLUSTER_AUTOSCALER = {"b-2000": 506.53, "c-2000": 326.82, "d-spread": 52.22, "d-anti": 57.98}
"""Price per hour of the nodes that stood at the end of an end-to-end run of the program itself (peers/README.md)."""

_APART = ("d-mixed", "d-spread", "d-anti")
_OVER_BOUND = {"a": 1.003, "b": 1.003, "c": 1.02, "d": 1.000}
_ROUNDING = 5e-4  # prices are compared to the tenth of a cent, bounds rounded down further
_NOISE = 1.05  # an exponent fitted to a few times on a busy machine


class Sense(Enum):
    """Which side of its limit a figure must be on."""

    AT_LEAST = ">="
    AT_MOST = "<="


@dataclass(frozen=True, slots=True)
class Row:
    """One packer on one workload. Milliseconds, prices per hour; None where pods were left over or nothing is known."""

    workload: str
    packer: str
    ms_min: float
    ms_median: float
    nodes: int | None
    price_planned: float | None
    price_realised: float | None
    bound: float | None
    tight_bound: float | None


@dataclass(frozen=True, slots=True)
class Bar:
    """One thing that must be so."""

    text: str
    figure: float | None
    sense: Sense
    limit: float

    @property
    def holds(self) -> bool:
        """Whether the figure is on the right side."""
        if self.figure is None:
            return False
        return self.figure >= self.limit if self.sense is Sense.AT_LEAST else self.figure <= self.limit

    def __str__(self) -> str:
        shown = "no figure: pods were left unserved" if self.figure is None else f"{self.figure:,.5g}"
        return f"{'holds' if self.holds else 'MISSED'}  {self.text}: {shown} ({self.sense.value} {self.limit:,.6g})"


Rows = Mapping[tuple[str, str], Row]


def by_place(rows: Sequence[Row]) -> Rows:
    """Rows by (workload, packer)."""
    return {(row.workload, row.packer): row for row in rows}


def judge(rows: Rows) -> Iterator[Bar]:
    """Every bar that these rows can tell about."""
    for name in dict.fromkeys(workload for workload, _ in rows):
        first, improved = rows[name, FIRST], rows[name, IMPROVED]
        peers = [rows[name, peer] for peer in PEERS if (name, peer) in rows]
        yield from _speed(first, peers)
        yield from _price(improved, peers)


def judge_further(prices: Mapping[str, float | None], bounds: Mapping[str, Bound]) -> Iterator[Bar]:
    """Draws that nothing was tuned for: the median of price over tight bound, for each generator."""
    for generator in dict.fromkeys(name.partition("#")[0] for name in prices):
        chosen = {name: price for name, price in prices.items() if name.partition("#")[0] == generator}
        ratios = [price / bounds[name].tight for name, price in chosen.items() if price is not None]
        gap = statistics.median(bounds[name].gap for name in chosen)
        text = (
            f"{generator}, {len(chosen)} further draws: planned price over the tight bound, median (its gap {gap:.2%})"
        )
        yield Bar(text, statistics.median(ratios) if len(ratios) == len(chosen) else None, Sense.AT_MOST, 1.02)


def judge_growth(fits: Sequence[Growth]) -> Iterator[Bar]:
    """No worse than linear, and no worse than n log n."""
    for fit in fits:
        yield Bar(f"growth with {fit.name}: exponent", fit.exponent, Sense.AT_MOST, _NOISE)


def judge_large(figures: Mapping[str, float]) -> Iterator[Bar]:
    """50,000 pods beside 5,000 nodes; memory is the whole process's, its input and its interpreter included."""
    name = "50,000 pods, 500 shapes, 20 pools, 5,000 nodes"
    yield Bar(f"{name}: ms", None if figures["unserved"] else figures["ms_min"], Sense.AT_MOST, 500)
    yield Bar(f"{name}: peak MB of the process", figures["process_peak_mb"], Sense.AT_MOST, 128)


def _speed(first: Row, peers: Sequence[Row]) -> Iterator[Bar]:
    """How many times faster the first plan is."""
    name, by_name = first.workload, {peer.packer: peer for peer in peers}
    limits: dict[str, float] = {}
    if name == "b-15000":
        limits = {"k8sffd": 65, "karpenter": 2000}
    elif name in {"a-15000", "c-2000"}:
        limits = dict.fromkeys(PEERS, 20 if name == "a-15000" else 6)
    for peer, limit in limits.items():
        if peer in by_name:
            yield Bar(f"{name}: times faster than {peer}", _times(first, by_name[peer]), Sense.AT_LEAST, limit)
    if name in _APART and len(peers) == len(PEERS):
        faster = min(peers, key=lambda peer: peer.ms_min)
        text = f"{name}: times faster than the faster peer ({faster.packer})"
        yield Bar(text, _times(first, faster), Sense.AT_LEAST, 13)


def _price(improved: Row, peers: Sequence[Row]) -> Iterator[Bar]:
    """What the improved plan costs, planned and realised, and that it takes no longer than a person notices."""
    name, served = improved.workload, improved.price_planned is not None
    yield Bar(f"{name}: ms of the improved plan", improved.ms_min if served else None, Sense.AT_MOST, LONG)
    if improved.tight_bound:
        over = improved.price_planned / improved.tight_bound if improved.price_planned is not None else None
        limit = _OVER_BOUND[name[0]] + _ROUNDING / improved.tight_bound
        yield Bar(f"{name}: planned price over the bound", over, Sense.AT_MOST, limit)
    for peer in peers:
        for kind, ours, theirs in (
            ("planned", improved.price_planned, peer.price_planned),
            ("realised", improved.price_realised, peer.price_realised),
        ):
            if theirs is not None:
                yield Bar(f"{name}: {kind} price beside {peer.packer}'s", ours, Sense.AT_MOST, theirs + _ROUNDING)
        if peer.ms_min > LONG:
            text = f"{name}: ms of the improved plan beside {peer.packer}'s"
            yield Bar(text, improved.ms_min if served else None, Sense.AT_MOST, peer.ms_min)
    if name in REALISED_BY_CLUSTER_AUTOSCALER:
        limit = REALISED_BY_CLUSTER_AUTOSCALER[name]
        for kind, price in (("planned", improved.price_planned), ("realised", improved.price_realised)):
            yield Bar(f"{name}: {kind} price beside cluster-autoscaler's realised", price, Sense.AT_MOST, limit)


def _times(first: Row, peer: Row) -> float | None:
    return None if first.price_planned is None else peer.ms_min / first.ms_min
