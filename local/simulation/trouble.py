"""What goes wrong in a world: drawn as data, dimension by dimension, and delivered by the stand-ins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from local.arm.faults import Stage
from local.durable.model import Faults as HostFaults
from local.durable.model import Latencies
from local.event_grid import EventFaults
from local.simulation.workload import Deed

Json = dict[str, Any]
GROWING = ("scale_set.update", "vm.create")
SHRINKING = ("scale_set.delete_instances", "vm.delete")
ALLOCATION_CODES = (
    "AllocationFailed",
    "ZonalAllocationFailed",
    "OverconstrainedAllocationRequest",
    "OverconstrainedZonalAllocationRequest",
    "SkuNotAvailable",
    "InternalExecutionError",
    "OperationPreempted",
)
DELETION_CODES = ("InternalExecutionError", "OperationPreempted", "Conflict")
REFUSALS = ("TooManyRequests", "Conflict", "PreconditionFailed", "InternalServerError", "ServiceUnavailable")
PLACES = ("arm", "cluster", "blobs", "journal")
HTTP = (409, 429, 500, 503, 504)


@dataclass(frozen=True, slots=True)
class ArmTrouble:
    """A failure of Azure's, from `at` to `until`; the fields are those of `local.arm.faults.Fault`."""

    at: float
    until: float
    operation: str
    stage: Stage
    code: str
    probability: float
    partial: int = 0
    seconds: float = 0.0
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class ClusterTrouble:
    """Requests to the API server fail with `status` by chance; `after`: they were carried out, the answer is lost.

    `who` is whose requests: "functions" or "exporter".
    """

    at: float
    until: float
    who: str
    status: int
    probability: float
    after: bool = False


@dataclass(frozen=True, slots=True)
class Crash:
    """The Functions host dies at the first write to `place` that is due at or after `at`, before it or after it.

    `skip` lets so many writes pass first.
    """

    at: float
    place: str
    before: bool
    skip: int
    down_for: float


@dataclass(frozen=True, slots=True)
class Troubles:
    """All of it."""

    deeds: tuple[Deed, ...]
    arm: tuple[ArmTrouble, ...]
    cluster: tuple[ClusterTrouble, ...]
    crashes: tuple[Crash, ...]
    events: EventFaults
    host: HostFaults
    hops: Latencies
    skew: float


def draw_troubles(draw: Random, busy: float, pools: Sequence[Json]) -> Troubles:
    """The troubles of a world that is busy for so many seconds."""
    return Draw(draw, busy, pools).all()


@dataclass(slots=True)
class Draw:
    """One world's troubles under way of being drawn."""

    draw: Random
    busy: float
    pools: Sequence[Json]
    wildness: float = field(init=False)

    def __post_init__(self) -> None:
        self.wildness = self.draw.choice((0.1, 0.3, 0.3, 0.5, 0.9))

    def all(self) -> Troubles:
        """Each dimension after the other: the order is part of what a seed means."""
        return Troubles(
            deeds=(*self._evictions(), *self._cordons(), *self._shortages()),
            arm=tuple(self._azure()),
            cluster=tuple(self._cluster()),
            crashes=tuple(self._crashes()),
            events=self._events(),
            host=HostFaults(self._rate(0.5), self._rate(0.3)),
            hops=Latencies(late_signal_rate=self._rate(0.3)),
            skew=self.draw.uniform(-90.0, 90.0) if self._strikes() else 0.0,
        )

    def _strikes(self) -> bool:
        return self.draw.random() < self.wildness

    def _rate(self, most: float) -> float:
        return self.draw.uniform(0.1, 1.0) * most if self._strikes() else 0.0

    def _span(self) -> tuple[float, float]:
        """All the time, or a bad quarter of an hour."""
        if self.draw.random() < 0.5:
            return 0.0, self.busy
        at = self.draw.uniform(0.0, self.busy * 0.8)
        return at, min(at + self.draw.uniform(120.0, 900.0), self.busy)

    def _azure(self) -> Iterator[ArmTrouble]:
        one_of = self.draw.choice
        for operation in (*GROWING, *SHRINKING):
            yield from self._writes(operation)
        for operation in GROWING:
            if rate := self._rate(0.8):
                code, partial = one_of(ALLOCATION_CODES), one_of((0, 0, 1, 2))
                yield ArmTrouble(*self._span(), operation, "async", code, rate, partial=partial)
        for operation in SHRINKING:
            if rate := self._rate(0.4):
                yield ArmTrouble(*self._span(), operation, "async", one_of(DELETION_CODES), rate)
        for operation in ("machine.boot", "nic.cleanup", "disk.cleanup"):
            if rate := self._rate(0.25):
                yield ArmTrouble(*self._span(), operation, "async", "", rate)
        if rate := self._rate(0.15):
            yield ArmTrouble(*self._span(), "*", "sync", one_of(REFUSALS), rate, retry_after=one_of((None, 1.0, 5.0)))

    def _writes(self, operation: str) -> Iterator[ArmTrouble]:
        """A write is refused, done without a word, or done slowly."""
        one_of = self.draw.choice
        if rate := self._rate(0.5):
            wait = one_of((None, 1.0, 7.0, 40.0))
            yield ArmTrouble(*self._span(), operation, "sync", one_of(REFUSALS), rate, retry_after=wait)
        if rate := self._rate(0.4):
            yield ArmTrouble(*self._span(), operation, "lost", "", rate)
        if rate := self._rate(0.3):
            yield ArmTrouble(*self._span(), operation, "slow", "", rate, seconds=one_of((30.0, 120.0, 700.0)))

    def _cluster(self) -> Iterator[ClusterTrouble]:
        for who in ("functions", "exporter"):
            for after in (False, True):
                if rate := self._rate(0.2):
                    yield ClusterTrouble(*self._span(), who, self.draw.choice(HTTP), rate, after)

    def _crashes(self) -> Iterator[Crash]:
        if not self._strikes():
            return
        for _ in range(self.draw.choice((1, 1, 2, 4))):
            yield Crash(
                at=self.draw.uniform(5.0, self.busy),
                place=self.draw.choice(PLACES),
                before=self.draw.random() < 0.5,
                skip=self.draw.choice((0, 0, 1, 3)),
                down_for=self.draw.choice((1.0, 5.0, 20.0, 90.0)),
            )

    def _events(self) -> EventFaults:
        return EventFaults(
            duplicate_rate=self._rate(0.5),
            delay_rate=self._rate(0.5),
            delay_seconds=(5.0, self.draw.choice((30.0, 300.0))),
            reorder_rate=self._rate(0.5),
            loss_rate=self._rate(0.5),
        )

    def _evictions(self) -> Iterator[Deed]:
        """Azure takes Spot machines away: one, some, or all of them."""
        while self._strikes():
            notice, share = self.draw.choice((0.0, 5.0, 30.0, 30.0)), self.draw.choice((0.01, 0.01, 0.5, 1.0))
            at = self.draw.uniform(120.0, self.busy)
            yield Deed(at, "preempt", body={"share": share}, number=notice)

    def _cordons(self) -> Iterator[Deed]:
        if self._strikes():
            yield Deed(self.draw.uniform(120.0, self.busy), "cordon")

    def _shortages(self) -> Iterator[Deed]:
        """Quotas and stocks fall for a while; Azure's throttle is always there, and sometimes tight."""
        sku = self.pools[0]["sku"]
        if self._strikes():
            name = self.draw.choice(("cores", "lowPriorityCores"))
            yield Deed(
                self.draw.uniform(0.0, self.busy * 0.5), "quota", name=name, number=self.draw.choice((8, 24, 60))
            )
        if self._strikes():
            spot = {"sku": sku, "spot": self.draw.random() < 0.8}
            at = self.draw.uniform(0.0, self.busy * 0.5)
            yield Deed(at, "stock", body=spot, number=self.draw.choice((0, 0, 2, 5)))
        if self._strikes():
            yield Deed(self.draw.uniform(0.0, self.busy), "throttle", number=self.draw.choice((0.2, 0.5, 2.0)))
