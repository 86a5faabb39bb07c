"""The keys of the pools file that bound what is bought: quota, placement groups, mixes, headroom, priority cut-off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from shared.model import MOST_AT_ONCE, PRIORITY_CUTOFF, Headroom, Mix, PlacementGroups, Pool, PoolKind, Priority
from shared.settings.config_schema import Choice, Field, ListOf, Number, Problem, Record, Records, Text, Whole

Json = dict[str, Any]

MOST_VCPUS = 10_000
_LEAST_PRIORITY, _MOST_PRIORITY = -(2**31), 2**31 - 1  # what a PriorityClass may hold


def pool_fields(most_nodes: int) -> tuple[Field, ...]:
    """Keys of a pool."""
    quota = (
        Field(
            "family",
            Text(r"[A-Za-z][A-Za-z0-9_ ]*", "a name as `az vm list-usage` shows it", 80),
            "The core quota's name, such as standardDSv5Family. Where it is left out, it is told from the sku.",
        ),
        Field(
            "vcpus",
            Whole(1, MOST_VCPUS),
            "vCPUs that one node counts for. Where it is left out, as many as the sku or the shape has.",
        ),
    )
    return (
        Field("quota", Record(quota), "What a node counts for against core quotas, where the sku does not tell."),
        Field(
            "placement_groups",
            Choice(PlacementGroups),
            "single (a scale set with singlePlacementGroup: at most 100 nodes), many (1,000) or many-custom-image "
            "(600). Where it is left out, max alone counts.",
        ),
        Field(
            "ramp",
            Whole(1, MOST_AT_ONCE),
            f"Nodes asked for in one request, at most; kind aks asks for all that wait. Default {MOST_AT_ONCE}: what a "
            "placement group takes. Fewer where capacity is scarce, since Azure often refuses a request as a whole.",
            default=MOST_AT_ONCE,
        ),
        Field(
            "headroom",
            Whole(0, most_nodes),
            "Nodes kept free of pods for sudden demand. Default 0: what nobody asked for costs nothing.",
            default=0,
        ),
    )


def file_fields(pool_name: Text) -> tuple[Field, ...]:
    """Keys of the file."""
    mix = (
        Field("pools", ListOf(pool_name, 50), "The pools whose nodes count together, Spot and Regular.", required=True),
        Field(
            "on_demand_floor",
            Whole(0, 100_000),
            "Nodes that must be on demand before any is Spot. Default 0: Spot alone will do.",
            default=0,
        ),
        Field(
            "spot_max_share",
            Number(0, 1),
            "Share of the nodes that may be Spot, from 0 to 1. Default 1: all of them.",
            default=1,
        ),
    )
    headroom = (
        Field(
            "percent",
            Number(0, 1000),
            "Room kept free, in percent of the cpu and memory that pods ask for. Default 0: what nobody asked for "
            "costs nothing.",
            default=0,
        ),
        Field(
            "pools",
            ListOf(pool_name, 500),
            "The pools whose nodes count, and may be bought for it. Where it is left out, all without a hard taint.",
        ),
    )
    return (
        Field("mixes", Records(Record(mix), 50), "How many nodes may be Spot; a pool may be in one mix."),
        Field("headroom", Record(headroom), "Room kept free for sudden demand, over several pools.", default={}),
        Field(
            "priority_cutoff",
            Whole(_LEAST_PRIORITY, _MOST_PRIORITY),
            f"Pods of lower priority cause no growth and hold no node. Default {PRIORITY_CUTOFF}: as "
            "cluster-autoscaler's expendable-pods-priority-cutoff.",
            default=PRIORITY_CUTOFF,
        ),
    )


def mixes_of(written: Mapping[str, Any]) -> dict[str, Mix]:
    """The mixes by path. One with problems is there too, as far as it could be read."""
    return {
        path: Mix(
            pools=fields.get("pools", ()),
            on_demand_floor=fields.get("on_demand_floor", 0),
            spot_max_share=fields.get("spot_max_share", 1.0),
        )
        for path, fields in written.get("mixes", {}).items()
    }


def headroom_of(written: Mapping[str, Any]) -> Headroom:
    """The file's headroom."""
    return Headroom(**written.get("headroom", {}))


def problems_of(pools: Mapping[str, Pool], mixes: Mapping[str, Mix], headroom: Headroom) -> Iterator[Problem]:
    """What spans several keys."""
    by_name = {pool.name: pool for pool in pools.values()}
    for path, pool in pools.items():
        if pool.placement_groups is not None and pool.kind is not PoolKind.VMSS:
            message = f"belongs to kind vmss only; this pool is {pool.kind}"
            yield Problem(f"{path}.placement_groups", pool.placement_groups.value, message)
        if pool.headroom > pool.maximum:
            yield Problem(f"{path}.headroom", pool.headroom, f"is above max {pool.maximum}; lower it, or raise max")
    in_mix: dict[str, str] = {}
    for path, mix in mixes.items():
        yield from _unknown(f"{path}.pools", mix.pools, by_name)
        for index, name in enumerate(mix.pools):
            if name in in_mix:
                yield Problem(f"{path}.pools[{index}]", name, f"is in {in_mix[name]} already; a pool may be in one mix")
            in_mix.setdefault(name, path)
        yield from _one_sided(path, mix, by_name)
    yield from _unknown("headroom.pools", headroom.pools, by_name)


def _unknown(path: str, names: tuple[str, ...], known: Mapping[str, Pool]) -> Iterator[Problem]:
    for index, name in enumerate(names):
        if name not in known:
            yield Problem(f"{path}[{index}]", name, f"is no pool of this file ({', '.join(sorted(known))})")


def _one_sided(path: str, mix: Mix, by_name: Mapping[str, Pool]) -> Iterator[Problem]:
    """A mix says something only where there is Spot, and allows Spot only where there is on-demand beside it."""
    members = [by_name[name] for name in mix.pools if name in by_name]
    if not members or len(members) < len(mix.pools):
        return
    if not any(pool.priority is Priority.SPOT for pool in members):
        yield Problem(f"{path}.pools", list(mix.pools), "has no pool of priority Spot; add one, or remove the mix")
    bounded = mix.on_demand_floor or mix.spot_max_share < 1
    if bounded and all(pool.priority is Priority.SPOT for pool in members):
        message = "has no pool of priority Regular, so no Spot node could ever be bought; add one"
        yield Problem(f"{path}.pools", list(mix.pools), message)
