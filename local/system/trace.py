"""A pod trace in the form of openb-gpu-2023 (one CSV row for each pod), as arrivals for the simulator.

Times are seconds from the trace's start; an empty scheduled_time means never placed. A pod's lifetime is deletion -
scheduled, or deletion - creation where it was never scheduled. A share of a GPU counts as a whole one, since a node
hands out whole ones.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local.errors import UserError

DENSE_FROM = 10_000_000.0  # seconds: before this the openb trace has 58 pods in 115 days
DENSE_DAYS = 33
COLUMNS = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time", "deletion_time", "scheduled_time",
)  # fmt: skip
RUN_SECONDS = "sluice.io/run-seconds"  # read by the stand-in's kubelet: how long the pod runs until it succeeds


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


def read_trace(path: Path, start: float = DENSE_FROM, days: float = DENSE_DAYS) -> list[TracePod]:
    """The pods that arrive within `days` from `start`, by arrival. Raises UserError that lists every bad row."""
    try:
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        message = f"{path}: {error.strerror}: give --trace a file in the form of openb_pod_list_default.csv"
        raise UserError(message) from error
    missing = [column for column in COLUMNS if not rows or column not in rows[0]]
    if missing:
        raise UserError(f"{path}: no column {', '.join(missing)}: a trace needs {', '.join(COLUMNS)}")
    pods, problems = [], []
    for number, row in enumerate(rows, start=2):
        try:
            pods.append(_pod(row, start))
        except (TypeError, ValueError) as error:
            problems.append(f"{path}:{number}: {error}")
    if problems:
        raise UserError("\n".join(problems))
    return sorted((pod for pod in pods if 0 <= pod.arrives < days * 86400), key=lambda pod: (pod.arrives, pod.name))


def _pod(row: dict[str, str], start: float) -> TracePod:
    created, deleted = float(row["creation_time"]), float(row["deletion_time"])
    begun = float(row["scheduled_time"]) if row["scheduled_time"] else created
    if deleted < begun:
        raise ValueError(f"deletion_time {row['deletion_time']} is before the pod started at {begun}")
    return TracePod(
        name=row["name"],
        cpu_milli=int(row["cpu_milli"]),
        memory_mib=int(row["memory_mib"]),
        gpus=int(row["num_gpu"]),
        gpu_milli=int(row["gpu_milli"] or 0),
        arrives=created - start,
        lifetime=deleted - begun,
    )


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
            "tolerations": [{"key": "sku", "operator": "Exists", "effect": "NoSchedule"}],
            "containers": [{"name": "task", "image": "task", "resources": {"requests": requests, "limits": requests}}],
        },
    }
