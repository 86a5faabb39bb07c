"""The SDK's own client against the host, in process and over HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from typing import Any

import azure.durable_functions as df
import pytest
from azure.durable_functions.models.utils import http_utils

from local.durable.client_binding import IN_PROCESS_URL, InProcessSession, binding_json
from local.durable.model import Faults, Latencies
from local.functions_host import FunctionsHost, HostOptions, serve_host
from local.timeline import EPOCH, VirtualTimeline
from tests.durable_backend.apps import Calls, sample_app

Client = df.DurableOrchestrationClient
Use = Callable[[Client], Awaitable[Any]]


class World:
    """A host, a way to use the SDK's client on it, and a way to let it work."""

    def __init__(self, host: FunctionsHost, url: str, settle: Callable[[], None], session: Any) -> None:
        self.host, self._url, self.settle, self._session = host, url, settle, session

    def use(self, act: Use) -> Any:
        async def run() -> Any:
            http_utils._client_session = self._session
            http_utils._session_lock = asyncio.Lock()
            try:
                return await act(Client(binding_json(self._url)))
            finally:
                await http_utils._close_session()
                http_utils._client_session = None

        return asyncio.run(run())


@pytest.fixture(params=["in process", "over HTTP"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "in process":
        timeline = VirtualTimeline()
        host = FunctionsHost(sample_app(Calls()), timeline, HostOptions(latencies=Latencies.none()))
        yield World(host, IN_PROCESS_URL, lambda: timeline.run(EPOCH + timedelta(minutes=1)), InProcessSession(host))
        return
    server = serve_host(sample_app(Calls()))
    yield World(server.host, server.url, lambda: until_quiet(server.host), None)
    server.close()


def until_quiet(host: FunctionsHost) -> None:
    """Until nothing but instances that wait for an event is left."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with host.timeline.lock:
            names = {view.name for view in host.instances(finished=False)}
            if names <= {"reporting"} and not host.engine.activities_running:
                return
        time.sleep(0.005)
    raise AssertionError(f"still running: {host.instances(finished=False)}")


def test_start_status_and_output(world: World):
    assert world.use(lambda client: client.start_new("doubling", "a", 21)) == "a"
    world.settle()
    status = world.use(lambda client: client.get_status("a", show_input=True, show_history=True))
    assert (status.runtime_status.value, status.output, status.input_) == ("Completed", 42, 21)
    assert [event["EventType"] for event in status.historyEvents][:2] == ["OrchestratorStarted", "ExecutionStarted"]


def test_a_start_without_an_id_gets_one(world: World):
    identity = world.use(lambda client: client.start_new("doubling", client_input=1))
    assert len(identity) == 32


def test_an_unknown_orchestrator_is_reported(world: World):
    with pytest.raises(Exception, match="'nothing' doesn't exist"):
        world.use(lambda client: client.start_new("nothing"))


def test_a_running_id_is_refused(world: World):
    world.use(lambda client: client.start_new("reporting", "a"))
    with pytest.raises(Exception, match="already exists"):
        world.use(lambda client: client.start_new("reporting", "a"))


def test_a_bad_id_is_refused(world: World):
    with pytest.raises(Exception, match="at most 256 characters"):
        world.use(lambda client: client.start_new("reporting", "x" * 257))


def test_an_unknown_instance_has_a_falsy_status(world: World):
    assert not world.use(lambda client: client.get_status("nobody"))


def test_a_raised_event_reaches_its_waiter(world: World):
    world.use(lambda client: client.start_new("racing", "a"))
    world.use(lambda client: client.raise_event("a", "go", {"x": 1}))
    world.settle()
    assert world.use(lambda client: client.get_status("a")).output == '{"x": 1}'
    with pytest.raises(Exception, match="is gone"):
        world.use(lambda client: client.raise_event("a", "go"))
    with pytest.raises(Exception, match="No instance with ID nobody"):
        world.use(lambda client: client.raise_event("nobody", "go"))


def test_signal_and_read_an_entity(world: World):
    entity = df.EntityId("Counter", "c")
    assert not world.use(lambda client: client.read_entity_state(entity)).entity_exists
    world.use(lambda client: client.signal_entity(entity, "add", 5))
    world.host.client_start("adding", 1, "a")
    world.settle()
    state = world.use(lambda client: client.read_entity_state(entity))
    assert (state.entity_exists, state.entity_state) == (True, 7)


def test_suspend_resume_terminate_and_purge(world: World):
    world.use(lambda client: client.start_new("reporting", "a"))
    world.settle()
    world.use(lambda client: client.suspend("a", "lunch"))
    assert world.use(lambda client: client.get_status("a")).runtime_status.value == "Suspended"
    world.use(lambda client: client.resume("a", "back"))
    assert world.use(lambda client: client.purge_instance_history("a")).instances_deleted == 0
    world.use(lambda client: client.terminate("a", "enough"))
    assert world.use(lambda client: client.get_status("a")).output == "enough"
    assert world.use(lambda client: client.purge_instance_history("a")).instances_deleted == 1
    assert not world.use(lambda client: client.get_status("a"))


def test_instances_are_listed_by_status_and_prefix(world: World):
    for identity in ("x1", "x2", "y1"):
        world.use(lambda client, identity=identity: client.start_new("doubling", identity, 1))
    world.settle()
    done = [df.OrchestrationRuntimeStatus.Completed]
    found = world.use(lambda client: client.get_status_by(runtime_status=done, instance_id_prefix="x"))
    assert sorted(status.instance_id for status in found) == ["x1", "x2"]
    assert len(world.use(lambda client: client.get_status_all())) == 3


def test_a_finished_instance_can_be_restarted_under_a_new_id(world: World):
    world.use(lambda client: client.start_new("doubling", "a", 4))
    world.settle()
    identity = world.use(lambda client: client.restart("a"))
    world.settle()
    assert identity != "a"
    assert world.use(lambda client: client.get_status(identity)).output == 8


def test_two_starts_of_one_id_may_both_report_success_while_one_instance_runs():
    timeline = VirtualTimeline()
    host = FunctionsHost(sample_app(Calls()), timeline, HostOptions(faults=Faults(twin_start_rate=1.0)))
    world = World(host, IN_PROCESS_URL, lambda: None, InProcessSession(host))
    world.use(lambda client: client.start_new("echoing", "a", "first"))
    assert world.use(lambda client: client.start_new("echoing", "a", "second")) == "a"
    timeline.run(EPOCH + timedelta(minutes=1))
    assert host.instance("a").output == "first"
