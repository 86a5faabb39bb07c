"""NICs, disks and public IPs as resources of their own: what a VM left behind, and what somebody brought."""

from __future__ import annotations

from local.arm.cloud import Cloud
from local.arm.errors import ArmError, not_found
from local.arm.rendering import address_json, disk_json, nic_json
from local.arm.routing import Call, paged
from local.arm.state import Address, Disk, Group, Nic
from local.web import Response


class NetworkInterfaces:
    """Microsoft.Network/networkInterfaces; those of uniform scale sets are no resources of their own."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    def list_all(self, call: Call) -> Response:
        """GET all of a group."""
        return paged(call, [nic_json(nic) for nic in self._group(call).nics.values()], self._cloud.page_size)

    def get(self, call: Call) -> Response:
        """GET one."""
        nic = self._group(call).nics.get(call.name.lower())
        if nic is None:
            raise not_found("Microsoft.Network/networkInterfaces", call.name, call.target.group)
        return Response.of_json(200, nic_json(nic))

    def put(self, call: Call) -> Response:
        """PUT: a NIC of its own, to be attached later."""
        group, body = self._group(call), call.body()
        nic_id = group.path("Microsoft.Network/networkInterfaces", call.name)
        there = group.nics.get(call.name.lower())
        nic = there or Nic(nic_id, call.name, str(body.get("location", "")), self._cloud.timeline.now())
        nic.tags = dict(body.get("tags") or {})
        if there is None:
            group.nics[call.name.lower()] = nic
            self._cloud.truth.nics.append(nic)
        return Response.of_json(200 if there else 201, nic_json(nic))

    def delete(self, call: Call) -> Response:
        """DELETE; refused while a VM holds it."""
        nic = self._group(call).nics.get(call.name.lower())
        if nic is None:
            return Response(204)
        if nic.held_by:
            raise ArmError(400, "NicInUse", f"Network Interface {nic.name} is used by existing resource {nic.held_by}.")
        nic.deleted_at = self._cloud.timeline.now()
        del self._group(call).nics[call.name.lower()]
        self._cloud.truth.tell("nic gone", nic)
        return Response(200)

    def _group(self, call: Call) -> Group:
        return self._cloud.estate.group(call.target.subscription, call.target.group)


class Disks:
    """Microsoft.Compute/disks."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    def list_all(self, call: Call) -> Response:
        """GET all of a group."""
        return paged(call, [disk_json(disk) for disk in self._group(call).disks.values()], self._cloud.page_size)

    def get(self, call: Call) -> Response:
        """GET one."""
        disk = self._group(call).disks.get(call.name.lower())
        if disk is None:
            raise not_found("Microsoft.Compute/disks", call.name, call.target.group)
        return Response.of_json(200, disk_json(disk))

    def put(self, call: Call) -> Response:
        """PUT: an empty data disk, such as a CSI driver makes."""
        group, body = self._group(call), call.body()
        there = group.disks.get(call.name.lower())
        disk = there or Disk(
            group.path("Microsoft.Compute/disks", call.name),
            call.name,
            str(body.get("location", "")),
            self._cloud.timeline.now(),
            size_gb=int(body.get("properties", {}).get("diskSizeGB") or 32),
            zone=str(next(iter(body.get("zones") or ()), "")),
        )
        disk.tags = dict(body.get("tags") or {})
        if there is None:
            group.disks[call.name.lower()] = disk
            self._cloud.truth.disks.append(disk)
        return Response.of_json(200 if there else 201, disk_json(disk))

    def delete(self, call: Call) -> Response:
        """DELETE; refused while a VM holds it."""
        disk = self._group(call).disks.get(call.name.lower())
        if disk is None:
            return Response(204)
        if disk.held_by:
            raise ArmError(409, "OperationNotAllowed", f"Disk {disk.name} is attached to VM {disk.held_by}.")
        disk.deleted_at = self._cloud.timeline.now()
        del self._group(call).disks[call.name.lower()]
        self._cloud.truth.tell("disk gone", disk)
        return Response(200)

    def _group(self, call: Call) -> Group:
        return self._cloud.estate.group(call.target.subscription, call.target.group)


class Addresses:
    """Microsoft.Network/publicIPAddresses: those that were put here; none comes with a VM."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    def list_all(self, call: Call) -> Response:
        """GET all of a group."""
        found = [address_json(address) for address in self._group(call).addresses.values()]
        return paged(call, found, self._cloud.page_size)

    def put(self, call: Call) -> Response:
        """PUT; `properties.ipConfiguration.id` says what holds it."""
        group, body = self._group(call), call.body()
        path = group.path("Microsoft.Network/publicIPAddresses", call.name)
        there = group.addresses.get(call.name.lower())
        address = there or Address(path, call.name, str(body.get("location", "")))
        address.tags = dict(body.get("tags") or {})
        address.held_by = str(((body.get("properties") or {}).get("ipConfiguration") or {}).get("id", ""))
        group.addresses[call.name.lower()] = address
        return Response.of_json(200 if there else 201, address_json(address))

    def delete(self, call: Call) -> Response:
        """DELETE; refused while something holds it."""
        address = self._group(call).addresses.get(call.name.lower())
        if address is None:
            return Response(204)
        if address.held_by:
            held = (
                f"Public IP address {address.name} can not be deleted since it is still allocated to {address.held_by}."
            )
            raise ArmError(400, "PublicIPAddressCannotBeDeleted", held)
        del self._group(call).addresses[call.name.lower()]
        return Response(200)

    def _group(self, call: Call) -> Group:
        return self._cloud.estate.group(call.target.subscription, call.target.group)
