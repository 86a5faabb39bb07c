"""Nodes that are there against the pool that they belong to: what a kubelet was started with shows nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from local.doctor.findings import Check, Finding
from shared.model import Config, Pool, Taint
from shared.names import STARTING_TAINT
from shared.provider_id import pool_of

Json = dict[str, Any]
_PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "sluice.io/", "startup-taint.", "ignore-taint.")
"""Taints that come and go with a node's state, and say nothing of its pool."""
_SHOWN = 3


def judge(config: Config, nodes: Iterable[Json]) -> Iterator[Finding]:
    """One finding for each pool that has a node."""
    by_pool: dict[str, list[Json]] = {}
    for node in nodes:
        by_pool.setdefault(pool_of(node, config), []).append(node)
    for pool in config.pools:
        if there := by_pool.get(pool.name):
            yield _judged(pool, there)


def _judged(pool: Pool, nodes: list[Json]) -> Finding:
    check = Check("nodes", pool.name)
    for node in nodes:
        name, labels, taints = node["metadata"]["name"], node["metadata"].get("labels") or {}, _taints(node)
        wrong = [f"{key}={value}" for key, value in pool.labels.items() if labels.get(key) != value]
        if wrong:
            told = f"labels: {name} lacks {', '.join(wrong[:_SHOWN])}, which the pools file says of its pool"
            return check.failed(told, "correct `labels`, or what the pool's kubelets are started with (--node-labels)")
        if extra := sorted(map(_written, taints - set(pool.taints))):
            told = f"taints: {name} has {', '.join(extra[:_SHOWN])}, which the pools file does not say of its pool"
            return check.failed(told, "add them to `taints`: pods that do not tolerate them are planned for in vain")
    return check.ok(f"{len(nodes)} node{'s' * (len(nodes) != 1)} as the pools file says")


def _taints(node: Json) -> set[Taint]:
    found = (node.get("spec") or {}).get("taints") or ()
    return {
        Taint(each["key"], each.get("value") or "", each["effect"])
        for each in found
        if each["effect"] != "PreferNoSchedule"
        and not each["key"].startswith(_PASSING)
        and each["key"] != STARTING_TAINT
    }


def _written(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}"
