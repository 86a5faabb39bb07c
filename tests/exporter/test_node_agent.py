"""A Spot node's eviction notice reaches the topic, once and in time."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from exporter.node_agent import COMPUTE_URL, EVENTS_URL, Machine, NodeAgent, Preemption, preemptions, read_machine
from shared.adapters.errors import Rejected, Unreachable
from shared.adapters.protocols import Json
from tests.exporter.fakes import FakeTopic, at

ME = Machine("gpu-spot_3", "azure:///subscriptions/s/resourceGroups/g/x")


def notice(event_id: str = "e1", **changes: Any) -> Json:
    """A Preempt event as the metadata service documents it."""
    event = {
        "EventId": event_id,
        "EventType": "Preempt",
        "ResourceType": "VirtualMachine",
        "Resources": ["gpu-spot_3"],
        "EventStatus": "Scheduled",
        "NotBefore": "Sun, 01 Mar 2026 12:00:30 GMT",
    }
    return {**event, **changes}


def document(*events: Json) -> Json:
    return {"DocumentIncarnation": 1, "Events": list(events)}


class Metadata:
    """Answers by script, one step per look; the last one repeats."""

    def __init__(self, *script: Json | Exception) -> None:
        self.script = list(script)

    def __call__(self, url: str) -> Json:
        assert url == EVENTS_URL
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(step, Exception):
            raise step
        return step


def build(found: Preemption, now: datetime) -> Json:
    return {"id": found.event_id, "at": found.not_before}


def agent(metadata: Metadata) -> tuple[NodeAgent, FakeTopic]:
    topic = FakeTopic()
    return NodeAgent(metadata, topic, ME, build), topic


def test_a_preemption_is_posted_once() -> None:
    subject, topic = agent(Metadata(document(), document(notice())))
    assert [subject.poll(at(second)) for second in range(4)] == [0, 1, 0, 0]
    assert topic.events == [{"id": "e1", "at": at(30)}]


@pytest.mark.parametrize(
    "changes", [{"EventType": "Freeze"}, {"EventType": "Terminate"}, {"Resources": ["gpu-spot_4"]}]
)
def test_other_events_and_other_machines_are_none_of_our_business(changes: Json) -> None:
    assert preemptions(document(notice(**changes)), ME, at(0)) == []


@pytest.mark.parametrize("text", ["", None, "soon"])
def test_a_notice_without_a_time_counts_from_now(text: str | None) -> None:
    assert preemptions(document(notice(NotBefore=text)), ME, at(5)) == [Preemption("e1", at(35))]


def test_a_topic_that_is_away_is_tried_again_at_every_poll_even_if_the_metadata_fails_meanwhile() -> None:
    subject, topic = agent(Metadata(document(notice()), OSError("timed out")))
    topic.fail = [Unreachable("down"), Unreachable("down")]
    assert [subject.poll(at(second)) for second in range(4)] == [0, 0, 1, 0]
    assert len(topic.events) == 1


def test_a_rejected_notice_is_not_repeated_for_ever() -> None:
    subject, topic = agent(Metadata(document(notice())))
    topic.fail = [Rejected("bad")]
    assert [subject.poll(at(second)) for second in range(3)] == [0, 0, 0]
    assert topic.calls == 1


@pytest.mark.parametrize("answer", [OSError("refused"), ValueError("not JSON"), document({"EventType": "Preempt"})])
def test_a_metadata_service_that_fails_is_asked_again(answer: Any) -> None:
    subject, _ = agent(Metadata(answer, document(notice())))
    assert subject.poll(at(0)) == 0
    assert subject.poll(at(1)) == 1


def test_what_stands_in_the_way_is_said_and_forgotten_when_it_passes() -> None:
    subject, _ = agent(Metadata(OSError("refused"), document()))
    subject.poll(at(0))
    assert "refused" in subject.problem
    subject.poll(at(1))
    assert subject.problem == ""


def test_the_machine_knows_itself_by_its_metadata() -> None:
    resource = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/vm-1"
    found = read_machine({COMPUTE_URL: {"name": "vm-1", "resourceId": resource}}.__getitem__)
    assert found == Machine("vm-1", f"azure://{resource}")


def test_a_machine_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="no name"):
        read_machine(lambda url: {})
