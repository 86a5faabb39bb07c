from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator

import pytest
import requests

from local.errors import PortInUse, UserError
from local.http_server import serve
from local.web import Request, Response


class Echo:
    """Answers with what it was sent; /watch never ends by itself."""

    def __init__(self) -> None:
        self.woken = threading.Event()
        self.closed = threading.Event()

    def handle(self, request: Request) -> Response:
        if request.path == "/watch":
            return Response(200, {"content-type": "application/json"}, chunks=self.lines())
        if request.path == "/bug":
            raise RuntimeError("a bug")
        if request.path == "/empty":
            return Response(204)
        return Response.of_json(200, {"m": request.method, "q": dict(request.query), "b": request.body.decode()})

    def lines(self) -> Iterator[bytes]:
        try:
            yield b"first\n"
            self.woken.wait(30)
            yield b"second\n"
        finally:
            self.closed.set()


def test_methods_queries_and_bodies_reach_the_handler():
    with serve(Echo()) as server:
        for method in ("GET", "PUT", "PATCH", "DELETE", "OPTIONS"):
            answer = requests.request(method, f"{server.url}/x?a=1", data="hello", timeout=5)
            assert answer.json() == {"m": method, "q": {"a": "1"}, "b": "hello"}


def test_a_chunked_request_body_is_read_whole():
    with serve(Echo()) as server:
        assert requests.post(server.url, data=iter([b"ab", b"cd"]), timeout=5).json()["b"] == "abcd"


def test_one_connection_serves_many_requests():
    with serve(Echo()) as server:
        connection = http.client.HTTPConnection(server.host, server.port, timeout=5)
        connection.connect()
        first = connection.sock
        for _ in range(3):
            connection.request("GET", "/empty")
            assert connection.getresponse().read() == b""
        assert connection.sock is first
        connection.close()


def test_a_watch_is_streamed_as_it_comes_and_closing_the_server_cuts_it():
    echo = Echo()
    server = serve(echo)
    with requests.get(f"{server.url}/watch", stream=True, timeout=5) as answer:
        lines = answer.iter_lines()
        assert next(lines) == b"first"
        server.close()
        with pytest.raises(requests.RequestException):
            list(lines)
    echo.woken.set()
    assert echo.closed.wait(5)


def test_a_handlers_bug_is_a_500_and_the_server_lives_on():
    with serve(Echo()) as server:
        assert requests.get(f"{server.url}/bug", timeout=5).status_code == 500
        assert requests.get(f"{server.url}/x", timeout=5).status_code == 200


def test_a_port_in_use_gives_one_line_that_says_what_to_do():
    with serve(Echo()) as server, pytest.raises(PortInUse, match=f"port {server.port} .* choose another port"):
        serve(Echo(), port=server.port)


def test_a_port_that_cannot_be_is_a_users_error():
    with pytest.raises(UserError, match="port 99999"):
        serve(Echo(), port=99_999)


def test_requests_are_handled_under_the_given_lock():
    lock = threading.Lock()
    with serve(Echo(), lock=lock) as server:
        with lock, pytest.raises(requests.Timeout):
            requests.get(f"{server.url}/x", timeout=0.1)
        assert requests.get(f"{server.url}/x", timeout=5).status_code == 200
