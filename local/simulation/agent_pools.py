"""Worlds with agent pools: one beside scale sets, or all of them, as AKS runs a cluster; and what AKS does besides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from local.simulation.trouble import Troubles
from local.simulation.workload import Deed

Json = dict[str, Any]
SHARE = 0.2
_OPERATIONS = {"scale_set.update": "agent_pool.update", "scale_set.delete_instances": "agent_pool.delete_machines"}


def draw(draw: Random, pools: Sequence[Json]) -> tuple[Json, ...]:
    """The pools; in some worlds all scale sets are agent pools, and one that keeps nodes may be a System pool."""
    if draw.random() >= SHARE:
        return tuple(pools)
    return tuple(_managed(draw, pool) if "kind" not in pool else pool for pool in pools)


def _managed(draw: Random, pool: Json) -> Json:
    managed = {**pool, "kind": "aks"}
    if pool.get("min") and pool.get("priority") != "Spot" and draw.random() < 0.5:
        managed["labels"] = {**pool.get("labels", {}), "kubernetes.azure.com/mode": "system"}
    return managed


def taints_spot(pools: Sequence[Json]) -> bool:
    """Whether Spot nodes bear AKS's taint."""
    return any(pool.get("kind") == "aks" and pool.get("priority") == "Spot" for pool in pools)


def troubles(draw: Random, busy: float, pools: Sequence[Json], drawn: Troubles) -> Troubles:
    """What goes wrong with scale sets goes wrong with agent pools where there are no others; beside it AKS upgrades
    them, and is at work when somebody comes to write."""
    outbreaks = drawn.outbreaks
    if all("kind" in pool for pool in pools):
        outbreaks = tuple(
            replace(each, operation=_OPERATIONS.get(each.operation, each.operation)) for each in outbreaks
        )
    arm = replace(drawn.chances.arm, occupied=draw.choice((0.0, 0.0, 0.1, 0.4)))
    managed = [pool["name"] for pool in pools if pool.get("kind") == "aks"]
    upgrades = tuple(
        Deed(draw.uniform(0.0, busy), "upgrade", name=draw.choice(managed), number=draw.choice((60.0, 300.0, 1200.0)))
        for _ in range(draw.choice((0, 0, 1, 2)))
    )
    return replace(drawn, outbreaks=outbreaks, chances=replace(drawn.chances, arm=arm), deeds=(*drawn.deeds, *upgrades))
