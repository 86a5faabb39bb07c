"""What evictions mean for a plan: which of them were withdrawn, and where more of the same would be taken next."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

from shared.model import Config, FailureMemory, Ledger, NodeView, Pool, Priority, Snapshot
from shared.state.evictions import EVICTED_CODE, MEMORY, SEVERAL

WITHDRAWN_AFTER = timedelta(minutes=10)
"""A node that is Ready so long after its hour was not evicted. Agents may leave their condition on it for ever."""

_ZONE = "topology.kubernetes.io/zone"


def without_withdrawn(snapshot: Snapshot, now: datetime) -> Snapshot:
    """The snapshot with nodes at work again that Azure announced to take, and did not; the same one if there are none.

    As long as they count as going, room is bought for pods that never leave.
    """
    if not any(_stayed(node, now) for node in snapshot.nodes):
        return snapshot
    nodes = (replace(node, evicting_at=None) if _stayed(node, now) else node for node in snapshot.nodes)
    return replace(snapshot, nodes=tuple(nodes))


def with_evictions(snapshot: Snapshot, config: Config, ledger: Ledger, now: datetime) -> Ledger:
    """The ledger with a memory of each kind of Spot of which several nodes are going at once: the very plan that
    replaces them must not buy the same again. What goes one after the other is remembered by the ledger itself."""
    pools = {pool.name: pool for pool in config.pools if pool.priority is Priority.SPOT}
    going = (node for node in snapshot.nodes if node.evicting_at is not None and node.pool in pools)
    kinds = Counter(_kind(pools[node.pool], node) for node in going)
    until = now + timedelta(seconds=MEMORY)
    new = [
        FailureMemory(sku, zone, Priority.SPOT, EVICTED_CODE, until, pool, since=now)
        for (sku, zone, pool), number in sorted(kinds.items())
        if number >= SEVERAL
    ]
    return replace(ledger, failures=(*ledger.failures, *new)) if new else ledger


def _stayed(node: NodeView, now: datetime) -> bool:
    return node.evicting_at is not None and node.ready and now - node.evicting_at > WITHDRAWN_AFTER


def _kind(pool: Pool, node: NodeView) -> tuple[str, str, str]:
    """SKU, zone, and the pool where it has no SKU to be remembered by."""
    label = node.labels.get(_ZONE, "")
    zone = next((zone for zone in pool.zones if label == zone or label.endswith(f"-{zone}")), "")
    return pool.sku, zone, "" if pool.sku else pool.name
