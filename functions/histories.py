"""GET /api/history: what was done to a node, a pod (also a deleted one) or a pool: when, by whom, why, by which rule.

Told from the trail, and for the operations that it names from their orchestrations' own durable histories.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import azure.functions as func

from functions import trail
from functions.asking import OPERATE, READ, admitted, cluster_asked, route, subject_of
from functions.durable import Json, Registry, Starter, Untyped
from functions.nodes import path_of
from functions.world import World
from shared.adapters.errors import OutsideError
from shared.provider_id import parse, pool_of

MOST_SAGAS = 5  # the newest
MOST_STEPS = 60
PREFIXES = {trail.ASKED: ("grow",), trail.BOUGHT: ("grow",), trail.REFUSED: ("grow",)}
_SAGAS = ("retire", "evict")
_STEPS = (
    "TaskCompleted",
    "TaskFailed",
    "TaskScheduled",
    "SubOrchestrationInstanceCreated",
    "SubOrchestrationInstanceCompleted",
)


def told(world: World, cluster: str, kind: str, name: str) -> list[Json]:
    """Everything that was stated about a node, a pod or a pool; a node's begins with why it was bought."""
    if kind == "pool":
        return trail.statements(world, cluster, f"{trail.GROWTHS}/{name}")
    if kind == "pod":
        return trail.statements(world, cluster, f"{trail.PODS}/{name}")
    found = trail.statements(world, cluster, f"{trail.NODES}/{name}")
    return [*_bought(world, cluster, name, found), *found]


def _bought(world: World, cluster: str, node: str, stated: list[Json]) -> list[Json]:
    """What was stated of the growth that the node came of, found by the VM behind it."""
    place = _place(world, cluster, node, stated)
    if place is None:
        return []
    pool, instance, days = place
    growths = trail.statements(world, cluster, f"{trail.GROWTHS}/{pool}", days)
    ops = {each["op"] for each in growths if instance in map(str.casefold, each.get("instances", ()))}
    return [{**each, "instances": [instance]} for each in growths if each["op"] in ops]


def _place(world: World, cluster: str, node: str, stated: list[Json]) -> tuple[str, str, list[str]] | None:
    """The node's pool, its VM, and the days on which it may have been bought: by the Node, or by what was stated."""
    try:
        found = world.api(cluster).get(path_of(node))
        machine = parse(found.get("spec", {}).get("providerID", ""))
        born = datetime.fromisoformat(found["metadata"]["creationTimestamp"])
        pool = pool_of(found, world.written(cluster))
        if machine is not None and pool:
            return pool, machine.deletion_id.casefold(), [f"{born - timedelta(days=back):%Y-%m-%d}" for back in (1, 0)]
    except OutsideError:
        pass  # gone, or nobody to ask: what was stated of it has to do
    known = next((each for each in reversed(stated) if each.get("instance") and each.get("pool")), None)
    return None if known is None else (known["pool"], str(known["instance"]).casefold(), [])


async def sagas_of(client: Starter, stated: Iterable[Json]) -> list[Json]:
    """The orchestrations of the newest operations named, as far as their durable histories are still there."""
    named = {each["op"]: PREFIXES.get(each["event"], _SAGAS) for each in stated}
    found = []
    for op, prefixes in list(named.items())[-MOST_SAGAS:]:
        for prefix in prefixes:
            status = await client.get_status(f"{prefix}:{op}", show_history=True)
            if status:
                found.append(_saga(f"{prefix}:{op}", status))
                break
    return found


def _saga(instance_id: str, status: Untyped) -> Json:
    return {
        "id": instance_id,
        "name": status.name,
        "status": status.runtime_status.name if status.runtime_status else "",
        "started": status.created_time.isoformat(),
        "updated": status.last_updated_time.isoformat(),
        "result": status.output if isinstance(status.output, dict) else None,
        "steps": list(_steps(getattr(status, "historyEvents", None) or ()))[-MOST_STEPS:],
    }


def _steps(events: Iterable[Json]) -> Iterable[Json]:
    """What it called, and when. The extension folds what was scheduled into what was completed; others tell both."""
    for event in events:
        name = event.get("FunctionName") or event.get("Name")
        if name and event.get("EventType") in _STEPS:
            failed = {"failed": True} if event["EventType"] == "TaskFailed" else {}
            yield {"at": event["Timestamp"], "step": name, **failed}


async def history_of(world: World, client: Starter, cluster: str, kind: str, name: str) -> Json:
    """The whole answer."""
    stated = told(world, cluster, kind, name)
    return {"cluster": cluster, "kind": kind, "name": name, "told": stated, "sagas": await sagas_of(client, stated)}


def registry(world: World) -> Registry:
    """The HTTP trigger."""

    async def history(req: func.HttpRequest, client: Starter) -> Json:
        admitted(world, req, READ, OPERATE)
        cluster = cluster_asked(world, req)
        return await history_of(world, client, cluster, *subject_of(world, cluster, req))

    made = Registry()
    made.http(route("history", history), "history", keys=world.services.function_keys)
    return made
