"""What a plan asks for, as orders to those who grow pools."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from functions.outcomes import Json
from functions.world import budget_key, may_grow
from shared.model import Config, FailureMemory, NewNode, Plan, PodRef, PodShape, Pool, PoolKind, Snapshot
from shared.packing.pool_choice import open_zones
from shared.planning.in_vain import class_key
from shared.state.ledger import moment

SET_CHUNK = 100  # scale set VMs per growth: what a placement group takes, and few enough to name in the ledger
VM_CHUNK = 8  # stand-alone VMs per growth: each has an operation of its own to await
MOST_CLASSES = 12  # remembered of a growth
MOST_NAME = 80  # characters of a pod's name there
WHY_PODS = 3  # named in a growth's order, of which there are up to MOST_STARTS in 32 kB


def operation_id(*parts: str) -> str:
    """A short id that the same decision always gets: a re-run names the same operations."""
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:10]


def growths_of(
    order: Json, config: Config, decided: Plan, snapshot: Snapshot, failures: tuple[FailureMemory, ...]
) -> Iterator[Json]:
    """An order for each growth that the plan asks for, as `functions.growing` takes it."""
    nodes = {delta.pool: delta.nodes for delta in decided.deltas}
    shapes = _shapes_by_pod(snapshot) if nodes else {}
    wanted = Counter({delta.pool: delta.add for delta in decided.deltas})
    wanted.update(decided.top_up)
    wanted.update(decided.replacements)
    for pool in config.pools:
        if not may_grow(pool):
            continue
        size = min(pool.ramp, VM_CHUNK if pool.kind is PoolKind.VM else SET_CHUNK)
        may_be = open_zones(pool, failures, moment(order["now"]))
        for start in range(0, wanted[pool.name], size):
            yield {
                "op": operation_id(order["cluster"], order["holder"], str(order["generation"]), pool.name, str(start)),
                "pool": pool.name,
                "add": min(size, wanted[pool.name] - start),
                "kind": pool.kind.value,
                "budget": budget_key(pool),
                "zones": _zones(pool, nodes.get(pool.name, ()), start, min(size, wanted[pool.name] - start), may_be),
                "why": why_bought(decided, pool.name),
                "classes": _classes(nodes.get(pool.name, ())[start : start + size], shapes),
            }


def _zones(pool: Pool, nodes: Sequence[NewNode], start: int, number: int, may_be: Sequence[str]) -> list[str]:
    """For each single VM its zone: the one that its pods need, or any in turns. Of a scale set Azure chooses."""
    if pool.kind is not PoolKind.VM or not pool.zones:
        return list(may_be)
    asked = [nodes[each].zone if each < len(nodes) else "" for each in range(start, start + number)]
    return [zone or may_be[(start + each) % len(may_be)] for each, zone in enumerate(asked)]


def _shapes_by_pod(snapshot: Snapshot) -> dict[PodRef, PodShape]:
    """Of all pods that a node may be bought for: those that wait, and those that Azure takes the node of."""
    waiting = [(each.pods, each.shape) for each in snapshot.pending]
    waiting += [(each.pods, each.shape) for node in snapshot.nodes if node.evicting_at for each in node.bound]
    return {pod: shape for pods, shape in waiting for pod in pods}


def _classes(nodes: Sequence[NewNode], shapes: Mapping[PodRef, PodShape]) -> list[str]:
    """The keys of the classes with most pods on these nodes: what comes is later held against them."""
    counts = Counter(shapes[pod] for node in nodes for pod in node.pods if pod in shapes)
    return sorted({class_key(shape) for shape, _ in counts.most_common(MOST_CLASSES)})


def why_bought(decided: Plan, pool: str) -> str:
    """What the pool's new nodes are for, as the trail and the log tell it."""
    pods = [pod for delta in decided.deltas if delta.pool == pool for node in delta.nodes for pod in node.pods]
    named = ", ".join(str(pod)[:MOST_NAME] for pod in pods[:WHY_PODS])
    more = f" and {len(pods) - WHY_PODS} more pods" if len(pods) > WHY_PODS else ""
    reasons = [
        f"for {named}{more}" if pods else "",
        "to reach its minimum or headroom" if decided.top_up.get(pool) else "",
        "so that dearer nodes can go" if decided.replacements.get(pool) else "",
    ]
    return "; ".join(filter(None, reasons))
