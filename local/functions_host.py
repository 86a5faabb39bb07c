"""A Functions host for one app on one machine: its triggers, its durable functions, on either clock.

On a `VirtualTimeline` everything runs at once and in one thread; on a `WallTimeline` functions run on threads and one
event loop, as the Functions worker runs them. Keys are off: whoever reaches the port may call.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import azure.functions as func
import orjson
from azure.functions import meta
from azure.functions.durable_functions import ActivityTriggerConverter
from azure.functions.eventgrid import EventGridEventInConverter

from local.durable import history
from local.durable.client_api import PREFIX, ClientApi, Twins
from local.durable.client_binding import IN_PROCESS_URL, InProcessSession, binding_json
from local.durable.engine import Done, Engine, Hooks
from local.durable.journal import Journal, SqliteJournal
from local.durable.model import Draws, Faults, Instance, Latencies, Limits, Violation
from local.function_index import Index, Indexed, Route, Timer, arguments_of, index_of
from local.function_runner import InlineRunner, Runner, ThreadedRunner
from local.function_timers import Timers, timer_request
from local.http_server import Server, serve
from local.randomness import stream
from local.timeline import Timeline, VirtualTimeline, WallTimeline
from local.web import Request, Response

EVENT_GRID_PATH = "/runtime/webhooks/EventGrid"
EVENT_RATE = "1000"  # events per minute that the validation handshake allows a sender; nobody here enforces it
PURGE_EVERY = 3600.0  # seconds between two looks for finished orchestrations past their retention
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Context:
    """What a function sees of its invocation when it asks for `context`."""

    function_name: str
    invocation_id: str = ""
    function_directory: str = ""
    trace_context: object = None
    retry_context: object = None


def _ignore(*_: object) -> None:
    return


@dataclass(frozen=True, slots=True)
class HostOptions:
    """How a host behaves; the defaults suit the virtual clock, where one seed decides everything."""

    seed: int = 0
    latencies: Latencies | None = None
    """None: `Latencies()` on the virtual clock, `Latencies.none()` on the wall clock."""
    draws: Draws | None = None
    """A latency model of one's own, instead of `latencies`."""
    faults: Faults = field(default_factory=Faults)
    limits: Limits = field(default_factory=Limits)
    keep_histories: bool = True
    """False frees the history of an instance when it ends: for simulations of tens of thousands of instances."""
    extended_sessions: float = 0.0
    """Share of the instances whose code stays in memory between episodes instead of being replayed: faster, and without
    the proof that replaying gives, so simulations keep it below 1."""
    version: str = ""
    """`defaultVersion` of host.json (`local.durable.versions.of_tree`)."""
    strict: bool = True
    """Whether inputs must be the same in every replay, too; not where two versions of an app share a storage."""
    retention: timedelta | None = None
    """How long finished orchestrations are kept; None: until they are purged by somebody."""
    timers: bool = True
    """Whether timer triggers fire by themselves."""
    on_violation: Callable[[Violation], None] = _ignore
    on_instance_end: Callable[[Instance], None] = _ignore
    on_function_error: Callable[[str, BaseException], None] = _ignore
    """Told of every exception that leaves an activity or a trigger's function, with the function's name."""
    on_fault: Callable[[str], None] = _ignore
    """Told of each of the `faults` that came to pass: "activity run twice", "start answered twice"."""


@dataclass(frozen=True, slots=True)
class InstanceView:
    """How an orchestration stands; `input`, `output` and `custom_status` as values."""

    id: str
    name: str
    status: str
    input: Any
    output: Any
    custom_status: Any
    created: datetime
    updated: datetime
    longest_history: int


class FunctionsHost:
    """A `local.web.Handler`. On the wall clock, call `handle` without holding the timeline's lock: it waits for
    functions, which may need it."""

    def __init__(
        self,
        app: func.FunctionRegister | Index,
        timeline: Timeline,
        options: HostOptions | None = None,
        *,
        journal: Journal | None = None,
        base_url: str = "",
    ) -> None:
        """Bring back what `journal` holds and set the timers. `base_url` (no trailing slash) is where this host can be
        reached; with it, durable clients speak HTTP to it, without it they are answered in process."""
        self.options = options or HostOptions()
        self.timeline = timeline
        self.index = app if isinstance(app, Index) else index_of(app)
        self.orchestrators, self.entities = self.index.orchestrators, self.index.entities
        seed, virtual = self.options.seed, isinstance(timeline, VirtualTimeline)
        self._ids = stream(seed, "instance-ids") if virtual else None
        latencies = self.options.latencies or (Latencies() if virtual else Latencies.none())
        self.engine = Engine(
            self,
            timeline,
            self.options.draws or Draws(latencies, stream(seed, "durable-latencies")),
            journal=journal,
            limits=self.options.limits,
            hooks=Hooks(self.options.on_violation, self.options.on_instance_end),
            keep_histories=self.options.keep_histories,
            extended_sessions=self.options.extended_sessions,
            version=self.options.version,
            strict=self.options.strict,
        )
        faults = self.options.faults
        twins = Twins(faults.twin_start_rate, stream(seed, "client-faults"), self.options.on_fault)
        self._api = ClientApi(self.engine, timeline, self._new_id, twins)
        self._runner = self._make_runner(in_process=virtual or not base_url, inline=virtual)
        self._binding = binding_json(base_url or IN_PROCESS_URL)
        self._reruns = stream(seed, "activity-reruns") if virtual and faults.rerun_activity_rate else None
        with timeline.lock:
            self.engine.load()
            if self.options.retention is not None:
                self._forget_old(self.options.retention)
            self._timers = Timers(
                self.index.timers if self.options.timers else {}, timeline, self.engine, self._fire_timer
            )

    def close(self) -> None:
        """Deliver nothing more, let running functions end; what is not done stays in the journal."""
        with self.timeline.lock:
            self.engine.stop()
        self._runner.close()

    # What a program may do with it

    def client_start(self, name: str, value: object = None, instance_id: str = "") -> str:
        """Start an orchestration. Raises StartRefused when the function is unknown or the id is running already."""
        with self.timeline.lock:
            text = None if value is None else json.dumps(value)
            return self.engine.start(name, text, instance_id or self._new_id()).id

    def raise_event(self, instance_id: str, name: str, value: object = None) -> None:
        """Send an external event as the SDK's client does (the orchestrator gets JSON text). Raises KeyError."""
        with self.timeline.lock:
            self.engine.raise_event(self.engine.instances[instance_id], name, json.dumps(json.dumps(value)))

    def signal(self, entity: str, key: str, operation: str, value: object = None) -> None:
        """Send an operation to an entity."""
        with self.timeline.lock:
            self.engine.signal(f"@{entity.lower()}@{key}", operation, json.dumps(value))

    def entity(self, entity: str, key: str) -> Any:  # noqa: ANN401 - whatever its state is
        """An entity's state; None when it is not there."""
        text = self.engine.entities.get(f"@{entity.lower()}@{key}")
        return None if text is None else orjson.loads(text)

    def instance(self, instance_id: str) -> InstanceView:
        """How an orchestration stands. Raises KeyError when there is none of that id."""
        with self.timeline.lock:
            return _view(self.engine.instances[instance_id])

    def instances(self, prefix: str = "", *, finished: bool | None = None) -> list[InstanceView]:
        """The orchestrations whose ids begin with `prefix`, in the order of their start."""
        with self.timeline.lock:
            found = self.engine.instances.values()
            return [_view(i) for i in found if i.id.startswith(prefix) and finished in (None, i.finished)]

    def purge(self, before: datetime) -> int:
        """Forget the orchestrations that ended before this time; returns how many."""
        with self.timeline.lock:
            old = [i for i in self.engine.instances.values() if i.finished and i.updated < before]
            for instance in old:
                self.engine.purge(instance)
            return len(old)

    @property
    def violations(self) -> list[Violation]:
        """The rules broken so far."""
        return self.engine.violations

    def run_timer(self, name: str) -> None:
        """Call a timer's function now, beside its schedule. Raises KeyError, and what the function raises."""
        timer = self.index.timers[name]
        now = self.timeline.now()
        self._call(timer.indexed, timer_request(now, now, late=False))

    # Requests

    def handle(self, request: Request) -> Response:
        """Answer one request; a function's failure is a 500."""
        path = request.path
        if path.startswith(PREFIX):
            with self.timeline.lock:
                return self._api.handle(request)
        if path.startswith("/api/"):
            return self._http(request, path.removeprefix("/api/"))
        if path == EVENT_GRID_PATH:
            return self._event_grid(request)
        if path.startswith("/admin/functions/") and request.method == "POST":
            return self._admin(path.removeprefix("/admin/functions/"))
        if path == "/admin/host/status":
            broken = [str(violation) for violation in self.violations]
            return Response.of_json(200, {"state": "Running", "violations": broken})
        return Response(404)

    def _event_grid(self, request: Request) -> Response:
        """The extension's webhook: both handshakes, one call per event, any failure is a 500 for the whole batch."""
        indexed = self.index.event_grid.get(request.query.get("functionName", ""))
        if indexed is None:
            return Response(404)
        if request.method == "OPTIONS":
            origin = request.headers.get("webhook-request-origin", "*")
            return Response(200, {"webhook-allowed-origin": origin, "webhook-allowed-rate": EVENT_RATE})
        try:
            body = request.json()
        except orjson.JSONDecodeError as error:
            return Response.of_json(400, {"error": f"the body is no JSON: {error}"})
        events = body if isinstance(body, list) else [body]
        if request.headers.get("aeg-event-type", "").lower() == "subscriptionvalidation":
            return Response.of_json(200, {"validationResponse": events[0]["data"]["validationCode"]})
        return self._deliver(indexed, events)

    def _deliver(self, indexed: Indexed, events: list[dict[str, Any]]) -> Response:
        many: list[Mapping[str, Any]] = []
        failures: list[BaseException] = []
        for event in events:
            try:
                many.append(self._event_arguments(indexed, event))
            except Exception as error:  # noqa: BLE001 - the worker could not decode it: one failed call, as in Azure
                failures.append(error)
        failures += [failed for failed in self._runner.call_all(indexed.function, many) if failed is not None]
        for failed in failures:
            self._report(indexed.name, failed)
        texts = [f"{type(failed).__name__}: {failed}" for failed in failures]
        return Response.of_json(500, {"errors": texts}) if failures else Response(202)

    def _event_arguments(self, indexed: Indexed, event: dict[str, Any]) -> Mapping[str, Any]:
        datum = meta.Datum(type="json", value=history.dumps(event))
        value = EventGridEventInConverter.decode(datum, trigger_metadata=None)
        return arguments_of(indexed, value, self._binding, _Context(indexed.name))

    def _http(self, request: Request, path: str) -> Response:
        allowed: set[str] = set()
        for route in self.index.routes:
            if (found := route.pattern.fullmatch(path)) is None:
                continue
            if request.method in route.methods:
                return self._call_route(route, request, {k: v for k, v in found.groupdict().items() if v is not None})
            allowed |= route.methods
        return Response(405, {"allow": ", ".join(sorted(allowed))}) if allowed else Response(404)

    def _call_route(self, route: Route, request: Request, parameters: dict[str, str]) -> Response:
        value = func.HttpRequest(
            request.method,
            request.path,
            headers=dict(request.headers),
            params=dict(request.query),
            route_params=parameters,
            body=request.body,
        )
        try:
            result = self._call(route.indexed, value)
        except Exception:  # noqa: BLE001 - told to on_function_error; the caller gets what Azure would send
            return Response(500)
        return _response(result)

    def _admin(self, name: str) -> Response:
        if name not in self.index.timers:
            return Response(404)
        try:
            self.run_timer(name)
        except Exception:  # noqa: BLE001 - told to on_function_error
            return Response(500)
        return Response(202)

    # Functions

    def run_activity(self, name: str, text: str | None, done: Done) -> None:
        """See `local.durable.engine.Functions`."""
        indexed = self.index.activities.get(name)
        if indexed is None:
            done(None, f"The function '{name}' doesn't exist, is disabled, or is not an activity function")
            return
        datum = meta.Datum(type="json", value=text or "null")
        value = ActivityTriggerConverter.decode(datum, trigger_metadata=None)
        if self._reruns is not None and self._reruns.random() < self.options.faults.rerun_activity_rate:
            self.options.on_fault("activity run twice")
            self._submit(indexed, value, _ignore)
            value = ActivityTriggerConverter.decode(datum, trigger_metadata=None)
        self._submit(indexed, value, partial(self._activity_ended, name, done))

    def _activity_ended(self, name: str, done: Done, result: object, error: BaseException | None) -> None:
        text = None
        if error is None:
            try:
                text = ActivityTriggerConverter.encode(result, expected_type=None).value
            except ValueError as unserializable:
                error = unserializable
        if error is None:
            done(text, None)
            return
        self._report(name, error)
        done(None, f"Activity function '{name}' failed: {type(error).__name__}: {error}")

    def _fire_timer(self, timer: Timer, request: object, after: Callable[[], None]) -> None:
        def ended(_: object, error: BaseException | None) -> None:
            if error is not None:
                self._report(timer.indexed.name, error)
            after()

        self._submit(timer.indexed, request, ended)

    def _submit(self, indexed: Indexed, value: object, done: Callable[[object, BaseException | None], None]) -> None:
        arguments = arguments_of(indexed, value, self._binding, _Context(indexed.name))
        self._runner.submit(indexed.function, arguments, done)

    def _call(self, indexed: Indexed, value: object) -> Any:  # noqa: ANN401 - whatever it returns
        arguments = arguments_of(indexed, value, self._binding, _Context(indexed.name))
        try:
            return self._runner.call(indexed.function, arguments)
        except Exception as error:
            self._report(indexed.name, error)
            raise

    def _forget_old(self, retention: timedelta) -> None:
        self.purge(self.timeline.now() - retention)
        self.timeline.call_later(PURGE_EVERY, partial(self._forget_old, retention))

    def _report(self, name: str, error: BaseException) -> None:
        _log.warning("function %s failed", name, exc_info=error)
        self.options.on_function_error(name, error)

    def _new_id(self) -> str:
        bits = self._ids.getrandbits(128) if self._ids is not None else uuid.uuid4().int
        return f"{bits:032x}"

    def _make_runner(self, *, in_process: bool, inline: bool) -> Runner:
        session = InProcessSession(self) if in_process else None
        return InlineRunner(session) if inline else ThreadedRunner(session)


def _view(instance: Instance) -> InstanceView:
    return InstanceView(
        instance.id,
        instance.name,
        instance.status.value,
        _value(instance.input),
        _value(instance.output),
        _value(instance.custom_status),
        instance.created,
        instance.updated,
        max(instance.longest, len(instance.history)),
    )


def _value(text: str | None) -> Any:  # noqa: ANN401 - JSON
    return None if text is None else orjson.loads(text)


def _response(result: object) -> Response:
    if isinstance(result, func.HttpResponse):
        headers = {"content-type": f"{result.mimetype}; charset={result.charset}"}
        headers |= {name.lower(): value for name, value in result.headers.items()}
        return Response(result.status_code, headers, result.get_body())
    if result is None:
        return Response(204)
    body = result if isinstance(result, str) else history.dumps(result)
    return Response(200, {"content-type": "text/plain; charset=utf-8"}, body.encode())


class HostServer:
    """A Functions host on the wall clock, behind HTTP; see `serve_host`."""

    def __init__(self, host: FunctionsHost, server: Server, timeline: WallTimeline, journal: Journal | None) -> None:
        self.host, self.url, self.port = host, server.url, server.port
        self._server, self._timeline, self._journal = server, timeline, journal

    def close(self) -> None:
        """Take no more requests, let running functions end and note their results, free the port and the file."""
        self._server.close()
        self.host.close()
        self._timeline.close()
        if self._journal is not None:
            self._journal.close()


class _Door:
    """Answers 503 until the host stands: the port is known, and taken, before anything else begins."""

    def __init__(self) -> None:
        self.host: FunctionsHost | None = None

    def handle(self, request: Request) -> Response:
        return Response(503, {"retry-after": "1"}) if self.host is None else self.host.handle(request)


def serve_host(
    app: func.FunctionRegister | Index,
    *,
    port: int = 0,
    journal_path: Path | None = None,
    options: HostOptions | None = None,
) -> HostServer:
    """Run an app on the wall clock on 127.0.0.1; with `journal_path`, what it was doing survives the process.

    Raises PortInUse.
    """
    door = _Door()
    server = serve(door, port=port)
    timeline = WallTimeline()
    journal = SqliteJournal(journal_path) if journal_path is not None else None
    door.host = FunctionsHost(app, timeline, options, journal=journal, base_url=server.url)
    return HostServer(door.host, server, timeline, journal)
