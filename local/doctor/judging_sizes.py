"""VM sizes as Azure offers them where the pools are: in the region, in its zones, to this subscription, as Spot.

Source: Resource SKUs list of Microsoft.Compute (capabilities, locationInfo, restrictions), and its usages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from local.doctor.findings import Check, Finding
from shared.model import Pool, Priority

Json = dict[str, Any]
_GPU = "nvidia.com/gpu"


def judge(pool: Pool, offers: Mapping[str, Json]) -> Iterator[Finding]:
    """`offers`: the region's sizes by lower-case name."""
    check, offer = Check("size", pool.name), offers.get(pool.sku.lower())
    region = pool.azure.location if pool.azure else "?"
    if offer is None:
        yield check.failed(f"sku: {pool.sku} is not offered in {region}", "choose a size of az vm list-skus -l REGION")
        return
    problems = [*_restricted(pool, offer, region), *_shape(pool, _capabilities(offer))]
    yield from (check.failed(told, remedy) for told, remedy in problems)
    if not problems:
        yield check.ok(f"{pool.sku} is offered in {region}, and has what the shape says")


def judge_quota(pools: Sequence[Pool], usages: Iterable[Json]) -> Iterator[Finding]:
    """Whether every pool could reach its maximum. A warning: plans keep to what the quota leaves."""
    limits = {str(usage["name"]["value"]).lower(): int(usage["limit"]) for usage in usages}
    for pool in pools:
        check, cores = Check("quota", pool.name), pool.maximum * pool.cores
        tight = [name for name in pool.quotas if limits.get(name.lower(), cores) < cores]
        if not tight:
            yield check.ok(f"max {pool.maximum} is within the quotas")
            continue
        told = f"limits: max {pool.maximum} takes {cores} cores, the quota {tight[0]} is {limits[tight[0].lower()]}"
        yield check.warning(
            told, "ask for more (az quota, or the portal's Quotas), or lower max: plans keep to the quota"
        )


def _restricted(pool: Pool, offer: Json, region: str) -> Iterator[tuple[str, str]]:
    for restriction in offer.get("restrictions") or ():
        whole = str(restriction.get("type")) == "Location"
        zones = set((restriction.get("restrictionInfo") or {}).get("zones") or ())
        if whole or (zones & set(pool.zones)):
            where = region if whole else f"zone {', '.join(sorted(zones & set(pool.zones)))} of {region}"
            told = f"sku: {pool.sku} is not to be had in {where} ({restriction.get('reasonCode')})"
            yield told, "choose another size or place, or ask Azure's support to lift the restriction"
    there = {zone for info in offer.get("locationInfo") or () for zone in info.get("zones") or ()}
    if missing := sorted(set(pool.zones) - there):
        yield (
            f"zones: {pool.sku} is not offered in zone {', '.join(missing)} of {region}",
            "choose other zones or another size",
        )
    if pool.priority is Priority.SPOT and _capabilities(offer).get("LowPriorityCapable") == "False":
        yield f"priority: {pool.sku} is not offered as Spot", "choose another size, or priority: Regular"


def _shape(pool: Pool, has: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """A shape larger than the machine makes plans that never come true."""
    most = {
        "cpu": int(float(has.get("vCPUs", 0)) * 1000),
        "memory": int(float(has.get("MemoryGB", 0)) * 2**30),
        _GPU: int(float(has.get("GPUs", 0))),
    }
    for name, amount in most.items():
        wanted = pool.shape.get(name, 0)
        if wanted > amount and (amount or name == _GPU):
            told = f"shape.{name}: the pools file says more than {pool.sku} has ({wanted} > {amount})"
            yield told, "leave the shape out, or correct it: the catalogue knows the size"


def _capabilities(offer: Json) -> dict[str, str]:
    return {str(each["name"]): str(each["value"]) for each in offer.get("capabilities") or ()}
