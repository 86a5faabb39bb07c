"""What happened in a run, as the stand-ins saw it: the only input of reports, pictures and the checker.

Times are seconds since the run began; amounts are cores, GiB and GPUs. Nothing in here comes from Sluice's own books.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A pod from its creation until it ended; `scheduled` None = never bound, `ended` None = still there."""

    name: str
    created: float
    scheduled: float | None
    ended: float | None
    cores: float
    gpus: int


@dataclass(frozen=True, slots=True)
class MachineRecord:
    """A VM from the moment Azure had it until it was gone; `deleted` None = still there."""

    name: str
    pool: str
    spot: bool
    created: float
    deleted: float | None
    cores: float
    gpus: int


@dataclass(frozen=True, slots=True)
class GrowthRecord:
    """A request for more VMs that Azure accepted: `ended`: when its operation ended; `failure`: Azure's code, or ""."""

    pool: str
    accepted: float
    ended: float | None
    failure: str


@dataclass(frozen=True, slots=True)
class Leaks:
    """What stands after the end though nothing owns it any more, by name."""

    vms: tuple[str, ...] = ()
    nics: tuple[str, ...] = ()
    disks: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A whole run. `prices` per hour and `minimums` by pool come from the pools file."""

    pods: tuple[PodRecord, ...]
    machines: tuple[MachineRecord, ...]
    growths: tuple[GrowthRecord, ...]
    leaks: Leaks
    spot_evictions: int
    violations: tuple[str, ...]
    trace_hash: str
    ended: float
    prices: dict[str, float]
    minimums: dict[str, int]
    extra: dict[str, object] = field(default_factory=dict)
