from __future__ import annotations

from collections.abc import Iterator

import orjson
import pytest
from azure.core.credentials import AzureKeyCredential
from azure.core.exceptions import ClientAuthenticationError
from azure.core.messaging import CloudEvent
from azure.eventgrid import EventGridPublisherClient

from local.event_grid import EventGridTopic
from local.http_server import Server, serve
from local.timeline import EPOCH, VirtualTimeline
from local.web import Request, Response
from tests.event_grid.webhooks import Webhook, event, subscribe

URL = "/api/events?api-version=2018-01-01"
HEADERS = {"content-type": "application/cloudevents-batch+json; charset=utf-8", "aeg-sas-key": "local"}


@pytest.fixture
def timeline() -> VirtualTimeline:
    return VirtualTimeline()


@pytest.fixture
def topic(timeline: VirtualTimeline) -> EventGridTopic:
    return EventGridTopic(timeline)


@pytest.fixture
def server(topic: EventGridTopic, timeline: VirtualTimeline) -> Iterator[Server]:
    with serve(topic, lock=timeline.lock) as server:
        yield server


def post(topic: EventGridTopic, body: object, url: str = URL, **headers: str) -> Response:
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    return topic.handle(
        Request.of("POST", url, {**HEADERS, **{k.replace("_", "-"): v for k, v in headers.items()}}, data)
    )


def test_the_real_publisher_client_publishes(server: Server, topic: EventGridTopic, timeline: VirtualTimeline):
    webhook = subscribe(topic, Webhook())
    with EventGridPublisherClient(f"{server.url}/api/events", AzureKeyCredential("local")) as client:
        client.send([CloudEvent(type="t", source="/s", subject="x", data={"n": 1})])
    timeline.run(EPOCH.replace(hour=1))
    assert [(e["type"], e["source"], e["subject"], e["data"]) for e in webhook.events] == [("t", "/s", "x", {"n": 1})]


def test_the_real_publisher_client_is_told_of_a_wrong_key(server: Server):
    with (
        EventGridPublisherClient(f"{server.url}/api/events", AzureKeyCredential("wrong")) as client,
        pytest.raises(ClientAuthenticationError, match="authorization key is not valid"),
    ):
        client.send([CloudEvent(type="t", source="/s", data={})])


def test_a_request_over_one_megabyte_is_a_413(topic: EventGridTopic):
    assert post(topic, [event("a", data="x" * (1024 * 1024))]).status == 413


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "no JSON"),
        ({"id": "a"}, "array of CloudEvents"),
        ([{"id": "a"}], "[0].specversion must be '1.0'"),
        ([event("a"), event("")], "[1].id must be a non-empty string"),
    ],
)
def test_what_is_no_batch_of_cloud_events_is_a_400_that_names_the_fault(
    topic: EventGridTopic, body: object, message: str
):
    answer = post(topic, body)
    assert answer.status == 400
    assert message in orjson.loads(answer.body)["error"]["message"]


@pytest.mark.parametrize(
    ("url", "headers", "status"),
    [
        ("/api/events", {}, 400),
        ("/api/nothing?api-version=2018-01-01", {}, 404),
        (URL, {"content_type": "application/json"}, 400),
        (URL, {"aeg_sas_key": ""}, 401),
    ],
)
def test_what_the_service_would_not_take_is_not_taken(
    topic: EventGridTopic, url: str, headers: dict[str, str], status: int
):
    assert post(topic, [event("a")], url, **headers).status == status
    assert topic.counters.published == 0
