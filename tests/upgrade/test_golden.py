"""What earlier versions left behind, under the present code: every file of `tests/upgrade/golden` is one of theirs.

A test that fails here says that an upgrade would break what is under way. What to do about it stands in
docs/day-two.md ("Changing an orchestrator").
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import orjson
import pytest

from functions.app import create_app
from local.arm.settings import Quirks
from local.durable import history
from local.durable.model import Latencies
from local.durable.shim import ProtocolError
from local.durable.versions import of_tree
from local.function_index import index_of
from local.functions_host import FunctionsHost, HostOptions
from local.system.services import Doors, InProcess
from local.system.stand_ins import Behaviour, StandIns
from local.timeline import VirtualTimeline
from local.web import Request
from shared.settings.config import parse_config
from tests.upgrade import golden

VERSIONS = golden.versions()
CLUSTER = "world"
SETTLED = timedelta(hours=30)
"""The longest that any saga goes on against an outside that knows nothing of it."""
HOWTO = "would not replay: keep its former code (functions/versions.py); of a version never released: make golden"


@pytest.fixture(scope="module")
def present() -> Any:
    return index_of(create_app(empty(VirtualTimeline()).services()))


def empty(timeline: VirtualTimeline, stand_ins: StandIns | None = None) -> InProcess:
    if stand_ins is None:
        nobody: Any = None
        return InProcess(Doors(nobody, nobody, nobody, nobody), timeline)
    return InProcess(Doors(stand_ins.arm, stand_ins.cluster, stand_ins.blobs, stand_ins.topic), timeline)


def test_the_version_in_force_has_been_recorded():
    assert of_tree() in VERSIONS, "make golden"


@pytest.mark.parametrize("version", VERSIONS)
def test_every_recorded_history_replays(present: Any, version: str):
    broken = []
    for case in golden.cases(version):
        try:
            golden.replay(present.orchestrators[case.name], case)
        except (ProtocolError, KeyError) as error:
            broken.append(f"{case.name} of {version} {HOWTO}: {error}")
    assert broken == []


@pytest.mark.parametrize("version", VERSIONS)
def test_whatever_was_scheduled_is_still_known(present: Any, version: str):
    known = {(history.TASK_SCHEDULED, name) for name in present.activities}
    known |= {(history.SUB_CREATED, name) for name in present.orchestrators}
    missing = {what for case in golden.cases(version) for what in golden.asked_for(case)} - known
    assert missing == set()


def test_a_history_that_asks_for_something_else_is_told(present: Any):
    case = next(case for case in golden.cases(VERSIONS[-1]) if golden.asked_for(case))
    event = next(event for event in case.events if event["EventType"] in (history.TASK_SCHEDULED, history.SUB_CREATED))
    event["Name"] = "something_else"
    with pytest.raises(ProtocolError, match="something_else"):
        golden.replay(present.orchestrators[case.name], case)


class Restored:
    """The present code over a version's storage; of the outside, nothing is left of what the storage speaks of."""

    def __init__(self, version: str) -> None:
        found = golden.storage(version)
        self.under_way = found.under_way
        self.timeline = VirtualTimeline(found.now)
        text = found.blobs["config"][f"{CLUSTER}.yaml"].data.decode()
        self.stand_ins = StandIns(
            self.timeline, text, parse_config(text, to_act=True), behaviour=Behaviour(quirks=Quirks())
        )
        self.stand_ins.blobs.containers.update(found.blobs)
        self.errors: list[tuple[str, BaseException]] = []
        options = HostOptions(
            latencies=Latencies.none(),
            version="99.0",
            strict=False,
            timers=False,
            on_function_error=lambda *error: self.errors.append(error),
        )
        app = create_app(empty(self.timeline, self.stand_ins).services())
        self.host = FunctionsHost(app, self.timeline, options, journal=found.journal)
        self.stand_ins.connect(self.host.handle)

    def get(self, path: str, **query: str) -> Any:
        response = self.host.handle(Request("GET", path, query, {}, b""))
        assert response.status == 200, response.body
        return orjson.loads(response.body)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_under_way_comes_to_an_end(version: str):
    restored = Restored(version)
    assert len(set(restored.under_way)) >= 8
    restored.timeline.run(restored.timeline.now() + SETTLED)
    assert restored.host.violations == []
    assert restored.errors == []
    instances = restored.host.instances()
    assert [view.id for view in instances if view.status == "Failed"] == []
    assert [(view.name, view.id) for view in instances if view.status in ("Running", "Pending")] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_stored_can_be_told(version: str):
    restored = Restored(version)
    status = restored.get("/api/status", cluster=CLUSTER)
    assert status["clusters"][CLUSTER]["mode"] == "act"
    trail = next(name for name in restored.stand_ins.blobs.containers[f"plans-{CLUSTER}"] if name.startswith("trail/"))
    assert restored.get("/api/history", cluster=CLUSTER, name=trail.split("/")[2])


@pytest.mark.parametrize("version", VERSIONS)
def test_events_of_an_exporter_of_that_version_are_taken(version: str):
    restored = Restored(version)
    events = orjson.loads((golden.FOLDER / version / golden.EVENTS).read_bytes())
    before = len(restored.stand_ins.dead_letters())
    assert len({event["type"] for event in events}) >= 3
    for event in events:
        headers = {"aeg-event-type": "Notification", "content-type": "application/cloudevents+json"}
        query = {"functionName": "ingest"}
        body = orjson.dumps(event)
        response = restored.host.handle(Request("POST", "/runtime/webhooks/EventGrid", query, headers, body))
        assert response.status in (200, 202), response.body
    assert len(restored.stand_ins.dead_letters()) == before
