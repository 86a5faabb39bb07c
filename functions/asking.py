"""What the HTTP functions share: what is asked about, and how a mistake, or the outside's trouble, is told."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import azure.functions as func
import orjson

from functions import trail
from functions.durable import Json, Starter
from functions.nodes import path_of
from functions.world import World
from shared.adapters.errors import NotFound, OutsideError, Refused, Rejected, StaleWrite

_PART = "[a-z0-9]([-a-z0-9.]*[a-z0-9])?"  # of what Kubernetes takes for a name
_NAME = re.compile(f"({_PART}/)?{_PART}")

Answer = Callable[[func.HttpRequest, Starter], Awaitable[Json]]


READ, OPERATE = "Sluice.Read", "Sluice.Operate"
"""Roles of the Entra application: to be told, and to stop Sluice as well."""


class Mistake(Exception):
    """What was asked for cannot be done as it is: `status` and one line that says what to change."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def admitted(world: World, req: func.HttpRequest, *roles: str) -> str:
    """The name of who asks, "" where nobody is asked who they are. Raises Mistake for who is in none of `roles`."""
    door = world.services.door
    if door is None:
        return ""
    try:
        caller = door.caller(req.headers.get("authorization", ""))
    except Refused as refused:
        raise Mistake(refused.message, refused.status or 403) from refused
    if caller.roles.isdisjoint(roles):
        raise Mistake(
            f"{caller.name} has none of the roles {', '.join(roles)} of the Entra application: assign one", 403
        )
    return caller.name


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


def subject_of(world: World, cluster: str, req: func.HttpRequest) -> tuple[str, str]:
    """("node", "pod" or "pool", its name), from node=, pod=, pool= or name=: a pool of that name, else a node where
    there is, or was, one, else a pod. Raises Mistake."""
    asked = {kind: text for kind in ("node", "pod", "pool", "name") if (text := req.params.get(kind))}
    if len(asked) != 1:
        raise Mistake("give one of node=NAME, pod=NAMESPACE/NAME, pool=NAME and name=ANY")
    kind, text = asked.popitem()
    if not _NAME.fullmatch(text) or (kind in ("node", "pool") and "/" in text):
        raise Mistake(f"{kind}: {text!r}: give the name of a node, or NAMESPACE/NAME of a pod")
    if kind == "pool" or (kind == "name" and world.written(cluster).pool(text) is not None):
        return "pool", text
    if kind == "node" or (kind == "name" and "/" not in text and _is_node(world, cluster, text)):
        return "node", text
    return "pod", text if "/" in text else f"default/{text}"


def _is_node(world: World, cluster: str, name: str) -> bool:
    if trail.is_known(world, cluster, name):
        return True
    try:
        world.api(cluster).get(path_of(name))
    except NotFound:
        return False
    return True


def route(name: str, answer: Answer) -> Callable[[func.HttpRequest, Starter], Awaitable[func.HttpResponse]]:
    """`answer` as an HTTP function of that name: 4xx for a Mistake, 5xx for the outside's trouble, one line each."""

    async def function(req: func.HttpRequest, client: Starter) -> func.HttpResponse:
        try:
            return answered(200, await answer(req, client))
        except Mistake as mistake:
            return answered(mistake.status, {"error": str(mistake)})
        except Rejected as error:
            return answered(409, {"error": error.message})
        except StaleWrite as error:
            return answered(503, {"error": f"{error.message}: try again"})
        except OutsideError as error:
            return answered(502, {"error": error.message})

    function.__name__ = name
    return function
