"""A whole exporter over the fakes, driven like in the simulator."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from exporter.service import ExporterService
from shared.model import Config, Snapshot
from shared.settings.config import parse_config
from shared.wire.events import parse_event, read_snapshot
from tests.exporter.fakes import FakeCluster, FakeStore, FakeTopic, at

POOLS = b"""
cluster: training
pools: [{name: cpu, max: 50, shape: {cpu: 4, memory: 8Gi}}]
scale_down: {idle_after: 10m, utilization_below: 0.5}
timing: {debounce: 1s}
"""


class Rig:
    """`to(seconds)` runs the exporter up to that moment, tick by tick as it asks for them."""

    def __init__(self, cluster: FakeCluster | None = None, identity: str = "one", **options: Any) -> None:
        self.cluster = cluster or FakeCluster()
        self.topic, self.store = FakeTopic(), FakeStore()
        self.config: Config = parse_config(POOLS)
        self.now: datetime = at(0)
        self.ticks = 0
        self.service = ExporterService(
            self.cluster,
            self.topic,
            self.store,
            lambda: self.config,
            lambda: self.now,
            identity=identity,
            **options,
        )

    def to(self, seconds: float) -> Rig:
        end = at(seconds)
        due = self._pass()
        while due is not None and due <= end:
            self.now = max(due, self.now)
            due = self._pass()
        self.now = end
        self._pass()
        return self

    def _pass(self) -> datetime | None:
        self.ticks += 1
        assert self.ticks < 10_000, "the exporter asks to be called without end"
        self.service.poll()
        return self.service.tick(self.now)

    def published(self, kind: str) -> list[tuple[float, dict[str, Any]]]:
        """When, in seconds since the start, and with which detail."""
        found = []
        for event in self.topic.of(kind):
            seconds = (datetime.fromisoformat(event["time"]) - at(0)).total_seconds()
            found.append((seconds, event["data"]["detail"]))
        return found

    def last_snapshot(self) -> Snapshot:
        return read_snapshot(parse_event(self.topic.events[-1], {"training"}))
