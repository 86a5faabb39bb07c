"""The report of a run: figures only, all of them from the stand-ins' ground truth."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from local.system.records import GrowthRecord, MachineRecord, RunRecord

FALLBACK_WITHIN = 120.0  # seconds after a failed growth in which another pool's growth counts as its fallback


def percentile(values: Sequence[float], fraction: float) -> float:
    """The nearest-rank percentile: a value that really occurred; 0 of nothing is 0."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(fraction * len(ordered)) - 1)] if ordered else 0.0


def report(run: RunRecord) -> dict[str, Any]:
    """The contract's keys, in its order; `left` counts nodes above the pools' minimum at the end."""
    waits = [pod.scheduled - pod.created for pod in run.pods if pod.scheduled is not None]
    hours = vm_hours(run.machines, run.ended)
    return {
        "pods": {
            "submitted": len(run.pods),
            "scheduled": len(waits),
            "unserved": len(run.pods) - len(waits),
            "wait_s": {
                **{f"p{round(share * 100)}": round(percentile(waits, share), 3) for share in (0.5, 0.9, 0.99)},
                "max": round(max(waits, default=0.0), 3),
            },
        },
        "nodes": {
            "created": len(run.machines),
            "deleted": sum(machine.deleted is not None for machine in run.machines),
            "peak": peak(run.machines),
            "left": nodes_left(run),
        },
        "vm_hours": {pool: round(value, 4) for pool, value in sorted(hours.items())},
        "cost": round(sum(value * run.prices.get(pool, 0.0) for pool, value in hours.items()), 4),
        "spot_evictions": run.spot_evictions,
        "fallbacks": fallbacks(run.growths),
        "leaks": {kind: len(getattr(run.leaks, kind)) for kind in ("vms", "nics", "disks", "nodes")},
        "violations": list(run.violations),
        "trace_hash": run.trace_hash,
        **run.extra,
    }


def vm_hours(machines: Sequence[MachineRecord], until: float) -> dict[str, float]:
    """Hours for which each pool's VMs existed, whether or not they ever became nodes: that is what is paid for."""
    hours: Counter[str] = Counter()
    for machine in machines:
        end = until if machine.deleted is None else machine.deleted
        hours[machine.pool] += (end - machine.created) / 3600  # type: ignore[assignment] # Counter holds floats too
    return dict(hours)


def peak(machines: Sequence[MachineRecord]) -> int:
    """The most VMs at any one time; one that goes frees its place for one that comes at the same moment."""
    steps = sorted(
        [(machine.created, 1) for machine in machines]
        + [(machine.deleted, -1) for machine in machines if machine.deleted is not None]
    )
    most = now = 0
    for _, step in steps:
        now += step
        most = max(most, now)
    return most


def nodes_left(run: RunRecord) -> int:
    """Machines at the end beyond what the pools keep anyway."""
    standing = Counter(machine.pool for machine in run.machines if machine.deleted is None)
    return sum(max(0, count - run.minimums.get(pool, 0)) for pool, count in standing.items())


def fallbacks(growths: Sequence[GrowthRecord]) -> int:
    """Failed growths that were followed by an accepted growth of another pool within `FALLBACK_WITHIN` seconds."""
    failed = [growth for growth in growths if growth.failure and growth.ended is not None]
    return sum(
        any(
            other.pool != growth.pool and 0 <= other.accepted - (growth.ended or 0.0) <= FALLBACK_WITHIN
            for other in growths
        )
        for growth in failed
    )
