"""Plain HTTP requests, and the handshake that Event Grid begins with."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPException
from urllib.parse import urlencode

ORIGIN = "eventgrid.azure.net"
_SECONDS = 30.0  # a cold start in Azure takes up to some ten


class Unanswered(Exception):
    """Nothing answers there; the message says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer; header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def fetch(method: str, url: str, headers: Mapping[str, str] | None = None, *, seconds: float = _SECONDS) -> Answer:
    """One request, whatever its status. Raises Unanswered."""
    request = urllib.request.Request(url, headers=dict(headers or {}), method=method)  # noqa: S310 - the user's own URL
    try:
        with urllib.request.urlopen(request, timeout=seconds) as response:  # noqa: S310 - as above
            return Answer(response.status, _lowered(response.headers), response.read())
    except urllib.error.HTTPError as error:
        return Answer(error.code, _lowered(error.headers), error.read())
    except (OSError, HTTPException, ValueError) as error:
        raise Unanswered(" ".join(str(getattr(error, "reason", error)).split()) or type(error).__name__) from error


def shake_hands(base: str, function: str, key: str) -> Answer:
    """What the app at `base` says when Event Grid asks whether `function` wants events. Raises Unanswered."""
    query = urlencode({"functionName": function, **({"code": key} if key else {})})
    return fetch("OPTIONS", f"{base}/runtime/webhooks/EventGrid?{query}", {"webhook-request-origin": ORIGIN})


def _lowered(headers: Message[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
