"""Pools of single VMs over several zones: each VM is made in the zone that its pods need, so each zone is planned for
as a pool of its own, all of them under the maximum of the pool that they are parts of.

A part is named `pool@zone`. What is found of parts is told of the pool; a new node keeps the zone that its pods ask
for. Where nobody asks for one, it is free again: whoever carries the plan out spreads such nodes over the zones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from shared.model import (
    Config,
    Delta,
    Ledger,
    NewNode,
    NodeView,
    Plan,
    PodRef,
    PodShape,
    Pool,
    PoolKind,
    Snapshot,
    Unserved,
    Upcoming,
)
from shared.nodes.template_node import DISK_ZONE_LABEL, ZONE_LABEL

_ZONE_KEYS = (ZONE_LABEL, DISK_ZONE_LABEL, "failure-domain.beta.kubernetes.io/zone")
_BY_PLACE = ("NodeAffinity", "VolumeZone", "VolumeBinding")
Decide = Callable[[Snapshot, Config, Ledger, datetime], Plan]


def by_zone(snapshot: Snapshot, config: Config, ledger: Ledger, now: datetime, decide: Decide) -> Plan:
    """The plan that `decide` makes, with a zone for each new node of such a pool that needs one."""
    split = {pool.name: pool for pool in config.pools if _is_zonal(pool)}
    if not split:
        return decide(snapshot, config, ledger, now)
    nodes = tuple(_in_part(node, split) for node in snapshot.nodes)
    upcoming = tuple(_bound_for(each, split) for each in ledger.upcoming)
    there = Counter(node.pool for node in nodes)
    there.update({each.pool: each.count for each in upcoming if each.deadline > now})
    parts = {name: _parts(pool, there) for name, pool in split.items()}
    names = {name: tuple(part.name for part in found) for name, found in parts.items()}
    made = decide(
        replace(snapshot, nodes=nodes),
        _expanded(config, parts, names),
        replace(ledger, upcoming=upcoming),
        now,
    )
    whole = {part: name for name, found in names.items() for part in found}
    return _joined(made, whole, config, _shapes(snapshot))


def part_name(pool: str, zone: str) -> str:
    """How a part is called while a plan is made."""
    return f"{pool}@{zone}"


def _is_zonal(pool: Pool) -> bool:
    return pool.kind is PoolKind.VM and len(pool.zones) > 1 and pool.azure is not None and bool(pool.azure.location)


def _in_part(node: NodeView, split: Mapping[str, Pool]) -> NodeView:
    pool = split.get(node.pool)
    if pool is None:
        return node
    zone = node.labels.get(ZONE_LABEL, "").rpartition("-")[2]
    return replace(node, pool=part_name(pool.name, zone if zone in pool.zones else pool.zones[0]))


def _bound_for(upcoming: Upcoming, split: Mapping[str, Pool]) -> Upcoming:
    pool = split.get(upcoming.pool)
    return upcoming if pool is None else replace(upcoming, pool=part_name(pool.name, upcoming.zone or pool.zones[0]))


def _parts(pool: Pool, there: Mapping[str, int]) -> list[Pool]:
    """The minimum is kept where nodes are or are about to be, the rest of it and the headroom in the first zones."""
    names = [part_name(pool.name, zone) for zone in pool.zones]
    left = pool.minimum
    least: dict[str, int] = {}
    for name in names:
        least[name] = min(left, there.get(name, 0))
        left -= least[name]
    for number in range(left):
        least[names[number % len(names)]] += 1
    others = names if pool.fallback else []
    return [
        replace(
            pool,
            name=name,
            part_of=pool.name,
            zones=(zone,),
            minimum=least[name],
            headroom=pool.headroom if zone == pool.zones[0] else 0,
            fallback=(*(other for other in others if other != name), *pool.fallback),
        )
        for name, zone in zip(names, pool.zones, strict=True)
    ]


def _expanded(config: Config, parts: Mapping[str, Sequence[Pool]], names: Mapping[str, Sequence[str]]) -> Config:
    def spelled(pools: Iterable[str]) -> tuple[str, ...]:
        return tuple(name for pool in pools for name in names.get(pool, (pool,)))

    pools = [part for pool in config.pools for part in parts.get(pool.name, (pool,))]
    return replace(
        config,
        pools=tuple(replace(pool, fallback=spelled(pool.fallback)) for pool in pools),
        mixes=tuple(replace(mix, pools=spelled(mix.pools)) for mix in config.mixes),
        headroom=replace(config.headroom, pools=spelled(config.headroom.pools)),
    )


def _joined(made: Plan, whole: Mapping[str, str], config: Config, shapes: Mapping[PodRef, PodShape]) -> Plan:
    def pool_of(name: str) -> str:
        return whole.get(name, name)

    nodes: dict[str, list[NewNode]] = {}
    for delta in made.deltas:
        zone = delta.pool.rpartition("@")[2] if delta.pool in whole else ""
        nodes.setdefault(pool_of(delta.pool), []).extend(_in_zone(node, zone, shapes) for node in delta.nodes)
    order = [pool.name for pool in config.pools]
    return replace(
        made,
        deltas=tuple(Delta(pool, tuple(nodes[pool])) for pool in order if pool in nodes),
        fits_upcoming=tuple(replace(placed, target=pool_of(placed.target)) for placed in made.fits_upcoming),
        unserved=tuple(_told(each, whole, order) for each in made.unserved),
        retirements=tuple(replace(going, pool=pool_of(going.pool)) for going in made.retirements),
        top_up=_summed(made.top_up, whole),
        headroom=_summed(made.headroom, whole),
        notes=tuple(dict.fromkeys(_without_zone(note, whole) for note in made.notes)),
    )


def _in_zone(node: NewNode, zone: str, shapes: Mapping[PodRef, PodShape]) -> NewNode:
    asked = any(_asks_for_zone(shapes[pod]) for pod in node.pods if pod in shapes)
    return replace(node, zone=zone) if zone and asked else node


def _asks_for_zone(shape: PodShape) -> bool:
    """Whether it may matter to the pod; rules about other pods and required terms are not looked into."""
    rules = shape.affinity or shape.volumes or shape.near or shape.apart or shape.spread
    return bool(rules) or any(key in _ZONE_KEYS for key, _ in shape.node_selector)


def _told(each: Unserved, whole: Mapping[str, str], order: Sequence[str]) -> Unserved:
    """Of a pool's zones the one that came closest speaks for it: in others the pod may not be at all."""
    found: dict[str, list[str]] = {}
    for name, reason in each.reasons.items():
        found.setdefault(whole.get(name, name), []).append(reason)
    best = {pool: min(found[pool], key=lambda reason: reason.startswith(_BY_PLACE)) for pool in order if pool in found}
    return replace(each, reasons=best)


def _summed(numbers: Mapping[str, int], whole: Mapping[str, str]) -> dict[str, int]:
    summed: Counter[str] = Counter()
    for name, number in numbers.items():
        summed[whole.get(name, name)] += number
    return dict(summed)


def _without_zone(note: str, whole: Mapping[str, str]) -> str:
    for part, pool in whole.items():
        note = note.replace(part, pool)
    return note


def _shapes(snapshot: Snapshot) -> dict[PodRef, PodShape]:
    waiting = [(each.pods, each.shape) for each in snapshot.pending]
    waiting += [(each.pods, each.shape) for node in snapshot.nodes if node.evicting_at for each in node.bound]
    return {pod: shape for pods, shape in waiting for pod in pods}
