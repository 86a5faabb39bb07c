"""The life of a VM: created, running, preempted, deleted, with the NICs and disks that go along, and who wants to know.

Others (the bridge that boots nodes, the simulator) learn of machines by `subscribe`; they never see ARM's JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from local.arm.cloud import Cloud
from local.arm.state import DELETE, Disk, Group, Nic, ScaleSet, Vm

Listener = Callable[["Machine"], None]
NoticeListener = Callable[["Machine", datetime], None]


@dataclass(frozen=True, slots=True)
class Machine:
    """A VM as its guest and its cloud provider know it; `pool` is the scale set's or the VM's own resource name."""

    provider_id: str
    name: str
    pool: str
    resource_id: str
    sku: str
    zone: str
    location: str
    tags: Mapping[str, str]
    priority: str
    created_at: datetime


def machine_of(vm: Vm) -> Machine:
    """The view of one VM."""
    return Machine(
        provider_id=vm.provider_id,
        name=vm.computer_name.lower(),
        pool=vm.resource,
        resource_id=vm.id,
        sku=vm.sku,
        zone=vm.zone,
        location=vm.location,
        tags=dict(vm.tags),
        priority="Spot" if vm.spot else "Regular",
        created_at=vm.created_at,
    )


class Machines:
    """Starts, stops and removes VMs on the timeline, and tells."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._running: list[Listener] = []
        self._deleting: list[Listener] = []
        self._gone: list[Listener] = []
        self._noticed: list[NoticeListener] = []

    def subscribe(
        self,
        *,
        on_running: Listener | None = None,
        on_deleting: Listener | None = None,
        on_gone: Listener | None = None,
        on_preempt_notice: NoticeListener | None = None,
    ) -> None:
        """Be told from now on; machines that run already are reported at once.

        `on_deleting` comes when a deletion is accepted, `on_gone` when the machine has stopped for good (deleted, or
        evicted with policy Deallocate), `on_preempt_notice(machine, not_before)` when Azure announces an eviction.
        """
        if on_running is not None:
            self._running.append(on_running)
            for vm in self._cloud.truth.live_vms():
                if vm.power == "running" and vm.deleting_at is None:
                    on_running(machine_of(vm))
        self._deleting.extend([on_deleting] if on_deleting else [])
        self._gone.extend([on_gone] if on_gone else [])
        self._noticed.extend([on_preempt_notice] if on_preempt_notice else [])

    def announce(self, vm: Vm) -> None:
        """Tell that a VM runs which nobody saw boot."""
        self._tell(self._running, vm)

    def boot(self, vm: Vm, seconds: float) -> None:
        """Provisioning succeeds in `seconds`, unless somebody deletes the VM first."""
        self._cloud.truth.add_vm(vm)
        self._cloud.timeline.call_later(seconds, lambda: self._booted(vm))

    def fail(self, vm: Vm, seconds: float, code: str) -> None:
        """Provisioning fails in `seconds` with Azure's `code`; the VM stays as a failed one."""
        self._cloud.truth.add_vm(vm)

        def failing() -> None:
            if vm.deleting_at is None:
                vm.set_state("Failed", power="stopped", failure=code)
                self._cloud.truth.tell("failed", vm)

        self._cloud.timeline.call_later(seconds, failing)

    def discharge(self, vm: Vm, seconds: float, *, hang: float = 0.0) -> None:
        """Delete one VM of a set by name: the set's capacity drops with it, at once or when it is gone."""
        scale_set, quirks = vm.scale_set, self._cloud.quirks
        lowers = scale_set is not None and (not scale_set.flexible or quirks.flexible_deletion_lowers_capacity)
        if scale_set is not None and lowers and not quirks.capacity_drops_when_gone and vm.deleting_at is None:
            _lower(scale_set)
            lowers = False
        elif scale_set is not None and not lowers and vm.deleting_at is None:
            scale_set.vacant += 1
        self.remove(vm, seconds, lowers_capacity=lowers, hang=hang)

    def remove(self, vm: Vm, seconds: float, *, lowers_capacity: bool = False, hang: float = 0.0) -> None:
        """Delete in `seconds`, and with `hang` so much later; harmless when it is on its way already."""
        if vm.deleting_at is not None:
            return
        was_running = vm.power == "running"
        vm.deleting_at = self._cloud.timeline.now()
        vm.set_state("Deleting", power="stopping")
        self._cloud.truth.tell("deleting", vm)
        if was_running:
            self._tell(self._deleting, vm)

        def deleted() -> None:
            if vm.deleted_at is not None:
                return
            self._deleted(vm, announce=was_running)
            if lowers_capacity and vm.scale_set is not None:
                _lower(vm.scale_set)

        vm.deletion = deleted
        self._cloud.later(seconds, deleted, hang=hang)

    def hasten(self, vm: Vm) -> float:
        """A forced deletion of a VM that is being deleted already: it waits for no guest; in how many seconds."""
        seconds = self._cloud.duration(self._cloud.latencies.delete)
        if vm.deletion is not None:
            self._cloud.timeline.call_later(seconds, vm.deletion)
        return seconds

    def preempt(self, vm: Vm, notice: float) -> None:
        """Announce the eviction of a Spot VM now, and evict it in `notice` seconds."""
        if vm.preempting or vm.deleting_at is not None:
            return
        vm.preempting = True
        self._cloud.truth.tell("noticed", vm)
        timeline = self._cloud.timeline
        not_before = timeline.now() + timedelta(seconds=notice)
        for listener in self._noticed:
            listener(machine_of(vm), not_before)
        timeline.call_at(not_before, lambda: self._evict(vm))

    def _evict(self, vm: Vm) -> None:
        if vm.deleting_at is not None:
            return
        self._cloud.truth.add_eviction(vm)
        if vm.eviction_policy == "Deallocate":
            vm.set_state("Succeeded", power="deallocated")
            self._tell(self._gone, vm)
            return
        agent_pool = vm.scale_set.agent_pool if vm.scale_set is not None else None
        if agent_pool is not None and self._cloud.quirks.aks_eviction_lowers_count:
            agent_pool.count -= 1
            agent_pool.version += 1
        self.discharge(vm, self._cloud.duration(self._cloud.latencies.eviction))

    def _booted(self, vm: Vm) -> None:
        if vm.deleting_at is not None or vm.provisioning_state != "Creating":
            return
        vm.ready_at = self._cloud.timeline.now()
        vm.set_state("Succeeded", power="running")
        self._cloud.truth.tell("running", vm)
        if self._cloud.faults.take("machine.boot", vm.resource, "async") is None:
            self._tell(self._running, vm)

    def _deleted(self, vm: Vm, *, announce: bool) -> None:
        cloud, scale_set = self._cloud, vm.scale_set
        vm.deleted_at = cloud.timeline.now()
        group = cloud.estate.group(vm.id.split("/")[2], vm.group)
        group.vms.pop(vm.name.lower(), None)
        if scale_set is not None:
            scale_set.vms.pop(vm.instance_id or vm.name.lower(), None)
        self._release(group, vm)
        cloud.truth.tell("gone", vm)
        cloud.restock(vm)
        if announce:
            self._tell(self._gone, vm)

    def _release(self, group: Group, vm: Vm) -> None:
        """Delete or detach what hung on the VM, by each thing's deleteOption."""
        for nic, option in vm.nics:
            nic.held_by = ""
            # a uniform set's NIC is a part of its VM: it has no life of its own
            if option == DELETE and (nic.child or not self._cloud.faults.take("nic.cleanup", vm.resource, "async")):
                self._drop_nic(group, nic)
        for address, option in vm.addresses:
            address.held_by = ""
            if option == DELETE and not self._cloud.faults.take("ip.cleanup", vm.resource, "async"):
                group.addresses.pop(address.name.lower(), None)
        if vm.os_disk is not None:
            vm.os_disk.held_by = ""
            kept_up = vm.scale_set is not None and vm.scale_set.agent_pool is not None  # AKS sees to its own disks
            if vm.os_delete_option == DELETE and (
                kept_up or not self._cloud.faults.take("disk.cleanup", vm.resource, "async")
            ):
                self._drop_disk(group, vm.os_disk)
        for attached in vm.data_disks:
            attached.disk.held_by = ""
            if attached.delete_option == DELETE:
                self._drop_disk(group, attached.disk)

    def _drop_nic(self, group: Group, nic: Nic) -> None:
        nic.deleted_at = self._cloud.timeline.now()
        group.nics.pop(nic.name.lower(), None)
        self._cloud.truth.tell("nic gone", nic)

    def _drop_disk(self, group: Group, disk: Disk) -> None:
        disk.deleted_at = self._cloud.timeline.now()
        group.disks.pop(disk.name.lower(), None)
        self._cloud.truth.tell("disk gone", disk)

    def _tell(self, listeners: list[Listener], vm: Vm) -> None:
        if listeners:
            machine = machine_of(vm)
            for listener in listeners:
                listener(machine)


def _lower(scale_set: ScaleSet) -> None:
    scale_set.capacity = max(0, scale_set.capacity - 1)
    scale_set.version += 1
