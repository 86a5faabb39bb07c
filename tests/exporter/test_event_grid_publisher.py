"""What the real azure-eventgrid client puts on the wire, and what becomes of its errors."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from azure.core.credentials import AccessToken, AzureKeyCredential
from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError, ServiceResponseError
from azure.core.pipeline.transport import HttpTransport

from shared.adapters.errors import NotFound, OutsideError, Refused, Rejected, RetryLater, Throttled, Unreachable
from shared.adapters.event_grid import AzureEventPublisher

TOPIC = "https://topic.westeurope-1.eventgrid.azure.net/api/events"
PLAIN_TOPIC = "http://127.0.0.1:9/api/events"


class Answer:
    """The little that azure-core reads of a response."""

    reason = "scripted"
    content_type = None

    def __init__(self, request: Any, status: int, headers: dict[str, str]) -> None:
        self.request, self.status_code, self.headers = request, status, headers

    def text(self, *_encoding: str) -> str:
        return ""

    def body(self) -> bytes:
        return b""


class Wire(HttpTransport):  # type: ignore[type-arg] - the pipeline's own generics do not matter here
    """A transport that keeps what it is given and answers by script; the last answer repeats."""

    def __init__(self, *script: int | Exception, headers: dict[str, str] | None = None) -> None:
        self.script, self.headers, self.requests = list(script), headers or {}, []
        self.options: dict[str, Any] = {}

    def send(self, request: Any, **options: Any) -> Answer:
        self.requests.append(request)
        self.options = options
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(step, Exception):
            raise step
        return Answer(request, step, self.headers)

    def open(self) -> None: ...

    def close(self) -> None: ...

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *args: object) -> None: ...


class Token:
    """A credential that hands out one token, or refuses."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def get_token(self, *_scopes: str, **_options: Any) -> AccessToken:
        if self.error:
            raise self.error
        return AccessToken("t0ken", 4102444800)


def event(number: int, **data: Any) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": f"id-{number}",
        "source": "/sluice/test",
        "type": "sluice.node.idle",
        "subject": "clusters/test",
        "time": "2026-01-01T00:00:00Z",
        "datacontenttype": "application/json",
        "data": data,
    }


def publisher(wire: Wire, endpoint: str = TOPIC, credential: Any = None) -> AzureEventPublisher:
    return AzureEventPublisher(endpoint, credential or AzureKeyCredential("k3y"), transport=wire)


def test_events_arrive_as_one_cloudevents_batch_exactly_as_given() -> None:
    wire = Wire(200)
    events = [event(1, snapshot={"nodes": [1, 2.5, None, "ä"]}), event(2)]
    publisher(wire).publish(events)
    (request,) = wire.requests
    assert orjson.loads(request.body) == events
    assert request.headers["Content-Type"].startswith("application/cloudevents-batch+json")
    assert request.headers["Content-Length"] == str(len(request.body))
    assert (request.method, request.url) == ("POST", TOPIC + "?api-version=2018-01-01")


def test_a_key_travels_in_event_grids_own_header() -> None:
    wire = Wire(200)
    publisher(wire).publish([event(1)])
    assert wire.requests[0].headers["aeg-sas-key"] == "k3y"


@pytest.mark.parametrize("endpoint", [TOPIC, PLAIN_TOPIC])
def test_a_token_credential_works_for_topics_with_and_without_tls(endpoint: str) -> None:
    wire = Wire(200)
    publisher(wire, endpoint, Token()).publish([event(1)])
    assert wire.requests[0].headers["Authorization"] == "Bearer t0ken"


@pytest.mark.parametrize("credential", [AzureKeyCredential("k3y"), Token()])
def test_the_transport_is_given_no_option_that_a_socket_would_refuse(credential: Any) -> None:
    wire = Wire(200)
    publisher(wire, PLAIN_TOPIC, credential).publish([event(1)])
    assert "enforce_https" not in wire.options


def test_publishing_nothing_asks_nothing() -> None:
    wire = Wire(200)
    publisher(wire).publish([])
    assert wire.requests == []


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, Rejected),
        (413, Rejected),
        (401, Refused),
        (403, Refused),
        (404, NotFound),
        (408, RetryLater),
        (503, RetryLater),
    ],
)
def test_each_refusal_becomes_the_error_that_says_what_to_do(status: int, expected: type[OutsideError]) -> None:
    with pytest.raises(expected) as caught:
        publisher(Wire(status)).publish([event(1)])
    assert type(caught.value) is expected
    assert caught.value.status == status
    assert TOPIC in caught.value.message


def test_throttling_carries_the_servers_own_delay() -> None:
    with pytest.raises(Throttled) as caught:
        publisher(Wire(429, headers={"Retry-After": "7"})).publish([event(1)])
    assert caught.value.retry_after == 7


def test_nothing_is_retried_behind_the_callers_back() -> None:
    wire = Wire(503, 200)
    with pytest.raises(RetryLater):
        publisher(wire).publish([event(1)])
    assert len(wire.requests) == 1


def test_a_topic_that_cannot_be_reached_is_told_from_a_lost_answer() -> None:
    with pytest.raises(Unreachable, match="check the endpoint"):
        publisher(Wire(ServiceRequestError("refused"))).publish([event(1)])
    with pytest.raises(RetryLater, match="connection was lost"):
        publisher(Wire(ServiceResponseError("reset"))).publish([event(1)])


def test_a_credential_without_a_token_is_a_missing_right() -> None:
    wire = Wire(200)
    with pytest.raises(Refused, match="exporter's identity"):
        publisher(wire, credential=Token(ClientAuthenticationError("no managed identity"))).publish([event(1)])
    assert wire.requests == []
