"""From a pools file to what must exist in Azure before Sluice can act: scale sets, agent pools, sizes, VM templates."""

from __future__ import annotations

from math import ceil

from local.arm.agent_pools import AgentPools
from local.arm.cloud import Cloud
from local.arm.scale_sets import ScaleSets
from local.arm.skus import Sku, conventional
from local.arm.state import Json
from shared.model import AzureScope, Config, Pool, PoolKind, Priority
from shared.names import CLUSTER_TAG, POOL_TAG

DEFAULT_CLUSTER = "aks"
DEFAULT_SCOPE = AzureScope("00000000-0000-0000-0000-000000000001", "sluice", "westeurope")


def add_pools(cloud: Cloud, sets: ScaleSets, agents: AgentPools, config: Config, *, flexible: frozenset[str]) -> None:
    """Make the scale sets and agent pools of a configuration, each with its pool's minimum running."""
    for pool in config.pools:
        _register_size(cloud, pool)
        key = pool.resource.lower() if pool.kind is not PoolKind.VM else f"tag:{pool.name}"
        cloud.truth.maximums[key] = pool.maximum
        if pool.kind is PoolKind.AKS:
            _add_agent_pool(cloud, agents, pool)
        if pool.kind is PoolKind.VMSS:
            _add_scale_set(cloud, sets, config.cluster, pool, flexible=pool.name in flexible)


def vm_template(pool: Pool) -> Json:
    """An ARM VM body for a pool of kind vm, with the placeholders that the adapter fills in."""
    scope = pool.azure or DEFAULT_SCOPE
    return {
        "location": scope.location,
        "properties": {
            "osProfile": {"computerName": "{name}"},
            "storageProfile": {"osDisk": {"createOption": "FromImage"}},
            "networkProfile": {
                "networkInterfaceConfigurations": [
                    {"name": "{name}-nic", "properties": {"primary": True, "ipConfigurations": [{"name": "ip"}]}}
                ]
            },
        },
    }


def size_name(pool: Pool) -> str:
    """The pool's size, or one of its own for a pool that gives only a shape."""
    return pool.sku or f"Standard_{pool.resource}"


def _register_size(cloud: Cloud, pool: Pool) -> None:
    known = conventional(size_name(pool))
    cores = ceil(pool.shape.get("cpu", 1000) / 1000)
    memory = pool.shape.get("memory", 0) / 2**30
    gpus = pool.shape.get("nvidia.com/gpu", 0)
    family = pool.quota_family or known.family
    cloud.skus.register(Sku(known.name, pool.vcpus or cores, memory, gpus, family))


def _add_agent_pool(cloud: Cloud, agents: AgentPools, pool: Pool) -> None:
    scope = pool.azure or DEFAULT_SCOPE
    properties: Json = {
        "vmSize": size_name(pool),
        "mode": pool.labels.get("kubernetes.azure.com/mode", "user").capitalize(),
        "osType": "Linux",
        "maxPods": pool.shape.get("pods", 110),
        "scaleSetPriority": str(pool.priority),
        "availabilityZones": list(pool.zones),
        "nodeLabels": dict(pool.labels),
        "nodeTaints": [f"{taint.key}={taint.value}:{taint.effect}" for taint in pool.taints],
    }
    if pool.priority is Priority.SPOT:
        properties |= {"scaleSetEvictionPolicy": "Delete", "spotMaxPrice": -1}
    group = cloud.estate.group(scope.subscription, scope.resource_group)
    made = agents.create(group, scope.aks_cluster or DEFAULT_CLUSTER, scope.location, pool.resource, properties)
    agents.fill(made, pool.minimum)


def _add_scale_set(cloud: Cloud, sets: ScaleSets, cluster: str, pool: Pool, *, flexible: bool) -> None:
    scope = pool.azure or DEFAULT_SCOPE
    profile: Json = {"osProfile": {"computerNamePrefix": pool.resource}, "priority": str(pool.priority)}
    if pool.priority is Priority.SPOT:
        profile |= {"evictionPolicy": "Delete", "billingProfile": {"maxPrice": -1}}
    body: Json = {
        "location": scope.location,
        "zones": list(pool.zones),
        "tags": {CLUSTER_TAG: cluster, POOL_TAG: pool.name},
        "sku": {"name": size_name(pool), "tier": "Standard", "capacity": 0},
        "properties": {
            "orchestrationMode": "Flexible" if flexible else "Uniform",
            "virtualMachineProfile": profile,
        },
    }
    group = cloud.estate.group(scope.subscription, scope.resource_group)
    scale_set = sets.create(group, pool.resource, body)
    sets.fill(scale_set, pool.minimum)
