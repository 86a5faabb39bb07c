"""A pod trace in the form of openb-gpu-2023 (one CSV row for each pod), as arrivals for the simulator.

Times are seconds from the trace's start; an empty scheduled_time means never placed. A pod's lifetime is deletion -
scheduled, or deletion - creation where it was never scheduled. A share of a GPU counts as a whole one, since a node
hands out whole ones.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from local.errors import UserError

DENSE_FROM = 10_000_000.0  # seconds: before this the openb trace has 58 pods in 115 days
DENSE_DAYS = 33
COLUMNS = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time", "deletion_time", "scheduled_time",
)  # fmt: skip
RUN_SECONDS = "sluice.io/run-seconds"  # read by the stand-in's kubelet: how long the pod runs until it succeeds

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class TracePod:
    """One row: times in seconds from the start of the window, `gpu_milli` what it would really use of one GPU."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    arrives: float
    lifetime: float

    @property
    def wasted_gpus(self) -> float:
        """GPUs asked for less GPUs used: what rounding a share up to a whole one costs."""
        return max(0.0, self.gpus - self.gpu_milli / 1000 * self.gpus) if self.gpus == 1 else 0.0


def read_trace(path: Path, start: float | None = None, days: float = DENSE_DAYS) -> list[TracePod]:
    """The pods that arrive within `days` from `start`, by arrival. Without `start` the window begins where the openb
    trace gets dense, or with the first pod of a trace that has none there.

    Raises UserError that lists every bad row.
    """
    rows = _rows(path)
    pods, problems, names = [], [], set()
    for number, row in enumerate(rows, start=2):
        try:
            pods.append(_pod(row))
            if row["name"] in names:
                raise ValueError(f"name: {row['name']!r} appears twice")
            names.add(row["name"])
        except (TypeError, ValueError) as error:
            problems.append(f"{path}:{number}: {error}")
    if problems:
        raise UserError("\n".join(problems))
    if start is None:
        start = DENSE_FROM if _window(pods, DENSE_FROM, days) else min((pod.arrives for pod in pods), default=0.0)
    return _window(pods, start, days)


def _window(pods: Iterable[TracePod], start: float, days: float) -> list[TracePod]:
    within = [pod for pod in pods if 0 <= pod.arrives - start < days * 86400]
    shifted = [replace(pod, arrives=pod.arrives - start) for pod in within]
    return sorted(shifted, key=lambda pod: (pod.arrives, pod.name))


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        message = f"{path}: {reason}: give --trace a file in the form of openb_pod_list_default.csv"
        raise UserError(message) from error
    missing = [column for column in COLUMNS if not rows or column not in rows[0]]
    if missing:
        raise UserError(f"{path}: no column {', '.join(missing)}: a trace needs {', '.join(COLUMNS)}")
    return rows


def _pod(row: dict[str, str]) -> TracePod:
    """A row; `arrives` is still the trace's own time."""
    if not _NAME.fullmatch(row["name"]) or len(row["name"]) > 253:
        raise ValueError(f"name: {row['name']!r} is no name that Kubernetes takes")
    created, deleted = _seconds(row, "creation_time"), _seconds(row, "deletion_time")
    begun = _seconds(row, "scheduled_time") if row["scheduled_time"] else created
    if deleted < begun:
        raise ValueError(f"deletion_time {row['deletion_time']} is before the pod started at {begun}")
    return TracePod(
        name=row["name"],
        cpu_milli=_count(row, "cpu_milli"),
        memory_mib=_count(row, "memory_mib"),
        gpus=_count(row, "num_gpu"),
        gpu_milli=_count(row, "gpu_milli") if row["gpu_milli"] else 0,
        arrives=created,
        lifetime=deleted - begun,
    )


def _count(row: dict[str, str], column: str) -> int:
    if not row[column].strip().isdecimal():
        raise ValueError(f"{column}: {row[column]!r} is no whole number")
    return int(row[column])


def _seconds(row: dict[str, str], column: str) -> float:
    try:
        seconds = float(row[column])
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise ValueError(f"{column}: {row[column]!r} is no time in seconds")
    return seconds


def manifest(pod: TracePod) -> dict[str, Any]:
    """The pod as its owner would submit it: a training task that must run to its end, hence never evicted."""
    requests = {"cpu": f"{pod.cpu_milli}m", "memory": f"{pod.memory_mib}Mi"}
    if pod.gpus:
        requests["nvidia.com/gpu"] = str(pod.gpus)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod.name,
            "namespace": "default",
            "annotations": {
                RUN_SECONDS: f"{pod.lifetime:g}",
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
            },
        },
        "spec": {
            "restartPolicy": "Never",
            "tolerations": _tolerations(pod.gpus),
            "containers": [{"name": "task", "image": "task", "resources": {"requests": requests, "limits": requests}}],
        },
    }


def _tolerations(gpus: int) -> list[dict[str, str]]:
    """GPU nodes are tainted against pods without need of one, whole machines against pods that need a part: the
    scheduler prefers the emptiest node, and would keep the dearest one busy for ever with the smallest pods."""
    kept_for = [("sku", "gpu")] if gpus else []
    kept_for += [("gpus", "many")] if gpus > 1 else []
    return [{"key": key, "operator": "Equal", "value": value, "effect": "NoSchedule"} for key, value in kept_for]
