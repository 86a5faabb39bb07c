"""`python -m local.simulation`: many broken worlds on several processes, or one with everything that happens in it."""

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
from functools import partial
from pathlib import Path
from statistics import median_low

from local.cli_input import whole_number
from local.errors import BAD_INPUT, DONE, VIOLATIONS, UserError
from local.simulation.driver import Listener, Outcome, play
from local.simulation.mutant import run_mutant
from local.simulation.probes import ENOUGH, MEDIAN_NODES, MEDIAN_PODS, never_reached
from local.simulation.upgrade import Course, release_of
from local.simulation.worlds import draw_world

FRESH = 2**31
SHOWN = 12  # violations of one world
LINE_EVERY = 10.0  # seconds of the wall clock


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the arguments say; the exit code is 5 when a world broke a rule."""
    arguments = _parser().parse_args(argv)
    before = logging.root.manager.disable
    if not arguments.trace:
        logging.disable()  # every fault that is ordered would be told by whoever it strikes
    try:
        return _run(arguments)
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    finally:
        logging.disable(before)  # whoever called may have something to say


def _run(arguments: argparse.Namespace) -> int:
    if arguments.former is not None:
        return _across(arguments)
    if arguments.seed is not None:
        return _play_one(arguments)
    first = secrets.randbelow(FRESH) if arguments.first is None else arguments.first
    seeds, jobs = arguments.seeds, max(arguments.jobs, 1)
    if arguments.mutant is not None:
        return run_mutant(arguments.mutant, ["--seeds", str(seeds), "--first", str(first), "--jobs", str(jobs)])
    cases = read_cases(arguments.cases) if arguments.cases is not None else []
    told = f" and {len(cases)} cases" if cases else ""
    sys.stdout.write(f"{seeds} worlds from seed {first}{told} on {jobs} processes\n")
    return Campaign([*cases, *range(first, first + seeds)], jobs, stop=arguments.stop).run()


def _across(arguments: argparse.Namespace) -> int:
    """Worlds that begin under an earlier release; the first fault of a host brings the present one."""
    with release_of(arguments.former) as earlier:
        course = Course(earlier, arguments.back)
        if arguments.seed is not None:
            return show(arguments.seed, trace=arguments.trace, course=course)
        first = secrets.randbelow(FRESH) if arguments.first is None else arguments.first
        how = f"from {arguments.former}" + (" and back" if arguments.back else "")
        sys.stdout.write(f"{arguments.seeds} worlds from seed {first}, upgraded {how}\n")
        seeds = range(first, first + arguments.seeds)
        return Campaign(seeds, max(arguments.jobs, 1), stop=arguments.stop, course=course).run()


def _play_one(arguments: argparse.Namespace) -> int:
    if arguments.mutant is None:
        return show(arguments.seed, trace=arguments.trace)
    trace = ["--trace"] if arguments.trace else []
    return run_mutant(arguments.mutant, ["--seed", str(arguments.seed), *trace])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m local.simulation", description=__doc__)
    parser.add_argument("--seeds", type=whole_number, default=300, help="how many worlds; default 300")
    parser.add_argument("--first", type=whole_number, help="the first seed; default: a fresh one")
    parser.add_argument("--jobs", type=whole_number, default=min(2, os.cpu_count() or 1), help="processes; default 2")
    parser.add_argument("--stop", action="store_true", help="stop at the first violation")
    parser.add_argument("--cases", type=Path, metavar="FILE", help="seeds that found something once: play them too")
    parser.add_argument("--mutant", type=Path, metavar="FILE", help="a patch: play on a copy of the tree with it")
    parser.add_argument("--seed", type=whole_number, help="play this one alone")
    parser.add_argument(
        "--from",
        dest="former",
        metavar="REF",
        help="a commit or tag: worlds begin under that release, and go on under the present one",
    )
    parser.add_argument("--back", action="store_true", help="with --from: roll back later on")
    parser.add_argument("--trace", action="store_true", help="with --seed: tell everything that happens")
    return parser


def read_cases(path: Path) -> list[int]:
    """The seeds of a file of cases: one to a line, with what it found after it. Raises UserError."""
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise UserError(f"--cases {path}: {error.strerror}", BAD_INPUT) from error
    firsts = [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]
    for first in firsts:
        if not first.isdecimal():
            raise UserError(f"--cases {path}: {first!r} is no seed: begin each line with a number", BAD_INPUT)
    return [int(first) for first in firsts]


def show(seed: int, *, trace: bool, course: Course | None = None) -> int:
    """One world, and what became of it."""
    outcome = _played(seed, course, _tell if trace else None)
    for name, count in sorted(outcome.probes.items()):
        sys.stdout.write(f"probe      {name}: {count}\n")
    for violation in outcome.violations:
        sys.stdout.write(f"violation  {violation}\n")
    sys.stdout.write(
        f"seed {seed}: {outcome.pods} pods, {outcome.grown} VMs grown, {outcome.retired} retired, "
        f"{outcome.hours:.2f} h, violations {len(outcome.violations)}, trace_hash {outcome.digest}\n"
    )
    return VIOLATIONS if outcome.violations else DONE


class Campaign:
    """Many worlds; the last line is the figure."""

    def __init__(self, seeds: Sequence[int], jobs: int, *, stop: bool, course: Course | None = None) -> None:
        self._seeds, self._jobs, self._stop, self._course = seeds, jobs, stop, course
        self._began = self._told = time.monotonic()
        self._probes: Counter[str] = Counter()
        self._played: list[Outcome] = []
        self._broken = 0

    def run(self) -> int:
        """Play them all, or up to the first violation."""
        for outcome in outcomes(self._seeds, self._jobs, self._course):
            self._note(outcome)
            if outcome.violations and self._stop:
                break
            self._progress()
        missed = self._missed() if len(self._played) >= ENOUGH else []
        sys.stdout.writelines(f"probe  {name}: {count}\n" for name, count in sorted(self._probes.items()))
        sys.stdout.writelines(f"missed: {line}\n" for line in missed)
        sys.stdout.write(f"{self._figure()}\n")
        return VIOLATIONS if self._broken or missed else DONE

    def _note(self, outcome: Outcome) -> None:
        self._probes.update(outcome.probes)
        self._played.append(outcome)
        if outcome.violations:
            self._broken += 1
            sys.stdout.writelines(f"{line}\n" for line in report(outcome, "upgrade" if self._course else "sim"))
            sys.stdout.flush()

    def _progress(self) -> None:
        if (now := time.monotonic()) - self._told >= LINE_EVERY:
            self._told = now
            done, all_ = len(self._played), len(self._seeds)
            sys.stdout.write(f"{done} of {all_} worlds in {now - self._began:.0f} s, {self._broken} broken\n")
            sys.stdout.flush()

    def _missed(self) -> list[str]:
        """What a campaign of this size must have seen, and has not."""
        pods, nodes = self._medians()
        found = [f"no world reached {name!r}" for name in never_reached(self._probes)]
        if pods < MEDIAN_PODS or nodes < MEDIAN_NODES:
            found.append(f"the median world grows and retires {nodes} nodes for {pods} pods")
        return found

    def _medians(self) -> tuple[int, int]:
        if not self._played:
            return 0, 0
        nodes = [min(outcome.grown, outcome.retired) for outcome in self._played]
        return median_low([outcome.pods for outcome in self._played]), median_low(nodes)

    def _figure(self) -> str:
        pods, nodes = self._medians()
        took = time.monotonic() - self._began
        return (
            f"{len(self._played)} worlds, {self._broken} with violations; the median one grew and retired {nodes} nodes"
            f" for {pods} pods; {took:.0f} s"
        )


def report(outcome: Outcome, target: str = "sim") -> Iterator[str]:
    """What was found, and how to see it again."""
    for violation in outcome.violations[:SHOWN]:
        yield f"seed {outcome.seed}: {violation}"
    if len(outcome.violations) > SHOWN:
        yield f"seed {outcome.seed}: and {len(outcome.violations) - SHOWN} more"
    yield f"seed {outcome.seed}: play it again with  make {target} SEED={outcome.seed} ARGS=--trace"


def outcomes(seeds: Sequence[int], jobs: int, course: Course | None = None) -> Iterator[Outcome]:
    """Each seed's outcome, in order; side by side on `jobs` processes."""
    outcome = partial(outcome_of, course=course)
    if jobs <= 1:
        _seldom_collect()
        yield from map(outcome, seeds)
        return
    with multiprocessing.get_context("fork").Pool(jobs, initializer=_seldom_collect) as pool:
        yield from pool.imap(outcome, seeds, chunksize=1)


def outcome_of(seed: int, course: Course | None = None) -> Outcome:
    """Play one seed. A failure of the simulation itself is a violation like any other: it must be looked at."""
    if not gc.isenabled():
        gc.collect()
    try:
        return _played(seed, course)
    except Exception as error:  # noqa: BLE001 - one world's failure must not end the campaign
        return Outcome(seed, "", (f"simulation: {type(error).__name__}: {error}",))


def _played(seed: int, course: Course | None, listen: Listener | None = None) -> Outcome:
    world = draw_world(seed)
    return play(world, listen) if course is None else play(course.through(world), listen, course)


def _seldom_collect() -> None:
    """A world is garbage as a whole when it is over; looking for cycles in it meanwhile finds nothing."""
    gc.freeze()
    gc.disable()


def _tell(seconds: float, kind: str, facts: tuple[str | bytes, ...]) -> None:
    texts = [fact.decode(errors="replace") if isinstance(fact, bytes) else fact for fact in facts]
    sys.stdout.write(f"{seconds:9.1f} {kind}: {' '.join(texts)[:300]}\n")
