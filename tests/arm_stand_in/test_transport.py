import pytest
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ServiceResponseError
from azure.core.rest import HttpRequest

from local.azure_transport import CONNECTION_LOST, HandlerTransport, NoCredential
from local.timeline import VirtualTimeline
from local.web import Request, Response


class Echo:
    """Answers what it was told to, and remembers the requests."""

    def __init__(self, response: Response) -> None:
        self.response = response
        self.requests: list[Request] = []

    def handle(self, request: Request) -> Response:
        self.requests.append(request)
        return self.response


def test_a_response_in_chunks_is_read_whole() -> None:
    echo = Echo(Response(200, {}, chunks=iter([b'{"a"', b": 1}"])))
    response = HandlerTransport(echo, VirtualTimeline()).send(HttpRequest("GET", "http://x/y"))
    assert (response.json(), response.text(), list(response.iter_bytes())) == ({"a": 1}, '{"a": 1}', [b'{"a": 1}'])


def test_a_lost_answer_looks_like_a_reset_connection() -> None:
    echo = Echo(Response(502, {CONNECTION_LOST: "lost"}))
    with pytest.raises(ServiceResponseError):
        HandlerTransport(echo, VirtualTimeline()).send(HttpRequest("GET", "http://x/y"))


def test_an_error_status_is_raised_on_demand() -> None:
    response = HandlerTransport(Echo(Response(404)), VirtualTimeline()).send(HttpRequest("GET", "http://x/y"))
    with pytest.raises(HttpResponseError):
        response.raise_for_status()


def test_sleeping_moves_nothing_and_is_counted() -> None:
    timeline = VirtualTimeline()
    transport, before = HandlerTransport(Echo(Response(200)), timeline), timeline.now()
    transport.sleep(5)
    assert (transport.slept, timeline.now()) == (5, before)


def test_requests_go_to_the_handler_of_their_host() -> None:
    arm, blobs = Echo(Response(200)), Echo(Response(200))
    hosts = {"arm": arm, "blobs:10000": blobs}
    transport = HandlerTransport(hosts.get, VirtualTimeline())
    transport.send(HttpRequest("GET", "https://arm/a?b=1", headers={"X-Y": "z"}))
    transport.send(HttpRequest("PUT", "http://blobs:10000/c", content=b"body"))
    assert (arm.requests[0].query, arm.requests[0].headers["x-y"]) == ({"b": "1"}, "z")
    assert blobs.requests[0].body == b"body"


def test_no_credential_says_what_to_do_when_it_is_asked_after_all() -> None:
    with pytest.raises(ClientAuthenticationError, match="pass NoAuthentication"):
        NoCredential().get_token("scope")
