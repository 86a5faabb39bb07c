"""What Azure says to whoever runs the doctor: pools, sizes and quotas, the app's roles, topics and subscriptions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import Any

from local.doctor import judging_pools, judging_reach, judging_sizes, judging_topic
from local.doctor.findings import Cause, Check, Finding
from local.doctor.judging_rights import Need
from local.doctor.part_rights import group_of, needs_of, rights_of_app, rights_to_roll_out
from local.doctor.probing_azure import (
    AUTOSCALE_API,
    COMPUTE_API,
    CONTAINER_API,
    EVENT_GRID_API,
    SKUS_API,
    WEB_API,
    Arm,
    found,
)
from local.doctor.target import Target
from shared.adapters.errors import OutsideError, Refused, Unreachable
from shared.model import AzureScope, Config, Pool, PoolKind

Json = dict[str, Any]
_LOGIN = "az login, with an account that may read the subscription"


class AzurePart:
    """`configs` are the pools files, by cluster."""

    def __init__(self, arm: Arm, target: Target, configs: Mapping[str, Config]) -> None:
        self._arm, self._target = arm, target
        self._pools = [pool for config in configs.values() for pool in config.pools if pool.azure is not None]
        self._clusters = dict(configs)
        self._bodies: dict[tuple[str, str], Json] = {}
        self.managed = cache(self._managed)

    def findings(self) -> Iterator[Finding]:
        """Nothing is asked of an ARM that does not answer, or of one that does not know who asks."""
        check = Check("arm")
        try:
            self._reach()
        except Unreachable as error:
            remedy = "see that this machine reaches management.azure.com on port 443 (proxy, firewall, DNS)"
            yield check.failed(f"does not answer this machine: {error.message}", remedy, Cause.UNREACHABLE)
            return
        except Refused as error:
            yield check.failed(f"refuses you: {error.message}", _LOGIN, Cause.RIGHTS)
            return
        except OutsideError as error:
            yield check.failed(error.message, "see the message, and ask again in some minutes")
            return
        yield check.ok("answers this machine")
        if self._clusters and not self._pools:
            remedy = "give `azure` in the pools file: subscription, resource_group, location"
            yield Check("pool").skipped("no pool says where it lives in Azure", remedy)
        for name, part in self._parts():
            yield from _guarded(Check(name), part)

    def restricts_metadata(self, cluster: str) -> bool:
        """Whether AKS keeps the metadata service from pods."""
        body = self.managed(cluster)
        profile = (body or {}).get("properties", {}).get("networkProfile") or {}
        return profile.get("podLinkLocalAccess") == "None"

    def _managed(self, cluster: str) -> Json | None:
        """The AKS cluster of a pools file; None where there is none, or Azure does not show it."""
        config = self._clusters.get(cluster)
        pools = config.pools if config is not None else ()
        scope = next((pool.azure for pool in pools if pool.azure is not None and pool.azure.aks_cluster), None)
        if scope is None:
            return None
        try:
            return found(self._arm, _cluster_path(scope), CONTAINER_API, f"AKS cluster {scope.aks_cluster}")
        except OutsideError:
            return None  # the pools of it are asked for as well, and tell the reason

    def _parts(self) -> Iterator[tuple[str, Callable[[], Iterator[Finding]]]]:
        installation = self._target.installation
        if installation is not None:
            yield "topic", self._topics
        yield "pool", self._pools_there
        yield "scaler", self._other_scalers
        yield "authorised-ranges", self._ranges
        yield "size", self._sizes
        yield "quota", self._quotas
        if installation is None:
            yield "rollout", partial(rights_to_roll_out, self._arm, self._pools)
        elif installation.principal:
            yield "rights", partial(rights_of_app, self._arm, installation.principal, self._needs)

    def _reach(self) -> None:
        """One reading that every installation must allow."""
        installation = self._target.installation
        if installation is not None:
            self._arm.get(installation.app_id, WEB_API, "the app")
        elif self._pools:
            _read_pool(self._arm, self._pools[0])

    def _topics(self) -> Iterator[Finding]:
        installation = self._target.installation
        assert installation is not None  # noqa: S101 - for the type checker; `_parts` asked
        wanted = [name for name in installation.topics if self._target.cluster in ("", name)]
        for cluster in self._clusters or wanted:
            topic = installation.topics.get(cluster)
            if topic is None:
                remedy = "name the cluster in `clusters` of the stage base, and apply it"
                yield Check("topic", cluster).failed("the installation has no topic for this cluster", remedy)
                continue
            body = found(self._arm, topic, EVENT_GRID_API, f"topic of {cluster}")
            yield judging_topic.judge_topic(cluster, body, keys_expected=self._target.stand_ins)
            if body is not None:
                path = f"{topic}/providers/Microsoft.EventGrid/eventSubscriptions"
                there = self._arm.list(path, EVENT_GRID_API, f"subscriptions of the topic of {cluster}")
                yield judging_topic.judge_subscription(
                    cluster, there, installation.app_id, self._target.app_url or installation.app_url
                )

    def _pools_there(self) -> Iterator[Finding]:
        for pool in self._pools:
            if pool.kind is PoolKind.VM:
                continue
            body = _read_pool(self._arm, pool)
            if body is not None:
                self._bodies[pool.cluster, pool.name] = body
            yield from judging_pools.judge(pool, body)

    def _other_scalers(self) -> Iterator[Finding]:
        """Rules of Azure Monitor that change a scale set's capacity by themselves."""
        for (subscription, group), pools in _by_group(self._pools).items():
            path = (
                f"/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Insights/autoscalesettings"
            )
            rules = self._arm.list(path, AUTOSCALE_API, f"autoscale settings of {group}")
            yield from judging_pools.judge_autoscale(pools, rules)

    def _ranges(self) -> Iterator[Finding]:
        outbound = self._target.installation.outbound if self._target.installation is not None else ""
        judged = (judging_reach.judge_ranges(name, self.managed(name), outbound) for name in self._clusters)
        yield from (finding for finding in judged if finding is not None)

    def _needs(self) -> list[Need]:
        return needs_of(self._pools, self._bodies, self._node_groups())

    def _node_groups(self) -> dict[str, str]:
        """By cluster: where AKS keeps its nodes."""
        bodies = {cluster: self.managed(cluster) for cluster in self._clusters}
        found_ones = {
            name: (body or {}).get("properties", {}).get("nodeResourceGroup") for name, body in bodies.items()
        }
        return {name: str(group) for name, group in found_ones.items() if group}

    def _sizes(self) -> Iterator[Finding]:
        for scope, pools in _by_region(self._pools).items():
            subscription, location = scope
            path = f"/subscriptions/{subscription}/providers/Microsoft.Compute/skus"
            query = {"$filter": f"location eq '{location}'"}
            listed = self._arm.list(path, SKUS_API, f"sizes in {location}", **query)
            offers = {
                str(each["name"]).lower(): each for each in listed if each.get("resourceType") == "virtualMachines"
            }
            for pool in pools:
                yield from judging_sizes.judge(pool, offers) if pool.sku else ()

    def _quotas(self) -> Iterator[Finding]:
        for scope, pools in _by_region(self._pools).items():
            subscription, location = scope
            path = f"/subscriptions/{subscription}/providers/Microsoft.Compute/locations/{location}/usages"
            yield from judging_sizes.judge_quota(pools, self._arm.list(path, COMPUTE_API, f"quotas in {location}"))


def _guarded(check: Check, part: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """What one part may not see is no reason to leave the others out."""
    try:
        yield from part()
    except Refused as error:
        remedy = "ask somebody who may see it, or give --installation and --pools for what you may"
        yield check.skipped(f"you may not look: {error.message}", remedy)
    except OutsideError as error:
        yield check.failed(error.message, "see the message, and ask again in some minutes")


def _read_pool(arm: Arm, pool: Pool) -> Json | None:
    scope = pool.azure
    assert scope is not None  # noqa: S101 - for the type checker
    if pool.kind is PoolKind.AKS:
        path = f"{_cluster_path(scope)}/agentPools/{pool.resource}"
        return found(arm, path, CONTAINER_API, f"agent pool {pool.resource}")
    if pool.kind is PoolKind.VM:
        path = f"{group_of(scope)}/providers/Microsoft.Compute/virtualMachines"
        return {"value": arm.list(path, COMPUTE_API, f"VMs of {scope.resource_group}")}
    path = f"{group_of(scope)}/providers/Microsoft.Compute/virtualMachineScaleSets/{pool.resource}"
    return found(arm, path, COMPUTE_API, f"scale set {pool.resource}")


def _cluster_path(scope: AzureScope) -> str:
    return f"{group_of(scope)}/providers/Microsoft.ContainerService/managedClusters/{scope.aks_cluster}"


def _by_group(pools: Iterable[Pool]) -> dict[tuple[str, str], list[Pool]]:
    groups: dict[tuple[str, str], list[Pool]] = defaultdict(list)
    for pool in pools:
        if pool.azure is not None and pool.kind is PoolKind.VMSS:
            groups[pool.azure.subscription, pool.azure.resource_group].append(pool)
    return groups


def _by_region(pools: Iterable[Pool]) -> dict[tuple[str, str], list[Pool]]:
    regions: dict[tuple[str, str], list[Pool]] = defaultdict(list)
    for pool in pools:
        if pool.azure is not None:
            regions[pool.azure.subscription, pool.azure.location].append(pool)
    return regions
