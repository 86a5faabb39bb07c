"""Records as ARM's JSON. VMs are rendered once per change: lists of them are most of the traffic."""

from __future__ import annotations

from datetime import datetime

import orjson

from local.arm.state import Address, AgentPool, Disk, Json, ManagedCluster, Nic, ScaleSet, Vm

_DISPLAY = {"Creating": "creating", "Succeeded": "succeeded", "Deleting": "deleting", "Updating": "updating"}


def scale_set_json(scale_set: ScaleSet) -> Json:
    """A scale set."""
    return {
        "id": scale_set.id,
        "name": scale_set.name,
        "type": "Microsoft.Compute/virtualMachineScaleSets",
        "location": scale_set.location,
        "etag": scale_set.etag,
        "tags": scale_set.tags,
        "zones": scale_set.zones,
        "sku": {"name": scale_set.sku, "tier": "Standard", "capacity": scale_set.capacity},
        "properties": {
            "orchestrationMode": "Flexible" if scale_set.flexible else "Uniform",
            "provisioningState": scale_set.provisioning_state,
            "overprovision": False,
            "singlePlacementGroup": scale_set.single_group,
            "virtualMachineProfile": scale_set.profile,
        },
    }


def vm_fragment(vm: Vm) -> orjson.Fragment:
    """A VM, instance view included."""
    if vm.rendered is None:
        vm.rendered = orjson.Fragment(orjson.dumps(vm_json(vm)))
    return vm.rendered


def vm_json(vm: Vm) -> Json:
    """A VM, of a scale set or alone."""
    body: Json = {
        "id": vm.id,
        "name": vm.name,
        "location": vm.location,
        "tags": vm.tags,
        "zones": [vm.zone] if vm.zone else [],
        "properties": {
            "provisioningState": vm.provisioning_state,
            "timeCreated": _time(vm.created_at),
            "hardwareProfile": {"vmSize": vm.sku},
            "osProfile": {"computerName": vm.computer_name},
            "storageProfile": _storage(vm),
            "networkProfile": {
                "networkInterfaces": [{"id": nic.id, "properties": {"deleteOption": option}} for nic, option in vm.nics]
            },
            "priority": "Spot" if vm.spot else "Regular",
            "instanceView": instance_view(vm),
        },
    }
    if vm.spot:
        body["properties"]["evictionPolicy"] = vm.eviction_policy
    if vm.instance_id:
        body["instanceId"] = vm.instance_id
        body["sku"] = {"name": vm.sku, "tier": "Standard"}
        body["properties"]["latestModelApplied"] = True
    elif vm.scale_set is not None:
        body["properties"]["virtualMachineScaleSet"] = {"id": vm.scale_set.id}
    return body


def instance_view(vm: Vm) -> Json:
    """What the platform says of a VM; a failure's code is the third part of its provisioning status. A VM that never
    ran has no power state."""
    code = f"ProvisioningState/failed/{vm.failure}" if vm.failure else ""
    code = code or f"ProvisioningState/{_DISPLAY.get(vm.provisioning_state, vm.provisioning_state.lower())}"
    statuses = [{"code": code, "level": "Error" if vm.failure else "Info", "displayStatus": vm.provisioning_state}]
    if not vm.failure or vm.ready_at is not None:
        statuses.append({"code": f"PowerState/{vm.power}", "level": "Info", "displayStatus": f"VM {vm.power}"})
    return {"statuses": statuses}


def nic_json(nic: Nic) -> Json:
    """A network interface."""
    properties: Json = {"provisioningState": "Succeeded"}
    if nic.held_by:
        properties["virtualMachine"] = {"id": nic.held_by}
    return {"id": nic.id, "name": nic.name, "location": nic.location, "tags": nic.tags, "properties": properties}


def address_json(address: Address) -> Json:
    """A public IP address."""
    properties: Json = {"provisioningState": "Succeeded"}
    if address.held_by:
        properties["ipConfiguration"] = {"id": address.held_by}
    base = {"id": address.id, "name": address.name, "location": address.location, "tags": address.tags}
    return {**base, "properties": properties}


def disk_json(disk: Disk) -> Json:
    """A managed disk."""
    body: Json = {
        "id": disk.id,
        "name": disk.name,
        "location": disk.location,
        "tags": disk.tags,
        "zones": [disk.zone] if disk.zone else [],
        "properties": {
            "diskState": "Attached" if disk.held_by else "Unattached",
            "diskSizeGB": disk.size_gb,
            "timeCreated": _time(disk.created_at),
            "provisioningState": "Succeeded",
        },
    }
    if disk.os:
        body["properties"]["osType"] = "Linux"
    if disk.held_by:
        body["managedBy"] = disk.held_by
    return body


def _storage(vm: Vm) -> Json:
    storage: Json = {
        "dataDisks": [
            {
                "lun": attached.lun,
                "name": attached.disk.name,
                "createOption": attached.create_option,
                "deleteOption": attached.delete_option,
                "managedDisk": {"id": attached.disk.id},
            }
            for attached in vm.data_disks
        ]
    }
    if vm.os_disk is not None:
        storage["osDisk"] = {
            "name": vm.os_disk.name,
            "osType": "Linux",
            "createOption": "FromImage",
            "deleteOption": vm.os_delete_option,
            "managedDisk": {"id": vm.os_disk.id},
        }
    return storage


def _time(when: datetime) -> str:
    return when.isoformat()


def managed_cluster_json(cluster: ManagedCluster) -> Json:
    """An AKS cluster, as far as its pools are concerned."""
    busy = next((pool.provisioning_state for pool in cluster.pools.values() if not _rests(pool)), "Succeeded")
    profiles = [{"name": pool.name, **_agent_pool_properties(pool)} for pool in cluster.pools.values()]
    return {
        "id": cluster.id,
        "name": cluster.name,
        "type": "Microsoft.ContainerService/managedClusters",
        "location": cluster.location,
        "properties": {
            "provisioningState": busy,
            "powerState": {"code": "Running"},
            "nodeResourceGroup": cluster.node_group,
            "agentPoolProfiles": profiles,
        },
    }


def agent_pool_json(pool: AgentPool) -> Json:
    """An agent pool."""
    return {
        "id": pool.id,
        "name": pool.name,
        "type": "Microsoft.ContainerService/managedClusters/agentPools",
        "properties": _agent_pool_properties(pool),
    }


def machine_json(pool: AgentPool, vm: Vm) -> Json:
    """A machine of an agent pool: its name, and where its VM is to be read."""
    return {
        "id": f"{pool.id}/machines/{vm.computer_name}",
        "name": vm.computer_name,
        "type": "Microsoft.ContainerService/managedClusters/agentPools/machines",
        "zones": [vm.zone] if vm.zone else [],
        "properties": {"network": {"ipAddresses": []}, "resourceId": vm.id},
    }


def _agent_pool_properties(pool: AgentPool) -> Json:
    return {
        "type": "VirtualMachineScaleSets",
        "powerState": {"code": "Running"},
        **pool.properties,
        "count": pool.count,
        "eTag": pool.etag,
        "provisioningState": pool.provisioning_state,
    }


def _rests(pool: AgentPool) -> bool:
    return pool.provisioning_state in {"Succeeded", "Failed", "Canceled"}
