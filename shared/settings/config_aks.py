"""What AKS gives to the nodes of an agent pool by itself, and what it asks of the pool."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from shared.model import MOST_OF_AN_AGENT_POOL, Pool, PoolKind, Priority, Taint
from shared.settings.config_schema import Problem

Json = dict[str, Any]

MODE_LABEL = "kubernetes.azure.com/mode"
SPOT_LABEL = "kubernetes.azure.com/scalesetpriority"

_POOL_NAME = re.compile(r"[a-z][a-z0-9]{0,11}")
_SPOT_TAINT = Taint(SPOT_LABEL, "spot", "NoSchedule")


def labels_of(kind: PoolKind, resource: str, priority: Priority, written: Mapping[str, str]) -> dict[str, str]:
    """Labels of a pool's nodes: what AKS writes ("Use labels in an AKS cluster": reserved system labels; "Add a Spot
    node pool to an AKS cluster"), then what the file says."""
    if kind is not PoolKind.AKS:
        return dict(written)
    given = {"agentpool": resource, "kubernetes.azure.com/agentpool": resource, MODE_LABEL: "user"}
    spot = {SPOT_LABEL: "spot"} if priority is Priority.SPOT else {}
    return {**given, **spot, **written}


def taints_of(kind: PoolKind, priority: Priority, written: tuple[Taint, ...]) -> tuple[Taint, ...]:
    """Taints of a pool's nodes: those of the file, and the one that AKS gives to every Spot node."""
    if kind is not PoolKind.AKS or priority is not Priority.SPOT or _SPOT_TAINT in written:
        return written
    return (*written, _SPOT_TAINT)


def problems_of(pools: Mapping[str, Pool]) -> Iterator[Problem]:
    """What AKS would refuse, as far as the file shows it."""
    for path, pool in pools.items():
        if pool.kind is not PoolKind.AKS:
            continue
        if pool.resource and not _POOL_NAME.fullmatch(pool.resource):
            message = "is no agent pool's name (at most 12 lower-case letters and digits): name the pool in `resource`"
            yield Problem(f"{path}.resource", pool.resource, message)
        if pool.minimum > MOST_OF_AN_AGENT_POOL:
            message = f"is above {MOST_OF_AN_AGENT_POOL}, the most nodes of an agent pool"
            yield Problem(f"{path}.min", pool.minimum, message)
        if pool.labels.get(MODE_LABEL) != "system":
            continue
        if pool.minimum < 1:
            message = "AKS keeps one node of a System pool at least: set min to 1 or more (it recommends 2 or 3)"
            yield Problem(f"{path}.min", pool.minimum, message)
        if pool.priority is Priority.SPOT:
            yield Problem(f"{path}.priority", "Spot", "a System pool cannot be Spot; set priority: Regular")


def missing_to_act(path: str, pool: Pool) -> Iterator[Problem]:
    """What is needed beside a subscription, a resource group and a location."""
    if pool.kind is PoolKind.AKS and pool.azure is not None and not pool.azure.aks_cluster:
        message = "to act, kind aks needs the AKS cluster's name, here or in the file's azure; or set mode: observe"
        yield Problem(f"{path}.azure.aks_cluster", pool.azure.aks_cluster, message)
