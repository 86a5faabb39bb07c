"""Our side of the race: pods as Sluice holds them once they are parsed, and the call that is timed.

The input is a list of separate pods in random order, made afresh for every repeat. Parsing shares equal field values
among pods (selectors, requests, tolerations), as it does in production; but every pod has a shape object of its own,
and nothing says beforehand which pods are alike: grouping them is part of what is timed.
"""

from __future__ import annotations

import gc
import json
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from bench.workloads import Workload
from shared.model import Config, Ledger, NodeView, Plan, PodRef, Snapshot
from shared.packing.allocation import Effort
from shared.planning.plan import plan
from shared.reading.pods import ParsedPod, classes_of, shape_of
from shared.reading.projection import interest_of
from shared.settings.config import parse_config

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MIB = 1024**2


@dataclass(frozen=True, slots=True)
class Node:
    """A node that somebody would buy: its pool, and the pods for it by shape (by the workload's names)."""

    pool: str
    pods: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Result:
    """Times in milliseconds, and what was decided; `reason` says why pods were left out, in the planner's words."""

    times: tuple[float, ...]
    nodes: tuple[Node, ...]
    unserved: int
    reason: str = ""

    @property
    def least(self) -> float:
        """The fastest repeat."""
        return min(self.times)

    @property
    def median(self) -> float:
        """The repeat in the middle."""
        return statistics.median(self.times)


Packer = Callable[[Sequence[ParsedPod], Config, tuple[NodeView, ...]], Plan]


def first_plan(pods: Sequence[ParsedPod], config: Config, nodes: tuple[NodeView, ...] = ()) -> Plan:
    """From pods to a plan: the timed call."""
    return _planned(pods, config, nodes, Effort.FIRST)


def improved_plan(pods: Sequence[ParsedPod], config: Config, nodes: tuple[NodeView, ...] = ()) -> Plan:
    """The same with all the effort that planning makes unless told otherwise."""
    return _planned(pods, config, nodes, Effort.IMPROVED)


def _planned(pods: Sequence[ParsedPod], config: Config, nodes: tuple[NodeView, ...], effort: Effort) -> Plan:
    snapshot = Snapshot("bench", 1, 1, NOW, pending=tuple(classes_of(pods)), nodes=nodes)
    return plan(snapshot, config, Ledger(), NOW, effort)


FIRST = "sluice-first"
"""The packer that the bars on speed hold to account."""

IMPROVED = "sluice"
"""The packer that the bars on prices hold to account: what planning does by default."""

PACKERS: Mapping[str, Packer] = {FIRST: first_plan, IMPROVED: improved_plan}


def measure(workload: Workload, packer: Packer, repeats: int, nodes: tuple[NodeView, ...] = ()) -> Result:
    """Time a packer on a workload; pods are made and shuffled anew before each repeat, outside the clock."""
    config, times = config_of(workload), []
    for number in range(repeats):
        pods = parsed(workload, seed=number)
        gc.collect()
        started = time.perf_counter()
        made = packer(pods, config, nodes)
        times.append((time.perf_counter() - started) * 1000)
    return Result(tuple(times), *read(made))


def read(made: Plan) -> tuple[tuple[Node, ...], int, str]:
    """The nodes to buy, how many pods are left out, and the first reason for that."""
    nodes = tuple(
        Node(delta.pool, Counter(ref.name.rpartition("-")[0] for ref in node.pods))
        for delta in made.deltas
        for node in delta.nodes
    )
    left = sum(len(each.pods) for each in made.unserved)
    reason = next((why for each in made.unserved for why in each.reasons.values()), "")
    return nodes, left, reason


def config_of(workload: Workload) -> Config:
    """The workload's pools as a pools file says them."""
    pools = [
        {
            "name": pool["name"],
            "max": pool["max"],
            "price": pool["price"],
            "shape": _pool_shape(pool),
            "reserved": {},
            "labels": pool["labels"],
            "taints": [f"{taint['key']}={taint['value']}:{taint['effect']}" for taint in pool["taints"]],
        }
        for pool in workload["pools"]
    ]
    return parse_config(json.dumps({"cluster": "bench", "pools": pools}))


def parsed(workload: Workload, seed: int) -> list[ParsedPod]:
    """Every pod of the workload as an object of its own, shuffled."""
    pods = []
    manifests = [manifest(kind) for kind in workload["pods"]]
    interest = interest_of(manifests, ())
    for kind, written in zip(workload["pods"], manifests, strict=True):
        shape = shape_of(written, interest)
        for number in range(kind["count"]):
            name = f"{kind['name']}-{number:05d}"
            pods.append(ParsedPod(PodRef("default", name, f"uid-{name}"), replace(shape)))
    random.Random(seed).shuffle(pods)
    return pods


def manifest(kind: Workload) -> dict[str, Any]:
    """A pod of this shape as the API server would show it; the peers make theirs of the same parts."""
    amounts = {"cpu": f"{kind['cpu_m']}m", "memory": f"{kind['mem_mi']}Mi"}
    if kind["gpu"]:
        amounts["nvidia.com/gpu"] = str(kind["gpu"])
    own = {"labelSelector": {"matchLabels": kind["labels"]}, "topologyKey": "kubernetes.io/hostname"}
    spec: dict[str, Any] = {
        "schedulerName": "default-scheduler",
        "nodeSelector": kind["nodeSelector"],
        "tolerations": kind["tolerations"],
        "containers": [{"name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts}}],
    }
    if kind.get("spread_hostname"):
        rule = {"maxSkew": kind["spread_hostname"], "whenUnsatisfiable": "DoNotSchedule", **own}
        spec["topologySpreadConstraints"] = [rule]
    if kind.get("anti_hostname"):
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [own]}}
    meta = {"namespace": "default", "name": kind["name"], "labels": kind["labels"]}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}


def _pool_shape(pool: Workload) -> dict[str, Any]:
    shape = {"cpu": f"{pool['cpu_m']}m", "memory": f"{pool['mem_mi']}Mi", "pods": pool["pods"]}
    return shape | ({"nvidia.com/gpu": pool["gpu"]} if pool["gpu"] else {})
