"""Agent pools of AKS, by azure-mgmt-containerservice: sized by count, emptied machine by machine.

A pool's scale set lies in a resource group that AKS keeps for itself. It is read (states, times, disks) and never
written to: what is written there AKS undoes, or calls unsupported ("Support policies for Azure Kubernetes Service").
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from azure.core import MatchConditions

from shared.adapters import azure_parsing as parsing
from shared.adapters.azure_access import RawArm, client_options
from shared.adapters.azure_compute import COMPUTE_API
from shared.adapters.azure_errors import translated
from shared.adapters.azure_polling import OneShotPolling, pack, unpack
from shared.adapters.errors import NotFound, Occupied, Rejected, StaleWrite
from shared.adapters.protocols import Instance, Json, OperationStatus, ScaleSet
from shared.model import AzureScope, Pool
from shared.provider_id import parse

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential
    from azure.core.pipeline.policies import SansIOHTTPPolicy
    from azure.core.pipeline.transport import HttpTransport
    from azure.core.polling import LROPoller
    from azure.mgmt.containerservice import ContainerServiceClient

AKS_API = "2026-08-01"  # what azure-mgmt-containerservice 41.8 asks its own operations with
PACKAGE = "azure-mgmt-containerservice==41.8.0"
_AT_REST = frozenset({"succeeded", "failed", "canceled"})
_PENDING = re.compile(r"another\b.*\boperation\b.*\bin progress", re.IGNORECASE | re.DOTALL)
_INSTANCE_VIEW = {"$expand": "instanceView"}


def make_agent_pools(
    scope: AzureScope,
    credential: TokenCredential,
    *,
    endpoint: str,
    transport: HttpTransport[Any, Any] | None,
    authentication_policy: SansIOHTTPPolicy[Any, Any] | None,
    sleep: Callable[[float], None],
) -> AgentPools:
    """Agent pools of one subscription. Raises Rejected when the SDK's package, an extra, is not installed."""
    try:
        # an extra: only where there are AKS pools is it there, and only then is its import paid for
        from azure.mgmt.containerservice import ContainerServiceClient  # noqa: PLC0415
    except ImportError as error:
        raise Rejected(f"kind aks needs {PACKAGE}: add it to requirements.txt, and publish again") from error
    options = client_options(credential, endpoint, transport, authentication_policy)
    return AgentPools(ContainerServiceClient(credential, scope.subscription, **options), scope, endpoint, sleep)


class AgentPools:
    """What `shared.adapters.protocols.Compute` asks of pools, for kind aks.

    An instance's id is its number in the scale set behind the pool, as its node's providerID has it; AKS deletes by
    machine name, which is looked up afresh before every deletion. NICs and OS disks are AKS's own, so none is named.
    """

    def __init__(
        self, client: ContainerServiceClient, scope: AzureScope, endpoint: str, sleep: Callable[[float], None]
    ) -> None:
        self._client = client
        self._scope = scope
        self._endpoint = endpoint.rstrip("/")
        self._raw = RawArm(client, endpoint, sleep)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def scale_set(self, pool: Pool) -> ScaleSet:
        """See `Compute.scale_set`."""
        return size_of(self._body(pool), pool)

    def scale_sets(self, pools: Sequence[Pool]) -> dict[str, ScaleSet]:
        """See `Compute.scale_sets`; one request per AKS cluster."""
        by_cluster: dict[str, list[Pool]] = defaultdict(list)
        for pool in pools:
            by_cluster[self._cluster(pool)].append(pool)
        found: dict[str, ScaleSet] = {}
        for path, members in by_cluster.items():
            by_name = {pool.resource.lower(): pool for pool in members}
            for body in self._raw.list(f"{path}/agentPools", AKS_API, f"listing agent pools of {_last(path)}"):
                known = by_name.get(str(body["name"]).lower())
                if known is not None:
                    found[known.name] = size_of(body, known)
        return found

    def instances(self, pool: Pool) -> list[Instance]:
        """See `Compute.instances`: the machines that AKS lists, with what their scale set says of them."""
        listed = self._machines(pool)
        holders = sorted({vm_id.rsplit("/virtualMachines/", 1)[0] for vm_id in listed if "/virtualMachines/" in vm_id})
        doing = f"listing VMs of {pool.name}"
        bodies = [
            body
            for holder in holders
            for body in self._raw.list(f"{holder}/virtualMachines", COMPUTE_API, doing, **_INSTANCE_VIEW)
        ]
        known = {vm_id.lower() for vm_id in listed}
        return [_instance_of(body) for body in bodies if str(body["id"]).lower() in known]

    def instance(self, pool: Pool, instance_id: str) -> Instance:
        """See `Compute.instance`."""
        doing = f"reading machine {instance_id} of {pool.name}"
        vm_id = next((vm_id for vm_id in self._machines(pool) if _number(vm_id) == instance_id), None)
        if vm_id is None:
            raise NotFound(f"{doing}: agent pool {pool.resource} has no such machine", code="NotFound", status=404)
        return _instance_of(self._raw.get(vm_id, COMPUTE_API, doing, **_INSTANCE_VIEW))

    def begin_capacity(self, pool: Pool, target: int, etag: str) -> str:
        """See `Compute.begin_capacity`: the pool as just read, with another count.

        A count below the machines that there are is never written: AKS would choose who goes.
        """
        doing = f"scaling agent pool {pool.resource} to {target}"
        body = self._body(pool)
        now = size_of(body, pool)
        _refuse(now, doing)
        if etag and now.etag != etag:
            raise StaleWrite(f"{doing}: it was changed in between", code="PreconditionFailed", status=412)
        if target < now.capacity and target < len(self._machines(pool)):
            raise Rejected(f"{doing}: it has more machines than that, and they go by name", code="MachinesThere")
        sized: Any = {**body, "properties": {**body["properties"], "count": target}}
        with _patient(doing):
            poller: LROPoller[Any] = self._client.agent_pools.begin_create_or_update(
                *self._names(pool),
                sized,
                etag=now.etag,
                match_condition=MatchConditions.IfNotModified,
                polling=self._polling(),
            )
            return pack("agent-pool", poller.continuation_token())

    def begin_delete(self, pool: Pool, instance_ids: Sequence[str]) -> str:
        """See `Compute.begin_delete`: all of them by one request, which lowers the count as well."""
        doing = f"deleting {len(instance_ids)} machines of agent pool {pool.resource}"
        listed = self._machines(pool) if instance_ids else {}
        names = sorted(name for vm_id, name in listed.items() if _number(vm_id) in set(instance_ids))
        if not names:
            return ""
        _refuse(self.scale_set(pool), doing)
        with _patient(doing):
            poller: LROPoller[Any] = self._client.agent_pools.begin_delete_machines(
                *self._names(pool), {"machineNames": names}, polling=self._polling()
            )
            return pack("delete-machines", poller.continuation_token())

    def poll(self, token: str) -> OperationStatus:
        """See `Compute.poll`."""
        kind, payload = unpack(token)
        pools = self._client.agent_pools
        begin: Callable[..., LROPoller[Any]] = (
            pools.begin_create_or_update if kind == "agent-pool" else pools.begin_delete_machines
        )
        with translated(f"asking after operation {kind}"):
            return self._raw.retrying(self._resume, begin, payload)

    def _resume(self, begin: Callable[..., LROPoller[Any]], token: str) -> OperationStatus:
        """With a continuation token the SDK sends nothing and ignores the names: the status URL is in the token."""
        polling = self._polling()
        begin("-", "-", "-", {}, continuation_token=token, polling=polling)
        return polling.ask()

    def _body(self, pool: Pool) -> Json:
        path = f"{self._cluster(pool)}/agentPools/{pool.resource}"
        return self._raw.get(path, AKS_API, f"reading agent pool {pool.resource}")

    def _machines(self, pool: Pool) -> dict[str, str]:
        """Machine names by the resource ids of their VMs."""
        path = f"{self._cluster(pool)}/agentPools/{pool.resource}/machines"
        bodies = self._raw.list(path, AKS_API, f"listing machines of {pool.name}")
        listed = ((str(body.get("properties", {}).get("resourceId") or ""), str(body["name"])) for body in bodies)
        return {vm_id: name for vm_id, name in listed if _number(vm_id)}

    def _polling(self) -> OneShotPolling:
        return OneShotPolling(self._endpoint)

    def _names(self, pool: Pool) -> tuple[str, str, str]:
        where = pool.azure or self._scope
        if not where.aks_cluster:
            raise Rejected(f"pool {pool.name}: kind aks needs azure.aks_cluster, the name of the AKS cluster")
        return where.resource_group, where.aks_cluster, pool.resource

    def _cluster(self, pool: Pool) -> str:
        group, cluster, _ = self._names(pool)
        provider = "providers/Microsoft.ContainerService/managedClusters"
        return f"/subscriptions/{self._scope.subscription}/resourceGroups/{group}/{provider}/{cluster}"


def size_of(body: Json, pool: Pool) -> ScaleSet:
    """An agent pool as read: its size, what it is busy with, and why it may not be written to, if so."""
    properties = body.get("properties", {})
    state = str(properties.get("provisioningState") or "")
    return ScaleSet(
        name=str(body["name"]),
        capacity=int(properties.get("count") or 0),
        etag=str(properties.get("eTag") or ""),
        flexible=False,
        provisioning_state=state,
        busy="" if state.lower() in _AT_REST else state,
        unfit=_unfit(properties, pool),
    )


def _unfit(properties: Json, pool: Pool) -> str:
    if properties.get("enableAutoScaling"):
        return (
            f"agent pool {pool.resource} is scaled by AKS itself (enableAutoScaling), and two scalers would undo each "
            "other: run `az aks nodepool update --disable-cluster-autoscaler`, or take the pool out of the pools file"
        )
    kind = str(properties.get("type") or "VirtualMachineScaleSets")
    if kind != "VirtualMachineScaleSets":
        return f"agent pool {pool.resource} is of type {kind}: only VirtualMachineScaleSets are scaled by count"
    if str(properties.get("mode") or "").lower() == "system" and pool.minimum < 1:
        return (
            f"agent pool {pool.resource} is a System pool, of which AKS keeps one node at least: "
            "set min to 1 or more (AKS recommends 2, and 3 for production)"
        )
    if str((properties.get("powerState") or {}).get("code") or "Running").lower() == "stopped":
        return f"agent pool {pool.resource} is stopped: start it, or set the pool's mode to observe"
    return ""


def _refuse(now: ScaleSet, doing: str) -> None:
    if now.unfit:
        raise Rejected(f"{doing}: {now.unfit}", code="PoolUnfit")
    if now.busy:
        raise Occupied(f"{doing}: AKS is busy with it ({now.busy})", code="OperationNotAllowed", status=409)


@contextmanager
def _patient(doing: str) -> Iterator[None]:
    """Translate, and tell "another operation is in progress" from a write of somebody else's that came in between."""
    try:
        with translated(doing):
            yield
    except StaleWrite as error:
        if error.status == 409 and _PENDING.search(error.message):
            raise Occupied(error.message, code=error.code, status=error.status) from error
        raise


def _instance_of(body: Json) -> Instance:
    return replace(parsing.instance_of(body), nics=(), os_disk="")


def _number(vm_id: str) -> str:
    machine = parse(parsing.provider_id(vm_id)) if vm_id else None
    return machine.deletion_id if machine is not None else ""


def _last(path: str) -> str:
    return path.rsplit("/", 1)[-1]
