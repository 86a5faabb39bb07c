"""The endpoints that the SDK's DurableOrchestrationClient talks to, with the extension's status codes.

Paths are relative to `rpcBaseUrl` (.../durabletask/). Source: the extension's HttpApiHandler and LocalHttpListener.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import unquote

import orjson

from local.durable import history
from local.durable.engine import Engine, StartRefused
from local.durable.model import Instance
from local.timeline import Timeline
from local.web import Request, Response

PREFIX = "/durabletask/"
FORBIDDEN_IN_ID = frozenset("/\\#?")
ID_LIMIT = 256
TWIN_WINDOW = timedelta(seconds=2)
GONE = Response(410)
ACCEPTED = Response(202)
NOT_FOUND = Response(404)


@dataclass(frozen=True, slots=True)
class Twins:
    """Concurrent starts of one id of which both report success; `on_strike` hears of each."""

    rate: float
    source: random.Random
    on_strike: Callable[[str], None]

    def strikes(self) -> bool:
        """Whether this start is one."""
        if not self.rate or self.source.random() >= self.rate:
            return False
        self.on_strike("start answered twice")
        return True


class ClientApi:
    """A `local.web.Handler`, called under the timeline's lock."""

    def __init__(
        self,
        engine: Engine,
        timeline: Timeline,
        new_id: Callable[[], str],
        twins: Twins,
    ) -> None:
        self._engine, self._timeline, self._new_id, self._twins = engine, timeline, new_id, twins

    def handle(self, request: Request) -> Response:  # noqa: PLR0911 - one line per endpoint
        """Answer one request; an unknown path is a 404."""
        path = request.path.partition(PREFIX)[2]
        parts = [unquote(part) for part in path.rstrip("/").split("/")]
        match request.method, parts:
            case "POST", ["orchestrators", name]:
                return self._start(request, name, self._new_id())
            case "POST", ["orchestrators", name, identity]:
                return self._start(request, name, identity)
            case "GET", ["instances"]:
                return Response.of_json(200, [self._payload(i, request) for i in self._matching(request)])
            case "DELETE", ["instances"]:
                return self._purge([i for i in self._matching(request) if i.finished])
            case _, ["instances", identity, *rest]:
                instance = self._engine.instances.get(identity)
                return Response(404) if instance is None else self._on_instance(request, instance, rest)
            case "POST", ["entities", name, key]:
                return self._signal(request, name, key)
            case "GET", ["entities", name, key]:
                return self._entity(name, key)
        return NOT_FOUND

    def _start(self, request: Request, name: str, identity: str) -> Response:
        if problem := _bad_id(identity):
            return Response.of_json(400, {"Message": problem, "ExceptionMessage": problem})
        try:
            self._engine.start(name, _text(request), identity, request.query.get("version", ""))
        except StartRefused as refused:
            if refused.status == 500 and self._is_twin(identity):
                return Response.of_json(202, {"id": identity})
            message = str(refused)
            return Response.of_json(refused.status, {"Message": message, "ExceptionMessage": message})
        return Response.of_json(202, {"id": identity})

    def _is_twin(self, identity: str) -> bool:
        age = self._timeline.now() - self._engine.instances[identity].created
        return age <= TWIN_WINDOW and self._twins.strikes()

    def _on_instance(  # noqa: PLR0911 - one line per endpoint
        self, request: Request, instance: Instance, rest: list[str]
    ) -> Response:
        match request.method, rest:
            case "GET", []:
                running = not instance.finished
                return Response.of_json(202 if running else 200, self._payload(instance, request))
            case "DELETE", []:
                return self._purge([instance] if instance.finished else [])
            case "POST", ["raiseEvent", name]:
                return self._raise(request, instance, name)
            case "POST", ["terminate" | "suspend" | "resume" as verb]:
                if instance.finished:
                    return GONE
                getattr(self._engine, verb)(instance, request.query.get("reason", ""))
                return ACCEPTED
            case "POST", ["restart"]:
                return self._restart(request, instance)
            case "POST", ["rewind"]:
                return Response.of_json(400, "this host does not rewind: restart the instance, or start another")
        return NOT_FOUND

    def _raise(self, request: Request, instance: Instance, name: str) -> Response:
        if instance.finished:
            return GONE
        if not request.headers.get("content-type", "application/json").startswith("application/json"):
            return Response.of_json(400, "Only application/json request content is supported")
        self._engine.raise_event(instance, name, request.body.decode() or "null")
        return ACCEPTED

    def _restart(self, request: Request, instance: Instance) -> Response:
        fresh = request.query.get("restartWithNewInstanceId", "true") != "false"
        if not fresh and not instance.finished:
            return GONE
        identity = self._new_id() if fresh else instance.id
        self._engine.start(instance.name, instance.input, identity, instance.version)
        return Response.of_json(202, identity)

    def _purge(self, instances: list[Instance]) -> Response:
        for instance in instances:
            self._engine.purge(instance)
        return Response.of_json(200, {"instancesDeleted": len(instances)}) if instances else NOT_FOUND

    def _matching(self, request: Request) -> list[Instance]:
        query = request.query
        statuses = set(filter(None, query.get("runtimeStatus", "").split(",")))
        prefix = query.get("instanceIdPrefix", "")
        since, until = _moment(query.get("createdTimeFrom")), _moment(query.get("createdTimeTo"))
        return [
            instance
            for instance in self._engine.instances.values()
            if (not statuses or instance.status in statuses)
            and instance.id.startswith(prefix)
            and (since is None or instance.created >= since)
            and (until is None or instance.created <= until)
        ]

    def _payload(self, instance: Instance, request: Request) -> dict[str, Any]:
        shown = {name for name in ("showInput", "showHistory") if request.query.get(name, "").lower() == "true"}
        payload = {
            "name": instance.name,
            "instanceId": instance.id,
            "runtimeStatus": instance.status.value,
            "input": _value(instance.input) if "showInput" in shown else None,
            "customStatus": _value(instance.custom_status),
            "output": _value(instance.output),
            "createdTime": history.stamp(instance.created),
            "lastUpdatedTime": history.stamp(instance.updated),
        }
        if "showHistory" in shown:
            payload["historyEvents"] = [_readable(event) for event in self._engine.history_of(instance)]
        return payload

    def _signal(self, request: Request, name: str, key: str) -> Response:
        text = _text(request) if request.body else None
        self._engine.signal(f"@{name.lower()}@{key}", request.query.get("op", ""), text)
        return ACCEPTED

    def _entity(self, name: str, key: str) -> Response:
        state = self._engine.entities.get(f"@{name.lower()}@{key}")
        return NOT_FOUND if state is None else Response(200, {"content-type": "application/json"}, state.encode())


def _bad_id(identity: str) -> str:
    if len(identity) > ID_LIMIT or identity.startswith("@") or FORBIDDEN_IN_ID & set(identity):
        return f"instance id {identity!r} must have at most {ID_LIMIT} characters, none of / \\ # ?, and no leading @"
    return ""


def _text(request: Request) -> str | None:
    """The input as JSON text: the SDK sends that text as a JSON string, others send the JSON itself."""
    if not request.body:
        return None
    value = request.json()
    return value if isinstance(value, str) else request.body.decode()


def _value(text: str | None) -> Any:  # noqa: ANN401 - JSON
    return None if text is None else orjson.loads(text)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else history.moment(text.replace(" ", "+"))


def _readable(event: dict[str, Any]) -> dict[str, Any]:
    return {**event, "EventType": history.NAMES.get(event["EventType"], event["EventType"])}
