"""`sluice simulate`: a trace of real pods through the whole system on virtual time, and a report of it."""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import orjson

from local.cli_input import read_pools, whole_number, writable_folder
from local.errors import DONE, VIOLATIONS, UserError
from local.machines import BootTimes
from local.system.history import boot_times
from local.system.picture import draw
from local.system.records import RunRecord
from local.system.report import percentile, report
from local.system.stand_ins import Behaviour
from local.system.trace import DENSE_DAYS, TracePod, read_trace
from local.system.virtual import VirtualSystem
from shared.model import Config

STRIDE = timedelta(minutes=30)  # of virtual time between two looks at the progress
PATIENCE = timedelta(hours=6)  # of virtual time after the last pod ended: drains, retries and sweeps are over by then
LINE_EVERY = 5.0  # seconds of the wall clock between two lines where there is no terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `sluice simulate`."""
    parser.add_argument(
        "--trace", metavar="FILE", required=True, type=Path, help="pods, in the form of openb_pod_list_default.csv"
    )
    parser.add_argument("--pools", metavar="FILE", required=True, help="the pools file; - is stdin")
    parser.add_argument("--report", metavar="DIR", required=True, type=Path, help="where report.json and run.svg go")
    parser.add_argument(
        "--seed", type=whole_number, default=1, help="decides everything that chance decides; default 1"
    )
    parser.add_argument(
        "--days", type=float, default=DENSE_DAYS, help=f"how much of the trace to replay; default {DENSE_DAYS}"
    )
    parser.add_argument(
        "--startup-taint",
        action="store_true",
        help="nodes register with the startup taint, so that pods are nominated to them before they are opened",
    )


def run(arguments: argparse.Namespace) -> int:
    """Simulate, write the report, print its summary. Raises UserError for input that cannot be used."""
    text, config = read_pools(arguments.pools, to_act=True)
    if not arguments.days > 0:
        raise UserError(f"--days {arguments.days}: give a number above 0")
    pods = read_trace(arguments.trace, days=arguments.days)
    if not pods:
        raise UserError(f"{arguments.trace}: no pod arrives within {arguments.days:g} days: give more with --days")
    directory = writable_folder(arguments.report, "--report")
    began = time.perf_counter()
    boot = BootTimes(startup_taint=arguments.startup_taint)
    system = VirtualSystem(text, seed=arguments.seed, behaviour=Behaviour(boot=boot))
    simulate(system, pods)
    boots = boot_times(system.stand_ins)
    booted = {"p50": round(percentile(boots, 0.5), 3), "max": round(max(boots, default=0.0), 3)}
    record = system.record(extra={"gpu": gpu_use(pods), "boot_s": booted})
    figures = report(record)
    _write(directory, figures, record, f"{arguments.trace.name}, {len(pods)} pods, seed {arguments.seed}")
    sys.stdout.writelines(f"{line}\n" for line in summary(figures, config, directory, time.perf_counter() - began))
    return VIOLATIONS if record.violations else DONE


def simulate(system: VirtualSystem, pods: Sequence[TracePod]) -> None:
    """Replay the pods, then go on until everything has settled, or until that has taken too long."""
    begun = system.timeline.now()
    ends = begun + timedelta(seconds=max(pod.arrives + pod.lifetime for pod in pods))
    system.users.replay(pods)
    with _seldom_collected(), _progress(len(pods)) as progress:
        while not _over(system, len(pods)) and system.timeline.now() < ends + PATIENCE:
            system.run_for(STRIDE)
            days = (system.timeline.now() - begun).total_seconds() / 86400
            progress.show(system.users.cleared, days, system.machines_now())


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """A tenth of the time would go into looking for cycles among what a run keeps to its end: its ground truth."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(2_000, 20, 200)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _over(system: VirtualSystem, total: int) -> bool:
    return system.users.submitted == total and system.settled()


def gpu_use(pods: Sequence[TracePod]) -> dict[str, float]:
    """GPUs asked for, those that would really be used, and the share that rounding up to whole ones wastes."""
    asked = sum(pod.gpus for pod in pods)
    wasted = sum(pod.wasted_gpus for pod in pods)
    return {
        "asked": asked,
        "used": round(asked - wasted, 3),
        "wasted_share": round(wasted / asked, 4) if asked else 0.0,
    }


def summary(figures: dict[str, Any], config: Config, directory: Path, seconds: float) -> Iterator[str]:
    """What a person wants to know; the last line holds the figures."""
    pods, nodes, wait, gpu = figures["pods"], figures["nodes"], figures["pods"]["wait_s"], figures["gpu"]
    hours = sum(figures["vm_hours"].values())
    yield f"pods       {pods['submitted']} submitted, {pods['scheduled']} scheduled, {pods['unserved']} unserved"
    yield f"wait       p50 {wait['p50']} s, p90 {wait['p90']} s, p99 {wait['p99']} s, longest {wait['max']} s"
    yield f"boot       p50 {figures['boot_s']['p50']} s, longest {figures['boot_s']['max']} s, from VM to Ready node"
    yield f"nodes      {nodes['created']} made, {nodes['deleted']} gone, {nodes['peak']} at once, {nodes['left']} left"
    yield f"cost       {figures['cost']} for {hours:.1f} VM hours of cluster {config.cluster}"
    yield f"GPUs       {gpu['asked']} asked for, {gpu['wasted_share']:.1%} of that wasted by rounding up"
    yield f"leaks      {', '.join(f'{kind} {count}' for kind, count in figures['leaks'].items())}"
    for violation in figures["violations"]:
        yield f"violation  {violation}"
    yield f"report     {directory / 'report.json'}, {directory / 'run.svg'}"
    yield (
        f"simulated {pods['submitted']} pods: unserved {pods['unserved']}, p99 wait {wait['p99']} s, "
        f"violations {len(figures['violations'])}, trace_hash {figures['trace_hash']}, {seconds:.0f} s"
    )


def _write(directory: Path, figures: dict[str, Any], record: RunRecord, title: str) -> None:
    (directory / "report.json").write_bytes(orjson.dumps(figures, option=orjson.OPT_INDENT_2) + b"\n")
    draw(record, directory / "run.svg", title)


class Progress(Protocol):
    """Where a run stands."""

    def show(self, done: int, days: float, machines: int) -> None:
        """`done` pods ran to their end, `days` of virtual time have passed, so many VMs exist."""
        ...


class _Lines:
    """For logs: a line now and then."""

    def __init__(self, total: int) -> None:
        self._total, self._last = total, 0.0

    def show(self, done: int, days: float, machines: int) -> None:
        if (now := time.monotonic()) - self._last >= LINE_EVERY:
            self._last = now
            sys.stdout.write(f"day {days:5.1f}: {done} of {self._total} pods are done, {machines} VMs\n")
            sys.stdout.flush()


class _Bar:
    """For terminals."""

    def __init__(self, total: int) -> None:
        from rich import progress  # noqa: PLC0415 - a tenth of a second that only a terminal should pay

        columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), progress.MofNCompleteColumn())
        self.bar = progress.Progress(*columns, progress.TimeElapsedColumn())
        self._task = self.bar.add_task("day   0.0", total=total)

    def show(self, done: int, days: float, machines: int) -> None:
        self.bar.update(self._task, completed=done, description=f"day {days:5.1f}, {machines:3} VMs")


@contextmanager
def _progress(total: int) -> Iterator[Progress]:
    if not sys.stdout.isatty():
        yield _Lines(total)
        return
    shown = _Bar(total)
    with shown.bar:
        yield shown
