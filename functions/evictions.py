"""From "Azure takes this node away" to one saga per node, whoever brought the news and whatever they could see."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from functions.durable import Json, Orchestration, Registry, Steps
from functions.planning import operation_id
from functions.survey import fresh_snapshot
from functions.waiting import attempt, ledger, once
from functions.world import World, budget_key
from shared.model import Config, NodeView, Snapshot
from shared.state.arrivals import machine_of
from shared.state.ledger import stamp

NOTICE = timedelta(seconds=30)  # what Azure promises at least, where the news do not name the hour


def evictions_in(
    detail: Json, snapshot: Snapshot | None, config: Config, now: datetime
) -> tuple[list[Json], list[Json]]:
    """The sagas to start, and the notices {name, evicting_at} of nodes that the snapshot does not show."""
    nodes = {node.name: node for node in snapshot.nodes} if snapshot is not None else {}
    told = list(_notices(detail, now))
    unseen = [notice for notice in told if notice["name"] not in nodes]
    seen = {notice["name"]: notice["evicting_at"] for notice in told if notice["name"] in nodes}
    seen |= {node.name: stamp(node.evicting_at) for node in nodes.values() if node.evicting_at is not None}
    sagas = [_saga(nodes[name], when, config) for name, when in sorted(seen.items())]
    return [saga for saga in sagas if saga is not None], unseen


def _notices(detail: Json, now: datetime) -> Iterable[Json]:
    listed = detail.get("nodes")
    for item in listed if isinstance(listed, list) else []:
        if isinstance(item, dict) and isinstance(item.get("name"), str) and item["name"]:
            yield {"name": item["name"], "evicting_at": _moment(item.get("evicting_at"), now)}


def _moment(told: object, now: datetime) -> str:
    """A time that is none, or lies in another century, is not believed: half a minute is what there is."""
    try:
        when = datetime.fromisoformat(told) if isinstance(told, str) else now + NOTICE
    except ValueError:
        when = now + NOTICE
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return stamp(min(max(when, now), now + timedelta(hours=1)))


def _saga(node: NodeView, when: str, config: Config) -> Json | None:
    pool = config.pool(node.pool)
    if pool is None:
        return None
    op = operation_id(config.cluster, "evict", node.name, node.uid, when)
    order = {
        "cluster": config.cluster,
        "op": op,
        "node": node.name,
        "uid": node.uid,
        "pool": pool.name,
        "instance": machine_of(node),
        "deadline": when,
        "budget": budget_key(pool),
    }
    return {"name": "replace_evicted", "id": f"evict:{op}", "input": order}


def look_again(context: Orchestration) -> Steps[Json]:
    """{cluster, event, notices}: the news came from inside a VM, which sees no cluster; look, then act on it."""
    order = context.get_input()
    known = yield from ledger(context, order, "tidy")
    where = {name: known["view"][name] for name in ("epoch", "sequence")}
    seen = yield from attempt(context, "look_afresh", {**order, **where})
    if seen["ok"]:
        yield from once(context, "start_sagas", {"starts": seen["starts"]})
    return seen


def look_afresh(world: World, order: Json) -> Json:
    """A fresh snapshot with the notices worked in: what to start, the eviction sagas and a plan for their pods."""
    now = datetime.fromisoformat(order["now"])
    config = world.config(order["cluster"])
    told = {notice["name"]: datetime.fromisoformat(notice["evicting_at"]) for notice in order["notices"]}
    seen = fresh_snapshot(world, config, now, (order["epoch"], order["sequence"]))
    nodes = tuple(replace(each, evicting_at=told.get(each.name, each.evicting_at)) for each in seen.nodes)
    name = f"looks/{order['event']}.json"
    world.put_snapshot(name, replace(seen, nodes=nodes))
    noticed = replace(seen, nodes=tuple(node for node in nodes if node.name in told))
    sagas, _ = evictions_in({"nodes": order["notices"]}, noticed, config, now)
    event = f"look:{order['event']}"
    where = {"epoch": seen.epoch, "sequence": seen.sequence, "snapshot": name}
    look = {"cluster": config.cluster, "event": event, **where, "force": True}
    return {"starts": [*sagas, {"name": "admit", "id": event, "input": look}]}


def registry(world: World) -> Registry:
    """The second look."""

    made = Registry()
    made.orchestrator(look_again)
    made.activity(world, look_afresh)
    return made
