"""POST /api/pause and /api/resume: a person takes Sluice's hands off, and puts them back."""

from __future__ import annotations

import azure.functions as func
import orjson

from functions.durable import Json, Registry, Starter
from functions.maintenance import look_now
from functions.outcomes import tell
from functions.pausing import WHOLE, changed, entry_of
from functions.world import World
from shared.adapters.errors import OutsideError, Rejected, StaleWrite
from shared.model import Config

FIELDS = frozenset({"pool", "by", "reason", "seconds"})
SIGNED_IN = "x-ms-client-principal-name"  # whom App Service has authenticated, where that is switched on


class Mistake(Exception):
    """What was asked for cannot be done as it is: `status` and one line that says what to change."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def answered(status: int, document: Json) -> func.HttpResponse:
    """A JSON answer."""
    return func.HttpResponse(orjson.dumps(document), mimetype="application/json", status_code=status)


def cluster_asked(world: World, req: func.HttpRequest) -> str:
    """The cluster that a request is about; it may be left out where there is only one. Raises Mistake."""
    known = world.clusters()
    wanted = req.params.get("cluster") or (known[0] if len(known) == 1 else "")
    if wanted in known:
        return wanted
    having = f"the app has: {', '.join(known) or 'none'}"
    if wanted:
        raise Mistake(f"cluster {wanted}: the app has no pools file of that name; {having}", 404)
    raise Mistake(f"cluster: must be named, since {having}")


def _order(req: func.HttpRequest) -> Json:
    try:
        order = orjson.loads(req.get_body() or b"{}")
    except orjson.JSONDecodeError as error:
        raise Mistake(f"the body is no JSON: {error}") from error
    if not isinstance(order, dict):
        raise Mistake("the body must be a JSON object")
    if unknown := sorted(set(order) - FIELDS):
        raise Mistake(f"{unknown[0]}: is unknown; there are {', '.join(sorted(FIELDS))}")
    return {**order, "by": req.headers.get(SIGNED_IN) or order.get("by")}


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

    def pulled(req: func.HttpRequest, lever: str) -> func.HttpResponse:
        try:
            cluster, order = cluster_asked(world, req), _order(req)
            done = pause(world, cluster, order) if lever == "pause" else resume(world, cluster, order)
        except Mistake as mistake:
            return answered(mistake.status, {"error": str(mistake)})
        except StaleWrite as error:
            return answered(503, {"error": f"{error.message}: try again"})
        except Rejected as error:
            return answered(409, {"error": error.message})
        except OutsideError as error:
            return answered(502, {"error": error.message})
        return answered(200, done)

    async def pause_route(req: func.HttpRequest, client: Starter) -> func.HttpResponse:  # noqa: ARG001 - one form for all routes
        return pulled(req, "pause")

    async def resume_route(req: func.HttpRequest, client: Starter) -> func.HttpResponse:
        answer = pulled(req, "resume")
        if answer.status_code == 200:
            await look_now(world, client, orjson.loads(answer.get_body())["cluster"], "resumed")
        return answer

    pause_route.__name__, resume_route.__name__ = "pause", "resume"
    made = Registry()
    made.http(pause_route, "pause", "POST")
    made.http(resume_route, "resume", "POST")
    return made
