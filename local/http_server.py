"""Any stand-in over HTTP/1.1: one thread per connection, since a handler may block and a watch stays open for hours.

A watch is a response with `chunks`: it is sent piece by piece, outside the lock, until it ends, the client goes, or the
server closes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import logging
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from local.errors import PortInUse, UserError
from local.web import Handler, Request, Response

IDLE_SECONDS = 120.0
BODY_LIMIT = 64 * 1024 * 1024
_NO_BODY = frozenset({204, 304})
_log = logging.getLogger(__name__)


class Server:
    """A running server; `url` has no trailing slash."""

    def __init__(self, server: _Server) -> None:
        self._server = server
        host, port = server.server_address[:2]
        self.host, self.port = str(host), int(port)
        self.url = f"http://{self.host}:{self.port}"
        self._thread = threading.Thread(target=server.serve_forever, args=(0.05,), name=f"http-{port}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop at once: open connections are cut, watches with them."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


Lock = contextlib.AbstractContextManager[Any]


def serve(handler: Handler, *, host: str = "127.0.0.1", port: int = 0, lock: Lock | None = None) -> Server:
    """Serve `handler` on a thread; port 0 takes a free one. Each request is handled under `lock` (the timeline's, for
    stand-ins; none for a Functions host). Raises PortInUse, or UserError when the port cannot be had otherwise."""
    try:
        return Server(_Server((host, port), handler, lock or contextlib.nullcontext()))
    except (OSError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise PortInUse(host, port) from error
        raise UserError(f"cannot listen on port {port} of {host}: {error}; choose another") from error


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: Handler, lock: Lock) -> None:
        self.handler, self.lock = handler, lock
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        super().__init__(address, _Connection)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - the base class's signature
        with self._guard:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - the base class's signature
        with self._guard:
            self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        super().server_close()
        with self._guard:
            connections = list(self._open)
        for connection in connections:
            with contextlib.suppress(OSError):  # the client was faster
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401, ARG002 - as in the base class
        """Connections that break off were dealt with before; this is for the log."""
        _log.error("connection from %s", client_address, exc_info=True)


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    wbufsize = -1
    disable_nagle_algorithm = True
    server: _Server

    def handle_one_request(self) -> None:
        """The base class looks for do_GET and its like; here every method goes one way."""
        try:
            self.raw_requestline = self.rfile.readline(65_537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            self._answer()
            self.wfile.flush()
        except (OSError, ValueError):  # the client went, was silent for too long, or spoke no HTTP
            self.close_connection = True

    def _answer(self) -> None:
        request = Request.of(self.command, self.path, dict(self.headers.items()), self._body())
        request = dataclasses.replace(request, stream=True)
        try:
            with self.server.lock:
                response = self.server.handler.handle(request)
        except Exception:  # noqa: BLE001 - a handler's bug costs one request, not the server
            _log.exception("%s %s", self.command, self.path)
            response = Response(500)
        self._send(response)

    def _body(self) -> bytes:
        if self.headers.get("expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()
            self.wfile.flush()
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            return b"".join(self._chunks())
        length = int(self.headers.get("content-length") or 0)
        if length > BODY_LIMIT:
            raise ValueError(f"a body of {length} bytes is over the limit of {BODY_LIMIT}")
        return self.rfile.read(length) if length else b""

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline(1024).split(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline(8)
        while self.rfile.readline(1024).strip():
            pass

    def _send(self, response: Response) -> None:
        self.send_response_only(response.status)
        if "date" not in response.headers:
            self.send_header("date", self.date_time_string())
        for name, value in response.headers.items():
            if name.lower() not in ("content-length", "transfer-encoding"):
                self.send_header(name, value)
        if response.chunks is not None:
            self._stream(response.chunks)
            return
        if response.status not in _NO_BODY:
            self.send_header("content-length", str(len(response.body)))
        self.end_headers()
        if self.command != "HEAD" and response.status not in _NO_BODY:
            self.wfile.write(response.body)

    def _stream(self, chunks: Iterator[bytes]) -> None:
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        try:
            for chunk in chunks:
                if chunk:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
                    self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
        finally:
            if close := getattr(chunks, "close", None):
                close()

    def log_message(self, *_: object, **__: object) -> None:
        """Quiet: requests are counted and traced by the stand-ins."""
