"""The socket that is none: azure-core clients call a stand-in in the same process, with everything above it unchanged.

Takes azure-mgmt-compute, azure-storage-blob and azure-eventgrid clients alike: whatever speaks azure-core's pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from http.client import responses as reasons
from types import TracebackType
from typing import Any

import orjson
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError, ServiceResponseError
from azure.core.pipeline import PipelineRequest
from azure.core.pipeline.policies import SansIOHTTPPolicy
from azure.core.pipeline.transport import HttpTransport
from azure.core.rest import HttpRequest, HttpResponse
from azure.core.utils import case_insensitive_dict

from local.timeline import Timeline
from local.web import CONNECTION, REFUSED, Handler, Request, Response

CONNECTION_LOST = CONNECTION  # a stand-in's way to say "the answer got lost"; HTTP servers cut the line


class HandlerResponse(HttpResponse):
    """A stand-in's answer in azure-core's clothes: the body is there from the start, so streaming yields it whole."""

    def __init__(self, request: HttpRequest, response: Response) -> None:
        self._request = request
        self._response = response
        self._body = response.body if response.chunks is None else b"".join(response.chunks)
        self._headers: MutableMapping[str, str] = case_insensitive_dict(response.headers)
        self._headers.setdefault("content-length", str(len(self._body)))
        self._consumed = False
        self._encoding: str | None = None

    @property
    def request(self) -> HttpRequest:
        """The request that was answered."""
        return self._request

    @property
    def status_code(self) -> int:
        """The HTTP status."""
        return self._response.status

    @property
    def headers(self) -> MutableMapping[str, str]:
        """Response headers, any case."""
        return self._headers

    @property
    def reason(self) -> str:
        """The status in words."""
        return reasons.get(self._response.status, "")

    @property
    def content_type(self) -> str | None:
        """As the stand-in said."""
        return self._headers.get("content-type")

    @property
    def is_closed(self) -> bool:
        """There is no connection to close."""
        return self._consumed

    @property
    def is_stream_consumed(self) -> bool:
        """Whether somebody read it."""
        return self._consumed

    @property
    def encoding(self) -> str | None:
        """UTF-8 unless set otherwise."""
        return self._encoding

    @encoding.setter
    def encoding(self, value: str | None) -> None:
        self._encoding = value

    @property
    def url(self) -> str:
        """The URL that was asked."""
        return self._request.url

    @property
    def content(self) -> bytes:
        """The whole body."""
        return self._body

    def body(self) -> bytes:
        """The whole body, by its old name, which storage policies still use."""
        return self._body

    def text(self, encoding: str | None = None) -> str:
        """The body decoded."""
        return self._body.decode(encoding or self._encoding or "utf-8-sig")

    def json(self) -> Any:  # noqa: ANN401 - azure-core's own signature
        """The body parsed."""
        return orjson.loads(self._body)

    def raise_for_status(self) -> None:
        """As azure-core's responses do."""
        from azure.core.exceptions import HttpResponseError  # noqa: PLC0415 - only on failure

        if self.status_code >= 400:
            raise HttpResponseError(response=self)

    def read(self) -> bytes:
        """The whole body; may be read twice."""
        self._consumed = True
        return self._body

    def iter_raw(self, **_kwargs: Any) -> Iterator[bytes]:  # noqa: ANN401 - azure-core's own signature
        """The body in one piece."""
        self._consumed = True
        if self._body:
            yield self._body

    def iter_bytes(self, **kwargs: Any) -> Iterator[bytes]:  # noqa: ANN401 - azure-core's own signature
        """The body in one piece."""
        return self.iter_raw(**kwargs)

    def stream_download(self, _pipeline: object, **_kwargs: Any) -> Iterator[bytes]:  # noqa: ANN401 - as the SDK's
        """The body in one piece, by the name that azure-storage-blob uses."""
        self._consumed = True
        return _OnePiece(self._body, self)

    def close(self) -> None:
        """Nothing is open."""
        self._consumed = True

    def __enter__(self) -> HandlerResponse:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<HandlerResponse: {self.status_code} {self._request.method} {self._request.url}>"


class _OnePiece(Iterator[bytes]):
    """A body as an iterator that takes attributes: azure-storage-blob hangs the blob's properties on it."""

    def __init__(self, body: bytes, response: HandlerResponse) -> None:
        self._left = [body] if body else []
        self.content_length, self.response = len(body), response

    def __next__(self) -> bytes:
        if not self._left:
            raise StopIteration
        return self._left.pop()


class HandlerTransport(HttpTransport[HttpRequest, HttpResponse]):
    """Sends every request to the handler of its host; unknown hosts cannot be resolved, as on a real network.

    `slept` adds up what clients wanted to sleep: adapters pace by durable timers, so a test expects it to stay 0.
    """

    def __init__(self, handler: Handler | Callable[[str], Handler | None], timeline: Timeline) -> None:
        self._resolve = handler if callable(handler) else lambda _host: handler
        self._timeline = timeline
        self.slept = 0.0
        self.requests = 0

    def send(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:  # noqa: ANN401 - azure-core's own signature
        """Ask the stand-in; raises what a socket would: ServiceRequestError, ServiceResponseError."""
        self.requests += 1
        parsed = Request.of(request.method, request.url, request.headers, _body_of(request))
        host = request.url.split("://", 1)[-1].split("/", 1)[0]
        handler = self._resolve(host)
        if handler is None:
            raise ServiceRequestError(f"cannot resolve host {host!r}")
        with self._timeline.lock:
            response = handler.handle(parsed)
        if response.headers.get(CONNECTION_LOST) == REFUSED:
            raise ServiceRequestError("connection refused")
        if CONNECTION_LOST in response.headers:
            raise ServiceResponseError("connection reset by peer")
        return HandlerResponse(request, response)

    def sleep(self, duration: float) -> None:
        """Never waits: who sleeps inside a client holds up the whole simulation, so it is only counted."""
        self.slept += duration

    def open(self) -> None:
        """Nothing to open."""

    def close(self) -> None:
        """Nothing to close."""

    def __enter__(self) -> HandlerTransport:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self.close()


class NoAuthentication(SansIOHTTPPolicy[HttpRequest, HttpResponse]):
    """Stands where a bearer token policy would: stand-ins on plain http take nobody's secrets."""

    def on_request(self, request: PipelineRequest[HttpRequest]) -> None:
        """Adds nothing."""


class NoCredential:
    """Clients want a credential even where no policy will ever ask it."""

    def get_token(self, *_scopes: str, **_kwargs: Any) -> AccessToken:  # noqa: ANN401 - azure-core's own signature
        """Raises: with `NoAuthentication` in place nobody asks."""
        raise ClientAuthenticationError("a stand-in on plain http was asked with a token; pass NoAuthentication()")


def _body_of(request: HttpRequest) -> bytes:
    # azure-eventgrid and azure-storage-blob still build the older request, whose body has another name
    body = request.content if isinstance(request, HttpRequest) else request.body
    if body is None:
        return b""
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode()
    read = getattr(body, "read", None)
    return bytes(read()) if read is not None else b"".join(body)
