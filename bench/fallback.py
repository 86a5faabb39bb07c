"""`make bench-fallback`: how soon Sluice does what cannot wait, through the whole system, on a written latency model.

docs/benchmarks.md has the model. Exit code 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.latency import calibrate, paths
from bench.latency.meter import ACTIVITY, ENTITY, EPISODE, TIMER, Measured
from bench.latency.model import MODELS, Model
from bench.latency.worlds import AGENT_POOLS, LATE_AGENT_POOLS

DRAWS = 300
AKS_DRAWS = 40
_ENOUGH = 100
"""Fewer draws have no 99th percentile; their maximum is printed instead."""
BARS = {paths.FALLBACK: 5.0, paths.CORDON: 2.0, **{paths.event_path(size): 3.0 for size in paths.SIZES}}
_AKS_SIZES = (1, 100)
_SHOWN = (EPISODE, ACTIVITY, ENTITY, TIMER)


@dataclass(frozen=True, slots=True)
class Line:
    """One path under one model: seconds over so many draws, and the median counts of hops."""

    model: Model
    path: str
    p50: float
    p99: float
    hops: Mapping[str, int]
    draws: int = DRAWS

    @property
    def bar(self) -> float | None:
        """What the 99th percentile may be."""
        return BARS.get(self.path) if self.model.judged else None

    @property
    def holds(self) -> bool:
        """Whether it is."""
        return self.bar is None or self.p99 <= self.bar


def main(arguments: Sequence[str]) -> int:
    """Print the table and the verdict."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--aks-draws", type=int, default=AKS_DRAWS)
    parser.add_argument("--model", action="append", choices=[each.name for each in MODELS])
    given = parser.parse_args(arguments)
    began, measured = time.monotonic(), calibrate.measured()
    print(
        f"measured here: import of the app {measured.ingest_import:.2f} s, with what speaks to ARM"
        f" {measured.worker_import:.2f} s; the SDK as it is replays {measured.replay_factor:.1f} times as long"
    )
    models = [each for each in MODELS if not given.model or each.name in given.model]
    lines = _printed(models, lambda model: _samples(model, measured, range(given.draws)))
    agent_pools = [model for model in models if model.judged]
    if agent_pools and given.aks_draws:
        print(f"AKS agent pools, not judged, {given.aks_draws} draws each; late: AKS takes 1 to 3 minutes to say no")
        _printed(agent_pools, lambda model: _aks_samples(model, measured, range(given.aks_draws)))
    missed = [line for line in lines if not line.holds]
    judged = [line for line in lines if line.bar is not None]
    worst = {path: max((each.p99 for each in judged if each.path == path), default=float("nan")) for path in BARS}
    events = max(worst[paths.event_path(size)] for size in paths.SIZES)
    print(
        f"{len(judged) - len(missed)} of {len(judged)} bars hold; p99 at worst:"
        f" fallback {worst[paths.FALLBACK]:.2f} s (5), Spot notice to cordon {worst[paths.CORDON]:.2f} s (2),"
        f" event to ARM request {events:.2f} s (3);"
        f" {given.draws} draws each, {time.monotonic() - began:.0f} s"
    )
    return int(bool(missed))


def _printed(models: Iterable[Model], drawn: Callable[[Model], Iterator[paths.Sample]]) -> list[Line]:
    """Each line as soon as it is known."""
    lines: list[Line] = []
    for model in models:
        for line in _lines(model, drawn(model)):
            lines.append(line)
            print(_written(line), flush=True)
    return lines


def _lines(model: Model, drawn: Iterator[paths.Sample]) -> Iterator[Line]:
    samples: dict[str, list[paths.Sample]] = {}
    for sample in drawn:
        samples.setdefault(sample.path, []).append(sample)
    for path, found in samples.items():
        seconds = sorted(each.seconds for each in found)
        hops = {name: round(statistics.median(each.hops[name] for each in found)) for name in _SHOWN}
        yield Line(model, path, statistics.median(seconds), _percentile(seconds, 0.99), hops, len(seconds))


def _samples(model: Model, measured: Measured, seeds: range) -> Iterator[paths.Sample]:
    if model.warm:  # a fallback begins with polls: whoever made them is awake
        yield from paths.fallback(model, measured, seeds)
    if not model.retry_after:
        yield from paths.eviction(model, measured, seeds)
        for size in paths.SIZES if model.judged else paths.SIZES[:1]:
            yield from paths.event(model, measured, seeds, size)


def _aks_samples(model: Model, measured: Measured, seeds: range) -> Iterator[paths.Sample]:
    yield from paths.fallback(model, measured, seeds, AGENT_POOLS)
    yield from paths.fallback(model, measured, seeds, LATE_AGENT_POOLS)
    yield from paths.eviction(model, measured, seeds, AGENT_POOLS)
    for size in _AKS_SIZES:
        yield from paths.event(model, measured, seeds, size, AGENT_POOLS)


def _percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest figure that this share does not exceed."""
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]


def _written(line: Line) -> str:
    hops = ", ".join(f"{count} {name}" for name, count in line.hops.items())
    verdict = "" if line.bar is None else f"  {'holds' if line.holds else 'MISSED'} (<= {line.bar:g} s)"
    last = "p99" if line.draws >= _ENOUGH else "max"
    return f"{line.model.name:<20} {line.path:<60} p50 {line.p50:6.2f} s  {last} {line.p99:6.2f} s  {hops}{verdict}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
