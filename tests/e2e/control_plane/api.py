"""The thinnest client that can ask a Kubernetes API server anything.

The product talks through the official client; the control plane and its tests
talk through this one, so that a fault in the former cannot hide in the latter.
An HTTP error is an answer here, never an exception: tests want to see the 429.
"""

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener


@dataclass(frozen=True, slots=True)
class Reply:
    """The status and body of one answer; status 0 means that nobody answered, and body says why."""

    status: int
    body: str

    @property
    def ok(self) -> bool:
        """Whether the server did what was asked."""
        return 200 <= self.status < 300

    def json(self) -> Any:
        """The body as the API server meant it."""
        return json.loads(self.body)


class Api:
    """Requests to one server, with one bearer token, trusting one certificate file."""

    def __init__(self, url: str, *, token: str = "", ca: Path | None = None) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._opener = _opener(ca)

    def get(self, path: str) -> Reply:
        """Read `path`, which starts with a slash and may carry a query."""
        return self.request("GET", path)

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        """Create `body` in the collection at `path`."""
        return self.request("POST", path, body)

    def delete(self, path: str) -> Reply:
        """Delete what `path` names."""
        return self.request("DELETE", path)

    def patch(self, path: str, body: Mapping[str, Any]) -> Reply:
        """Merge `body` into what `path` names (a JSON merge patch)."""
        return self.request("PATCH", path, body, content_type="application/merge-patch+json")

    def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        content_type: str = "application/json",
    ) -> Reply:
        """Send one request; never raises for what the server or the network did."""
        headers = {**self._headers, "Content-Type": content_type}
        data = None if body is None else json.dumps(body).encode()
        request = Request(self._url + path, data=data, method=method, headers=headers)
        try:
            with self._opener.open(request, timeout=30) as answer:
                return Reply(answer.status, answer.read().decode())
        except HTTPError as error:
            with error:
                return Reply(error.code, error.read().decode())
        except (OSError, HTTPException) as error:
            return Reply(0, str(error))


def _opener(ca: Path | None) -> OpenerDirector:
    """Open connections past any proxy, since loopback is meant."""
    if ca is None:
        return build_opener(ProxyHandler({}))
    trust = ssl.create_default_context(cafile=str(ca))
    return build_opener(ProxyHandler({}), HTTPSHandler(context=trust))
