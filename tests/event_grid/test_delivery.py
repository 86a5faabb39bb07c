from __future__ import annotations

import re
from datetime import timedelta

import orjson
import pytest

from local.event_grid import EventFaults, EventGridTopic, HandshakeFailed, Subscription, TopicOptions
from local.functions_host import FunctionsHost
from local.timeline import EPOCH, VirtualTimeline
from local.web import Response
from tests.event_grid.webhooks import Webhook, event, subscribe
from tests.functions_host.apps import Seen, trigger_app

DAY = timedelta(days=1)
Letters = dict[str, bytes]


@pytest.fixture
def timeline() -> VirtualTimeline:
    return VirtualTimeline()


def topic_with(timeline: VirtualTimeline, letters: Letters | None = None, **options: object) -> EventGridTopic:
    sink = None if letters is None else letters.__setitem__
    return EventGridTopic(timeline, TopicOptions(**options), dead_letter=sink)  # type: ignore[arg-type]


def test_an_event_reaches_a_function_of_the_host(timeline: VirtualTimeline):
    seen = Seen()
    host, topic = FunctionsHost(trigger_app(seen), timeline), topic_with(timeline)
    url = "http://host.invalid/runtime/webhooks/EventGrid?functionName=ingest"
    topic.subscribe(Subscription("ingest", url, host.handle))
    topic.publish([event("a", data=1)])
    timeline.run(EPOCH + timedelta(minutes=1))
    assert host.instance("a").output == 1
    assert topic.counters.delivered == 1


def test_a_webhook_that_does_not_shake_hands_gets_nothing(timeline: VirtualTimeline):
    with pytest.raises(HandshakeFailed, match="answered 404"):
        topic_with(timeline).subscribe(Subscription("s", "/x", lambda _: Response(404)))


def test_only_the_included_event_types_are_delivered(timeline: VirtualTimeline):
    topic = topic_with(timeline)
    webhook = subscribe(topic, Webhook(), event_types=("wanted",))
    topic.publish([event("a", "other"), event("b", "wanted")])
    timeline.run(EPOCH + DAY)
    assert webhook.ids == ["b"]


@pytest.mark.parametrize(("size", "batches"), [(1, [1, 1, 1, 1, 1]), (3, [3, 2])])
def test_events_are_batched_up_to_the_subscriptions_limit(timeline: VirtualTimeline, size: int, batches: list[int]):
    topic = topic_with(timeline, delay=(1.0, 1.0))
    webhook = subscribe(topic, Webhook(), max_events_per_batch=size)
    topic.publish([event(str(number)) for number in range(5)])
    timeline.run(EPOCH + DAY)
    assert webhook.batches == batches


def test_a_failing_endpoint_is_tried_again_on_the_ladder(timeline: VirtualTimeline):
    topic = topic_with(timeline)
    webhook = subscribe(topic, Webhook(500, 500, 500, 500, 500, timeline=timeline))
    topic.publish([event("a")])
    timeline.run(EPOCH + DAY)
    ladder = [timedelta(seconds=seconds) for seconds in (10, 30, 60, 300, 600)]
    assert all(step <= wait <= step * 1.1 for step, wait in zip(ladder, webhook.waits(), strict=True))
    assert (webhook.ids, topic.counters.attempts, topic.counters.redeliveries) == (["a"], 6, 5)


@pytest.mark.parametrize(("status", "least"), [(404, 300), (408, 120), (503, 30), (500, 10)])
def test_some_answers_make_the_next_attempt_wait_longer(timeline: VirtualTimeline, status: int, least: int):
    topic = topic_with(timeline)
    webhook = subscribe(topic, Webhook(status, timeline=timeline))
    topic.publish([event("a")])
    timeline.run(EPOCH + DAY)
    assert timedelta(seconds=least) <= webhook.waits()[0] <= timedelta(seconds=least * 1.1)


@pytest.mark.parametrize("status", [400, 401, 403, 413])
def test_a_final_refusal_is_a_dead_letter_after_one_attempt(timeline: VirtualTimeline, status: int):
    letters: Letters = {}
    topic = topic_with(timeline, letters, subscription_id="abc-def")
    subscribe(topic, Webhook(status))
    topic.publish([event("a", data={"n": 1})])
    timeline.run(EPOCH + timedelta(hours=1))
    ((name, data),) = letters.items()
    assert re.fullmatch(r"ABC-DEF/2026/1/1/0/[0-9a-f-]{36}\.json", name)
    (letter,) = orjson.loads(data)
    assert (letter["id"], letter["data"], letter["deliveryattempts"]) == ("a", {"n": 1}, 1)
    assert letter["deadletterreason"] == "UndeliverableDueToRejection"
    assert {"lastdeliveryoutcome", "publishtime", "lastdeliveryattempttime"} <= set(letter)
    assert topic.counters.dead_lettered == 1


def test_the_last_attempt_is_followed_by_a_dead_letter(timeline: VirtualTimeline):
    letters: Letters = {}
    topic = topic_with(timeline, letters)
    webhook = subscribe(topic, Webhook(*[500] * 9, timeline=timeline), max_attempts=3)
    topic.publish([event("a")])
    timeline.run(EPOCH + DAY)
    assert len(webhook.times) == 3
    assert b"MaxDeliveryAttemptsExceeded" in next(iter(letters.values()))


def test_nothing_is_tried_after_its_time_to_live(timeline: VirtualTimeline):
    letters: Letters = {}
    topic = topic_with(timeline, letters)
    webhook = subscribe(topic, Webhook(*[500] * 30, timeline=timeline), ttl=timedelta(minutes=60))
    topic.publish([event("a")])
    timeline.run(EPOCH + 2 * DAY)
    assert webhook.times[-1] <= EPOCH + timedelta(minutes=60)
    assert b"TimeToLiveExceeded" in next(iter(letters.values()))


def test_without_a_dead_letter_container_it_is_dropped_and_counted(timeline: VirtualTimeline):
    topic = topic_with(timeline)
    subscribe(topic, Webhook(400))
    topic.publish([event("a")])
    timeline.run(EPOCH + DAY)
    assert topic.counters.dropped == 1


def test_an_endpoint_that_nobody_listens_on_is_tried_again(timeline: VirtualTimeline):
    answers = [Response(200, {"webhook-allowed-origin": "*"}), ConnectionRefusedError(), Response(200)]

    def deliver(_: object) -> Response:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    topic = topic_with(timeline)
    topic.subscribe(Subscription("s", "/x", deliver))
    topic.publish([event("a")])
    timeline.run(EPOCH + DAY)
    assert (topic.counters.delivered, topic.counters.redeliveries) == (1, 1)


def test_duplicated_events_arrive_twice(timeline: VirtualTimeline):
    topic = topic_with(timeline, faults=EventFaults(duplicate_rate=1.0))
    webhook = subscribe(topic, Webhook())
    topic.publish([event("a")])
    timeline.run(EPOCH + DAY)
    assert webhook.ids == ["a", "a"]


def test_delayed_events_arrive_within_the_given_span(timeline: VirtualTimeline):
    topic = topic_with(timeline, faults=EventFaults(delay_rate=1.0, delay_seconds=(60, 90)))
    webhook = subscribe(topic, Webhook(timeline=timeline))
    topic.publish([event("a")])
    timeline.run(EPOCH + DAY)
    assert EPOCH + timedelta(seconds=60) <= webhook.times[0] <= EPOCH + timedelta(seconds=91)


def test_reordered_events_all_arrive_in_another_order(timeline: VirtualTimeline):
    topic = topic_with(timeline, delay=(0.0, 0.0), faults=EventFaults(reorder_rate=0.5))
    webhook = subscribe(topic, Webhook())
    ids = [str(number) for number in range(20)]
    topic.publish([event(identity) for identity in ids])
    timeline.run(EPOCH + DAY)
    assert sorted(webhook.ids) == sorted(ids)
    assert webhook.ids != ids


def test_events_are_lost_only_when_that_is_switched_on(timeline: VirtualTimeline):
    assert EventFaults().loss_rate == 0
    topic = topic_with(timeline, faults=EventFaults(loss_rate=1.0))
    webhook = subscribe(topic, Webhook())
    topic.publish([event("a")])
    timeline.run(EPOCH + DAY)
    assert (webhook.ids, topic.counters.lost) == ([], 1)


def test_the_same_seed_delivers_at_the_same_times():
    def times(seed: int) -> list[object]:
        timeline = VirtualTimeline()
        topic = topic_with(timeline, seed=seed, faults=EventFaults(duplicate_rate=0.3, delay_rate=0.3))
        webhook = subscribe(topic, Webhook(*[500] * 3, timeline=timeline))
        topic.publish([event(str(number)) for number in range(10)])
        timeline.run(EPOCH + DAY)
        return [*webhook.times, *webhook.ids]

    assert times(1) == times(1)
    assert times(1) != times(2)
