"""What a world is made of, drawn from its seed: pools, times, people's work, and everything that will go wrong.

Every dimension has a draw of its own, and most are calm in most worlds: a fault shows best where little else happens,
and a wild world now and then shows what only happens together.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any

from local.arm.settings import ArmLatencies
from local.durable.model import Faults as HostFaults
from local.durable.model import Latencies
from local.event_grid import EventFaults
from local.kube.controllers.timing import Timing
from local.machines import BootTimes
from local.randomness import stream
from local.simulation import agent_pools
from local.simulation.trouble import FOR_GOOD, Crash, Outbreak, draw_troubles
from local.simulation.workload import MISTAKEN, RARE, Deed, draw_work, mistaken_pod, short_gang, taint_of
from local.system.trouble import Trouble

Json = dict[str, Any]
CLUSTER = "world"
SCOPE = {
    "subscription": "00000000-0000-4000-8000-000000000001",
    "resource_group": "nodes",
    "location": "westeurope",
    "aks_cluster": "prod",
}
SKUS = (("Standard_D4s_v5", 4, 16, 0.2), ("Standard_D8s_v5", 8, 32, 0.4), ("Standard_E4s_v5", 4, 32, 0.26))
MOST_POOLS = 5
GPU_SKU = "Standard_NC4as_T4_v3"
RARE_SKU = "Standard_D2s_v5"
KEPT = 0.3  # of all worlds: an administrator wants to keep a node
SHORT = 0.08  # of all worlds: Azure has a part of a gang, and never the rest
WRONG = 0.06  # of all worlds: the nodes of a pool are not what the pools file says


@dataclass(frozen=True, slots=True)
class World:
    """Everything that a run needs to know; seconds count from its beginning.

    For `busy` seconds people work and things go wrong. Then all faults end, and the world must come to rest.
    `deallocating`: what Azure does with the Spot VMs of scale sets that it takes, instead of deleting them.
    """

    seed: int
    pools: tuple[Json, ...]
    settings: Json
    flexible: frozenset[str]
    deallocating: bool
    busy: float
    deeds: tuple[Deed, ...]
    outbreaks: tuple[Outbreak, ...]
    chances: Trouble
    crashes: tuple[Crash, ...]
    events: EventFaults
    host: HostFaults
    hops: Latencies
    latencies: ArmLatencies
    boot: BootTimes
    timing: Timing
    skew: timedelta
    look_delay: float
    volumes: int
    detach: tuple[float, float]
    replayed: float

    def text(self, mode: str = "act") -> str:
        """The pools file."""
        return json.dumps({"cluster": CLUSTER, "mode": mode, "azure": SCOPE, "pools": self.pools, **self.settings})


def draw_world(seed: int) -> World:
    """The world of a seed; equal in every process."""
    managed = stream(seed, "world", "aks")
    pools = agent_pools.draw(managed, _pools(stream(seed, "world", "pools")))
    aks = any(pool.get("kind") == "aks" for pool in pools)
    times = stream(seed, "world", "times")
    busy = times.uniform(900.0, 1400.0)
    boot = _boot(times)
    volumes = times.choice((1, 1, 2, 3))
    gpus = any("gpu" in pool["name"] for pool in pools)
    troubles = draw_troubles(stream(seed, "world", "troubles"), busy, pools)
    troubles = agent_pools.troubles(managed, busy, pools, troubles) if aks else troubles
    work = draw_work(stream(seed, "world", "work"), busy, volumes, gpus=gpus, spot_taint=agent_pools.taints_spot(pools))
    flexible = _flexible(stream(seed, "world", "flexible"), pools)
    deeds, outbreaks = [*work, *troubles.deeds], troubles.outbreaks
    kept = stream(seed, "world", "kept")
    if kept.random() < KEPT:
        deeds.append(Deed(kept.uniform(120.0, busy * 0.75), "keep"))
    short = stream(seed, "world", "short")
    if short.random() < SHORT:
        pools, outbreaks = (*pools, _small_pool(RARE)), (*outbreaks, _scarcity(short))
        deeds += short_gang(short, busy)
    wrong = stream(seed, "world", "mistaken")
    chances = troubles.chances
    if wrong.random() < WRONG:
        pools, deeds = (*pools, _small_pool(MISTAKEN)), [*deeds, *mistaken_pod(wrong, busy)]
        chances = replace(chances, nodes=replace(chances.nodes, mistaken=MISTAKEN))
    return World(
        seed=seed,
        pools=pools,
        settings=_settings(stream(seed, "world", "settings")),
        flexible=flexible,
        deallocating=stream(seed, "world", "deallocating").random() < 0.3,
        busy=busy,
        deeds=tuple(sorted(deeds, key=lambda deed: deed.at)),
        outbreaks=outbreaks,
        chances=chances,
        crashes=troubles.crashes,
        events=troubles.events,
        host=troubles.host,
        hops=troubles.hops,
        latencies=_latencies(times),
        boot=boot,
        timing=Timing(pod_start=(0.5, 3.0), pod_stop=(0.2, times.choice((1.5, 20.0)))),
        skew=timedelta(seconds=troubles.skew),
        look_delay=stream(seed, "world", "watches").uniform(0.1, 1.0),
        volumes=volumes,
        detach=times.choice(((1.0, 5.0), (5.0, 30.0), (60.0, 200.0))),
        replayed=0.04,
    )


def _pools(draw: Random) -> tuple[Json, ...]:
    """Two to five; mostly a Spot pool with an on-demand pool of the same size behind it."""
    sku, cpu, memory, price = draw.choice(SKUS)
    pools = [_pool(draw, "spot", sku, cpu, memory, price / 4, priority="Spot", fallback=["regular"])]
    pools.append(_pool(draw, "regular", sku, cpu, memory, price))
    if draw.random() < 0.35:
        other, cpu, memory, price = draw.choice(SKUS)
        pools.append(_pool(draw, "other", other, cpu, memory, price * 1.1))
    if draw.random() < 0.3:
        sku, cpu, memory, price = draw.choice(SKUS)
        pools.append(_pool(draw, "single", sku, cpu, memory, price * 1.05, kind="vm", template="vm.json"))
    if draw.random() < 0.25:
        sku, cpu, memory, price = draw.choice(SKUS)
        pools.append(_pool(draw, "agents", sku, cpu, memory, price * draw.choice((0.9, 1.2)), kind="aks"))
    if draw.random() < 0.2 and len(pools) < MOST_POOLS:
        pools.append(_gpu_pool(draw))
    kept = draw.choice(pools)
    if draw.random() < 0.4:
        kept["min"] = draw.choice((1, 1, 2))
    return tuple(pools)


def _pool(draw: Random, name: str, sku: str, cpu: int, memory: int, price: float, **more: object) -> Json:
    zones = draw.choice(([], [], ["1"], ["1", "2", "3"]))
    return {
        "name": name,
        "sku": sku,
        "shape": {"cpu": cpu, "memory": f"{memory}Gi"},
        "reserved": {"cpu": "140m", "memory": "2Gi"},
        "price": round(price, 4),
        "max": draw.choice((3, 8, 15, 30, 30)) if name == "spot" else draw.choice((15, 20, 30)),
        "zones": zones,
        **more,
    }


def _gpu_pool(draw: Random) -> Json:
    pool = _pool(draw, "gpu", GPU_SKU, 4, 28, 0.6, labels={"gpu": "true"}, taints=["sku=gpu:NoSchedule"])
    pool["shape"]["nvidia.com/gpu"] = 1
    return pool | {"max": draw.choice((2, 6))}


def _small_pool(name: str) -> Json:
    """For whom nobody else is, of a size that nobody else asks for."""
    return {
        "name": name,
        "sku": RARE_SKU,
        "shape": {"cpu": 2, "memory": "8Gi"},
        "reserved": {"cpu": "140m", "memory": "2Gi"},
        "price": 0.1,
        "max": 6,
        "labels": {name: "true"},
        "taints": [taint_of(name)],
    }


def _scarcity(draw: Random) -> Outbreak:
    """Azure has one or two VMs of that size, whoever asks and how often."""
    return Outbreak(
        at=0.0,
        until=FOR_GOOD,
        operation="scale_set.update",
        stage="async",
        code="SkuNotAvailable",
        probability=1.0,
        partial=draw.choice((1, 2)),
        resource=RARE,
    )


def _settings(draw: Random) -> Json:
    """Short waits: a world has hours, not days."""
    return {
        "scale_down": {
            "idle_after": f"{draw.choice((45, 60, 120, 180))}s",
            "utilization_below": draw.choice((0.4, 0.5, 0.7)),
            "drain_timeout": f"{draw.choice((60, 120, 300))}s",
            "max_parallel_fraction": draw.choice((0.2, 0.5, 1.0)),
            "replace_saving": draw.choice((0, 0, 0, 0.2)),
        },
        "timing": {
            "node_join_timeout": f"{draw.choice((3, 5))}m",
            "resources_timeout": f"{draw.choice((5, 8))}m",
            "debounce": draw.choice(("1s", "3s")),
            "lead_lease": draw.choice(("30s", "60s", "2m")),
        },
    }


def _flexible(draw: Random, pools: Sequence[Json]) -> frozenset[str]:
    return frozenset(pool["name"] for pool in pools if pool.get("kind", "vmss") == "vmss" and draw.random() < 0.35)


def _latencies(draw: Random) -> ArmLatencies:
    slow = draw.choice((0.3, 1.0, 1.0, 2.0))
    return ArmLatencies(
        create=(10.0 * slow, 45.0 * slow),
        delete=(8.0 * slow, 30.0 * slow),
        failure=(3.0, 20.0),
        eviction=(1.0, 5.0),
        retry_after=draw.choice((0, 1, 5, 10)),
    )


def _boot(draw: Random) -> BootTimes:
    least = draw.choice((5.0, 15.0, 30.0))
    return BootTimes(
        boot=(least, least * draw.uniform(1.2, 3.0)),
        gpu=draw.choice((None, (10.0, 60.0))),
        startup_taint=draw.random() < 0.3,
    )
