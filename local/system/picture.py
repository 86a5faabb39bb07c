"""Demand and capacity over time, drawn: where people would rather look than read."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path
from typing import Any

from local.system.records import RunRecord

Steps = tuple[list[float], list[float]]


def steps(changes: Iterable[tuple[float, float]]) -> Steps:
    """Times and running totals of (time, change), equal times merged, starting from zero."""
    merged: dict[float, float] = {0.0: 0.0}
    for time, change in changes:
        merged[time] = merged.get(time, 0.0) + change
    times = sorted(merged)
    return times, list(accumulate(merged[time] for time in times))


def demand(run: RunRecord, amount: str) -> Steps:
    """What the pods that exist ask for, pending ones too."""
    changes = []
    for pod in run.pods:
        changes.append((pod.created, float(getattr(pod, amount))))
        if pod.ended is not None:
            changes.append((pod.ended, -float(getattr(pod, amount))))
    return steps(changes)


def capacity(run: RunRecord, amount: str, pool: str | None = None) -> Steps:
    """What the VMs that exist have, of one pool or of all; amount "count" counts VMs."""
    changes = []
    for machine in run.machines:
        if pool in (None, machine.pool):
            size = 1.0 if amount == "count" else float(getattr(machine, amount))
            changes.append((machine.created, size))
            if machine.deleted is not None:
                changes.append((machine.deleted, -size))
    return steps(changes)


def draw(run: RunRecord, path: Path, title: str) -> None:
    """Write the picture; its form follows the suffix (.svg or .png)."""
    import matplotlib as mpl  # noqa: PLC0415 - a second of import that only a finished run should pay

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the backend was chosen

    scale, unit = (86400.0, "days") if run.ended > 3 * 86400 else (1.0, "seconds")
    figure, axes = plt.subplots(3, 1, figsize=(11, 9), sharex=True, layout="constrained")
    figure.suptitle(title)
    for axis, amount, name in ((axes[0], "cores", "CPU cores"), (axes[1], "gpus", "GPUs")):
        _curve(axis, capacity(run, amount), run.ended, scale, "capacity", "tab:blue", filled=True)
        _curve(axis, demand(run, amount), run.ended, scale, "demand", "tab:red", filled=False)
        axis.set_ylabel(name)
        axis.legend(loc="upper left")
    for pool in sorted({machine.pool for machine in run.machines}):
        times, totals = capacity(run, "count", pool)
        axes[2].step([t / scale for t in [*times, run.ended]], [*totals, totals[-1]], where="post", label=pool)
    axes[2].set_ylabel("VMs by pool")
    axes[2].set_xlabel(f"{unit} since the run began")
    if run.machines:
        axes[2].legend(loc="upper left", fontsize="small")
    figure.savefig(path)
    plt.close(figure)


def _curve(axis: Any, data: Steps, end: float, scale: float, label: str, colour: str, *, filled: bool) -> None:  # noqa: ANN401 - matplotlib has no types
    times, totals = [t / scale for t in [*data[0], end]], [*data[1], data[1][-1]]
    if filled:
        axis.fill_between(times, totals, step="post", alpha=0.25, color=colour, label=label)
    axis.step(times, totals, where="post", color=colour, linewidth=1, label=None if filled else label)
