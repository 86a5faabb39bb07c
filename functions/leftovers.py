"""What is left of VMs that are gone: NICs, OS disks, and data disks that were made with a VM and tagged by Sluice.

Deleted is only what nothing holds, in two looks at least, half an hour apart, and what is older than that. Whatever a
CSI driver made, or bears no mark of ours, never gets here (`shared.adapters.azure_parsing.leftover_of`). Azure itself
refuses to delete what is attached, however old our list is.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from functions import trail
from functions.durable import Registry
from functions.outcomes import Json, tell
from functions.wishes import operation_id
from functions.world import World, may_retire
from shared.adapters.errors import NotFound, OutsideError, Refused, StaleWrite
from shared.adapters.protocols import Leftover
from shared.model import Pool, PoolKind
from shared.state.ledger import moment, stamp

LEFTOVERS = "leftovers.json"
OLD = timedelta(minutes=30)
MOST_DELETED = 50  # per sweep: each is a request


def sweep_leftovers(world: World, order: Json) -> Json:
    """{cluster}: look at what is free in all pools of which nodes may go: {"free", "deleted"}."""
    config, now = world.config(order["cluster"]), moment(order["now"])
    pools = [pool for pool in config.pools if may_retire(pool) and pool.kind is not PoolKind.AKS]
    before = _first_seen(world.document_or(config.cluster, LEFTOVERS, {}))
    seen: dict[str, str] = {}
    deleted = 0
    for pool in pools:
        for left in _left_of(world, pool, order):
            if left.attached:
                continue
            since = before.get(left.resource_id)
            if (
                since
                and _is_old(left, moment(since), now)
                and deleted < MOST_DELETED
                and _deleted(world, pool, left, order)
            ):
                deleted += 1
            else:
                seen[left.resource_id] = since or stamp(now)
    if seen != before:
        world.put_document(config.cluster, LEFTOVERS, {"since": seen})
    return {"free": len(seen), "deleted": deleted}


def _left_of(world: World, pool: Pool, order: Json) -> list[Leftover]:
    """Where only addresses may not be looked at, all else is still cleared up."""
    compute = world.compute_of(pool)
    found = compute.leftovers([pool])
    try:
        return [*found, *compute.left_addresses([pool])]
    except Refused as error:
        tell("no right to list", cluster=order["cluster"], resource="publicIPAddresses", error=error.message)
        return found


def _first_seen(document: Json) -> dict[str, str]:
    """Since when each was seen free; a document of before that was kept begins anew."""
    found: dict[str, str] = document.get("since", {})
    return found


def _is_old(left: Leftover, since: datetime, now: datetime) -> bool:
    """Free for long, and not just made: what a VM is made with is free for a moment. A NIC does not tell its age."""
    return now - since >= OLD and (left.created_at is None or now - left.created_at > OLD)


def _deleted(world: World, pool: Pool, left: Leftover, order: Json) -> bool:
    try:
        world.compute_of(pool).delete_leftover(left)
    except StaleWrite:
        return False  # held again
    except OutsideError as error:
        if isinstance(error, NotFound):
            return True
        tell("leftover stays", cluster=order["cluster"], pool=pool.name, resource=left.resource_id, why=error.message)
        return False
    tell("leftover deleted", cluster=order["cluster"], pool=pool.name, resource=left.resource_id)
    noted = {**order, "pool": pool.name, "op": operation_id(order["cluster"], left.resource_id)}
    why = f"nothing has held {left.kind} {left.resource_id} for half an hour, and it bears our marks"
    trail.note_growth(world, noted, trail.CLEARED, why, rule="free in two sweeps", resource=left.resource_id)
    return True


def registry(world: World) -> Registry:
    """The activity of clearing up."""
    made = Registry()
    made.activity(world, sweep_leftovers)
    return made
