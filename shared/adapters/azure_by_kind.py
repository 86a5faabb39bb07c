"""`Compute` over all kinds of pools: agent pools by one client, everything else by the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from shared.adapters.azure_compute import AzureCompute, make_compute
from shared.adapters.azure_polling import unpack
from shared.adapters.errors import Rejected
from shared.adapters.protocols import Instance, Json, Leftover, OperationStatus, ScaleSet
from shared.model import AzureScope, Pool, PoolKind, Usage

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential
    from azure.core.pipeline.policies import SansIOHTTPPolicy
    from azure.core.pipeline.transport import HttpTransport

    from shared.adapters.azure_agent_pools import AgentPools

_AKS_TOKENS = frozenset({"agent-pool", "delete-machines"})


def make_azure(
    scope: AzureScope,
    credential: TokenCredential,
    *,
    endpoint: str = "https://management.azure.com",
    transport: HttpTransport[Any, Any] | None = None,
    authentication_policy: SansIOHTTPPolicy[Any, Any] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> AzureByKind:
    """All of Azure for one subscription; the options are `make_compute`'s. The client for agent pools is made, and its
    package imported, when the first such pool is asked for."""

    def agent_pools() -> AgentPools:
        from shared.adapters.azure_agent_pools import make_agent_pools  # noqa: PLC0415 - see above

        return make_agent_pools(
            scope,
            credential,
            endpoint=endpoint,
            transport=transport,
            authentication_policy=authentication_policy,
            sleep=sleep,
        )

    machines = make_compute(
        scope,
        credential,
        endpoint=endpoint,
        transport=transport,
        authentication_policy=authentication_policy,
        sleep=sleep,
    )
    return AzureByKind(machines, agent_pools)


class AzureByKind:
    """See `shared.adapters.protocols.Compute`: each call goes to whoever knows the pool's kind."""

    def __init__(self, machines: AzureCompute, agent_pools: Callable[[], AgentPools]) -> None:
        self._machines = machines
        self._make_agent_pools = agent_pools

    @cached_property
    def _agent_pools(self) -> AgentPools:
        return self._make_agent_pools()

    def close(self) -> None:
        """Close the connections."""
        self._machines.close()
        if "_agent_pools" in self.__dict__:
            self._agent_pools.close()

    def scale_set(self, pool: Pool) -> ScaleSet:
        """See `Compute.scale_set`."""
        return self._of(pool).scale_set(pool)

    def scale_sets(self, pools: Sequence[Pool]) -> dict[str, ScaleSet]:
        """See `Compute.scale_sets`."""
        managed = [pool for pool in pools if pool.kind is PoolKind.AKS]
        found = self._agent_pools.scale_sets(managed) if managed else {}
        sets = [pool for pool in pools if pool.kind is PoolKind.VMSS]
        return {**found, **(self._machines.scale_sets(sets) if sets else {})}

    def instances(self, pool: Pool) -> list[Instance]:
        """See `Compute.instances`."""
        return self._of(pool).instances(pool)

    def instance(self, pool: Pool, instance_id: str) -> Instance:
        """See `Compute.instance`."""
        return self._of(pool).instance(pool, instance_id)

    def begin_capacity(self, pool: Pool, target: int, etag: str) -> str:
        """See `Compute.begin_capacity`."""
        return self._of(pool).begin_capacity(pool, target, etag)

    def begin_create_vm(self, pool: Pool, name: str, zone: str, tags: Mapping[str, str], template: Json) -> str:
        """See `Compute.begin_create_vm`."""
        return self._machines.begin_create_vm(pool, name, zone, tags, template)

    def begin_delete(self, pool: Pool, instance_ids: Sequence[str], *, force: bool = False) -> str:
        """See `Compute.begin_delete`; AKS knows no forced deletion."""
        if pool.kind is PoolKind.AKS:
            return self._agent_pools.begin_delete(pool, instance_ids)
        return self._machines.begin_delete(pool, instance_ids, force=force)

    def poll(self, token: str) -> OperationStatus:
        """See `Compute.poll`."""
        try:
            kind, _ = unpack(token)
        except ValueError as error:
            raise Rejected(str(error)) from error
        return self._agent_pools.poll(token) if kind in _AKS_TOKENS else self._machines.poll(token)

    def usages(self, location: str) -> list[Usage]:
        """See `Compute.usages`."""
        return self._machines.usages(location)

    def leftovers(self, pools: Sequence[Pool]) -> list[Leftover]:
        """See `Compute.leftovers`; what AKS made is AKS's to clear up."""
        return self._machines.leftovers([pool for pool in pools if pool.kind is not PoolKind.AKS])

    def left_addresses(self, pools: Sequence[Pool]) -> list[Leftover]:
        """See `Compute.left_addresses`."""
        return self._machines.left_addresses(pools)

    def delete_leftover(self, leftover: Leftover) -> None:
        """See `Compute.delete_leftover`."""
        self._machines.delete_leftover(leftover)

    def _of(self, pool: Pool) -> AzureCompute | AgentPools:
        return self._agent_pools if pool.kind is PoolKind.AKS else self._machines
