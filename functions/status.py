"""GET /api/status: what Sluice knows, does and will not do, and why; one JSON document for all clusters."""

from __future__ import annotations

import azure.functions as func
import orjson

from functions.durable import Json, Registry, Starter, cluster_entity
from functions.outcomes import problem
from functions.planning import LATEST
from functions.world import World
from shared.adapters.errors import NotFound, OutsideError
from shared.ledger import ClusterLedger
from shared.names import DEAD_LETTER_CONTAINER, plan_container

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
        "stayed": _stayed(world, cluster),
        "cooling": view["cooling"],
        "locks": view["locks"],
    }


def _mode(world: World, cluster: str) -> Json:
    try:
        config = world.config(cluster)
    except OutsideError as error:
        return {"mode": None, "config_problem": problem(error)["reason"]}
    return {"mode": config.mode.value, "pools": {pool.name: pool.mode.value for pool in config.pools}}


def _stayed(world: World, cluster: str) -> Json:
    """The newest verdict on each node that was to go and stays."""
    found = {}
    for name in world.store.list(plan_container(cluster), STAYED)[:MOST_STAYED]:
        try:
            verdict = world.document(cluster, name)
        except NotFound:
            continue  # taken back between the list and this
        found[verdict["node"]] = {"kept": verdict["kept"], "at": verdict["at"], "pool": verdict["pool"]}
    return found


def registry(world: World) -> Registry:
    """The HTTP trigger."""

    async def status(req: func.HttpRequest, client: Starter) -> func.HttpResponse:
        wanted = req.params.get("cluster")
        clusters = [name for name in world.clusters() if wanted in (None, name)]
        document = {
            "clusters": {name: await status_of(world, name, client) for name in clusters},
            "dead_letters": len(world.store.list(DEAD_LETTER_CONTAINER)),
        }
        return func.HttpResponse(orjson.dumps(document), mimetype="application/json")

    made = Registry()
    made.http_get(status, "status")
    return made
