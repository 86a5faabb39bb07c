"""Scale sets: capacity, instances, deletion by instance id. Behaviours and their sources: docs/stand-ins.md."""

from __future__ import annotations

from collections.abc import Callable

from local.arm import naming
from local.arm.cloud import Cloud
from local.arm.errors import ArmError, invalid, not_found
from local.arm.faults import Fault
from local.arm.machines import Machines
from local.arm.operations import Operation
from local.arm.rendering import instance_view, scale_set_json, vm_fragment, vm_json
from local.arm.routing import Call, is_forced, paged
from local.arm.state import DELETE, Disk, Group, Json, Nic, ScaleSet, Vm
from local.web import Response

_KIND = "Microsoft.Compute/virtualMachineScaleSets"
_ONE_GROUP = 100  # VMs in a placement group


class ScaleSets:
    """The virtualMachineScaleSets resource and its children."""

    def __init__(self, cloud: Cloud, machines: Machines) -> None:
        self._cloud, self._machines = cloud, machines

    def get(self, call: Call) -> Response:
        """GET one."""
        scale_set = self._find(call)
        return Response.of_json(200, scale_set_json(scale_set), {"etag": scale_set.etag})

    def list_all(self, call: Call) -> Response:
        """GET all of a group."""
        found = self._group(call).scale_sets.values()
        return paged(call, [scale_set_json(scale_set) for scale_set in found], self._cloud.page_size)

    def update(self, call: Call) -> Response:
        """PATCH: capacity, tags; guarded by If-Match. Answers 200, whatever happens afterwards."""
        scale_set = self._own(call)
        if touched := self._cloud.chances.touched(scale_set.name):
            scale_set.version += 1
        _check_match(call, scale_set)
        body = call.body()
        capacity = body.get("sku", {}).get("capacity")
        headers = self._resize(call, scale_set, int(capacity), unseen=touched) if capacity is not None else {}
        scale_set.tags.update(body.get("tags") or {})
        scale_set.version += 1
        return Response.of_json(200, scale_set_json(scale_set), {"etag": scale_set.etag, **headers})

    def put(self, call: Call) -> Response:
        """PUT: create, or replace what may be replaced."""
        scale_set = self._group(call).scale_sets.get(call.name.lower())
        if scale_set is not None:
            if call.request.headers.get("if-none-match") == "*":
                raise ArmError(412, "PreconditionFailed", f"The scale set '{call.name}' exists already.")
            return self.update(call)
        body = call.body()
        scale_set = self.create(self._group(call), call.name, body)
        headers = self._resize(call, scale_set, int(body.get("sku", {}).get("capacity") or 0))
        return Response.of_json(201, scale_set_json(scale_set), {"etag": scale_set.etag, **headers})

    def create(self, group: Group, name: str, body: Json) -> ScaleSet:
        """An empty scale set from an ARM body. Raises ArmError 400 when the body lacks a size or a place."""
        properties = body.get("properties", {})
        if not body.get("location") or not body.get("sku", {}).get("name"):
            raise invalid("Required parameter 'location' or 'sku.name' is missing (null).")
        scale_set = ScaleSet(
            id=group.path(_KIND, name),
            name=name,
            subscription=group.subscription,
            group=group.name,
            location=str(body["location"]),
            sku=str(body["sku"]["name"]),
            capacity=0,
            flexible=str(properties.get("orchestrationMode", "Uniform")).lower() == "flexible",
            zones=[str(zone) for zone in body.get("zones") or ()],
            profile=dict(properties.get("virtualMachineProfile") or {}),
            tags=dict(body.get("tags") or {}),
            single_group=properties.get("singlePlacementGroup") is True,
            model=body,
        )
        group.scale_sets[name.lower()] = scale_set
        return scale_set

    def delete(self, call: Call) -> Response:
        """DELETE a whole scale set with its VMs."""
        group = self._group(call)
        scale_set = group.scale_sets.get(call.name.lower())
        if scale_set is None:
            return Response(204)
        self._own(call)
        operation = self._cloud.operations.begin("scale_set.delete", scale_set.name)
        seconds = self.remove(scale_set.living(), scale_set, "scale_set.delete")

        def gone() -> None:
            group.scale_sets.pop(scale_set.name.lower(), None)

        self._cloud.operations.end_later(operation, seconds, then=gone)
        return Response(202, self._headers(call, operation, scale_set))

    def instances(self, call: Call) -> Response:
        """GET the VMs of a set; a Flexible set lists them under their names."""
        scale_set = self._find(call)
        vms = [vm_fragment(vm) for vm in scale_set.vms.values()]
        return paged(call, vms, self._cloud.page_size)

    def instance(self, call: Call) -> Response:
        """GET one VM of a set."""
        return Response.of_json(200, vm_json(self._instance(call)))

    def instance_view(self, call: Call) -> Response:
        """GET one VM's instance view."""
        return Response.of_json(200, instance_view(self._instance(call)))

    def delete_instances(self, call: Call) -> Response:
        """POST .../delete {"instanceIds": [...]}; "*" means all."""
        scale_set = self._own(call)
        wanted = [str(instance_id) for instance_id in call.body().get("instanceIds") or ()]
        if not wanted:
            raise invalid("Required parameter 'instanceIds' is missing (null).")
        known = list(scale_set.vms) if wanted == ["*"] else [each for each in wanted if each.lower() in scale_set.vms]
        unknown = [each for each in wanted if each != "*" and each.lower() not in scale_set.vms]
        if unknown and self._cloud.quirks.unknown_instance_ids_refused:
            codes = ("InvalidParameter", "InstanceIdsListInstanceIdNotActiveVM")
            raise invalid(
                f"The provided instanceId {unknown[0]} is not an active Virtual Machine Scale Set VM instanceId.",
                self._cloud.chances.chances.one_of("unknown instance", codes),
            )
        return self._delete(call, scale_set, [scale_set.vms[each.lower()] for each in known])

    def delete_instance(self, call: Call) -> Response:
        """DELETE one VM of a uniform set."""
        scale_set = self._own(call)
        vm = scale_set.vms.get(call.target.names[1].lower())
        return Response(204) if vm is None else self._delete(call, scale_set, [vm])

    def simulate_eviction(self, call: Call) -> Response:
        """POST .../simulateEviction: 204, and the eviction follows with its usual notice."""
        vm = self._instance(call)
        if not vm.spot:
            raise ArmError(409, "OperationNotAllowed", "Simulate eviction is only for VMs of priority Spot.")
        self._machines.preempt(vm, 30.0)
        return Response(204)

    def fill(self, scale_set: ScaleSet, count: int) -> None:
        """Give a new set `count` running VMs, as if it had always had them."""
        scale_set.capacity = count
        for _ in range(count):
            vm = self._make(scale_set)
            self._cloud.truth.add_vm(vm)
            vm.ready_at = self._cloud.timeline.now()
            vm.set_state("Succeeded", power="running")

    def _resize(self, call: Call, scale_set: ScaleSet, target: int, *, unseen: bool = False) -> dict[str, str]:
        """Bring the set to `target` VMs; returns the operation's headers, none when there is nothing to do."""
        if scale_set.single_group and target > _ONE_GROUP:
            told = f"The scale set '{scale_set.name}' has a single placement group, which takes {_ONE_GROUP} VMs."
            raise ArmError(409, "OperationNotAllowed", told)
        living = scale_set.living()
        needed = target - self._counted(scale_set)
        if needed > 0:
            self._cloud.check_offer(scale_set.name, scale_set.sku)
        self._cloud.quota.check(
            scale_set.subscription, scale_set.location, scale_set.sku, spot=scale_set.spot, count=needed
        )
        self._cloud.record(
            "scale_set.update",
            scale_set.name,
            target=target,
            count=target,
            tags=scale_set.tags,
            living=len(living),
            quota_left=self._cloud.quota.left(scale_set.subscription, scale_set.location),
            unseen=unseen,
            vacant=max(0, min(scale_set.vacant, needed)),
        )
        scale_set.vacant = 0
        if needed == 0 and scale_set.capacity == target:
            return {}
        scale_set.capacity = target
        operation = self._cloud.operations.begin("scale_set.update", scale_set.name)
        if needed > 0:
            self.grow(scale_set, needed, operation, lambda _: None)
        else:
            doomed = sorted(living, key=age, reverse=True)[: max(0, -needed)]
            seconds = self.remove(doomed, scale_set, "scale_set.update")
            self._cloud.operations.end_later(operation, seconds, then=lambda: self._settled(scale_set))
        return self._headers(call, operation, scale_set)

    def grow(self, scale_set: ScaleSet, count: int, operation: Operation, then: Callable[[str], None]) -> None:
        """Make `count` more VMs; the operation ends when all of them run, or fails. `then` learns which."""
        cloud = self._cloud
        earlier = cloud.operations.by_id.get(scale_set.growing)
        if earlier is not None and cloud.quirks.overlapping_growth_preempts:
            cloud.operations.end(earlier, "OperationPreempted", Fault("", code="OperationPreempted").text)
        scale_set.growing, scale_set.provisioning_state = operation.id, "Updating"
        fits, fault = self._allocated(scale_set, count, operation)
        slow = cloud.slowness(operation.name, scale_set.resource)
        durations = [cloud.duration(cloud.latencies.create) + slow for _ in range(fits)]
        for seconds in durations:
            fault = self._provision(scale_set, seconds) or fault
        if fault is None:
            end = max(durations, default=0.0) + self._overhead(scale_set)
            cloud.operations.end_later(operation, end, then=lambda: self._grown(scale_set, operation, then))
            return
        not_before = max(durations, default=0.0) + self._overhead(scale_set)
        self._grow_in_vain(scale_set, count - fits, operation, fault, not_before, then)

    def _overhead(self, scale_set: ScaleSet) -> float:
        return self._cloud.duration(self._cloud.latencies.reconcile) if scale_set.agent_pool is not None else 0.0

    def _provision(self, scale_set: ScaleSet, seconds: float) -> Fault | None:
        """One more VM; the failure that it will have, if any."""
        vm = self._make(scale_set)
        fault = self._cloud.faults.take("machine.provision", scale_set.resource, "async")
        if fault is None:
            self._machines.boot(vm, seconds)
        else:
            self._machines.fail(vm, seconds, fault.code)
        return fault

    def _allocated(self, scale_set: ScaleSet, count: int, operation: Operation) -> tuple[int, Fault | None]:
        """(how many can be had, why not the rest)."""
        fault = self._cloud.faults.take(operation.name, scale_set.resource, "async")
        if fault is not None:
            named = self._cloud.named(fault, spot=scale_set.spot, zones=scale_set.zones)
            return min(max(fault.partial, int(fault.share * count)), count), named
        return self._cloud.shortage(scale_set.sku, scale_set.zones, spot=scale_set.spot, count=count)

    def _grow_in_vain(
        self,
        scale_set: ScaleSet,
        missing: int,
        operation: Operation,
        fault: Fault,
        not_before: float,
        then: Callable[[str], None],
    ) -> None:
        cloud = self._cloud
        seconds = max(cloud.duration(cloud.latencies.failure), not_before)
        if cloud.quirks.failed_growth_leaves_failed_instances:
            for _ in range(missing):
                self._machines.fail(self._make(scale_set), seconds, fault.code)

        def failing() -> None:
            if not cloud.quirks.failed_growth_keeps_capacity and operation.status == "InProgress":
                scale_set.capacity = self._counted(scale_set)
            self._grown(scale_set, operation, then, "Failed")

        code, message = (
            _wrapped(operation, fault)
            if scale_set.agent_pool and cloud.quirks.aks_wraps_codes
            else (fault.code, fault.text)
        )
        cloud.operations.end_later(operation, seconds, code=code, message=message, then=failing)

    def _grown(
        self, scale_set: ScaleSet, operation: Operation, then: Callable[[str], None], state: str = "Succeeded"
    ) -> None:
        then(state)
        if scale_set.growing == operation.id:
            scale_set.growing, scale_set.provisioning_state = "", state
            scale_set.version += 1

    def _counted(self, scale_set: ScaleSet) -> int:
        """How many VMs its capacity stands for: with those that are going, where it drops only when they are gone."""
        return len(scale_set.vms if self._cloud.quirks.capacity_drops_when_gone else scale_set.living())

    def _settled(self, scale_set: ScaleSet) -> None:
        scale_set.version += 1

    def _delete(self, call: Call, scale_set: ScaleSet, vms: list[Vm]) -> Response:
        cloud = self._cloud
        operation = cloud.operations.begin("scale_set.delete_instances", scale_set.name)
        fault = cloud.faults.take("scale_set.delete_instances", scale_set.name, "async")
        fresh = [vm for vm in vms if vm.deleting_at is None]
        if fault is not None:
            seconds = cloud.duration(cloud.latencies.failure)
            cloud.operations.end_later(operation, seconds, code=fault.code, message=fault.text, then=lambda: None)
            cloud.truth.tell_of_all("deletion failing", fresh)
            return Response(202, self._headers(call, operation, scale_set))
        remaining = len(scale_set.living()) - len(fresh)
        cloud.record(
            "scale_set.delete_instances",
            scale_set.name,
            target=remaining,
            count=remaining,
            tags=scale_set.tags,
            named=tuple(vm.id for vm in fresh),
        )
        forced = is_forced(call)
        hang = 0.0 if forced else cloud.chances.hanging(scale_set.name)
        seconds = self.remove(fresh, scale_set, "scale_set.delete_instances", hang=hang)
        if forced:
            seconds = max([seconds, *(self._machines.hasten(vm) for vm in vms if vm not in fresh)])
        cloud.operations.end_later(operation, seconds, hang=hang, then=lambda: self._settled(scale_set))
        return Response(202, self._headers(call, operation, scale_set))

    def remove(self, vms: list[Vm], scale_set: ScaleSet, operation: str, *, hang: float = 0.0) -> float:
        """Start deleting; returns when the last one is gone, in seconds. Only deletions by id lower the capacity."""
        slow = self._cloud.slowness(operation, scale_set.resource)
        last = 0.0
        for vm in vms:
            seconds = self._cloud.duration(self._cloud.latencies.delete) + slow
            if operation in {"scale_set.delete_instances", "agent_pool.delete_machines"}:
                self._machines.discharge(vm, seconds, hang=hang)
            else:
                self._machines.remove(vm, seconds)
            last = max(last, seconds)
        return last

    def _make(self, scale_set: ScaleSet) -> Vm:
        """A VM of the set, with NIC and OS disk; Flexible sets make ordinary VMs."""
        group = self._cloud.estate.group(scale_set.subscription, scale_set.group)
        vm = self._flexible_vm(scale_set, group) if scale_set.flexible else self._uniform_vm(scale_set)
        scale_set.vms[vm.instance_id or vm.name.lower()] = vm
        self._furnish(scale_set, group, vm)
        return vm

    def _uniform_vm(self, scale_set: ScaleSet) -> Vm:
        number = scale_set.next_instance
        scale_set.next_instance += 1
        prefix = scale_set.profile.get("osProfile", {}).get("computerNamePrefix") or scale_set.name
        return self._vm(
            scale_set,
            f"{scale_set.id}/virtualMachines/{number}",
            f"{scale_set.name}_{number}",
            naming.uniform_computer_name(prefix, number),
            str(number),
        )

    def _flexible_vm(self, scale_set: ScaleSet, group: Group) -> Vm:
        name = naming.flexible_vm_name(scale_set.name, self._cloud.ids)
        prefix = scale_set.profile.get("osProfile", {}).get("computerNamePrefix") or scale_set.name
        computer = naming.flexible_computer_name(prefix, self._cloud.ids)
        vm = self._vm(scale_set, group.path("Microsoft.Compute/virtualMachines", name), name, computer, "")
        group.vms[name.lower()] = vm
        return vm

    def _vm(self, scale_set: ScaleSet, vm_id: str, name: str, computer: str, instance_id: str) -> Vm:
        return Vm(
            id=vm_id,
            name=name,
            computer_name=computer,
            group=scale_set.group,
            location=scale_set.location,
            sku=scale_set.sku,
            zone=self._cloud.place(scale_set.zones),
            spot=scale_set.spot,
            eviction_policy=str(scale_set.profile.get("evictionPolicy") or "Delete") if scale_set.spot else "",
            created_at=self._cloud.timeline.now(),
            instance_id=instance_id,
            scale_set=scale_set,
            tags=dict(scale_set.tags),
        )

    def _furnish(self, scale_set: ScaleSet, group: Group, vm: Vm) -> None:
        cloud, now = self._cloud, vm.created_at
        uniform = not scale_set.flexible
        nic_name = naming.nic_name(f"{scale_set.name}-nic", cloud.ids)
        nic_id = (
            f"{vm.id}/networkInterfaces/{nic_name}"
            if uniform
            else group.path("Microsoft.Network/networkInterfaces", nic_name)
        )
        nic = Nic(nic_id, nic_name, vm.location, now, child=uniform, held_by=vm.id, made_with=vm.id)
        disk_name = naming.os_disk_name(vm.name, cloud.ids, scale_set.name if uniform else "")
        tags = dict(scale_set.tags) if cloud.quirks.os_disk_inherits_tags else {}
        disk_id = group.path("Microsoft.Compute/disks", disk_name)
        disk = Disk(
            disk_id, disk_name, vm.location, now, os=True, zone=vm.zone, tags=tags, held_by=vm.id, made_with=vm.id
        )
        if not uniform:
            nic.tags = dict(scale_set.tags)
            group.nics[nic_name.lower()] = nic
        group.disks[disk_name.lower()] = disk
        vm.nics, vm.os_disk = [(nic, DELETE)], disk
        vm.os_delete_option = DELETE
        cloud.truth.nics.append(nic)
        cloud.truth.disks.append(disk)

    def _headers(self, call: Call, operation: Operation, scale_set: ScaleSet) -> dict[str, str]:
        return self._cloud.operations.headers(operation, call.base, scale_set.subscription, scale_set.location)

    def _group(self, call: Call) -> Group:
        return self._cloud.estate.group(call.target.subscription, call.target.group)

    def _find(self, call: Call) -> ScaleSet:
        scale_set = self._group(call).scale_sets.get(call.name.lower())
        if scale_set is None:
            raise not_found(_KIND, call.name, call.target.group)
        return scale_set

    def _own(self, call: Call) -> ScaleSet:
        """One that may be written to: AKS locks the resource group of its nodes."""
        scale_set = self._find(call)
        if scale_set.agent_pool is not None:
            message = (
                f"The access is denied because of the deny assignment on the node resource group '{scale_set.group}'."
            )
            raise ArmError(403, "DenyAssignmentAuthorizationFailed", message)
        return scale_set

    def _instance(self, call: Call) -> Vm:
        vm = self._find(call).vms.get(call.target.names[1].lower())
        if vm is None:
            raise ArmError(404, "NotFound", f"The VM instance '{call.target.names[1]}' of '{call.name}' was not found.")
        return vm


def _wrapped(operation: Operation, fault: Fault) -> tuple[str, str]:
    """As AKS passes on what its scale set said."""
    operation.details = ((fault.code, fault.text),)
    return (
        "ReconcileVMSSAgentPoolFailed",
        f'Reconcile VMSS agent pool failed: Code="{fault.code}" Message="{fault.text}"',
    )


def age(vm: Vm) -> tuple[object, int]:
    """What orders a set's VMs from the oldest to the youngest."""
    return vm.created_at, int(vm.instance_id or 0)


def _check_match(call: Call, scale_set: ScaleSet) -> None:
    wanted = call.request.headers.get("if-match", "*")
    if wanted not in {"*", scale_set.etag}:
        raise ArmError(412, "PreconditionFailed", f"The ETag of '{scale_set.name}' is {scale_set.etag}, not {wanted}.")
