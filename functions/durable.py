"""The one place that touches the durable SDK's own objects: typed edges around an untyped package.

Everything else sees a `Registry` to register on, an `Orchestration` to decide in, and a `Starter` to start with. When
the SDK changes its model, this module changes, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

import azure.durable_functions as df
import azure.functions as func

from functions.outcomes import W, outcome
from functions.versions import by_version

Json = dict[str, Any]
Untyped = Any  # the SDK's own objects, and decoded JSON
T = TypeVar("T")
Steps = Generator[Untyped, Untyped, T]

CLUSTER = "cluster"
REQUEST_BUDGET = "request_budget"
RUNNING = frozenset({"Running", "Pending", "ContinuedAsNew", "Suspended"})


class Timer(Protocol):
    """A durable timer."""

    def cancel(self) -> None:
        """An uncancelled timer holds its instance open until it fires."""
        ...


class Orchestration(Protocol):
    """What orchestrators may use of the SDK's context. Retry variants and entity signals are left out on purpose: the
    former lose their place in the history (docs/architecture.md), the latter are seen too late to decide by."""

    instance_id: str
    current_utc_datetime: datetime

    def get_input(self) -> Untyped:
        """The decoded input."""
        ...

    def call_activity(self, name: str, input_: Untyped = None) -> Untyped:
        """A task to yield."""
        ...

    def call_sub_orchestrator(self, name: str, input_: Untyped = None, instance_id: str | None = None) -> Untyped:
        """A task to yield."""
        ...

    def call_entity(self, entity: Untyped, operation: str, input_: Untyped = None, /) -> Untyped:
        """A task to yield."""
        ...

    def create_timer(self, fire_at: datetime) -> Untyped:
        """A task to yield."""
        ...

    def task_all(self, activities: list[Untyped]) -> Untyped:
        """A task to yield."""
        ...

    def continue_as_new(self, input_: Untyped) -> None:
        """Start over with a fresh history; the orchestrator returns right after."""
        ...

    def set_custom_status(self, status: Untyped) -> None:
        """What a status query shows."""
        ...


class Starter(Protocol):
    """What functions with a durable client may use of it."""

    async def start_new(self, orchestration_function_name: str, instance_id: str, client_input: Untyped) -> str:
        """Start an instance. Raises a bare Exception when the id is running already."""
        ...

    async def get_status(self, instance_id: str, show_history: bool = False, *, show_input: bool = False) -> Untyped:
        """Falsy for an unknown instance."""
        ...

    async def get_status_by(
        self,
        created_time_from: datetime | None = None,
        created_time_to: datetime | None = None,
        runtime_status: list[Untyped] | None = None,
    ) -> list[Untyped]:
        """The instances that match."""
        ...

    async def purge_instance_history_by(
        self,
        created_time_from: datetime | None = None,
        created_time_to: datetime | None = None,
        runtime_status: list[Untyped] | None = None,
    ) -> Untyped:
        """Forget the instances that match; `created_time_from` must be given."""
        ...

    async def read_entity_state(self, entity: Untyped, /) -> Untyped:
        """`.entity_exists` and `.entity_state`."""
        ...


class EntityContext(Protocol):
    """What an entity function may use of the SDK's context."""

    operation_name: str

    def get_state(self) -> Untyped:
        """None before the first write."""
        ...

    def set_state(self, state: Untyped) -> None:
        """Replace the state."""
        ...

    def get_input(self) -> Untyped:
        """The decoded input of this operation."""
        ...

    def set_result(self, result: Untyped) -> None:
        """What the caller gets."""
        ...


Apply = Callable[[Json | None, str, Json], tuple[Json, Json]]


class Registry:
    """A blueprint under construction: functions are registered under their own names."""

    def __init__(self) -> None:
        self.blueprint: Untyped = df.Blueprint()

    def orchestrator(self, *orchestrators: Callable[..., Untyped]) -> None:
        """Register generator functions that take `context`, with the code that is kept for instances begun earlier."""
        for function in orchestrators:
            self.blueprint.orchestration_trigger(context_name="context")(by_version(function))

    def activity(self, world: W, *steps: Callable[[W, Json], Json]) -> None:
        """Register steps as activities that answer with values."""
        for step in steps:
            self.blueprint.activity_trigger(input_name="order")(outcome(world, step))

    def client_activity(self, function: Callable[..., Untyped]) -> None:
        """Register an async function that takes `order` and the durable `client`."""
        with_client = self.blueprint.durable_client_input(client_name="client")(function)
        self.blueprint.activity_trigger(input_name="order")(with_client)

    def event_grid(self, function: Callable[..., Untyped]) -> None:
        """Register an async function that takes `event` and the durable `client`."""
        with_client = self.blueprint.durable_client_input(client_name="client")(function)
        self.blueprint.event_grid_trigger(arg_name="event")(with_client)

    def timer(self, function: Callable[..., Untyped], schedule: str) -> None:
        """Register an async function that takes `timer` and the durable `client`."""
        with_client = self.blueprint.durable_client_input(client_name="client")(function)
        self.blueprint.timer_trigger(arg_name="timer", schedule=schedule)(with_client)

    def http(self, function: Callable[..., Untyped], route: str, method: str = "GET", *, keys: bool) -> None:
        """Register an async function that takes `req` and the durable `client`. With `keys` the host asks for one of
        the function's own; else the function asks who calls (`functions.asking.admitted`)."""
        with_client = self.blueprint.durable_client_input(client_name="client")(function)
        self._route(with_client, route, method, keys=keys)

    def http_on_thread(self, function: Callable[..., Untyped], route: str, *, keys: bool) -> None:
        """Register a plain function that takes `req`, for a GET that may wait for others: the worker runs it on one of
        its threads. `keys` as of `http`."""
        self._route(function, route, "GET", keys=keys)

    def _route(self, function: Untyped, route: str, method: str, *, keys: bool) -> None:
        level = func.AuthLevel.FUNCTION if keys else func.AuthLevel.ANONYMOUS
        self.blueprint.route(route=route, trigger_arg_name="req", methods=[method], auth_level=level)(function)

    def entity(self, name: str, apply: Apply) -> None:
        """Register a state machine as an entity; `apply` raises before it changes anything: no half state is kept."""

        def entity(context: EntityContext) -> None:
            state, answer = apply(context.get_state(), context.operation_name, context.get_input())
            context.set_state(state)
            context.set_result(answer)

        entity.__name__ = name
        self.blueprint.entity_trigger(context_name="context")(entity)


def cluster_entity(cluster: str) -> Untyped:
    """The ledger of one cluster."""
    return df.EntityId(CLUSTER, cluster)


def budget_entity(key: str) -> Untyped:
    """The request budget of one subscription and region."""
    return df.EntityId(REQUEST_BUDGET, key)


def new_app(blueprints: list[Registry]) -> Untyped:
    """A function app of these blueprints."""
    app: Untyped = df.DFApp()
    for registry in blueprints:
        app.register_functions(registry.blueprint)
    return app


async def start_once(client: Starter, name: str, instance_id: str, order: Json) -> bool:
    """Start an instance unless one of that id was ever started; False when there was one.

    De-duplicates work; it is no lock (two concurrent starts may both succeed, and one instance runs).
    """
    if await client.get_status(instance_id):
        return False
    try:
        await client.start_new(name, instance_id, order)
    except Exception:  # the SDK raises nothing more specific when the id was taken in between
        if await client.get_status(instance_id):
            return False
        raise
    return True


async def start_event(client: Starter, name: str, instance_id: str, order: Json) -> None:
    """Start an instance under an event's own id; a redelivery finds it running, or runs again and finds itself seen."""
    try:
        await client.start_new(name, instance_id, order)
    except Exception:  # the SDK raises nothing more specific when the id is running
        if not await client.get_status(instance_id):
            raise


async def cluster_saga_runs(client: Starter, op: str) -> bool:
    """Whether a saga of this operation is under way, of whichever kind."""
    for prefix in ("retire", "evict"):
        if is_running(await client.get_status(f"{prefix}:{op}")):
            return True
    return False


def is_running(status: Untyped) -> bool:
    """Whether a status answer stands for an instance that is not over."""
    return bool(status) and status.runtime_status is not None and status.runtime_status.name in RUNNING


_ENDED = tuple(df.OrchestrationRuntimeStatus[name] for name in ("Completed", "Failed", "Terminated", "Canceled"))
_UNDER_WAY = tuple(df.OrchestrationRuntimeStatus[name] for name in ("Running", "Pending", "ContinuedAsNew"))
_BEGINNING = timedelta(days=400)  # before which nothing is looked for: the purge's filter needs a beginning


async def purged(client: Starter, before: datetime) -> int:
    """Forget the ended instances that were created before this time; how many there were."""
    result = await client.purge_instance_history_by(before - _BEGINNING, before, list(_ENDED))
    return int(result.instances_deleted)


async def running_since_before(client: Starter, before: datetime) -> list[Untyped]:
    """The orchestrations that were created before this time and are not over; no entities, which never are."""
    found = await client.get_status_by(before - _BEGINNING, before, list(_UNDER_WAY))
    return [status for status in found if status.instance_id and not status.instance_id.startswith("@")]


async def input_of(client: Starter, instance_id: str) -> Json:
    """What an instance was started with; {} when that is no object."""
    status = await client.get_status(instance_id, show_input=True)
    given = status.input_ if status else None
    return given if isinstance(given, dict) else {}
