"""What nobody waits for: old histories and blobs are dropped, and orchestrations that run for too long are reported."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from functions.deletion import KEPT_VMS
from functions.durable import Json, Registry, Starter, input_of, purged, running_since_before
from functions.outcomes import LOG, tell
from functions.trail import TRAIL
from functions.world import World
from shared.names import plan_container, snapshot_container
from shared.state.ledger import moment

HISTORIES_KEPT = timedelta(days=14)  # of ended orchestrations; the trail says for longer what they did
REPORTED = "stuck.json"
MOST_REPORTED = 20
MOST_EXPIRED = 200  # blobs per folder and sweep: where a lifecycle rule works, there are none
SLACK = timedelta(days=1)  # a lifecycle rule runs once a day, and has the first word
KEPT = {
    TRAIL: timedelta(days=90),
    "acted/": timedelta(days=7),
    "removals/": timedelta(days=7),
    "nodes/": timedelta(days=30),
    KEPT_VMS: timedelta(days=1),
}
SNAPSHOTS_KEPT = timedelta(days=1)
BOUNDS = {  # how long one history of each may run; what waits for people or for Azure has longer
    "admit": timedelta(minutes=20),
    "plan_capacity": timedelta(minutes=15),
    "reconcile": timedelta(minutes=30),
    "mend_nodes": timedelta(minutes=30),
    "take_pool": timedelta(minutes=30),
    "look_again": timedelta(minutes=15),
    "await_operation": timedelta(hours=2),
    "grow_pool": timedelta(hours=3),
}
LONGEST = timedelta(hours=26)  # that of any other: a drain may take a day, by the pools file
WAITS = frozenset({"retire_node", "drain_node"})  # for runs that must not be cut off, as long as the pools file says
REMEDY = (
    "read what it waits for in its history; if it never will end, terminate it (func durable terminate --id ...): "
    "the next sweep puts its node back to work and drops what the ledger had of it"
)


async def keep_house(world: World, client: Starter, now: datetime) -> None:
    """Once an hour what concerns the whole app; trouble here holds up no sweep."""
    if now.minute >= 5:
        return
    for step in (_purge, _report_stuck):
        try:
            await step(world, client, now)
        except Exception:  # noqa: BLE001 - the SDK raises nothing more specific; an hour later there is another try
            LOG.exception("housekeeping: %s failed", step.__name__.lstrip("_"))


async def _purge(_: World, client: Starter, now: datetime) -> None:
    count = await purged(client, now - HISTORIES_KEPT)
    if count:
        tell("histories purged", count=count, ended_before=str(now - HISTORIES_KEPT))


async def _report_stuck(world: World, client: Starter, now: datetime) -> None:
    """One line for each in the log, and a document for the status of its cluster."""
    found: dict[str, list[Json]] = {cluster: [] for cluster in world.clusters()}
    for status in await running_since_before(client, now - min(BOUNDS.values())):
        age = now - status.created_time
        if age <= BOUNDS.get(status.name, LONGEST):
            continue
        order = await input_of(client, status.instance_id)
        if status.name in WAITS and age <= LONGEST + timedelta(seconds=order.get("completion_timeout", 0.0)):
            continue
        told = {"id": status.instance_id, "name": status.name, "since": status.created_time.isoformat()}
        LOG.warning("orchestration %s (%s) runs since %s: %s", *told.values(), REMEDY)
        found.setdefault(str(order.get("cluster", "")), []).append(told)
    for cluster in world.clusters():
        stuck = found[cluster][:MOST_REPORTED]
        if stuck != world.document_or(cluster, REPORTED, {"stuck": []})["stuck"]:
            world.put_document(cluster, REPORTED, {"stuck": stuck, "remedy": REMEDY})


def expire_blobs(world: World, order: Json) -> Json:
    """{cluster}: delete what is past its time where no lifecycle rule of the storage account has: {"expired"}."""
    now, newest = moment(order["now"]), order["snapshot"]
    expired = 0
    for container, prefix, kept in _folders(order["cluster"]):
        old = world.store.older(container, prefix, now - kept - SLACK)
        for name in [name for name in old if name != newest][:MOST_EXPIRED]:
            world.store.delete(container, name)
            expired += 1
    if expired:
        tell("blobs expired", cluster=order["cluster"], count=expired)
    return {"expired": expired}


def _folders(cluster: str) -> Iterator[tuple[str, str, timedelta]]:
    yield snapshot_container(cluster), "", SNAPSHOTS_KEPT
    for prefix, kept in KEPT.items():
        yield plan_container(cluster), prefix, kept


def registry(world: World) -> Registry:
    """The activity that deletes old blobs."""
    made = Registry()
    made.activity(world, expire_blobs)
    return made
