"""`Compute` by azure-mgmt-compute. Writes and reads of one resource go through the SDK's operations; lists are read raw
through the same client's pipeline (see `azure_parsing`).

The SDK retries nothing here (its retries would sleep inside a function): a reading whose answer got lost is asked once
more, everything else surfaces as `shared.adapters.errors` and is paced by durable timers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from azure.core import MatchConditions

from shared.adapters import azure_parsing as parsing
from shared.adapters.azure_access import RawArm, client_options
from shared.adapters.azure_errors import translated
from shared.adapters.azure_polling import OneShotPolling
from shared.adapters.errors import NotFound, Rejected, StaleWrite
from shared.adapters.operation_tokens import pack, unpack
from shared.adapters.protocols import Instance, Json, Leftover, OperationStatus, ScaleSet
from shared.model import AzureScope, Pool, PoolKind, Usage
from shared.names import OPERATION_TAG

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential
    from azure.core.pipeline.policies import SansIOHTTPPolicy
    from azure.core.pipeline.transport import HttpTransport
    from azure.core.polling import LROPoller
    from azure.mgmt.compute import ComputeManagementClient

COMPUTE_API = "2026-04-01"  # what azure-mgmt-compute 39 asks its own operations with
DISK_API = "2026-03-02"
_INSTANCE_VIEW = {"$expand": "instanceView"}
_UNKNOWN_INSTANCE = frozenset({"InvalidParameter", "InstanceIdsListInstanceIdNotActiveVM", "InstanceIdNotActiveVM"})


def make_compute(
    scope: AzureScope,
    credential: TokenCredential,
    *,
    endpoint: str = "https://management.azure.com",
    transport: HttpTransport[Any, Any] | None = None,
    authentication_policy: SansIOHTTPPolicy[Any, Any] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> AzureCompute:
    """Compute for one subscription; pools may lie in several of its resource groups.

    `authentication_policy` replaces the bearer token (stand-ins on plain http); `sleep` is slept at most once per
    reading, for 0.2 s, when a connection broke.
    """
    # 0.15 s of import that a function which never touches ARM shall not pay on a cold start
    from azure.mgmt.compute import ComputeManagementClient  # noqa: PLC0415

    options = client_options(credential, endpoint, transport, authentication_policy)
    client = ComputeManagementClient(credential, scope.subscription, **options)
    return AzureCompute(client, scope, endpoint, sleep)


class AzureCompute:
    """See `shared.adapters.protocols.Compute`. Thread-safe as far as the SDK's client is."""

    def __init__(
        self, client: ComputeManagementClient, scope: AzureScope, endpoint: str, sleep: Callable[[float], None]
    ) -> None:
        self._client = client
        self._scope = scope
        self._endpoint = endpoint.rstrip("/")
        self._flexible: dict[tuple[str, str], bool] = {}
        raw = RawArm(client, endpoint, sleep)
        self._list, self._get, self._send, self._retrying = raw.list, raw.get, raw.send, raw.retrying

    def close(self) -> None:
        """Close the connections; Functions never do, tests and short commands should."""
        self._client.close()

    def scale_set(self, pool: Pool) -> ScaleSet:
        """See `Compute.scale_set`."""
        path = self._path(pool, "virtualMachineScaleSets", _vmss(pool))
        return self._noted(pool, self._get(path, COMPUTE_API, f"reading scale set {pool.resource}"))

    def scale_sets(self, pools: Sequence[Pool]) -> dict[str, ScaleSet]:
        """See `Compute.scale_sets`."""
        sized = [pool for pool in pools if pool.kind is PoolKind.VMSS]
        found: dict[str, ScaleSet] = {}
        for group, members in _by_group(sized, self._scope).items():
            by_name = {pool.resource.lower(): pool for pool in members}
            path = f"{self._group(group)}/providers/Microsoft.Compute/virtualMachineScaleSets"
            for body in self._list(path, COMPUTE_API, f"listing scale sets of {group}"):
                pool = by_name.get(str(body["name"]).lower())
                if pool is not None:
                    found[pool.name] = self._noted(pool, body)
        return found

    def instances(self, pool: Pool) -> list[Instance]:
        """See `Compute.instances`."""
        doing = f"listing VMs of {pool.name}"
        if pool.kind is PoolKind.VMSS and not self._is_flexible(pool):
            path = self._path(pool, "virtualMachineScaleSets", pool.resource, "virtualMachines")
            return [parsing.instance_of(body) for body in self._list(path, COMPUTE_API, doing, **_INSTANCE_VIEW)]
        path = self._path(pool, "virtualMachines")
        if pool.kind is PoolKind.VMSS:  # the instance view may be asked for only together with this filter
            holder = self._path(pool, "virtualMachineScaleSets", pool.resource)
            query = {**_INSTANCE_VIEW, "$filter": f"'virtualMachineScaleSet/id' eq '{holder}'"}
            bodies = self._list(path, COMPUTE_API, doing, **query)
            return [parsing.instance_of(body) for body in bodies if parsing.belongs(body, pool)]
        mine = [body for body in self._list(path, COMPUTE_API, doing) if parsing.belongs(body, pool)]
        return [self.instance(pool, body["name"]) if _failed(body) else parsing.instance_of(body) for body in mine]

    def instance(self, pool: Pool, instance_id: str) -> Instance:
        """See `Compute.instance`."""
        path = self._instance_path(pool, instance_id)
        doing = f"reading VM {instance_id} of {pool.name}"
        return parsing.instance_of(self._get(path, COMPUTE_API, doing, **_INSTANCE_VIEW))

    def begin_capacity(self, pool: Pool, target: int, etag: str) -> str:
        """See `Compute.begin_capacity`."""
        body: Any = {"sku": {"capacity": target}}  # the SDK takes plain JSON, though its overloads do not say so
        polling = self._polling()
        with translated(f"setting capacity of scale set {pool.resource} to {target}"):
            poller: LROPoller[Any] = self._client.virtual_machine_scale_sets.begin_update(
                self._group_of(pool),
                _vmss(pool),
                body,
                etag=etag or None,
                match_condition=MatchConditions.IfNotModified if etag else None,
                polling=polling,
            )
            return pack("capacity", poller.continuation_token(), polling.first_wait())

    def begin_create_vm(self, pool: Pool, name: str, zone: str, tags: Mapping[str, str], template: Json) -> str:
        """See `Compute.begin_create_vm`."""
        group, doing = self._group_of(pool), f"creating VM {name} of {pool.name}"
        body: Any = parsing.vm_body(pool, name, zone, tags, template)
        polling = self._polling()
        try:
            with translated(doing):
                poller: LROPoller[Any] = self._client.virtual_machines.begin_create_or_update(
                    group, name, body, polling=polling
                )
                return pack("create-vm", poller.continuation_token(), polling.first_wait())
        except StaleWrite:
            if not self._is_ours(pool, name, tags):
                raise
            # our own earlier request is still under way: the VM's state tells how it ends
            return pack("vm-state", [group, name])

    def begin_delete(self, pool: Pool, instance_ids: Sequence[str], *, force: bool = False) -> str:
        """See `Compute.begin_delete`. Uniform sets take one request for all; VMs one each, in order: when one is
        refused (Throttled, for instance) the earlier ones are on their way, and asking again for all is safe."""
        if not instance_ids:
            return ""
        try:
            return self._begin_delete(pool, instance_ids, force=force)
        except Rejected as error:
            if not force or error.code != "OperationNotAllowed":
                raise
        # dedicated hosts and isolated sizes know no forced deletion; cluster-autoscaler falls back in the same way
        return self._begin_delete(pool, instance_ids, force=False)

    def _begin_delete(self, pool: Pool, instance_ids: Sequence[str], *, force: bool) -> str:
        if pool.kind is PoolKind.VMSS and all(instance_id.isdigit() for instance_id in instance_ids):
            return self._begin_delete_children(pool, list(instance_ids), force=force)
        return self._begin_delete_vms(pool, instance_ids, force=force)

    def poll(self, token: str) -> OperationStatus:
        """See `Compute.poll`. Raises Rejected for a token of somebody else's."""
        try:
            kind, payload = unpack(token)
            ask = self._askers()[kind]
        except (ValueError, KeyError) as error:
            raise Rejected(f"operation token: {token[:40]!r} is not one of ours") from error
        with translated(f"asking after operation {kind}"):
            return self._retrying(ask, payload)

    def usages(self, location: str) -> list[Usage]:
        """See `Compute.usages`."""
        subscription = self._scope.subscription
        path = f"/subscriptions/{subscription}/providers/Microsoft.Compute/locations/{location}/usages"
        bodies = self._list(path, COMPUTE_API, f"listing core quotas of {location}")
        return [
            Usage(subscription, location, body["name"]["value"], int(body["currentValue"]), int(body["limit"]))
            for body in bodies
        ]

    def leftovers(self, pools: Sequence[Pool]) -> list[Leftover]:
        """See `Compute.leftovers`."""
        found: list[Leftover] = []
        for group, members in _by_group(pools, self._scope).items():
            providers = f"{self._group(group)}/providers"
            found += self._left_behind("nic", f"{providers}/Microsoft.Network/networkInterfaces", members)
            found += self._left_behind("disk", f"{providers}/Microsoft.Compute/disks", members)
        return found

    def left_addresses(self, pools: Sequence[Pool]) -> list[Leftover]:
        """See `Compute.left_addresses`; a scale set takes its own along."""
        alone = [pool for pool in pools if pool.kind is PoolKind.VM]
        found: list[Leftover] = []
        for group, members in _by_group(alone, self._scope).items():
            path = f"{self._group(group)}/providers/Microsoft.Network/publicIPAddresses"
            found += self._left_behind("ip", path, members)
        return found

    def _left_behind(self, kind: str, path: str, pools: Sequence[Pool]) -> Iterator[Leftover]:
        version = DISK_API if kind == "disk" else parsing.NETWORK_API
        for body in self._list(path, version, f"listing {kind}s of {path.split('/')[4]}"):
            leftover = parsing.leftover_of(body, kind, pools)
            if leftover is not None:
                yield leftover

    def delete_leftover(self, leftover: Leftover) -> None:
        """See `Compute.delete_leftover`. Azure itself refuses what is attached, however old the list is."""
        doing = f"deleting {leftover.kind} {leftover.resource_id.rsplit('/', 1)[-1]}"
        if leftover.attached:
            raise StaleWrite(f"{doing}: attached to {leftover.attached}", code="Attached", status=409)
        version = DISK_API if leftover.kind == "disk" else parsing.NETWORK_API
        try:
            self._send("DELETE", self._endpoint + leftover.resource_id, {"api-version": version}, doing)
        except NotFound:
            return
        except Rejected as error:
            if error.code in {"NicInUse", "OperationNotAllowed", "PublicIPAddressCannotBeDeleted"}:
                raise StaleWrite(error.message, code=error.code, status=error.status) from error
            raise

    def _is_ours(self, pool: Pool, name: str, tags: Mapping[str, str]) -> bool:
        """Whether the VM of that name was asked for by the operation that these tags name."""
        try:
            there = self.instance(pool, name)
        except NotFound:
            return False
        return there.tags.get(OPERATION_TAG) == tags.get(OPERATION_TAG)

    def _noted(self, pool: Pool, body: Json) -> ScaleSet:
        found = parsing.scale_set_of(body)
        self._flexible[self._set_of(pool)] = found.flexible
        return found

    def _set_of(self, pool: Pool) -> tuple[str, str]:
        """A scale set's own name: two clusters may each have a pool of one name, on sets of different modes."""
        return self._group_of(pool).lower(), pool.resource.lower()

    def _is_flexible(self, pool: Pool) -> bool:
        """Asked once: a scale set's orchestration mode never changes."""
        known = self._flexible.get(self._set_of(pool))
        return self.scale_set(pool).flexible if known is None else known

    def _begin_delete_children(self, pool: Pool, instance_ids: list[str], *, force: bool) -> str:
        try:
            return self._delete_instances(pool, instance_ids, force=force)
        except NotFound:
            return ""
        except Rejected as error:
            if error.code not in _UNKNOWN_INSTANCE:
                raise
        there = {instance.instance_id for instance in self.instances(pool)}
        live = [instance_id for instance_id in instance_ids if instance_id in there]
        return self._delete_instances(pool, live, force=force) if live else ""

    def _delete_instances(self, pool: Pool, instance_ids: list[str], *, force: bool) -> str:
        polling = self._polling()
        with translated(f"deleting {len(instance_ids)} VMs of scale set {pool.resource}"):
            poller: LROPoller[Any] = self._client.virtual_machine_scale_sets.begin_delete_instances(
                self._group_of(pool),
                pool.resource,
                {"instanceIds": instance_ids},
                force_deletion=force or None,
                polling=polling,
            )
            return pack("delete-instances", poller.continuation_token(), polling.first_wait())

    def _begin_delete_vms(self, pool: Pool, names: Sequence[str], *, force: bool) -> str:
        group = self._group_of(pool)
        going: dict[str, str] = {}
        for name in names:
            token = self._delete_vm(group, name, force=force)
            if token:
                going[name] = token
        if not going:
            return ""
        if len(going) == 1:
            return next(iter(going.values()))
        return pack("vms-gone", [group, sorted(going)])

    def _delete_vm(self, group: str, name: str, *, force: bool) -> str:
        """A token, or "" when the VM is not there: DELETE answers 204 then."""
        polling = self._polling()
        try:
            with translated(f"deleting VM {name}"):
                poller: LROPoller[Any] = self._client.virtual_machines.begin_delete(
                    group, name, force_deletion=force or None, polling=polling
                )
        except NotFound:
            return ""
        gone = poller.status().lower() == "succeeded"
        return "" if gone else pack("delete-vm", poller.continuation_token(), polling.first_wait())

    def _askers(self) -> dict[str, Callable[[Any], OperationStatus]]:
        sets, machines = self._client.virtual_machine_scale_sets, self._client.virtual_machines
        return {
            "capacity": lambda token: self._resume(sets.begin_update, ("-", "-", {}), token),
            "delete-instances": lambda token: self._resume(sets.begin_delete_instances, ("-", "-", {}), token),
            "create-vm": lambda token: self._resume(machines.begin_create_or_update, ("-", "-", {}), token),
            "delete-vm": lambda token: self._resume(machines.begin_delete, ("-", "-"), token),
            "vm-state": lambda payload: self._ask_state(*payload),
            "vms-gone": lambda payload: self._ask_gone(*payload),
        }

    def _resume(self, begin: Callable[..., LROPoller[Any]], names: tuple[Any, ...], token: str) -> OperationStatus:
        """With a continuation token the SDK sends nothing and ignores the names: the status URL is in the token."""
        polling = self._polling()
        begin(*names, continuation_token=token, polling=polling)
        return polling.ask()

    def _ask_state(self, group: str, name: str) -> OperationStatus:
        path = f"{self._group(group)}/providers/Microsoft.Compute/virtualMachines/{name}"
        body = self._get(path, COMPUTE_API, f"reading VM {name}", **_INSTANCE_VIEW)
        state = str(body.get("properties", {}).get("provisioningState", "")).lower()
        if state == "failed":
            return OperationStatus(done=True, ok=False, code=parsing.failure_of(body["properties"]))
        return OperationStatus(done=state == "succeeded", ok=state == "succeeded")

    def _ask_gone(self, group: str, names: Sequence[str]) -> OperationStatus:
        """One list for the whole batch: tokens and polls stay the same size however many VMs go."""
        path = f"{self._group(group)}/providers/Microsoft.Compute/virtualMachines"
        wanted = {name.lower() for name in names}
        there = [body for body in self._list(path, COMPUTE_API, "listing VMs") if str(body["name"]).lower() in wanted]
        failed = [body for body in there if _failed(body)]
        if failed and len(failed) == len(there):
            text = ", ".join(sorted(str(body["name"]) for body in failed))
            return OperationStatus(done=True, ok=False, code=parsing.failure_of(failed[0]["properties"]), message=text)
        return OperationStatus(done=not there, ok=not there)

    def _polling(self) -> OneShotPolling:
        return OneShotPolling(self._endpoint)

    def _group_of(self, pool: Pool) -> str:
        return (pool.azure or self._scope).resource_group

    def _group(self, name: str) -> str:
        return f"/subscriptions/{self._scope.subscription}/resourceGroups/{name}"

    def _path(self, pool: Pool, *parts: str) -> str:
        return "/".join((self._group(self._group_of(pool)), "providers/Microsoft.Compute", *parts))

    def _instance_path(self, pool: Pool, instance_id: str) -> str:
        if pool.kind is PoolKind.VMSS and instance_id.isdigit():
            return self._path(pool, "virtualMachineScaleSets", pool.resource, "virtualMachines", instance_id)
        return self._path(pool, "virtualMachines", instance_id)


def _failed(body: Json) -> bool:
    return bool(body.get("properties", {}).get("provisioningState") == "Failed")


def _vmss(pool: Pool) -> str:
    if pool.kind is not PoolKind.VMSS:
        raise Rejected(f"pool {pool.name}: kind {pool.kind} has no scale set")
    return pool.resource


def _by_group(pools: Iterable[Pool], scope: AzureScope) -> dict[str, list[Pool]]:
    groups: dict[str, list[Pool]] = {}
    for pool in pools:
        groups.setdefault((pool.azure or scope).resource_group, []).append(pool)
    return groups
