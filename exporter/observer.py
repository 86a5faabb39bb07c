"""From what changed in the cache to what is worth announcing: the view and the detectors, wired together."""

from __future__ import annotations

from datetime import datetime, timedelta

from exporter.cache import ClusterCache
from exporter.detectors import Cadence, EvictingDetector, IdleDetector, JoinedDetector, UnschedulableDetector
from exporter.publisher import Notice
from exporter.view import ClusterView
from shared.model import Config, NodeView
from shared.names import NODE_EVICTING, NODE_IDLE, NODE_JOINED, PODS_UNSCHEDULABLE, RETIRE_OPERATION_ANNOTATION
from shared.nodes.starting import can_open, is_starting
from shared.reading.projection import utilization


class Observer:
    """One cluster under one configuration at a time. Knows nothing of who leads or how events are sent."""

    def __init__(self, cache: ClusterCache, config: Config, cadence: Cadence) -> None:
        self._config, self._cadence = config, cadence
        self.view = ClusterView(cache)
        self._pods = UnschedulableDetector(config.timing.debounce, cadence)
        self._idle = self._idle_detector(config)
        self._evicting = EvictingDetector(cadence)
        self._joined = JoinedDetector(_longest_start(config), cadence)

    def look(self, config: Config, now: datetime) -> None:
        """Take in what changed since the last look; everything, when the configuration is another one."""
        if config is not self._config:
            self._tune(config)
        changes = self.view.refresh(config)
        self._pods.observe(changes.appeared, changes.gone, now, arrived=changes.arrived, left=changes.left)
        self._pods.freed(changes.freed, now)
        for name in changes.nodes_gone:
            self._idle.gone(name)
            self._evicting.gone(name)
            self._joined.gone(name)
        for node in changes.nodes:
            self._see(node, now)

    def notices(self, now: datetime) -> list[Notice]:
        """What is to be announced now; asking marks it as announced."""
        found = [
            Notice(NODE_EVICTING, tuple(self._evicting.repeater.due(now))),
            Notice(NODE_IDLE, tuple(self._idle.repeater.due(now))),
            Notice(NODE_JOINED, tuple(self._joined.due(now))),
        ]
        if found[-1].nodes:
            self._pods.joined(now)
        pods = [Notice(PODS_UNSCHEDULABLE)] if self._pods.due(now) else []
        return pods + [notice for notice in found if notice.nodes]

    def next_due(self, now: datetime) -> datetime | None:
        """When `notices` has something if nothing changes before."""
        moments = (
            self._pods.next_due(now),
            self._idle.repeater.next_due(),
            self._evicting.repeater.next_due(),
            self._joined.next_due(),
        )
        return min((moment for moment in moments if moment is not None), default=None)

    def forget(self, now: datetime) -> None:
        """Announce everything that lasts anew: a new holder does not know what the last one said."""
        self._pods.forget(now)
        self._idle.repeater.forget(now)
        self._evicting.repeater.forget(now)

    def _see(self, node: NodeView, now: datetime) -> None:
        retiring = RETIRE_OPERATION_ANNOTATION in node.annotations
        self.view.set_idle(node.name, self._idle.observe(node, utilization(node), now, retiring=retiring))
        self._evicting.observe(node, now)
        pool = self._config.pool(node.pool)
        starts = pool is not None and is_starting(node) and not can_open(node, pool)
        self._joined.observe(node, now, starts=starts)

    def _tune(self, config: Config) -> None:
        """What is remembered of idle nodes stays; their times follow the new thresholds at the next look."""
        self._config = config
        self._pods.debounce = timedelta(seconds=config.timing.debounce)
        self._joined.lately = timedelta(seconds=_longest_start(config))
        self._idle = self._idle_detector(config, self._idle)

    def _idle_detector(self, config: Config, before: IdleDetector | None = None) -> IdleDetector:
        since = before.since if before else None
        terms = config.scale_down
        return IdleDetector(terms.idle_after, terms.utilization_below, self._cadence, since)


def _longest_start(config: Config) -> float:
    """Seconds after which nobody waits for a new node any more, nor for its GPUs."""
    return max(config.timing.node_join_timeout, config.timing.resources_timeout)
