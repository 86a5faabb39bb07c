"""The official client without a network: its REST client, replaced by one that calls a stand-in's handler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.rest import RESTResponse
from urllib3 import HTTPHeaderDict
from urllib3.exceptions import ProtocolError, ReadTimeoutError

from local.kube.stand_in import DELAY_HEADER
from local.web import CONNECTION, Handler, Request, Response
from shared.adapters.kubernetes import KubernetesClusterApi

HOST = "http://kubernetes.stand-in"


class HandlerRestClient:
    """Takes the place of `ApiClient.rest_client`. Not streaming: a watch answers what is there, and ends.

    `sleep` waits for answers that a scripted fault slows down; without it they only ever time out, when they are slower
    than the request's own limit.
    """

    def __init__(self, handler: Handler, sleep: Callable[[float], None] | None = None) -> None:
        self._handler, self._sleep = handler, sleep

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        body: Any = None,  # noqa: ANN401 - as the client gives it
        post_params: object = None,  # noqa: ARG002 - the API server takes no forms
        _request_timeout: float | tuple[float, float] | None = None,
    ) -> RESTResponse:
        """See `kubernetes.client.rest.RESTClientObject.request`."""
        data = b"" if body is None else body if isinstance(body, bytes) else orjson.dumps(body)
        response = self._handler.handle(Request.of(method, url, headers, data))
        if (broken := response.headers.get(CONNECTION)) is not None:
            raise ProtocolError(f"Connection {broken}.", ConnectionError(broken))
        self._wait(response, _request_timeout, url)
        return RESTResponse(_Answer(response))

    def close(self) -> None:
        """Nothing is held."""

    def _wait(self, response: Response, timeout: float | tuple[float, float] | None, url: str) -> None:
        seconds = float(response.headers.get(DELAY_HEADER, 0.0))
        limit = timeout[1] if isinstance(timeout, tuple) else timeout
        late = limit is not None and seconds > limit
        if seconds and self._sleep is not None:
            self._sleep(min(seconds, limit) if limit is not None else seconds)
        if late:
            raise ReadTimeoutError(None, url, f"Read timed out. (read timeout={limit})")  # type: ignore[arg-type]


class _Answer:
    """What the client reads of a urllib3 response."""

    reason = ""

    def __init__(self, response: Response) -> None:
        self.status = response.status
        self.headers = HTTPHeaderDict(response.headers)
        self.data = response.body if response.chunks is None else b"".join(response.chunks)

    def stream(self, _: int = 0, **__: object) -> Iterator[bytes]:
        """All of it at once."""
        if self.data:
            yield self.data

    def read(self) -> bytes:
        """All of it."""
        return self.data

    def close(self) -> None:
        """Nothing is held."""

    def release_conn(self) -> None:
        """Nothing is held."""


def make_client(handler: Handler, token: str = "", sleep: Callable[[float], None] | None = None) -> ApiClient:
    """The official client, talking to the stand-in in this process."""
    configuration = Configuration(host=HOST)
    if token:
        configuration.api_key["BearerToken"] = f"Bearer {token}"
    client = ApiClient(configuration)
    client.rest_client = HandlerRestClient(handler, sleep)  # type: ignore[assignment] # same shape, other transport
    return client


def make_api(handler: Handler, token: str = "", sleep: Callable[[float], None] | None = None) -> KubernetesClusterApi:
    """The production adapter over that client. `sleep` is what its short retries wait by; without it, they do not.

    One request after the other, since a run must be the same each time.
    """
    return KubernetesClusterApi(make_client(handler, token, sleep), sleep=sleep or (lambda _: None), parallel=1)
