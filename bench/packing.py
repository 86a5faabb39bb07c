"""Packing beside its peers: ``python -m bench.packing`` (`make bench-packing`), explained in docs/benchmarks.md.

Prints a table and every bar, writes `out/bench-packing.json`, ends with 1 when a bar falls short.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from bench import bars, bounds, build_peers, cache, growth, ours, rivals, workloads
from bench.bars import Bar, Row
from bench.check import faults
from bench.realise import Bought, More, NeverBound, realise, share
from bench.workloads import Workload
from shared.nodes.starting import MOST_NOMINATED, SMALL

OUT = Path("out/bench-packing.json")
REALISATIONS = (1, 2, 3)
"""Seeds of the scheduler's lots; the price in the middle counts."""

UNAIDED = "sluice-unaided"
"""Our improved plan where neither a startup taint nor nominations carry it over, and the scheduler does as it likes."""


class BadPlan(RuntimeError):
    """A plan of ours that does not hold: no figure of it would mean anything."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write, judge."""
    wanted = _options(arguments)
    programs = _peers() if wanted.peers else {}
    rows: list[Row] = []
    _say(_HEAD)
    for name in wanted.workload or workloads.NAMES:
        for row in _race(workloads.make(name), programs, wanted.repeats):
            rows.append(row)
            _say(_line(row))
    _write(rows)
    judged = list(bars.judge(bars.by_place(rows)))
    for more in (
        (_further(wanted.seeds), _growth(wanted.repeats), _large(wanted.repeats)) if not wanted.workload else ()
    ):
        judged += more
    return _verdict(judged, rows)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.packing", description="Packing beside its peers.")
    parser.add_argument("--workload", action="append", choices=workloads.NAMES, help="only this one (may be repeated)")
    parser.add_argument("--repeats", type=int, default=5, help="of each timed call (default: 5)")
    parser.add_argument("--seeds", type=int, default=len(workloads.FURTHER_SEEDS), help="further draws of b and c each")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="ours alone, without the peers")
    return parser.parse_args(arguments)


def _peers() -> Mapping[str, Path]:
    try:
        return build_peers.programs()
    except build_peers.PeersMissing as reason:
        _say(f"peers skipped: {reason}")
        return {}


def _race(workload: Workload, programs: Mapping[str, Path], repeats: int) -> Iterator[Row]:
    """Everybody on one workload: ours between the peers, so that a busy moment favours nobody for long."""
    try:
        bound = bounds.bound_of(workload)
    except cache.ToolMissing as reason:
        _say(f"no bound for {workload['name']}: {reason}")
        bound = None
    for name, program in programs.items():
        yield _theirs(workload, name, program, repeats, bound)
    for name, packer in ours.PACKERS.items():
        yield from _ours(workload, name, packer, repeats, bound)


def _theirs(workload: Workload, name: str, program: Path, repeats: int, bound: bounds.Bound | None) -> Row:
    answer = rivals.ask(program, workload, repeats)

    def buy(rest: Workload) -> Bought:
        return Bought(rivals.ask(program, rest, 1).nodes)

    nodes = None if answer.unserved else Bought(answer.nodes)
    return _row(workload, name, (answer.least, answer.median), nodes, buy, bound)


def _ours(
    workload: Workload, name: str, packer: ours.Packer, repeats: int, bound: bounds.Bound | None
) -> Iterator[Row]:
    result = ours.measure(workload, packer, repeats)
    _hold(workload, result)
    if result.unserved:
        _say(f"{workload['name']}: {name} leaves {result.unserved} pods unserved: {result.reason}")

    def told(rest: Workload) -> Bought:
        again = ours.measure(rest, packer, 1)
        _hold(rest, again)
        return _told(workload, again)

    def untold(rest: Workload) -> Bought:
        return Bought(told(rest).nodes)

    times, nodes = (result.least, result.median), None if result.unserved else _told(workload, result)
    yield _row(workload, name, times, nodes, told, bound)
    if name == ours.IMPROVED:
        yield _row(workload, UNAIDED, times, None if nodes is None else Bought(nodes.nodes), untold, bound)


def _told(workload: Workload, result: ours.Result) -> Bought:
    """What the product does: the largest pods are told where to go, and small ones never."""
    kinds = {kind["name"]: kind for kind in workload["pods"]}
    pools = {pool["name"]: pool for pool in workload["pools"]}
    sizes = [
        (share(kinds[name], pools[node.pool]), place, name)
        for place, node in enumerate(result.nodes)
        for name in node.pods
    ]
    told: list[dict[str, int]] = [{} for _ in result.nodes]
    left = MOST_NOMINATED
    for size, place, name in sorted(sizes, key=lambda each: -each[0]):
        if size >= SMALL and left:
            told[place][name] = min(left, result.nodes[place].pods[name])
            left -= told[place][name]
    return Bought.for_pods((node.pool, pods) for node, pods in zip(result.nodes, told, strict=True))


def _row(  # a row has many cells
    workload: Workload,
    packer: str,
    times: tuple[float, float],
    bought: Bought | None,
    more: More,
    bound: bounds.Bound | None,
) -> Row:
    return Row(
        workload=workload["name"],
        packer=packer,
        ms_min=round(times[0], 2),
        ms_median=round(times[1], 2),
        nodes=None if bought is None else sum(bought.nodes.values()),
        price_planned=None if bought is None else _price(workload, bought.nodes),
        price_realised=None if bought is None else _realised(workload, bought, more),
        bound=bound.loose if bound else None,
        tight_bound=bound.tight if bound else None,
    )


def _realised(workload: Workload, bought: Bought, more: More) -> float | None:
    try:
        stood = [realise(workload, bought, more, seed) for seed in REALISATIONS]
    except NeverBound as reason:
        _say(str(reason))
        return None
    return statistics.median(_price(workload, each) for each in stood)


def _price(workload: Workload, nodes: Mapping[str, int]) -> float:
    prices: dict[str, float] = {pool["name"]: pool["price"] for pool in workload["pools"]}
    return round(sum(prices[pool] * number for pool, number in nodes.items()), 3)


def _hold(workload: Workload, result: ours.Result) -> None:
    found = list(faults(workload, result.nodes, result.unserved))
    if found:
        raise BadPlan(f"{workload['name']}: {len(found)} faults in the plan, the first: {found[0]}")


def _further(seeds: int) -> Iterator[Bar]:
    """Plans for draws that nothing was tuned for."""
    names = [name for name in workloads.further() if int(name.partition("#")[2]) <= seeds]
    prices: dict[str, float | None] = {}
    limits: dict[str, bounds.Bound] = {}
    for name in names:
        workload = workloads.make(name)
        result = ours.measure(workload, ours.PACKERS[ours.IMPROVED], 1)
        _hold(workload, result)
        prices[name] = None if result.unserved else _price(workload, Counter(node.pool for node in result.nodes))
        limits[name] = bounds.bound_of(workload)
    for generator in workloads.DRAWN:
        ratios = sorted((prices[name] or 0) / limits[name].tight for name in names if name.startswith(generator))
        _say(f"{generator}, further draws, over the tight bound: " + " ".join(f"{ratio:.4f}" for ratio in ratios))
    return bars.judge_further(prices, limits)


def _growth(repeats: int) -> Iterator[Bar]:
    fits = growth.measure(repeats)
    for fit in fits:
        points = ", ".join(f"{size:,}: {time:.1f} ms" for size, time in zip(fit.sizes, fit.times, strict=True))
        _say(f"growth with {fit.name}: {fit.exponent:.2f} ({points})")
    return bars.judge_growth(fits)


def _large(repeats: int) -> Iterator[Bar]:
    command = [sys.executable, "-m", "bench.large", str(repeats)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    figures = json.loads(done.stdout)
    _say("large cluster: " + ", ".join(f"{name} {value:,}" for name, value in figures.items()))
    return bars.judge_large(figures)


def _write(rows: Sequence[Row]) -> None:
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text("[\n" + ",\n".join(" " + json.dumps(asdict(row)) for row in rows) + "\n]\n")


def _verdict(judged: Sequence[Bar], rows: Sequence[Row]) -> int:
    _say("")
    for bar in judged:
        _say(str(bar))
    peers = sorted({row.packer for row in rows} - {*ours.PACKERS, UNAIDED})
    beside = f"beside {', '.join(peers)}" if peers else "without peers"
    held = sum(bar.holds for bar in judged)
    _say(f"bench-packing: {held} of {len(judged)} bars hold, {beside}; rows in {OUT}")
    return 0 if held == len(judged) else 1


_HEAD = (
    f"{'workload':<10} {'packer':<14} {'ms min':>10} {'median':>10} {'nodes':>6} "
    f"{'planned':>9} {'over':>7} {'realised':>9} {'over':>7}"
)


def _line(row: Row) -> str:
    return (
        f"{row.workload:<10} {row.packer:<14} {row.ms_min:>10,.1f} {row.ms_median:>10,.1f} {_cell(row.nodes, 6, ',')} "
        f"{_cell(row.price_planned, 9, ',.2f')} {_over(row.price_planned, row.bound)} "
        f"{_cell(row.price_realised, 9, ',.2f')} {_over(row.price_realised, row.bound)}"
    )


def _cell(value: float | None, width: int, form: str) -> str:
    return format("-" if value is None else format(value, form), f">{width}")


def _over(price: float | None, bound: float | None) -> str:
    return format("-" if price is None or not bound else f"{price / bound - 1:.2%}", ">7")


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
