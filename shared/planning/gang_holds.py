"""Gangs that came in part: what was bought for them is held for a while, then given back.

A gang is planned for whole, but Azure may deliver one part and fail the other. The fallbacks have `timing.gang_hold` to
serve the rest. When no plan does for so long, the gang's nodes go at once: those of the pools that it was bought in,
made since it was first asked for, and used by nobody but members of such gangs. Members that run there are evicted:
below its minimum a gang does nothing, and nodes from before are left to it. It is bought for again after a pause that
doubles each time, beside whatever Azure's refusals are remembered for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from shared.model import (
    BoundPods,
    Config,
    Gang,
    GangHold,
    Ledger,
    Movability,
    NodeView,
    Placement,
    Plan,
    PodRef,
    Snapshot,
)
from shared.packing.allocation import Effort
from shared.planning.gang_needs import Shortage, looking_for_room, running, shortages
from shared.planning.plan import plan
from shared.reading.gang_members import gang_name, role_name

_FIRST_PAUSE = timedelta(minutes=10)
_LONGEST_PAUSE = timedelta(hours=2)
MOST_HOLDS = 24
"""Gangs that one plan says something new about; what is bought for others goes when it is idle."""


def digest(name: str) -> str:
    """A gang's name as the ledger has it, since names can be long."""
    return hashlib.sha256(name.encode()).hexdigest()[:12]


def rested(snapshot: Snapshot, ledger: Ledger, now: datetime) -> Snapshot:
    """The snapshot with a problem for each gang whose nodes were given back a short while ago."""
    if not ledger.gangs or not snapshot.gangs:
        return snapshot
    gangs = tuple(_resting(gang, ledger.gangs.get(digest(gang.name)), now) for gang in snapshot.gangs)
    return replace(snapshot, gangs=gangs)


def _resting(gang: Gang, hold: GangHold | None, now: datetime) -> Gang:
    if gang.problem or hold is None or hold.given is None or (again := hold.given + _pause(hold)) <= now:
        return gang
    told = f"its nodes went back at {hold.given:%H:%M:%SZ}, as the rest could not be had"
    return replace(gang, problem=f"{told}; it is tried again from {again:%H:%M:%SZ}")


def _pause(hold: GangHold) -> timedelta:
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * (1 << min(8, max(0, hold.tries - 1))))


def holds_after(
    made: Plan, snapshot: Snapshot, ledger: Ledger, now: datetime, acting: Collection[str], given: Collection[str] = ()
) -> dict[str, GangHold | None]:
    """What the ledger has to learn of gangs from this plan: the changes alone, None for one to forget.

    `acting`: the pools in which what is planned is bought; `given`: the gangs whose nodes go by it.
    """
    waiting = dict(_members(snapshot)) if snapshot.gangs else {}
    bought = _bought(made, waiting, acting)
    if not ledger.gangs and not bought:
        return {}
    lacking, waits, there = shortages_of(made, snapshot), set(waiting.values()), running(snapshot)
    after: dict[str, GangHold | None] = dict.fromkeys(ledger.gangs)
    for gang in snapshot.gangs:
        key = digest(gang.name)
        known, pools = ledger.gangs.get(key), bought.get(gang.name, frozenset())
        if known is None and not pools:
            continue
        if gang.name not in waits and not shortages(gang, there.get(gang.name, {})):
            continue  # it runs whole
        after[key] = _next(known, pools, now, lacking=gang.name in lacking, given=gang.name in given)
    changed = {key: hold for key, hold in after.items() if hold != ledger.gangs.get(key)}
    return dict(list(changed.items())[:MOST_HOLDS])


def _next(known: GangHold | None, pools: frozenset[str], now: datetime, *, lacking: bool, given: bool) -> GangHold:
    """A gang that is bought for anew begins anew, save for how often it was in vain."""
    hold = known or GangHold(now, ())
    if hold.given is not None and hold.given + _pause(hold) <= now and pools:
        hold = replace(hold, asked=now, pools=(), stranded=None, given=None)
    hold = replace(hold, pools=tuple(sorted({*hold.pools, *pools})))
    hold = replace(hold, stranded=(hold.stranded or now) if lacking else None)
    return replace(hold, given=now, tries=hold.tries + 1) if given and hold.given is None else hold


def give_back(
    made: Plan, snapshot: Snapshot, config: Config, ledger: Ledger, now: datetime
) -> tuple[Plan, frozenset[str]]:
    """The plan, with the nodes retired of gangs that were held for as long as may be, and which gangs these are."""
    patience = timedelta(seconds=config.timing.gang_hold)
    late = {key: hold for key, hold in ledger.gangs.items() if hold.stranded and now - hold.stranded >= patience}
    lacking = shortages_of(made, snapshot) if late else {}
    gangs = {name: hold for name in lacking if (hold := late.get(digest(name)))}
    used = {placed.target for placed in made.fits_existing} | {going.node for going in made.retirements}
    owners = {node.name: _owner(node, gangs, ledger) for node in snapshot.nodes if gangs and node.name not in used}
    owners = {node: owner for node, owner in owners.items() if owner}
    if not owners:
        return made, frozenset()
    nodes = {node.name: node for node in snapshot.nodes}
    asked = _if_empty(snapshot, config, ledger, now, owners)
    more = tuple(
        replace(each, reason=f"Gang: only {lacking[owners[each.node]].text(owners[each.node])} can be had", moves=moves)
        for each in asked.retirements
        if each.node in owners
        for moves in (_evicted(nodes[each.node]),)
    )
    kept = {**made.kept, **{node: why for node, why in asked.kept.items() if node in owners}}
    made = replace(made, retirements=(*made.retirements, *more), kept=kept)
    return made, frozenset(owners[each.node] for each in more)


def shortages_of(made: Plan, snapshot: Snapshot) -> dict[str, Shortage]:
    """By gang, what is still missing when all that is planned has come."""
    left = {pod for each in made.unserved for pod in each.pods}
    have: dict[str, dict[str, int]] = running(snapshot)
    for member, pods in looking_for_room(snapshot):
        roles = have.setdefault(gang_name(member), {})
        role = role_name(member)
        roles[role] = roles.get(role, 0) + sum(pod not in left for pod in pods)
    found = {gang.name: shortages(gang, have.get(gang.name, {})) for gang in snapshot.gangs}
    return {name: lacks[0] for name, lacks in found.items() if lacks}


def _members(snapshot: Snapshot) -> Iterable[tuple[PodRef, str]]:
    for member, pods in looking_for_room(snapshot):
        for pod in pods:
            yield pod, gang_name(member)


def _bought(made: Plan, waiting: Mapping[PodRef, str], acting: Collection[str]) -> dict[str, frozenset[str]]:
    """By gang, the pools in which nodes are bought for it."""
    found: dict[str, set[str]] = {}
    for delta in made.deltas if waiting else ():
        if delta.pool in acting:
            for gang in {waiting[pod] for node in delta.nodes for pod in node.pods if pod in waiting}:
                found.setdefault(gang, set()).add(delta.pool)
    return {gang: frozenset(pools) for gang, pools in found.items()}


def _owner(node: NodeView, gangs: Mapping[str, GangHold], ledger: Ledger) -> str:
    """The gang that the node came for, if it is nobody else's now; "" for any other node."""
    if node.evicting_at is not None or node.unschedulable or node.name in ledger.retiring:
        return ""
    if any(bound.movability in (Movability.BLOCKS, Movability.WAITS) for bound in node.bound):
        return ""
    held = {gang_name(bound.shape.gang) for bound in _moving(node)}
    fits = [name for name, hold in gangs.items() if node.pool in hold.pools and node.created_at >= hold.asked]
    if not held <= set(fits):
        return ""
    return next((name for name in sorted(held)), fits[0] if fits else "")


def _if_empty(snapshot: Snapshot, config: Config, ledger: Ledger, now: datetime, leaving: Mapping[str, str]) -> Plan:
    """The plan if these nodes (with their gangs) were empty and had long been idle, and nobody waited for their gangs:
    by all rules of retirement, what could go?"""
    since = now - timedelta(seconds=config.scale_down.idle_after)
    nodes = (
        replace(_emptied(node), idle_since=since) if node.name in leaving else replace(node, idle_since=None)
        for node in snapshot.nodes
    )
    given_up = frozenset(leaving.values())
    gangs = (replace(gang, problem="it is given up") if gang.name in given_up else gang for gang in snapshot.gangs)
    changed = replace(snapshot, nodes=tuple(nodes), gangs=tuple(gangs))
    return plan(changed, config, ledger, now, Effort.FIRST)


def _emptied(node: NodeView) -> NodeView:
    requested = dict(node.requested)
    for bound in _moving(node):
        for name, amount in (*bound.shape.requests, ("pods", 1)):
            requested[name] = requested.get(name, 0) - amount * len(bound.pods)
    stay = tuple(bound for bound in node.bound if bound.movability is not Movability.MOVES)
    return replace(node, bound=stay, requested=requested)


def _evicted(node: NodeView) -> tuple[Placement, ...]:
    """Its members, who have nowhere to go to."""
    pods = tuple(pod for bound in _moving(node) for pod in bound.pods)
    return (Placement("", pods),) if pods else ()


def _moving(node: NodeView) -> list[BoundPods]:
    return [bound for bound in node.bound if bound.movability is Movability.MOVES]
