"""GET /api/status: what Sluice knows, does and will not do, and why; one JSON document for all clusters."""

from __future__ import annotations

import azure.functions as func

from functions.asking import OPERATE, READ, admitted, route
from functions.deletion import kept_vms
from functions.durable import Json, Registry, Starter, cluster_entity
from functions.housekeeping import REPORTED
from functions.planning import LATEST
from functions.world import World
from shared.adapters.errors import NotFound, OutsideError
from shared.names import DEAD_LETTER_CONTAINER, plan_container
from shared.state.ledger import ClusterLedger

STAYED = "nodes/"
MOST_STAYED = 50


async def status_of(world: World, cluster: str, client: Starter) -> Json:
    """One cluster: mode, newest snapshot, last plan, and everything in flight."""
    state = await client.read_entity_state(cluster_entity(cluster))
    view = ClusterLedger.decode(state.entity_state if state.entity_exists else None).view()
    return {
        **_mode(world, cluster),
        "snapshot": {name: view[name] for name in ("epoch", "sequence", "snapshot")},
        "lead": view["lead"],
        "plan": world.document_or(cluster, LATEST, {}),
        "growths": view["growths"],
        "retirements": view["retirements"],
        "failures": view["failures"],
        "stayed": _stayed(world, cluster, view["snapshot"]),
        "cooling": view["cooling"],
        "locks": view["locks"],
        "pauses": world.pauses(cluster),
        "kept_vms": kept_vms(world, cluster, world.services.clock()),
        "lacking": world.lacking(cluster),
        "stuck": world.document_or(cluster, REPORTED, {"stuck": []})["stuck"],
    }


def _mode(world: World, cluster: str) -> Json:
    """The modes in force, and what is wrong with a newer pools file that was refused."""
    try:
        config = world.config(cluster)
    except OutsideError as error:
        problems = world.config_problems(cluster) or (error.message,)
        return {"mode": None, "pools": {}, "config_problems": problems}
    modes = {pool.name: pool.mode.value for pool in config.pools}
    return {"mode": config.mode.value, "pools": modes, "config_problems": world.config_problems(cluster)}


def _stayed(world: World, cluster: str, snapshot: str) -> Json:
    """The newest verdict on each node that was to go and stays, as long as the newest snapshot shows the node."""
    found = {}
    there = _nodes(world, cluster, snapshot)
    names = world.store.list(plan_container(cluster), STAYED)
    for name in [name for name in names if there is None or _node(name) in there][:MOST_STAYED]:
        try:
            verdict = world.document(cluster, name)
        except NotFound:
            continue  # taken back between the list and this
        found[verdict["node"]] = {"kept": verdict["kept"], "at": verdict["at"], "pool": verdict["pool"]}
    return found


def _node(document: str) -> str:
    return document.removeprefix(STAYED).removesuffix(".json")


def _nodes(world: World, cluster: str, snapshot: str) -> frozenset[str] | None:
    """The names of the nodes that a snapshot shows; None when it cannot be read (any more)."""
    if not snapshot:
        return None
    try:
        return frozenset(node.name for node in world.snapshot(cluster, snapshot).nodes)
    except OutsideError:
        return None


def registry(world: World) -> Registry:
    """The HTTP trigger."""

    async def whole(req: func.HttpRequest, client: Starter) -> Json:
        admitted(world, req, READ, OPERATE)
        wanted = req.params.get("cluster")
        clusters = [name for name in world.clusters() if wanted in (None, name)]
        return {
            "clusters": {name: await status_of(world, name, client) for name in clusters},
            "dead_letters": len(world.store.list(DEAD_LETTER_CONTAINER)),
        }

    made = Registry()
    made.http(route("status", whole), "status", keys=world.services.function_keys)
    return made
