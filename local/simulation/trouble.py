"""What goes wrong in a world: drawn as data, dimension by dimension, and delivered by the stand-ins."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from local.arm.faults import Stage
from local.arm.trouble import ArmTrouble
from local.durable.model import Faults as HostFaults
from local.durable.model import Latencies
from local.event_grid import EventFaults
from local.kube.trouble import ClusterTrouble
from local.node_trouble import NodeTrouble
from local.simulation.workload import Deed
from local.system.trouble import Trouble

Json = dict[str, Any]
GROWING = ("scale_set.update", "vm.create")
SHRINKING = ("scale_set.delete_instances", "vm.delete")
ALLOCATION_CODES = (
    "AllocationFailed",
    "ZonalAllocationFailed",
    "OverconstrainedAllocationRequest",
    "OverconstrainedZonalAllocationRequest",
    "InternalExecutionError",
    "OperationPreempted",
)
DELETION_CODES = ("InternalExecutionError", "OperationPreempted", "Conflict")
REFUSALS = ("TooManyRequests", "Conflict", "PreconditionFailed", "InternalServerError", "ServiceUnavailable")
PLACES = ("arm", "cluster", "blobs", "journal")


FOR_GOOD = math.inf


@dataclass(frozen=True, slots=True)
class Outbreak:
    """One operation of Azure's fails from `at` to `until`; the fields are those of `local.arm.faults.Fault`.

    One that lasts FOR_GOOD is no fault that ends when all is calm, but how the world is.
    """

    at: float
    until: float
    operation: str
    stage: Stage
    code: str
    probability: float
    partial: int = 0
    seconds: float = 0.0
    retry_after: float | None = None
    resource: str = ""


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
    outbreaks: tuple[Outbreak, ...]
    chances: Trouble
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
            deeds=(*self._evictions(), *self._cordons(), *self._shortages(), *self._levers()),
            outbreaks=tuple(self._outbreaks()),
            chances=Trouble(self._arm(), self._cluster(), self._nodes()),
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

    def _outbreaks(self) -> Iterator[Outbreak]:
        one_of = self.draw.choice
        for operation in (*GROWING, *SHRINKING, "operation.get"):
            if rate := self._rate(0.6):
                wait = one_of((None, 1.0, 7.0, 40.0))
                yield Outbreak(*self._span(), operation, "sync", one_of(REFUSALS), rate, retry_after=wait)
        for operation in (*GROWING, *SHRINKING):
            if rate := self._rate(0.4):
                yield Outbreak(*self._span(), operation, "lost", "", rate)
        for operation in GROWING:
            if rate := self._rate(0.8):
                code, partial = one_of(ALLOCATION_CODES), one_of((0, 0, 1, 2))
                yield Outbreak(*self._span(), operation, "async", code, rate, partial=partial)
        for operation in SHRINKING:
            if rate := self._rate(0.4):
                yield Outbreak(*self._span(), operation, "async", one_of(DELETION_CODES), rate)

    def _arm(self) -> ArmTrouble:
        rate = self._rate
        return ArmTrouble(
            throttled=rate(0.1),
            failing=rate(0.1),
            unreached=rate(0.1),
            lost=rate(0.1),
            conflict=rate(0.2),
            denied=rate(0.05),
            touched=rate(0.3),
            refused=rate(0.2),
            shortage=rate(0.4),
            preempted=rate(0.3),
            late=rate(0.2),
            provisioning=rate(0.2),
            boot=rate(0.1),
            undeleted=rate(0.3),
            slow=rate(0.3),
            hanging=rate(0.15),
            leftover_nic=rate(0.2),
            leftover_disk=rate(0.2),
        )

    def _cluster(self) -> ClusterTrouble:
        rate = self._rate
        return ClusterTrouble(
            throttled=rate(0.1),
            failing=rate(0.1),
            lost=rate(0.1),
            conflict=rate(0.2),
            expired=rate(0.2),
            outages_per_hour=rate(4.0),
            stuck=rate(0.2),
        )

    def _nodes(self) -> NodeTrouble:
        rate = self._rate
        return NodeTrouble(
            never=rate(0.1),
            late=rate(0.1),
            without_gpus=rate(0.3),
            gpus_after_restart=rate(0.3),
            shrunken=rate(0.1),
            tainted=rate(0.1),
            flapping=rate(0.2),
            recreated=rate(0.1),
            finalized=rate(0.2),
        )

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

    def _levers(self) -> Iterator[Deed]:
        """The owner takes Sluice's hands off for a while."""
        if self.draw.random() < self.wildness * 0.3:
            at, mode = self.draw.uniform(60.0, self.busy), self.draw.choice(("paused", "observe", "grow-only"))
            yield Deed(at, "mode", name=mode)
            yield Deed(min(at + self.draw.uniform(60.0, 600.0), self.busy), "mode", name="act")

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
