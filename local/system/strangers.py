"""What belongs to others in the same resource group: Sluice must leave all of it alone.

There is what looks most like its own: a scale set without tags, a VM that another cluster's Sluice has made for a pool
of the same name, disks and NICs that nobody holds, one of them once a persistent volume's, and a node of the cluster
that is of no pool.
"""

from __future__ import annotations

from datetime import timedelta

import orjson

from local.arm.pools import DEFAULT_SCOPE
from local.arm.stand_in import ArmStandIn
from local.arm.state import Disk, Json, Nic, Vm
from local.kube.stand_in import KubernetesStandIn
from local.web import Request
from shared.model import Config, PoolKind
from shared.names import CLUSTER_TAG, OPERATION_TAG, POOL_TAG

AGE = timedelta(days=3)
SIZE = "Standard_B2s"


def add_strangers(arm: ArmStandIn, cluster: KubernetesStandIn, config: Config) -> None:
    """Put them where one of the pools lives, as old as `AGE`; no trouble strikes while they are made."""
    with arm.cloud.chances.chances.quiet():
        _add(arm, cluster, config)


def _add(arm: ArmStandIn, cluster: KubernetesStandIn, config: Config) -> None:
    first = next((pool for pool in config.pools if pool.kind is PoolKind.VM), config.pools[0])
    scope = first.azure or DEFAULT_SCOPE
    group = f"/subscriptions/{scope.subscription}/resourceGroups/{scope.resource_group}/providers"
    compute, network = f"{group}/Microsoft.Compute", f"{group}/Microsoft.Network"
    ours = {CLUSTER_TAG: f"not-{config.cluster}", POOL_TAG: first.name, OPERATION_TAG: "0123456789"}
    here: Json = {"location": scope.location}
    _put(arm, f"{compute}/virtualMachineScaleSets/bystanders", here | {"sku": {"name": SIZE, "capacity": 1}})
    interface = {"name": "nic", "properties": {"deleteOption": "Detach"}}
    properties = {
        "hardwareProfile": {"vmSize": SIZE},
        "networkProfile": {"networkInterfaceConfigurations": [interface]},
    }
    _put(arm, f"{compute}/virtualMachines/{first.resource}-other-0", here | {"tags": ours, "properties": properties})
    volume = {"kubernetes.io-created-for-pv-name": "their-data"}
    for name, tags in (("their-backup", {}), ("their-volume", volume), ("their-os-disk", ours)):
        _put(arm, f"{compute}/disks/{name}", here | {"tags": tags, "properties": {"diskSizeGB": 8}})
    for name, tags in (("their-nic", {}), ("their-other-nic", ours)):
        _put(arm, f"{network}/networkInterfaces/{name}", here | {"tags": tags})
    things: list[Vm | Disk | Nic] = [*arm.truth.vms, *arm.truth.disks, *arm.truth.nics]
    for thing in things:
        thing.created_at -= AGE
    _add_node(cluster, arm)


def _put(arm: ArmStandIn, path: str, body: Json) -> None:
    answer = arm.handle(Request("PUT", path, {"api-version": "2024-07-01"}, {}, orjson.dumps(body)))
    if answer.status >= 300:
        raise RuntimeError(f"{path}: {answer.body.decode()}")


def _add_node(cluster: KubernetesStandIn, arm: ArmStandIn) -> None:
    """The cluster's own node, where no pod of anybody's may go."""
    vm = next(vm for vm in arm.truth.live_vms() if vm.scale_set is not None and vm.scale_set.name == "bystanders")
    taint = {"key": "CriticalAddonsOnly", "value": "true", "effect": "NoSchedule"}
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": vm.computer_name.lower(), "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "spec": {"providerID": vm.provider_id, "taints": [taint]},
        "status": {"capacity": {"cpu": "2", "memory": "4Gi", "pods": "30"}},
    }
    cluster.handle(Request("POST", "/api/v1/nodes", {}, {"content-type": "application/json"}, orjson.dumps(body)))
