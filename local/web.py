"""Requests and responses as plain values, so that one stand-in serves HTTP and in-process clients alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

import orjson

CONNECTION = "x-stand-in-connection"
"""A header by which a stand-in says that there is no answer: `REFUSED` where the request never arrived."""
REFUSED, BROKEN = "refused", "broken"


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request; header names are lower case. `stream` tells a handler that it may answer with one that blocks
    (a watch on the wall clock); without it, a watch answers what is there and ends."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""
    stream: bool = False

    def json(self) -> Any:  # noqa: ANN401 - a request's body may be any JSON
        """The body as JSON; None when it is empty."""
        return orjson.loads(self.body) if self.body else None

    @classmethod
    def of(cls, method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Request:
        """From a URL, absolute or not; the last of several equal query parameters wins."""
        path, query = _split(url)
        lowered = {name.lower(): value for name, value in (headers or {}).items()}
        return cls(method.upper(), path, dict(query), lowered, body)


@dataclass(frozen=True, slots=True)
class Response:
    """One HTTP response; `chunks` replaces `body` where it is streamed."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    chunks: Iterator[bytes] | None = None

    @classmethod
    def of_json(cls, status: int, value: object, headers: Mapping[str, str] | None = None) -> Response:
        """A JSON response."""
        return cls(status, {"content-type": "application/json", **(headers or {})}, orjson.dumps(value))


@lru_cache(maxsize=4096)
def _split(url: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    parts = urlsplit(url)
    return parts.path, tuple(parse_qsl(parts.query, keep_blank_values=True))


class Handler(Protocol):
    """A stand-in's front door. Called under the timeline's lock; `chunks` are read outside it."""

    def handle(self, request: Request) -> Response:
        """Answer one request; never raises for a bad one."""
        ...
