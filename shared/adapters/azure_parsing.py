"""ARM's JSON as the adapter's values, and the bodies that it writes. No requests here.

Lists are read as plain JSON: the SDK's models cost 0.25 ms per VM, forty times what is needed from one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from shared.adapters.protocols import Instance, Json, Leftover, ScaleSet
from shared.model import Pool, PoolKind, Priority
from shared.names import CLUSTER_TAG, OPERATION_TAG, POOL_TAG

NETWORK_API = "2024-05-01"
_GROUP = re.compile(r"(/resourceGroups/)([^/]+)(/)", re.IGNORECASE)
_AKS_TAGS = "aks-managed-"
_CA_ENABLED, _CA_NAME = "cluster-autoscaler-enabled", "cluster-autoscaler-name"
_CA_TEMPLATE = "k8s.io_cluster-autoscaler_"
_CSI_TAG = "kubernetes.io-created-for"  # the disk CSI driver tags its volumes kubernetes.io-created-for-{pv,pvc}-*


def scale_set_of(body: Json) -> ScaleSet:
    """A scale set as read."""
    properties = body.get("properties", {})
    return ScaleSet(
        name=str(body["name"]),
        capacity=int(body.get("sku", {}).get("capacity") or 0),
        etag=str(body.get("etag") or ""),
        flexible=str(properties.get("orchestrationMode", "Uniform")).lower() == "flexible",
        provisioning_state=str(properties.get("provisioningState", "")),
        single_group=properties.get("singlePlacementGroup") is True,
        overprovisions=properties.get("overprovision") is True,
        unfit=_claimed_by_others(str(body["name"]), body.get("tags") or {}),
    )


def _claimed_by_others(name: str, tags: Mapping[str, str]) -> str:
    """Whose the scale set is, if its tags say that somebody else scales it, and what to do about it.

    cluster-autoscaler's discovery asks for tags of the user's choice (its guide's: cluster-autoscaler-enabled and
    cluster-autoscaler-name), and takes the bounds from `min` and `max` beside them. Its node-template tags alone say
    nothing: they may stay when it goes. One that was told the scale set by name (--nodes) leaves no trace here.
    """
    known = {key.lower(): str(value).strip().lower() for key, value in tags.items()}
    if any(key.startswith(_AKS_TAGS) for key in known):
        return (
            f"scale set {name} belongs to an AKS agent pool (its tags aks-managed-*), and AKS would undo what is "
            "written to it: declare the pool as kind aks, or take it out of the pools file"
        )
    switch = known.get(_CA_ENABLED)
    bounded = known.get("min", "").isdecimal() and known.get("max", "").isdecimal()
    named = bounded and any(key.startswith(_CA_TEMPLATE) or key == _CA_NAME for key in known)
    if switch != "false" and (switch is not None or named):
        return (
            f"scale set {name} is tagged for cluster-autoscaler, and two scalers would undo each other: take it from "
            f"that one and set the tag {_CA_ENABLED}=false, or set the pool's mode to observe"
        )
    return ""


def instance_of(body: Json) -> Instance:
    """A VM of a pool; with `instanceId` in the body it is a child of a uniform scale set."""
    properties = body.get("properties", {})
    storage = properties.get("storageProfile", {})
    disks = storage.get("dataDisks") or []
    uniform = "instanceId" in body
    return Instance(
        instance_id=str(body["instanceId"] if uniform else body["name"]),
        name=str(properties.get("osProfile", {}).get("computerName") or body["name"]).lower(),
        provider_id=provider_id(str(body["id"])),
        provisioning_state=str(properties.get("provisioningState", "")),
        failure=failure_of(properties),
        created_at=_time(properties.get("timeCreated")),
        zone=next(iter(body.get("zones") or ()), ""),
        nics=tuple(str(nic["id"]) for nic in properties.get("networkProfile", {}).get("networkInterfaces") or ()),
        os_disk=_disk_id(storage.get("osDisk", {})),
        data_disks=tuple(_disk_id(disk) for disk in disks),
        undeletable_disks=tuple(_disk_id(disk) for disk in disks if _dies_though_not_ours(disk, body, uniform=uniform)),
        tags=body.get("tags") or {},
        deallocated=_is_deallocated(properties),
    )


def _is_deallocated(properties: Json) -> bool:
    """Stopped by the platform or a person, or about to be: the instance view says it in its PowerState."""
    statuses = properties.get("instanceView", {}).get("statuses") or ()
    return any(str(status.get("code", "")).lower().startswith("powerstate/dealloc") for status in statuses)


def provider_id(resource_id: str) -> str:
    """As Kubernetes' Azure cloud provider writes it: the resource id with its group in lower case."""
    return "azure://" + _GROUP.sub(lambda found: f"{found[1]}{found[2].lower()}{found[3]}", resource_id, count=1)


def failure_of(properties: Json) -> str:
    """Azure's code of a failed provisioning: the third part of the instance view's ProvisioningState/failed/<code>."""
    if str(properties.get("provisioningState", "")).lower() != "failed":
        return ""
    for status in properties.get("instanceView", {}).get("statuses") or ():
        parts = str(status.get("code", "")).split("/")
        if len(parts) == 3 and parts[0] == "ProvisioningState":
            return parts[2]
    return "ProvisioningFailed"


def belongs(body: Json, pool: Pool) -> bool:
    """Whether a VM resource is one of this pool's, by its scale set or by our tags and its name."""
    if pool.kind is PoolKind.VMSS:
        holder = str(body.get("properties", {}).get("virtualMachineScaleSet", {}).get("id", ""))
        return holder.lower().endswith(f"/virtualmachinescalesets/{pool.resource.lower()}")
    named = str(body["name"]).lower().startswith(f"{pool.resource.lower()}-")
    return named and _tagged(body.get("tags") or {}, pool)


def leftover_of(body: Json, kind: str, pools: Iterable[Pool]) -> Leftover | None:
    """A NIC, OS disk, data disk or public IP that these pools' VMs were made with; None for anything else, above all
    for whatever holds somebody's data: a data disk must bear the tag of the operation that made it with its VM, and
    none of CSI. A public IP must bear it too: people write addresses down."""
    tags: Mapping[str, str] = body.get("tags") or {}
    properties = body.get("properties", {})
    if any(name.startswith(_CSI_TAG) for name in tags):
        return None
    by_tag_alone = kind == "ip" or (kind == "disk" and not properties.get("osType"))
    if by_tag_alone and not (tags.get(OPERATION_TAG) and tags.get(CLUSTER_TAG)):
        return None
    if not any(_made_for(str(body["name"]), tags, pool) for pool in pools):
        return None
    holder = _HOLDERS[kind](body)
    return Leftover(str(body["id"]), kind, holder, _time(properties.get("timeCreated")), tags)


def _nic_holder(body: Json) -> str:
    return str((body.get("properties", {}).get("virtualMachine") or {}).get("id") or "")


def _ip_holder(body: Json) -> str:
    properties = body.get("properties", {})
    held = (properties.get(name) or {} for name in ("ipConfiguration", "natGateway"))
    return next((str(each["id"]) for each in held if each.get("id")), "")


def _disk_holder(body: Json) -> str:
    """Who holds a disk: a VM, several of them, or an export that goes on (diskState ActiveSAS, for instance)."""
    holders = [body.get("managedBy"), *(body.get("managedByExtended") or ())]
    state = str(body.get("properties", {}).get("diskState") or "Unattached")
    return next((str(holder) for holder in holders if holder), "" if state == "Unattached" else f"diskState {state}")


_HOLDERS = {"nic": _nic_holder, "disk": _disk_holder, "ip": _ip_holder}


def vm_body(pool: Pool, name: str, zone: str, tags: Mapping[str, str], template: Json) -> Json:
    """The template with name and zone filled in, and with what must not be left to a template: size, priority, tags,
    and that NIC, IP and OS disk go with the VM."""
    body: Json = _filled(template, {"{name}": name, "{zone}": zone})
    body["location"] = body.get("location") or (pool.azure.location if pool.azure else "")
    body["zones"] = [zone] if zone else []
    body["tags"] = {**(body.get("tags") or {}), **tags}
    properties = body.setdefault("properties", {})
    properties.setdefault("hardwareProfile", {})["vmSize"] = pool.sku
    properties.setdefault("osProfile", {}).setdefault("computerName", name)
    _force_priority(properties, pool.priority)
    _force_deletion(properties, name, body["tags"])
    return body


def _force_priority(properties: Json, priority: Priority) -> None:
    properties["priority"] = str(priority)
    if priority is Priority.SPOT:
        properties["evictionPolicy"] = "Delete"
        properties.setdefault("billingProfile", {}).setdefault("maxPrice", -1)
        return
    properties.pop("evictionPolicy", None)
    properties.pop("billingProfile", None)


def _force_deletion(properties: Json, name: str, tags: Mapping[str, str]) -> None:
    storage = properties.setdefault("storageProfile", {})
    os_disk = storage.setdefault("osDisk", {"createOption": "FromImage"})
    os_disk.setdefault("name", f"{name}_OsDisk")
    os_disk["deleteOption"] = "Delete"
    for disk in storage.get("dataDisks") or ():
        if str(disk.get("createOption")).lower() != "attach":
            disk["deleteOption"] = "Delete"
    network = properties.setdefault("networkProfile", {})
    for configuration in network.get("networkInterfaceConfigurations") or ():
        network.setdefault("networkApiVersion", "2022-11-01")
        configuration["tags"] = {**(configuration.get("tags") or {}), **tags}
        inner = configuration.setdefault("properties", {})
        inner["deleteOption"] = "Delete"
        for address in inner.get("ipConfigurations") or ():
            public = address.get("properties", {}).get("publicIPAddressConfiguration")
            if public:
                public["tags"] = {**(public.get("tags") or {}), **tags}
                public.setdefault("properties", {})["deleteOption"] = "Delete"


def _filled(value: Any, replacements: Mapping[str, str]) -> Any:  # noqa: ANN401 - any JSON in, the same JSON out
    if isinstance(value, str):
        for placeholder, text in replacements.items():
            value = value.replace(placeholder, text)
        return value
    if isinstance(value, dict):
        return {key: _filled(item, replacements) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, replacements) for item in value]
    return value


def _dies_though_not_ours(disk: Json, body: Json, *, uniform: bool) -> bool:
    """Data disks are detached unless said otherwise (deleteOption's documented default), but those that a scale set's
    model or our template made with the VM may go with it."""
    if str(disk.get("deleteOption") or "Detach").lower() == "detach":
        return False
    made_with_vm = str(disk.get("createOption", "")).lower() not in {"attach", ""}
    in_set = "virtualMachineScaleSet" in body.get("properties", {})
    return not (made_with_vm and (uniform or in_set or OPERATION_TAG in (body.get("tags") or {})))


def _made_for(name: str, tags: Mapping[str, str], pool: Pool) -> bool:
    if CLUSTER_TAG in tags and _tagged(tags, pool):
        return True
    return _os_disk_name(pool.kind, pool.resource.lower()).fullmatch(name.lower()) is not None


def _tagged(tags: Mapping[str, str], pool: Pool) -> bool:
    """By our tags; a pool that does not know its cluster (in a test, say) asks for none."""
    return tags.get(POOL_TAG) == pool.name and pool.cluster in {"", tags.get(CLUSTER_TAG)}


@lru_cache(maxsize=1024)
def _os_disk_name(kind: PoolKind, resource: str) -> re.Pattern[str]:
    """OS disks as Azure names them for scale sets (<set>_<set>_<number>_OsDisk_1_<32 hex digits>, or with eight hex
    digits in a Flexible set), and for VMs as `vm_body` does (<prefix>-<operation>-<number>_OsDisk); narrow, so that
    nobody else's disk fits."""
    own = re.escape(resource)
    if kind is PoolKind.VMSS:
        return re.compile(rf"{own}_(?:{own}_\d+|[0-9a-f]{{8}})_osdisk_1_[0-9a-f]{{32}}")
    return re.compile(rf"{own}-[0-9a-f]{{10}}-\d+_osdisk")


def _disk_id(disk: Json) -> str:
    return str((disk.get("managedDisk") or {}).get("id") or "")


def _time(value: object) -> datetime | None:
    return datetime.fromisoformat(str(value)) if value else None
