"""Pools whose last node never got the devices (GPUs) that it was bought for: the next one would not get them either."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from shared.model import Config, FailureMemory, NodeView, Snapshot
from shared.nodes.supply import is_extended, join_time, without_devices
from shared.state.failures import DEVICES_MISSING, failure_memory

_NEWS = timedelta(minutes=20)  # of a memory's half hour: later it has been remembered, or is nobody's news any more


def device_failures(snapshot: Snapshot, config: Config, now: datetime) -> Iterator[FailureMemory]:
    """A refusal of each such pool, as if Azure had spoken it when the node's time was over; a younger node that has its
    devices proves that all is well again."""
    newest: dict[str, NodeView] = {}
    patience = {pool.name: join_time(pool, config.timing) for pool in config.pools}
    for node in snapshot.nodes:
        if node.ready and node.pool in patience and now - node.created_at >= patience[node.pool]:
            known = newest.get(node.pool)
            newest[node.pool] = node if known is None or known.created_at < node.created_at else known
    for pool in config.pools:
        last = newest.get(pool.name)
        if last is None or not without_devices(last, pool, config.timing, now):
            continue
        memory = failure_memory(DEVICES_MISSING, "", pool, last.created_at + patience[pool.name])
        if memory is not None and memory.until > now:
            yield memory


def newly_failed(snapshot: Snapshot, config: Config, now: datetime) -> Iterator[FailureMemory]:
    """Those that are to be remembered for when their node is gone."""
    for memory in device_failures(snapshot, config, now):
        if memory.until - now > _NEWS:
            yield memory


def with_useless_idle(snapshot: Snapshot, config: Config, now: datetime) -> Snapshot:
    """The snapshot with those nodes counted as idle ever since they were made: others could use their place."""
    pools = {pool.name: pool for pool in config.pools if any(map(is_extended, pool.allocatable))}
    useless = {
        node.name
        for node in snapshot.nodes
        if node.pool in pools and without_devices(node, pools[node.pool], config.timing, now)
    }
    if not useless:
        return snapshot
    nodes = (replace(node, idle_since=node.created_at) if node.name in useless else node for node in snapshot.nodes)
    return replace(snapshot, nodes=tuple(nodes))
