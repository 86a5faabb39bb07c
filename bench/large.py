"""A large cluster in a process of its own, so that its peak memory is its own: ``python -m bench.large [REPEATS]``.

50,000 pods in 500 shapes wait, over 20 pools, beside 5,000 nodes that are partly full.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace

from bench import ours, workloads
from bench.workloads import Workload
from shared.model import BoundPods, Config, Movability, NodeView, PodRef, PodShape, Pool

PODS, SHAPES, NODES = 50_000, 500, 5_000
HELD = 8
"""Pods on each node that is there."""


def main(arguments: Sequence[str]) -> int:
    """Print times and memory as one line of JSON."""
    repeats = int(arguments[0]) if arguments else 5
    workload = large()
    nodes = standing(ours.config_of(workload), seed=1)
    result = ours.measure(workload, ours.PACKERS[ours.FIRST], repeats, nodes)
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    pods = ours.parsed(workload, seed=1)
    tracemalloc.start()
    ours.first_plan(pods, ours.config_of(workload), nodes)
    _, peak = tracemalloc.get_traced_memory()
    figures = {
        "ms_min": round(result.least, 1),
        "ms_median": round(result.median, 1),
        "nodes": len(result.nodes),
        "unserved": result.unserved,
        "call_peak_mb": round(peak / 2**20, 1),
        "process_peak_mb": round(rss, 1),
    }
    print(json.dumps(figures))
    return 0


def large() -> Workload:
    """500 shapes, 1 in 10 of them a GPU one, over the ten pools and ten more of other proportions."""
    rng = random.Random(500)
    pools = list(workloads.TEN_POOLS)
    for number, (cpu, memory) in enumerate([(2, 16), (4, 8), (4, 32), (16, 32), (16, 128), (32, 64), (32, 128)]):
        pools.append(workloads.pool(f"x{number}", cpu, memory, 0, round(0.029 * cpu + 0.0048 * memory, 3)))
    for number, (cpu, memory, gpu) in enumerate([(16, 110, 1), (32, 220, 2), (64, 440, 2)]):
        pools.append(workloads.pool(f"g{number}", cpu, memory, gpu, round(0.02 * cpu + 0.6 * gpu, 3)))
    pods = []
    for number in range(SHAPES):
        gpu = rng.choice([1, 1, 1, 2, 4]) if number % 10 == 9 else 0
        cpu = rng.randrange(50, 4000, 50) * max(1, gpu)
        memory = int(cpu / 1000 * rng.choice([1, 2, 3, 4, 6]) * workloads.GIB) + number
        pods.append(workloads.pod(f"kind-{number:03d}", cpu, memory, PODS // SHAPES, gpu=gpu))
    return {"name": "large", "pools": pools, "pods": pods}


def standing(config: Config, seed: int) -> tuple[NodeView, ...]:
    """Nodes of all pools in turn, each between a third full and nearly so."""
    rng = random.Random(seed)
    return tuple(_node(number, config.pools[number % len(config.pools)], rng) for number in range(NODES))


def _node(number: int, pool: Pool, rng: random.Random) -> NodeView:
    name, share = f"{pool.name}-{number:05d}", rng.uniform(0.3, 0.98)
    each = {axis: int(amount * share / HELD) for axis, amount in pool.allocatable.items() if axis in {"cpu", "memory"}}
    gpus = round(pool.allocatable.get("nvidia.com/gpu", 0) * share)
    requested = {axis: amount * HELD for axis, amount in each.items()} | {"pods": HELD, "nvidia.com/gpu": gpus}
    shape = PodShape(requests=tuple(sorted(each.items())))
    refs = tuple(PodRef("default", f"{name}-{pod}", f"uid-{name}-{pod}") for pod in range(HELD))
    return NodeView(
        name=name,
        uid=f"uid-{name}",
        provider_id=f"azure:///{name}",
        pool=pool.name,
        labels={**pool.labels, "kubernetes.io/hostname": name},
        taints=pool.taints,
        allocatable=pool.allocatable,
        requested=requested,
        host_ports=(),
        ready=True,
        unschedulable=False,
        created_at=ours.NOW.replace(year=2025),
        bound=(BoundPods(replace(shape), refs, Movability.MOVES),),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
