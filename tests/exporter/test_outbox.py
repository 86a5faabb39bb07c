"""Events survive an outage of the topic without piling up."""

from __future__ import annotations

import itertools
from datetime import datetime

import pytest

from exporter.publisher import ORDER, Notice, Outbox
from shared.adapters.errors import NotFound, Refused, Rejected, Throttled, Unreachable
from shared.adapters.protocols import Json
from shared.names import NODE_EVICTING, NODE_IDLE, PODS_UNSCHEDULABLE
from tests.exporter.fakes import FakeTopic, at


class Builder:
    """Numbers the events that it makes."""

    def __init__(self) -> None:
        self.made = 0
        self.fail: list[Exception] = []

    def __call__(self, notice: Notice, now: datetime) -> Json:
        if self.fail:
            raise self.fail.pop(0)
        self.made += 1
        return {"id": str(self.made), "type": notice.kind, "nodes": notice.nodes}


def outbox() -> tuple[Outbox, FakeTopic, Builder]:
    topic, builder = FakeTopic(), Builder()
    return Outbox(topic, builder), topic, builder


def test_what_is_offered_is_published_and_counted() -> None:
    box, topic, _ = outbox()
    box.offer(Notice(PODS_UNSCHEDULABLE), at(0))
    assert box.next_due() == at(0)
    box.flush(at(0))
    assert [event["id"] for event in topic.events] == ["1"]
    assert box.counters.published[PODS_UNSCHEDULABLE] == 1
    assert box.empty
    assert box.next_due() is None


def test_an_event_that_could_not_be_sent_is_sent_again_as_it_was() -> None:
    box, topic, builder = outbox()
    topic.fail = [Unreachable("down")]
    box.offer(Notice(NODE_IDLE, ("n1",)), at(0))
    box.flush(at(0))
    assert topic.events == []
    assert box.lag(at(3)) == 3
    box.flush(box.next_due() or at(99))
    assert [event["id"] for event in topic.events] == ["1"]
    assert builder.made == 1


def test_nothing_is_tried_before_the_delay_is_over() -> None:
    box, topic, _ = outbox()
    topic.fail = [Throttled("slow down", retry_after=20)]
    box.offer(Notice(NODE_IDLE), at(0))
    box.flush(at(0))
    box.flush(at(19))
    assert topic.calls == 1
    assert box.next_due() == at(20)


def test_delays_grow_while_the_topic_stays_away_and_are_forgotten_after() -> None:
    box, topic, _ = outbox()
    topic.fail = [Unreachable("down")] * 3
    box.offer(Notice(NODE_IDLE), at(0))
    moments = [at(0)]
    while not box.empty:
        box.flush(moments[-1])
        moments.append(box.next_due() or moments[-1])
    waits = [(later - sooner).total_seconds() for sooner, later in itertools.pairwise(moments)]
    assert waits == [0.5, 1, 2, 0]
    topic.fail = [Unreachable("down")]
    box.offer(Notice(NODE_IDLE), at(100))
    box.flush(at(100))
    assert box.next_due() == at(100.5)


def test_a_newer_observation_supersedes_the_unsent_one_and_keeps_its_nodes() -> None:
    box, topic, _ = outbox()
    topic.fail = [Unreachable("down")]
    box.offer(Notice(NODE_EVICTING, ("n1",)), at(0))
    box.flush(at(0))
    box.offer(Notice(NODE_EVICTING, ("n2", "n1")), at(0.2))
    box.flush(at(1))
    assert [(event["id"], event["nodes"]) for event in topic.events] == [("2", ("n1", "n2"))]
    assert box.counters.superseded == 1


def test_a_long_outage_keeps_one_event_of_each_type() -> None:
    box, topic, _ = outbox()
    topic.fail = [Unreachable("down")] * 10_000
    for second in range(600):
        for kind in ORDER:
            box.offer(Notice(kind), at(second))
        box.flush(at(second))
    topic.fail = []
    box.flush(at(700))
    assert [event["type"] for event in topic.events] == list(ORDER)
    assert box.counters.superseded == 4 * 599


def test_what_the_topic_will_never_take_is_dropped_and_holds_nothing_up() -> None:
    box, topic, _ = outbox()
    topic.fail = [Rejected("too large", status=413)]
    for kind in (PODS_UNSCHEDULABLE, NODE_IDLE):
        box.offer(Notice(kind), at(0))
    box.flush(at(0))
    assert [event["type"] for event in topic.events] == [NODE_IDLE]
    assert box.counters.rejected == 1


@pytest.mark.parametrize("error", [Refused("bad key"), NotFound("no such topic")])
def test_a_wrong_key_or_address_is_reported_and_tried_again(error: Exception) -> None:
    box, topic, _ = outbox()
    topic.fail = [error]
    box.offer(Notice(NODE_IDLE), at(0))
    box.flush(at(0))
    assert box.problem == str(error)
    box.flush(at(60))
    assert len(topic.events) == 1
    assert box.problem == ""


def test_a_claim_check_that_could_not_be_stored_delays_the_event() -> None:
    box, topic, builder = outbox()
    builder.fail = [Unreachable("storage is down")]
    box.offer(Notice(NODE_IDLE), at(0))
    box.flush(at(0))
    assert topic.calls == 0
    box.flush(at(1))
    assert len(topic.events) == 1


def test_the_dearest_wait_goes_first() -> None:
    box, topic, _ = outbox()
    for kind in reversed(ORDER):
        box.offer(Notice(kind), at(0))
    box.flush(at(0))
    assert topic.events[0]["type"] == NODE_EVICTING


def test_who_no_longer_leads_forgets_what_waits() -> None:
    box, topic, _ = outbox()
    box.offer(Notice(NODE_IDLE), at(0))
    box.clear()
    box.flush(at(1))
    assert topic.calls == 0
