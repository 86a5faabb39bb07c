"""Whether bought nodes can hold what they were bought for. Shares no code with the planner that it judges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from bench.ours import Node
from bench.workloads import Workload, takes


def faults(workload: Workload, nodes: Sequence[Node], unserved: int) -> Iterator[str]:
    """Everything that is wrong with a plan, in words."""
    pools = {pool["name"]: pool for pool in workload["pools"]}
    kinds = {kind["name"]: kind for kind in workload["pods"]}
    planned: Counter[str] = Counter()
    for number, node in enumerate(nodes):
        planned.update(node.pods)
        held = [(kinds[name], count) for name, count in node.pods.items()]
        yield from (f"node {number} of {node.pool}: {fault}" for fault in _wrong_with(pools[node.pool], held))
    yield from _uneven(workload, nodes, unserved)
    for name, kind in kinds.items():
        if planned[name] > kind["count"]:
            yield f"{name} is planned {planned[name]} times, and there are {kind['count']}"
    if planned.total() + unserved != sum(kind["count"] for kind in kinds.values()):
        yield f"{planned.total()} pods planned and {unserved} unserved are not all pods"


def _wrong_with(pool: Workload, held: Sequence[tuple[Workload, int]]) -> Iterator[str]:
    if not held:
        yield "is empty"
    for axis in ("cpu_m", "mem_mi", "gpu"):
        if sum(kind[axis] * count for kind, count in held) > pool[axis]:
            yield f"holds more {axis} than it has"
    if sum(count for _, count in held) > pool["pods"]:
        yield "holds more pods than it may"
    for kind, count in held:
        if not takes(pool, kind):
            yield f"takes no {kind['name']}"
        if kind.get("anti_hostname") and count > 1:
            yield f"holds {count} pods of {kind['name']}, to be kept apart"


def _uneven(workload: Workload, nodes: Sequence[Node], unserved: int) -> Iterator[str]:
    if unserved:
        return  # what is left out may be what would even it
    for kind in workload["pods"]:
        on_nodes = [node.pods.get(kind["name"], 0) for node in nodes]
        if kind.get("spread_hostname") and on_nodes and max(on_nodes) - min(on_nodes) > kind["spread_hostname"]:
            yield f"{kind['name']} is spread with skew {max(on_nodes) - min(on_nodes)}"
