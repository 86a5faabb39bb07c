"""The workloads that packing is measured on. Deterministic: the same name is the same pods, on every machine.

Pool sizes are what pods may use: nothing is reserved. `max` never binds. A name with `#` is a further draw of the same
generator (`b-2000#3`), for which nothing was tuned.

Written as plain mappings, the form that the peers read: cpu in millicores, memory in MiB, prices per hour.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Mapping
from typing import Any

Workload = dict[str, Any]

GIB = 1024
"""In MiB."""

FURTHER_SEEDS = range(1, 21)
NAMES = ("a-1000", "a-5000", "a-15000", "b-2000", "b-15000", "c-2000", "d-mixed", "d-spread", "d-anti")
DRAWN = ("b-2000", "c-2000")
"""The generators that draw lots, and so can draw others: a and d are the same pods whatever the seed."""

_CPU = {"class": "cpu"}
_GPU = {"class": "gpu"}
_GPU_TAINT = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
_GPU_TOLERATION = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


def make(name: str) -> Workload:
    """The workload of that name. Raises KeyError for a name that is none."""
    base, _, seed = name.partition("#")
    return {"name": name, **_MAKERS[base](int(seed) if seed else 0)}


def digest(workload: Mapping[str, Any]) -> str:
    """What the workload says, in 16 hex digits: a bound computed for it holds as long as this is the same."""
    return hashlib.sha256(json.dumps(workload, sort_keys=True).encode()).hexdigest()[:16]


def further() -> list[str]:
    """Every further draw that the bars are held against."""
    return [f"{name}#{seed}" for name in DRAWN for seed in FURTHER_SEEDS]


def takes(pool: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    """Whether an empty node of the pool takes the pod."""
    if any(pool["labels"].get(key) != value for key, value in pod["nodeSelector"].items()):
        return False
    if not all(any(_tolerates(each, taint) for each in pod["tolerations"]) for taint in pool["taints"]):
        return False
    return all(pod[name] <= pool[name] for name in ("cpu_m", "mem_mi", "gpu"))


def pool(name: str, cpu: int, memory_gib: int, gpu: int, price: float) -> Workload:
    """One kind of node; prices are made up, in the ratios of a public cloud."""
    return {
        "name": name,
        "cpu_m": cpu * 1000,
        "mem_mi": memory_gib * GIB,
        "gpu": gpu,
        "pods": 110,
        "labels": {**(_GPU if gpu else _CPU), "pool": name},
        "taints": _GPU_TAINT if gpu else [],
        "price": price,
        "max": 5000,
    }


ONE_POOL = [pool("d8", 8, 32, 0, 0.384)]

TEN_POOLS = [
    pool("d2", 2, 8, 0, 0.096),
    pool("d4", 4, 16, 0, 0.192),
    pool("d8", 8, 32, 0, 0.384),
    pool("d16", 16, 64, 0, 0.768),
    pool("f8", 8, 16, 0, 0.338),
    pool("e8", 8, 64, 0, 0.504),
    pool("t4x1", 8, 56, 1, 0.752),
    pool("t4x4", 64, 440, 4, 4.352),
    pool("v100x1", 6, 112, 1, 3.060),
    pool("a100x1", 24, 220, 1, 3.673),
]


def pod(name: str, cpu: int, memory: int, count: int, gpu: int = 0, **more: object) -> Workload:
    """`count` equal pods; `more` are nodeSelector, spread_hostname (maxSkew) and anti_hostname."""
    return {
        "name": name,
        "cpu_m": cpu,
        "mem_mi": memory,
        "gpu": gpu,
        "count": count,
        "nodeSelector": more.pop("nodeSelector", {}),
        "tolerations": _GPU_TOLERATION if gpu else [],
        "labels": {"app": name},
        **more,
    }


def identical(total: int) -> Workload:
    """Pods of one shape."""
    return {"pools": ONE_POOL, "pods": [pod("same", 500, GIB, total)]}


def fifty_shapes(total: int, seed: int = 0) -> Workload:
    """40 CPU shapes (9 pods in 10) and 10 GPU shapes (1 in 10), in uneven numbers."""
    rng = random.Random(50 + seed)
    pods = []
    for number, count in enumerate(_split(rng, total * 9 // 10, 40)):
        cpu = rng.choice([50, 100, 200, 250, 400, 500, 750, 1000, 1500, 2000, 3000, 3500])
        per_core = rng.choice([1, 1.5, 2, 3, 4, 6, 7.5])
        memory = max(64, int(cpu / 1000 * per_core * GIB)) + number  # + number: no two shapes alike
        select = _CPU if number % 4 == 0 else {}
        pods.append(pod(f"cpu-{number:02d}", cpu, memory, count, nodeSelector=select))
    for number, count in enumerate(_split(rng, total - total * 9 // 10, 10)):
        gpu = [1, 1, 1, 1, 1, 1, 2, 2, 4, 4][number]
        cpu = gpu * rng.choice([1000, 2000, 4000, 5500])
        memory = gpu * rng.choice([8, 16, 32, 48]) * GIB + number
        select = {4: {"pool": "a100x1"}, 5: {"pool": "v100x1"}}.get(number, {})
        pods.append(pod(f"gpu-{number:02d}", cpu, memory, count, gpu=gpu, nodeSelector=select))
    return {"pools": TEN_POOLS, "pods": pods}


def all_distinct(total: int, seed: int = 0) -> Workload:
    """No two pods alike: some want CPU, some memory, many just past 1/2, 1/3, 1/4 of a node; 1 in 20 a GPU."""
    rng = random.Random(2000 + seed)
    pods: dict[tuple[int, int, int], Workload] = {}
    while len(pods) < total:
        number = len(pods)
        cpu, memory = _odd_size(rng, number % 3)
        gpu = int(number % 20 == 19)
        if gpu:
            cpu, memory = min(cpu, 6000), min(memory, 50 * GIB)
        if (cpu, memory, gpu) not in pods:
            pods[cpu, memory, gpu] = pod(f"p{number:04d}", cpu, memory, 1, gpu=gpu)
    return {"pools": TEN_POOLS, "pods": list(pods.values())}


def apart(total: int, apps: int, kind: str) -> Workload:
    """Apps of equal size kept apart by hostname: spread (maxSkew 1), required anti-affinity, or both by turns."""
    pods = []
    for number in range(apps):
        use = ("spread", "anti")[number % 2] if kind == "mixed" else kind
        rule: Workload = {"spread_hostname": 1} if use == "spread" else {"anti_hostname": True}
        pods.append(pod(f"{use}-{number:02d}", 500, GIB, total // apps, **rule))
    return {"pools": ONE_POOL, "pods": pods}


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    return (
        toleration["key"] == taint["key"]
        and toleration.get("effect") in (None, "", taint["effect"])
        and (toleration.get("operator") == "Exists" or toleration.get("value") == taint["value"])
    )


def _odd_size(rng: random.Random, kind: int) -> tuple[int, int]:
    if kind == 0:  # just past an even cut of an 8-core node
        cut = rng.choice([2, 3, 4])
        return 8000 // cut + rng.randint(1, 120), 32 * GIB // cut + rng.randint(1, 900)
    if kind == 1:
        return rng.randint(500, 7000), rng.randint(128, 6 * GIB)
    return rng.randint(50, 1500), rng.randint(4 * GIB, 30 * GIB)


def _split(rng: random.Random, total: int, parts: int) -> list[int]:
    """`total` as so many whole numbers, each at least 1, unevenly."""
    weights = [rng.paretovariate(1.2) for _ in range(parts)]
    spare = total - parts
    counts = [1 + int(spare * weight / sum(weights)) for weight in weights]
    for number in range(total - sum(counts)):
        counts[number % parts] += 1
    return counts


_MAKERS: Mapping[str, Callable[[int], Workload]] = {
    "a-1000": lambda _: identical(1000),
    "a-5000": lambda _: identical(5000),
    "a-15000": lambda _: identical(15000),
    "b-2000": lambda seed: fifty_shapes(2000, seed),
    "b-15000": lambda seed: fifty_shapes(15000, seed),
    "c-2000": lambda seed: all_distinct(2000, seed),
    "d-mixed": lambda _: apart(2000, 20, "mixed"),
    "d-spread": lambda _: apart(2000, 20, "spread"),
    "d-anti": lambda _: apart(2000, 20, "anti"),
}
