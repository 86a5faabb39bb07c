"""POST /api/pause and /api/resume: a person takes Sluice's hands off, and puts them back."""

from __future__ import annotations

import azure.functions as func
import orjson

from functions.asking import OPERATE, Mistake, admitted, cluster_asked, route
from functions.durable import Json, Registry, Starter
from functions.maintenance import look_now
from functions.outcomes import tell
from functions.pausing import WHOLE, changed, entry_of
from functions.world import World
from shared.model import Config

FIELDS = frozenset({"pool", "by", "reason", "seconds"})


def _order(req: func.HttpRequest, by: str) -> Json:
    """What is asked for; `by` whom, if Entra says."""
    try:
        order = orjson.loads(req.get_body() or b"{}")
    except orjson.JSONDecodeError as error:
        raise Mistake(f"the body is no JSON: {error}") from error
    if not isinstance(order, dict):
        raise Mistake("the body must be a JSON object")
    if unknown := sorted(set(order) - FIELDS):
        raise Mistake(f"{unknown[0]}: is unknown; there are {', '.join(sorted(FIELDS))}")
    return {**order, "by": by or order.get("by")}


def _entry_name(order: Json, config: Config) -> str:
    pool = order.get("pool")
    if pool is None:
        return WHOLE
    if not isinstance(pool, str) or config.pool(pool) is None:
        having = ", ".join(each.name for each in config.pools)
        raise Mistake(f"pool {pool}: cluster {config.cluster} has no pool of that name; it has: {having}")
    return pool


def pause(world: World, cluster: str, order: Json) -> Json:
    """Put a pause in force. Raises Mistake."""
    now = world.services.clock()
    name = _entry_name(order, world.written(cluster))
    try:
        entry = entry_of(order, now)
    except ValueError as error:
        raise Mistake(str(error)) from error
    tell("paused", cluster=cluster, pool=name, **entry)
    return {"cluster": cluster, "pauses": changed(world.store, cluster, now, {name: entry}, frozenset())}


def resume(world: World, cluster: str, order: Json) -> Json:
    """Take a pause away: a pool's own, or all of the cluster's. Raises Mistake when there is none."""
    now, known = world.services.clock(), world.pauses(cluster)
    name = _entry_name(order, world.written(cluster))
    ended = frozenset(known) if name == WHOLE else frozenset({name})
    if name != WHOLE and name not in known:
        if WHOLE in known:
            raise Mistake(f"pool {name}: is not paused by itself, its whole cluster is: resume without a pool", 409)
        raise Mistake(f"pool {name}: is not paused", 409)
    tell("resumed", cluster=cluster, pool=name, by=order["by"], ended=sorted(ended))
    left = changed(world.store, cluster, now, {}, ended)
    return {"cluster": cluster, "ended": {each: known[each] for each in sorted(ended)}, "pauses": left}


def registry(world: World) -> Registry:
    """The two HTTP triggers."""

    async def pausing(req: func.HttpRequest, _: Starter) -> Json:
        by = admitted(world, req, OPERATE)
        return pause(world, cluster_asked(world, req), _order(req, by))

    async def resuming(req: func.HttpRequest, client: Starter) -> Json:
        by = admitted(world, req, OPERATE)
        done = resume(world, cluster_asked(world, req), _order(req, by))
        await look_now(world, client, done["cluster"], "resumed")
        return done

    made = Registry()
    keys = world.services.function_keys
    made.http(route("pause", pausing), "pause", "POST", keys=keys)
    made.http(route("resume", resuming), "resume", "POST", keys=keys)
    return made
