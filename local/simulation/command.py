"""`python -m local.simulation`: many seeds on several processes, or one with everything that happens in it."""

from __future__ import annotations

import argparse
import gc
import logging
import multiprocessing
import os
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from local.cli_input import whole_number
from local.errors import DONE, VIOLATIONS
from local.simulation.driver import Outcome, play
from local.simulation.worlds import draw_world

FRESH = 2**31
SHOWN = 12
LINE_EVERY = 10.0  # seconds of the wall clock


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the arguments say; the exit code is 5 when a world broke a rule."""
    arguments = _parser().parse_args(argv)
    if not arguments.trace:
        logging.disable()  # every fault that is ordered would be told by whoever it strikes
    if arguments.seed is not None:
        return show(arguments.seed, trace=arguments.trace)
    first = secrets.randbelow(FRESH) if arguments.first is None else arguments.first
    sys.stdout.write(f"{arguments.seeds} seeds from {first}, {arguments.jobs} processes\n")
    return campaign(first, arguments.seeds, arguments.jobs, stop=arguments.stop)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m local.simulation", description=__doc__)
    parser.add_argument("--seeds", type=whole_number, default=300, help="how many worlds; default 300")
    parser.add_argument("--first", type=whole_number, help="the first seed; default: a fresh one")
    parser.add_argument("--jobs", type=whole_number, default=min(2, os.cpu_count() or 1), help="processes; default 2")
    parser.add_argument("--stop", action="store_true", help="stop at the first violation")
    parser.add_argument("--seed", type=whole_number, help="play this one alone")
    parser.add_argument("--trace", action="store_true", help="with --seed: tell everything that happens")
    return parser


def show(seed: int, *, trace: bool) -> int:
    """One world, and what became of it."""
    outcome = play(draw_world(seed), _tell if trace else None)
    for name, count in sorted(outcome.probes.items()):
        sys.stdout.write(f"probe      {name}: {count}\n")
    for violation in outcome.violations:
        sys.stdout.write(f"violation  {violation}\n")
    sys.stdout.write(
        f"seed {seed}: {outcome.pods} pods, {outcome.nodes} nodes, {outcome.hours:.2f} h, "
        f"violations {len(outcome.violations)}, trace_hash {outcome.digest}\n"
    )
    return VIOLATIONS if outcome.violations else DONE


def campaign(first: int, seeds: int, jobs: int, *, stop: bool = False) -> int:
    """Many worlds; the last line is the figure."""
    began, shown = time.monotonic(), time.monotonic()
    probes: Counter[str] = Counter()
    nodes: list[int] = []
    broken: list[Outcome] = []
    for outcome in outcomes(range(first, first + seeds), jobs):
        probes.update(outcome.probes)
        nodes.append(outcome.nodes)
        if outcome.violations:
            broken.append(outcome)
            sys.stdout.writelines(f"{line}\n" for line in report(outcome))
            if stop:
                break
        if (now := time.monotonic()) - shown >= LINE_EVERY:
            shown = now
            sys.stdout.write(f"{len(nodes)} of {seeds} worlds in {now - began:.0f} s, {len(broken)} broken\n")
        sys.stdout.flush()
    sys.stdout.writelines(f"probe  {name}: {count}\n" for name, count in sorted(probes.items()))
    median = sorted(nodes)[len(nodes) // 2] if nodes else 0
    sys.stdout.write(
        f"{len(nodes)} worlds from seed {first}: {len(broken)} with violations, median nodes {median}, "
        f"{time.monotonic() - began:.0f} s\n"
    )
    return VIOLATIONS if broken else DONE


def report(outcome: Outcome) -> Iterator[str]:
    """What was found, and how to see it again."""
    for violation in outcome.violations[:SHOWN]:
        yield f"seed {outcome.seed}: {violation}"
    if len(outcome.violations) > SHOWN:
        yield f"seed {outcome.seed}: and {len(outcome.violations) - SHOWN} more"
    yield f"seed {outcome.seed}: replay with  .venv/bin/python -m local.simulation --seed {outcome.seed} --trace"


def outcomes(seeds: Sequence[int], jobs: int) -> Iterator[Outcome]:
    """Each seed's outcome, in order; side by side on `jobs` processes."""
    gc.freeze()
    if jobs <= 1:
        yield from map(outcome_of, seeds)
        return
    with multiprocessing.get_context("fork").Pool(jobs, initializer=_seldom_collect) as pool:
        yield from pool.imap(outcome_of, seeds, chunksize=1)


def outcome_of(seed: int) -> Outcome:
    """Play one seed. A failure of the simulation itself is a violation like any other: it must be looked at."""
    try:
        return play(draw_world(seed))
    except Exception as error:  # noqa: BLE001 - one world's failure must not end the campaign
        return Outcome(seed, "", (f"simulation: {type(error).__name__}: {error}",))


def _seldom_collect() -> None:
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


def _tell(seconds: float, kind: str, facts: tuple[str | bytes, ...]) -> None:
    texts = [fact.decode(errors="replace") if isinstance(fact, bytes) else fact for fact in facts]
    sys.stdout.write(f"{seconds:9.1f} {kind}: {' '.join(texts)[:300]}\n")
