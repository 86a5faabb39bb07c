"""AKS: agent pools and their machines. Behaviours and their sources: docs/stand-ins.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from local.arm.cloud import Cloud
from local.arm.errors import ArmError, invalid, not_found
from local.arm.operations import Operation
from local.arm.rendering import agent_pool_json, machine_json, managed_cluster_json
from local.arm.routing import Call, paged
from local.arm.scale_sets import ScaleSets, age
from local.arm.state import AgentPool, Group, Json, ManagedCluster, Vm
from local.randomness import stream
from local.web import Response

_KIND = "Microsoft.ContainerService/managedClusters"
_PROVIDER = "Microsoft.ContainerService"
_MOST = 1000
_AT_REST = frozenset({"Succeeded", "Failed", "Canceled"})
_SCALING, _DELETING, _UPDATING = "Scaling", "Deleting", "Updating"


class AgentPools:
    """The managedClusters resource, as far as its agent pools are concerned."""

    def __init__(self, cloud: Cloud, sets: ScaleSets) -> None:
        self._cloud, self._sets = cloud, sets

    def cluster(self, call: Call) -> Response:
        """GET a cluster."""
        return Response.of_json(200, managed_cluster_json(self._cluster(call)))

    def list_all(self, call: Call) -> Response:
        """GET the pools of a cluster."""
        bodies = [agent_pool_json(pool) for pool in self._cluster(call).pools.values()]
        return paged(call, bodies, self._cloud.page_size)

    def get(self, call: Call) -> Response:
        """GET one pool."""
        return Response.of_json(200, agent_pool_json(self._pool(call)))

    def machines(self, call: Call) -> Response:
        """GET the machines of a pool: every VM of its scale set, whatever its state."""
        pool = self._pool(call)
        return paged(call, [machine_json(pool, vm) for vm in pool.scale_set.vms.values()], self._cloud.page_size)

    def machine(self, call: Call) -> Response:
        """GET one machine."""
        pool, name = self._pool(call), call.target.names[2]
        vm = _by_name(pool).get(name.lower())
        if vm is None:
            raise not_found(f"{_KIND}/agentPools/machines", name, call.target.group)
        return Response.of_json(200, machine_json(pool, vm))

    def put(self, call: Call) -> Response:
        """PUT a pool that exists: its count, labels, taints, tags, autoscaler."""
        pool = self._pool(call)
        if self._cloud.chances.touched(pool.name):
            pool.version += 1
        wanted = call.request.headers.get("if-match", "*").strip('"')  # bodies have it bare, the SDK quotes it
        if wanted not in {"*", pool.etag}:
            raise ArmError(412, "PreconditionFailed", f"The ETag of '{pool.name}' is {pool.etag}, not {wanted}.")
        properties = call.body().get("properties") or {}
        count = int(properties.get("count", pool.count))
        self._check(pool, count, scaled_by_aks=bool(properties.get("enableAutoScaling")))
        self._check_idle(call, pool)
        needed = count - len(pool.scale_set.living())
        self._check_quota(call, pool, needed)
        operation = self._accepted(pool, count, "agent_pool.update", _SCALING)
        _adopt(pool, properties)
        if needed > 0:
            self._sets.grow(pool.scale_set, needed, operation, lambda state: self._grown(pool, state))
        else:
            self._shrink(pool, -needed, operation)
        return Response.of_json(200, agent_pool_json(pool), self._headers(call, pool, operation))

    def delete_machines(self, call: Call) -> Response:
        """POST .../deleteMachines {"machineNames": [...]}: these go, and the count with them."""
        pool = self._pool(call)
        self._check_idle(call, pool)
        wanted = [str(name).lower() for name in call.body().get("machineNames") or ()]
        there = _by_name(pool)
        unknown = [name for name in wanted if name not in there]
        if not wanted or (unknown and self._cloud.quirks.aks_unknown_machine_refused):
            raise invalid(f"The machines {unknown} are not in agent pool {pool.name}.")
        doomed = [there[name] for name in wanted if name in there and there[name].deleting_at is None]
        self._check(pool, pool.count - len(doomed), scaled_by_aks=False)
        fault = self._cloud.faults.take("agent_pool.delete_machines", pool.name, "async")
        going = [] if fault is not None else doomed
        self._cloud.truth.tell_of_all("deletion failing", doomed if fault is not None else [])
        count = max(0, pool.count - len(going))
        operation = self._accepted(pool, count, "agent_pool.delete_machines", _DELETING, named=going)
        hang = self._cloud.chances.hanging(pool.name) if going else 0.0
        seconds = self._sets.remove(going, pool.scale_set, operation.name, hang=hang) + self._overhead()
        code, message = (fault.code, fault.text) if fault is not None else ("", "")
        self._cloud.operations.end_later(
            operation,
            seconds,
            code=code,
            message=message,
            hang=hang,
            then=lambda: pool.settle("Failed" if code else "Succeeded"),
        )
        return Response(202, self._headers(call, pool, operation))

    def create(self, group: Group, cluster: str, location: str, name: str, properties: Json) -> AgentPool:
        """An empty pool, in a cluster that is made with its first one."""
        cluster_id = group.path(_KIND, cluster)
        managed = group.clusters.setdefault(
            cluster.lower(),
            ManagedCluster(cluster_id, cluster, location, f"MC_{group.name}_{cluster}_{location}"),
        )
        number = stream(self._cloud.seed, "arm", "aks", cluster).randrange(10_000_000, 100_000_000)
        set_name = f"aks-{name}-{number}-vmss"
        spot = properties.get("scaleSetPriority") == "Spot"
        profile: Json = {"osProfile": {"computerNamePrefix": set_name}, "priority": "Spot" if spot else "Regular"}
        if spot:
            profile["evictionPolicy"] = properties.get("scaleSetEvictionPolicy") or "Delete"
        scale_set = self._sets.create(
            self._cloud.estate.group(group.subscription, managed.node_group),
            set_name,
            {
                "location": location,
                "zones": list(properties.get("availabilityZones") or ()),
                "tags": {"aks-managed-poolName": name},
                "sku": {"name": properties["vmSize"], "tier": "Standard", "capacity": 0},
                "properties": {"orchestrationMode": "Uniform", "virtualMachineProfile": profile},
            },
        )
        pool = AgentPool(f"{managed.id}/agentPools/{name}", name, scale_set, dict(properties))
        scale_set.agent_pool = managed.pools[name.lower()] = pool
        return pool

    def fill(self, pool: AgentPool, count: int) -> None:
        """Give a new pool machines, as if it had always had them."""
        pool.count = count
        self._sets.fill(pool.scale_set, count)

    def hold(self, pool: AgentPool, state: str, seconds: float) -> None:
        """AKS does something of its own with the pool (an upgrade): busy for so long."""
        pool.settle(state)

        def over() -> None:
            if pool.provisioning_state == state:
                pool.settle("Succeeded")

        self._cloud.chances.chances.hold(seconds, over)

    def find(self, name: str) -> AgentPool | None:
        """By the pool's own name, in whichever cluster."""
        groups = self._cloud.estate.groups.values()
        clusters = (cluster for group in groups for cluster in group.clusters.values())
        return next((cluster.pools[name.lower()] for cluster in clusters if name.lower() in cluster.pools), None)

    def _check(self, pool: AgentPool, count: int, *, scaled_by_aks: bool) -> None:
        least = 1 if str(pool.properties.get("mode")).lower() == "system" else 0
        if not least <= count <= _MOST:
            raise invalid(
                f"agentPoolProfile.count was {count}. It must be greater or equal to minCount:{least} and less than or "
                f"equal to maxCount:{_MOST}."
            )
        if scaled_by_aks and count != pool.count:
            raise invalid(f"Agent pool {pool.name} is scaled by the cluster autoscaler: its count cannot be set.")

    def _check_idle(self, call: Call, pool: AgentPool) -> None:
        """Raises ArmError 409 while AKS is at work on the pool, or on any of the cluster's."""
        own = self._cloud.chances.occupied(pool.name)
        if own > 0 and pool.provisioning_state in _AT_REST:
            self.hold(pool, "UpgradingNodeImageVersion", own)
        rivals = [pool]
        if self._cloud.quirks.aks_one_operation_per_cluster:
            rivals = list(self._cluster(call).pools.values())
        busy = next((each for each in rivals if each.provisioning_state not in _AT_REST), None)
        if busy is not None:
            raise ArmError(
                409,
                "OperationNotAllowed",
                f"Operation is not allowed: Another agentpool operation ({busy.name} - {busy.provisioning_state}) is "
                "in progress, please wait for it to finish before starting a new operation.",
            )

    def _check_quota(self, call: Call, pool: AgentPool, needed: int) -> None:
        scale_set = pool.scale_set
        try:
            self._cloud.quota.check(
                scale_set.subscription, scale_set.location, scale_set.sku, spot=scale_set.spot, count=needed
            )
        except ArmError as refusal:
            raise ArmError(
                400,
                "QuotaExceeded",
                f"Preflight validation check for resource(s) for container service {call.name} in resource group "
                f"{call.target.group} failed. Message: {refusal.message} Details: ",
                details=[{"code": refusal.code, "message": refusal.message}],
            ) from refusal

    def _accepted(
        self, pool: AgentPool, count: int, operation: str, state: str, *, named: Sequence[Vm] = ()
    ) -> Operation:
        scale_set, quota = pool.scale_set, self._cloud.quota
        self._cloud.record(
            operation,
            pool.name,
            target=count,
            count=count,
            tags=scale_set.tags,
            quota_left=quota.left(scale_set.subscription, scale_set.location),
            living=len(scale_set.living()),
            named=tuple(vm.id for vm in named),
        )
        pool.count = count
        pool.settle(state)
        return self._cloud.operations.begin(operation, pool.name)

    def _grown(self, pool: AgentPool, state: str) -> None:
        if state == "Failed" and not self._cloud.quirks.aks_failed_scale_keeps_count:
            pool.count = len(pool.scale_set.living())
        pool.settle(state)

    def _shrink(self, pool: AgentPool, number: int, operation: Operation) -> None:
        """A count below the machines that there are: AKS chooses, the youngest here, whatever runs on them."""
        doomed = sorted(pool.scale_set.living(), key=age, reverse=True)[:number]
        self._cloud.truth.chosen_by_azure.extend(vm.provider_id for vm in doomed)
        seconds = self._sets.remove(doomed, pool.scale_set, "agent_pool.delete_machines") + self._overhead()
        self._cloud.operations.end_later(operation, seconds, then=lambda: pool.settle("Succeeded"))

    def _overhead(self) -> float:
        return self._cloud.duration(self._cloud.latencies.reconcile)

    def _headers(self, call: Call, pool: AgentPool, operation: Operation) -> dict[str, str]:
        where = (call.target.subscription, pool.scale_set.location)
        return self._cloud.operations.headers(operation, call.base, *where, provider=_PROVIDER)

    def _cluster(self, call: Call) -> ManagedCluster:
        group = self._cloud.estate.group(call.target.subscription, call.target.group)
        found = group.clusters.get(call.name.lower())
        if found is None:
            raise not_found(_KIND, call.name, call.target.group)
        return found

    def _pool(self, call: Call) -> AgentPool:
        name = call.target.names[1]
        found = self._cluster(call).pools.get(name.lower())
        if found is None:
            raise not_found(f"{_KIND}/agentPools", name, call.target.group)
        return found


def _by_name(pool: AgentPool) -> dict[str, Vm]:
    return {vm.computer_name.lower(): vm for vm in pool.scale_set.vms.values()}


_WRITABLE: Sequence[str] = ("enableAutoScaling", "minCount", "maxCount", "mode", "nodeLabels", "nodeTaints", "tags")


def _adopt(pool: AgentPool, properties: Mapping[str, object]) -> None:
    pool.properties |= {name: properties[name] for name in _WRITABLE if name in properties}
