"""From "Azure takes this node away" to one saga per node, whoever brought the news and whatever they could see."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import islice

from functions.durable import Json, Orchestration, Registry, Steps
from functions.nodes import provider_id
from functions.survey import fresh_snapshot
from functions.waiting import attempt, ledger, once, pause
from functions.wishes import operation_id
from functions.world import World, may_grow
from shared.model import Config, Snapshot
from shared.provider_id import parse, pool_for
from shared.state.ledger import stamp

NOTICE = timedelta(seconds=30)  # what Azure promises at least, where the news do not name the hour
FURTHEST = timedelta(hours=1)  # a time beyond that is a slip
OLD = timedelta(minutes=2)  # what a snapshot says of evictions before that is no news any more
GATHERING = 0.5  # seconds; the notices of a whole pool come together, and one look is to see all of them
MOST_NOTICES = 1000  # of one event: as many as the largest scale set has VMs
PREEMPTED = "Microsoft.ResourceNotifications.HealthResources.ResourceAnnotated"  # which event of Azure's own
_ANNOTATION = "VirtualMachinePreempted"
_NODE_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)  # RFC 1123: it becomes part of a path


def evictions_in(
    cluster: str, detail: Json, snapshot: Snapshot | None, observed_at: datetime, now: datetime
) -> tuple[list[Json], bool]:
    """The sagas to start, and whether the snapshot shows all their nodes as going; if not, somebody has to look."""
    told = dict(islice(_notices(detail, min(observed_at, now), now), MOST_NOTICES))
    nodes = snapshot.nodes if snapshot is not None else ()
    shown = {node.name: node.evicting_at for node in nodes if node.evicting_at and now - node.evicting_at < OLD}
    told |= shown
    sagas = [saga_of(cluster, name, when, shown=name in shown) for name, when in sorted(told.items())]
    return sagas, shown.keys() >= told.keys()


def saga_of(cluster: str, node: str, when: datetime, *, shown: bool) -> Json:
    """One saga per node and hour of its end, whoever tells of it."""
    deadline = stamp(when)
    op = operation_id(cluster, "evict", node, deadline)
    order = {"cluster": cluster, "op": op, "node": node, "deadline": deadline, "look": not shown}
    return {"name": "replace_evicted", "id": f"evict:{op}", "input": order}


def _notices(detail: Json, observed_at: datetime, now: datetime) -> Iterable[tuple[str, datetime]]:
    listed = detail.get("nodes")
    for item in listed if isinstance(listed, list) else []:
        name = item.get("name") if isinstance(item, dict) else None
        if isinstance(name, str) and _NODE_NAME.fullmatch(name):
            yield name, _moment(item.get("evicting_at"), observed_at, now)


def _moment(told: object, observed_at: datetime, now: datetime) -> datetime:
    """A time that is none is not believed: half a minute after it was seen is what there is. One that has passed is
    kept: it tells news from history."""
    try:
        when = datetime.fromisoformat(told) if isinstance(told, str) else observed_at + NOTICE
    except ValueError:
        when = observed_at + NOTICE
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return min(when.astimezone(UTC), now + FURTHEST)


def preempted_vm(body: Json) -> str:
    """The resource id in Azure's own word, after the fact, that a Spot VM was taken; "" in any other event."""
    if body.get("type") != PREEMPTED:
        return ""
    found: object = body.get("data")
    for name in ("resourceInfo", "properties"):
        found = found.get(name) if isinstance(found, dict) else None
    if not isinstance(found, dict) or found.get("annotationName") != _ANNOTATION:
        return ""
    vm = found.get("targetResourceId")
    return vm if isinstance(vm, str) and parse(f"azure://{vm}") is not None else ""


def is_ours(config: Config, vm: str) -> bool:
    """Whether the VM of that resource id is one of the cluster's pools."""
    pool = config.pool(pool_for(f"azure://{vm}", {}, config))
    return pool is not None and may_grow(pool)


def find_evicted(context: Orchestration) -> Steps[Json]:
    """{cluster, vm}: a VM was taken without a word before; its node is told as if it had been noticed now."""
    found = yield from attempt(context, "node_of_vm", context.get_input())
    if found["ok"] and found["starts"]:
        yield from once(context, "start_sagas", {"starts": found["starts"]})
    return found


def node_of_vm(world: World, order: Json) -> Json:
    """The saga for the node on the VM of that resource id, if there is such a node."""
    wanted = f"azure://{order['vm']}".casefold()
    listed, _ = world.api(order["cluster"]).list("/api/v1/nodes")
    now = datetime.fromisoformat(order["now"])
    names = [node["metadata"]["name"] for node in listed if provider_id(node) == wanted]
    return {"starts": [saga_of(order["cluster"], name, now, shown=False) for name in names[:1]]}


def look_again(context: Orchestration) -> Steps[Json]:
    """{cluster, event}: nodes were cordoned as Azure takes them, and no snapshot shows it: look, and plan for all."""
    order = context.get_input()
    yield from pause(context, GATHERING)
    known = yield from ledger(context, order, "unclaim", key="look")
    seen = yield from attempt(context, "look_afresh", order, epoch=known["epoch"], sequence=known["sequence"])
    if seen["ok"]:
        yield from once(context, "start_sagas", {"starts": seen["starts"]})
    return seen


def look_afresh(world: World, order: Json) -> Json:
    """A fresh snapshot, and the plan to start on it: the nodes themselves say that they are going."""
    now = datetime.fromisoformat(order["now"])
    config = world.config(order["cluster"])
    seen = fresh_snapshot(world, config, now, (order["epoch"], order["sequence"]))
    name = f"looks/{order['event']}.json"
    world.put_snapshot(name, seen)
    event = f"looked:{order['event']}"
    where = {"epoch": seen.epoch, "sequence": seen.sequence, "snapshot": name}
    look = {"cluster": config.cluster, "event": event, **where, "force": True}
    return {"starts": [{"name": "admit", "id": event, "input": look}]}


def registry(world: World) -> Registry:
    """The second look, and the search for a node whose VM is gone."""

    made = Registry()
    made.orchestrator(look_again, find_evicted)
    made.activity(world, look_afresh, node_of_vm)
    return made
