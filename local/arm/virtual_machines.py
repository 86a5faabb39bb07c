"""Virtual machines that are resources of their own: stand-alone ones, and those of Flexible scale sets."""

from __future__ import annotations

from local.arm import naming
from local.arm.cloud import Cloud
from local.arm.errors import ArmError, invalid, not_found
from local.arm.machines import Machines
from local.arm.operations import Operation
from local.arm.rendering import instance_view, vm_fragment, vm_json
from local.arm.routing import Call, is_forced, paged
from local.arm.state import DETACH, Address, Attached, Disk, Group, Json, Nic, ScaleSet, Vm
from local.web import Response
from shared.names import CLUSTER_TAG, POOL_TAG

_KIND = "Microsoft.Compute/virtualMachines"


class VirtualMachines:
    """The virtualMachines resource."""

    def __init__(self, cloud: Cloud, machines: Machines) -> None:
        self._cloud, self._machines = cloud, machines

    def get(self, call: Call) -> Response:
        """GET one; the instance view is in it only when asked for."""
        body = vm_json(self._find(call))
        if "instanceView" not in call.request.query.get("$expand", ""):
            del body["properties"]["instanceView"]
        return Response.of_json(200, body)

    def instance_view(self, call: Call) -> Response:
        """GET .../instanceView."""
        return Response.of_json(200, instance_view(self._find(call)))

    def list_all(self, call: Call) -> Response:
        """GET all of a group, or by $filter those of one scale set; $expand=instanceView needs the filter."""
        vms = self._group(call).vms.values()
        wanted = call.request.query.get("$filter", "")
        expand = call.request.query.get("$expand", "")
        if expand and not wanted:
            raise invalid("The $expand option 'instanceView' can be used only with a $filter.")
        if wanted:
            holder = wanted.rsplit(" eq ", 1)[-1].strip("'").lower()
            chosen = [vm for vm in vms if vm.scale_set is not None and vm.scale_set.id.lower() == holder]
            return paged(call, [vm_fragment(vm) for vm in chosen], self._cloud.page_size)
        return paged(call, [vm_fragment(vm) for vm in vms], self._cloud.page_size)

    def put(self, call: Call) -> Response:
        """PUT: create with NIC and disks (201), or take over tags of an existing one (200)."""
        group, body = self._group(call), call.body()
        there = group.vms.get(call.name.lower())
        if there is not None:
            return self._update(there, body)
        vm = self._made(group, call.name, body)
        operation = self._cloud.operations.begin("vm.create", vm.name)
        self._start(vm, operation)
        headers = self._cloud.operations.headers(operation, call.base, group.subscription, vm.location)
        return Response.of_json(201, vm_json(vm), headers)

    def patch(self, call: Call) -> Response:
        """PATCH: tags, and the list of data disks (which attaches and detaches)."""
        vm = self._find(call)
        body = call.body()
        disks = body.get("properties", {}).get("storageProfile", {}).get("dataDisks")
        _check_idle(vm)
        if disks is not None:
            self._set_data_disks(self._group(call), vm, disks)
        return self._update(vm, body)

    def delete(self, call: Call) -> Response:
        """DELETE: 202, or 204 when there is none."""
        vm = self._group(call).vms.get(call.name.lower())
        if vm is None:
            return Response(204)
        cloud = self._cloud
        operation = cloud.operations.begin("vm.delete", vm.name)
        fault = cloud.faults.take("vm.delete", vm.name, "async")
        if fault is not None:
            seconds, code = cloud.duration(cloud.latencies.failure), fault.code
            cloud.operations.end_later(
                operation, seconds, code=code, message=fault.text, then=lambda: _fail_deletion(vm, code)
            )
            cloud.truth.tell("deletion failing", vm)
        else:
            seconds = cloud.duration(cloud.latencies.delete) + cloud.slowness("vm.delete", vm.name)
            cloud.record("vm.delete", vm.name, target=0, count=0, tags=vm.tags, named=(vm.id,))
            forced, going = is_forced(call), vm.deleting_at is not None
            hang = 0.0 if forced else cloud.chances.hanging(vm.name)
            self._machines.discharge(vm, seconds, hang=hang)
            seconds = self._machines.hasten(vm) if forced and going else seconds
            cloud.operations.end_later(operation, seconds, hang=hang, then=lambda: None)
        headers = cloud.operations.headers(operation, call.base, call.target.subscription, vm.location)
        return Response(202, headers)

    def simulate_eviction(self, call: Call) -> Response:
        """POST .../simulateEviction."""
        vm = self._find(call)
        if not vm.spot:
            raise ArmError(409, "OperationNotAllowed", "Simulate eviction is only for VMs of priority Spot.")
        self._machines.preempt(vm, 30.0)
        return Response(204)

    def _start(self, vm: Vm, operation: Operation) -> None:
        """Let it boot, or fail as ordered or for want of stock; a failed VM stays as a resource."""
        cloud = self._cloud
        fault = cloud.faults.take("vm.create", vm.name, "async")
        fault = fault or cloud.faults.take("machine.provision", vm.name, "async")
        if fault is not None:
            fault = cloud.named(fault, spot=vm.spot, zones=[vm.zone] if vm.zone else [])
        else:
            fault = cloud.shortage(vm.sku, [vm.zone] if vm.zone else [], spot=vm.spot, count=1)[1]
        if fault is not None:
            code, text = fault.code, fault.text
            seconds = cloud.duration(cloud.latencies.failure)
            self._machines.fail(vm, seconds, code)
            cloud.operations.end_later(operation, seconds, code=code, message=text, then=lambda: None)
            return
        seconds = cloud.duration(cloud.latencies.create) + cloud.slowness("vm.create", vm.name)
        self._machines.boot(vm, seconds)
        cloud.operations.end_later(operation, seconds, then=lambda: None)

    def _made(self, group: Group, name: str, body: Json) -> Vm:
        """The record of a new VM and its things. Raises ArmError before anything is changed."""
        properties = body.get("properties", {})
        size = properties.get("hardwareProfile", {}).get("vmSize")
        if not size or not body.get("location"):
            raise invalid("Required parameter 'location' or 'hardwareProfile.vmSize' is missing (null).")
        spot = properties.get("priority") in {"Spot", "Low"}
        _check_things(group, properties)
        self._cloud.check_offer(name, size)
        self._cloud.quota.check(group.subscription, str(body["location"]), size, spot=spot, count=1)
        vm = Vm(
            id=group.path(_KIND, name),
            name=name,
            computer_name=str(properties.get("osProfile", {}).get("computerName") or name),
            group=group.name,
            location=str(body["location"]),
            sku=str(size),
            zone=str(next(iter(body.get("zones") or ()), "")),
            spot=spot,
            eviction_policy=str(properties.get("evictionPolicy") or "Deallocate") if spot else "",
            created_at=self._cloud.timeline.now(),
            scale_set=self._joined(group, properties),
            tags=dict(body.get("tags") or {}),
        )
        self._furnish(group, vm, properties)
        group.vms[name.lower()] = vm
        if vm.scale_set is not None:
            vm.scale_set.vms[name.lower()] = vm
            vm.scale_set.capacity += 1
            vm.scale_set.version += 1
        pool = vm.tags.get(POOL_TAG)
        cluster = vm.tags.get(CLUSTER_TAG)
        alike = [other for other in group.vms.values() if pool and other.tags.get(POOL_TAG) == pool]
        siblings = [other for other in alike if other.tags.get(CLUSTER_TAG) == cluster]
        left = self._cloud.quota.left(group.subscription, vm.location)
        self._cloud.record("vm.create", name, target=1, count=len(siblings), tags=vm.tags, quota_left=left)
        return vm

    def _joined(self, group: Group, properties: Json) -> ScaleSet | None:
        wanted = str((properties.get("virtualMachineScaleSet") or {}).get("id") or "")
        if not wanted:
            return None
        scale_set = group.scale_sets.get(wanted.rsplit("/", 1)[-1].lower())
        if scale_set is None or not scale_set.flexible:
            raise invalid(f"The Flexible scale set '{wanted}' was not found in this resource group.")
        return scale_set

    def _furnish(self, group: Group, vm: Vm, properties: Json) -> None:
        storage = properties.get("storageProfile", {})
        self._set_data_disks(group, vm, storage.get("dataDisks") or [])
        self._add_os_disk(group, vm, storage.get("osDisk") or {})
        network = properties.get("networkProfile", {})
        for configuration in network.get("networkInterfaceConfigurations") or ():
            self._make_nic(group, vm, configuration)
        for reference in network.get("networkInterfaces") or ():
            self._take_nic(group, vm, reference)

    def _add_os_disk(self, group: Group, vm: Vm, given: Json) -> None:
        name = str(given.get("name") or naming.os_disk_name(vm.name, self._cloud.ids))
        inherited = dict(vm.tags) if self._cloud.quirks.os_disk_inherits_tags else {}
        vm.os_disk = self._new_disk(group, vm, name, tags=inherited, os=True)
        vm.os_delete_option = str(given.get("deleteOption") or DETACH)

    def _make_nic(self, group: Group, vm: Vm, configuration: Json) -> None:
        name = naming.nic_name(str(configuration.get("name") or vm.name), self._cloud.ids)
        nic = Nic(
            group.path("Microsoft.Network/networkInterfaces", name),
            name,
            vm.location,
            vm.created_at,
            tags=dict(configuration.get("tags") or {}),
            held_by=vm.id,
            made_with=vm.id,
        )
        group.nics[name.lower()] = nic
        self._cloud.truth.nics.append(nic)
        vm.nics.append((nic, str(configuration.get("properties", {}).get("deleteOption") or DETACH)))
        for place in configuration.get("properties", {}).get("ipConfigurations") or ():
            self._make_address(group, vm, nic, place)

    def _make_address(self, group: Group, vm: Vm, nic: Nic, place: Json) -> None:
        given = place.get("properties", {}).get("publicIPAddressConfiguration")
        if not given:
            return
        name = naming.nic_name(str(given.get("name") or "ip"), self._cloud.ids)
        path = group.path("Microsoft.Network/publicIPAddresses", name)
        address = Address(path, name, vm.location, dict(given.get("tags") or {}), f"{nic.id}/ipConfigurations/ip")
        group.addresses[name.lower()] = address
        vm.addresses.append((address, str(given.get("properties", {}).get("deleteOption") or DETACH)))

    def _take_nic(self, group: Group, vm: Vm, reference: Json) -> None:
        nic = group.nics[_last(reference)]
        nic.held_by = vm.id
        vm.nics.append((nic, str(reference.get("properties", {}).get("deleteOption") or DETACH)))

    def _set_data_disks(self, group: Group, vm: Vm, given: list[Json]) -> None:
        """The list is the whole truth: what it lacks is detached, what it adds is attached or made. Raises ArmError for
        disks that cannot be attached, before anything is changed."""
        _check_disks(group, given, vm)
        wanted = {_disk_name(vm, disk): disk for disk in given}
        for attached in vm.data_disks:
            if attached.disk.name.lower() not in wanted:
                attached.disk.held_by = ""
        kept = [attached for attached in vm.data_disks if attached.disk.name.lower() in wanted]
        there = {attached.disk.name.lower() for attached in kept}
        fresh = [self._attached(group, vm, name, disk) for name, disk in wanted.items() if name not in there]
        vm.data_disks = kept + fresh

    def _attached(self, group: Group, vm: Vm, name: str, given: Json) -> Attached:
        option = str(given.get("createOption", "Empty"))
        if option.lower() == "attach":
            disk = group.disks[name]
        else:
            size = int(given.get("diskSizeGB") or 32)
            disk = self._new_disk(group, vm, str(given.get("name") or name), tags={}, size=size)
        disk.held_by = vm.id
        return Attached(int(given.get("lun") or 0), disk, option, str(given.get("deleteOption") or DETACH))

    def _new_disk(
        self, group: Group, vm: Vm, name: str, *, tags: dict[str, str], os: bool = False, size: int = 30
    ) -> Disk:
        disk = Disk(
            group.path("Microsoft.Compute/disks", name),
            name,
            vm.location,
            vm.created_at,
            os=os,
            size_gb=size,
            zone=vm.zone,
            tags=tags,
            held_by=vm.id,
            made_with=vm.id,
        )
        group.disks[name.lower()] = disk
        self._cloud.truth.disks.append(disk)
        return disk

    def _update(self, vm: Vm, body: Json) -> Response:
        _check_idle(vm)
        vm.tags.update(body.get("tags") or {})
        vm.rendered = None
        return Response.of_json(200, vm_json(vm))

    def _group(self, call: Call) -> Group:
        return self._cloud.estate.group(call.target.subscription, call.target.group)

    def _find(self, call: Call) -> Vm:
        vm = self._group(call).vms.get(call.name.lower())
        if vm is None:
            raise not_found(_KIND, call.name, call.target.group)
        return vm


def _fail_deletion(vm: Vm, code: str) -> None:
    """The VM runs on; unless a later deletion is under way."""
    if vm.deleting_at is None:
        vm.set_state("Failed", failure=code)


def _check_idle(vm: Vm) -> None:
    if vm.deleting_at is not None:
        raise ArmError(409, "OperationNotAllowed", f"The VM '{vm.name}' is being deleted.")
    if vm.provisioning_state == "Creating":
        raise ArmError(409, "Conflict", f"The VM '{vm.name}' is being created by an earlier request.")


def _check_things(group: Group, properties: Json) -> None:
    """Raises ArmError for what the body refers to and cannot have."""
    storage = properties.get("storageProfile", {})
    _check_disks(group, storage.get("dataDisks") or [], None)
    name = str((storage.get("osDisk") or {}).get("name") or "")
    if name.lower() in group.disks:
        raise ArmError(409, "ConflictingUserInput", f"Disk {name} already exists in resource group {group.name}.")
    for reference in properties.get("networkProfile", {}).get("networkInterfaces") or ():
        nic = group.nics.get(_last(reference))
        if nic is None or nic.held_by:
            raise invalid(f"Network interface {reference.get('id')} is missing or in use.", "InvalidResourceReference")


def _check_disks(group: Group, given: list[Json], vm: Vm | None) -> None:
    for one in given:
        if str(one.get("createOption", "")).lower() != "attach":
            continue
        name = _last(one.get("managedDisk") or {})
        disk = group.disks.get(name)
        if disk is None:
            raise not_found("Microsoft.Compute/disks", name, group.name)
        if disk.held_by and (vm is None or disk.held_by != vm.id):
            raise ArmError(409, "AttachDiskWhileBeingDetached", f"Disk {name} is held by {disk.held_by}.")


def _last(reference: Json) -> str:
    return str(reference.get("id") or "").rsplit("/", 1)[-1].lower()


def _disk_name(vm: Vm, given: Json) -> str:
    managed = str((given.get("managedDisk") or {}).get("id") or "")
    return (managed.rsplit("/", 1)[-1] or str(given.get("name") or f"{vm.name}_DataDisk_{given.get('lun', 0)}")).lower()
