"""The sweep: every five minutes a look at everything, so that a lost event costs time and never correctness."""

from __future__ import annotations

from datetime import timedelta

import azure.functions as func

from functions import trail
from functions.durable import Json, Orchestration, Registry, Starter, Steps, cluster_saga_runs, is_running, start_event
from functions.housekeeping import keep_house
from functions.nodes import is_ready, provider_id
from functions.outcomes import LOG, tell
from functions.retiring import COOLDOWN
from functions.survey import Survey, is_rare_sweep
from functions.waiting import attempt, draw, ledger, once
from functions.wishes import operation_id
from functions.world import World, budget_key, may_grow, may_retire
from shared.adapters.errors import NotFound, StaleWrite
from shared.model import Mode

SCHEDULE = "0 */5 * * * *"
STUCK_AFTER = timedelta(minutes=30)
SWEEP_REQUESTS = 4  # of ARM, for a cluster in order; what else is found draws for itself
_FOUND = ("failures", "starts", "ghosts", "suspects", "closed")


def reconcile(context: Orchestration) -> Steps[Json]:
    """{cluster, budgets, why}: tidy the ledger, look at everything, start what is missing, mend what is broken."""
    order = context.get_input()
    for budget in order.get("budgets", ()):
        yield from draw(context, {"budget": budget}, SWEEP_REQUESTS, urgent=False)
    tidied = yield from ledger(context, order, "tidy")
    found = yield from attempt(context, "survey", order, view=tidied["view"])
    if not found["ok"]:
        return found
    if found["failures"]:
        yield from ledger(context, order, "remember_failure", failures=found["failures"])
    if found["lost"]:
        yield from ledger(context, order, "settle", settled=found["lost"])
    if found["starts"]:
        yield from once(context, "start_sagas", {"starts": found["starts"]})
    yield from _mended(context, order, found)
    if found["rare"]:
        yield from attempt(context, "sweep_leftovers", order)
        yield from attempt(context, "expire_blobs", order, snapshot=found["snapshot"])
    return {name: len(found[name]) for name in _FOUND} | {"ok": True}


def _mended(context: Orchestration, order: Json, found: Json) -> Steps[None]:
    """What lost its saga, its VM or its turn gets it."""
    for ghost in found["ghosts"]:
        yield from once(context, "bury_node", {**order, **ghost})
    if found["closed"]:
        yield from once(context, "open_anyway", {"cluster": order["cluster"], "nodes": found["closed"]})
    if found.get("growths"):
        yield from once(context, "resume_growths", {"cluster": order["cluster"], "growths": found["growths"]})
    if found["suspects"]:
        yield context.call_sub_orchestrator("mend_nodes", {**order, "suspects": found["suspects"]})


def mend_nodes(context: Orchestration) -> Steps[Json]:
    """{cluster, suspects}: nodes whose saga is not there any more go back to work, and out of the ledger."""
    order = context.get_input()
    answer = yield from once(context, "find_lost_sagas", order)
    where = {"cluster": order["cluster"]}
    for lost in answer["lost"]:
        why = "its saga ended without a word"
        yield from once(context, "keep_node", {**where, **lost}, why=why, going=True)
        fields = {"node": lost["node"], "op": lost["op"], "kept": why, "cooldown": COOLDOWN}
        yield from ledger(context, where, "end_retirement", **fields)
    return {"ok": True, "lost": len(answer["lost"])}


def survey(world: World, order: Json) -> Json:
    """What is wrong with the cluster, if anything."""
    if world.written(order["cluster"]).mode is Mode.PAUSED:
        return {**dict.fromkeys(_FOUND, ()), "lost": {}, "rare": False}
    config = world.config(order["cluster"])
    look = Survey(world, config, order)
    rare = is_rare_sweep(look.now) and config.mode is not Mode.PAUSED
    return {**look.run(), "rare": rare, "snapshot": look.view["snapshot"]}


def bury_node(world: World, order: Json) -> Json:
    """Delete the Node object of a VM that is gone, if both still is so."""
    pool = world.pool(order["cluster"], order["pool"])
    api = world.api(order["cluster"])
    if not may_retire(pool):
        return {"buried": False}
    path = f"/api/v1/nodes/{order['node']}"
    try:
        node = api.get(path)
        alive = {each.provider_id.casefold() for each in world.compute_of(pool).instances(pool)}
        if node["metadata"].get("uid") != order["uid"] or is_ready(node) or provider_id(node) in alive:
            return {"buried": False}
        api.delete(path, uid=order["uid"])
    except (NotFound, StaleWrite):
        return {"buried": False}
    tell("node object deleted", cluster=order["cluster"], node=order["node"], pool=pool.name)
    noted = {**order, "op": operation_id(order["cluster"], "bury", order["node"], order["uid"])}
    trail.note_node(world, noted, trail.BURIED, "not Ready, and its VM is in no list any more")
    return {"buried": True}


async def sweep_all(world: World, client: Starter) -> None:
    """Start a sweep of every cluster that is not being swept; one's trouble does not keep the others waiting."""
    for cluster in world.clusters():
        try:
            await _start_sweep(world, client, cluster)
        except Exception:  # noqa: BLE001 - the SDK raises nothing more specific, and the next cluster shall have its turn
            LOG.exception("the sweep of cluster %s could not be started", cluster)


async def look_now(world: World, client: Starter, cluster: str, why: str) -> None:
    """Sweep a cluster at once, whatever runs, and plan in any case: somebody has changed what may be done."""
    instance_id = f"reconcile:{cluster}:{world.services.clock():%Y%m%dT%H%M%S}"
    await start_event(client, "reconcile", instance_id, {"cluster": cluster, "why": why})


async def _start_sweep(world: World, client: Starter, cluster: str) -> None:
    """One sweep at a time; one that has not ended after half an hour is taken for lost, and passed by."""
    instance_id, now = f"reconcile:{cluster}", world.services.clock()
    status = await client.get_status(instance_id)
    if is_running(status):
        if now - status.created_time < STUCK_AFTER:
            return
        instance_id = f"{instance_id}:{now:%Y%m%dT%H%M}"
    await client.start_new("reconcile", instance_id, {"cluster": cluster, "budgets": _budgets(world, cluster)})


def _budgets(world: World, cluster: str) -> list[str]:
    """Whose requests a sweep of the cluster uses."""
    acting = (pool for pool in world.config(cluster).pools if pool.azure and may_grow(pool))
    return sorted({budget_key(pool) for pool in acting})


def registry(world: World) -> Registry:
    """The timer, the sweep and its activities."""

    async def find_lost_sagas(order: Json, client: Starter) -> Json:
        """Which of the `suspects` {node, op} have no saga that runs."""
        lost = [each for each in order["suspects"] if not await cluster_saga_runs(client, each["op"])]
        return {"ok": True, "lost": lost}

    async def maintenance(timer: func.TimerRequest, client: Starter) -> None:
        if timer.past_due:
            tell("sweep is late")
        await sweep_all(world, client)
        await keep_house(world, client, world.services.clock())

    made = Registry()
    made.orchestrator(reconcile, mend_nodes)
    made.activity(world, survey, bury_node)
    made.client_activity(find_lost_sagas)
    made.timer(maintenance, SCHEDULE)
    return made
