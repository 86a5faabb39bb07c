"""Publishing to an Event Grid topic, on azure-eventgrid.

Two properties of azure-eventgrid 4.22.1 shape this module, and its tests hold them against the installed version:
its public client forwards neither a transport nor retry options to the client that does the work, so that one is used
directly; and its serializer walks every value of an event in Python (15 ms for 26 kB), so the SDK builds the request
from bare envelopes and a request hook puts in the body, encoded once by orjson.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson
from azure.core.credentials import AzureKeyCredential, TokenCredential
from azure.core.exceptions import AzureError, HttpResponseError, ServiceRequestError, ServiceResponseError
from azure.eventgrid._legacy import EventGridPublisherClient

from shared.adapters.errors import NotFound, OutsideError, Refused, Rejected, RetryLater, Throttled, Unreachable
from shared.adapters.protocols import Json

if TYPE_CHECKING:
    from azure.core.pipeline import PipelineRequest
    from azure.core.pipeline.transport import HttpTransport

CONNECT_SECONDS = 5.0  # a topic that does not accept by then is tried again later; the lease is renewed meanwhile
READ_SECONDS = 10.0  # Event Grid answers within milliseconds; longer means lost


class AzureEventPublisher:
    """`EventPublisher` on a topic of the CloudEvents 1.0 schema.

    `endpoint` ends in /api/events. Nothing is retried here: the caller keeps the events and knows when to try again.
    """

    def __init__(
        self,
        endpoint: str,
        credential: AzureKeyCredential | TokenCredential,
        *,
        transport: HttpTransport[Any, Any] | None = None,
    ) -> None:
        options: dict[str, Any] = {"transport": transport} if transport is not None else {}
        self._endpoint = endpoint
        # Only the bearer policy takes this option away; with a key it would reach the transport, which refuses it.
        plain = urlsplit(endpoint).scheme != "https" and not isinstance(credential, AzureKeyCredential)
        self._options: dict[str, Any] = {"enforce_https": False} if plain else {}
        self._client = EventGridPublisherClient(
            endpoint,
            credential,
            retry_total=0,
            connection_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            **options,
        )

    def publish(self, events: Sequence[Json]) -> None:
        """Send one batch. Raises as `EventPublisher.publish` does, and Refused for a bad key or a missing role."""
        if not events:
            return
        envelopes: list[Any] = [{key: value for key, value in event.items() if key != "data"} for event in events]
        hook = _body_hook(orjson.dumps(list(events)))
        try:
            self._client.send(envelopes, raw_request_hook=hook, **self._options)
        except AzureError as error:
            raise _translated(error, self._endpoint) from error

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()


def _body_hook(body: bytes) -> Callable[[PipelineRequest[Any]], None]:
    def put(request: PipelineRequest[Any]) -> None:
        request.http_request.data = body
        request.http_request.headers["Content-Length"] = str(len(body))

    return put


def _translated(error: AzureError, endpoint: str) -> OutsideError:
    """The project's own error for the SDK's; a connection lost after sending may have delivered, and is sent again."""
    if isinstance(error, HttpResponseError) and error.status_code:
        return _of_status(error, endpoint, error.status_code)
    if isinstance(error, ServiceRequestError):
        return Unreachable(f"topic {endpoint}: nothing answered ({error.message}); check the endpoint and the network")
    if isinstance(error, ServiceResponseError):
        return RetryLater(f"topic {endpoint}: the connection was lost before an answer ({error.message})")
    return Refused(f"topic {endpoint}: no token could be had ({error.message}); check the exporter's identity")


def _of_status(error: HttpResponseError, endpoint: str, status: int) -> OutsideError:
    message = f"topic {endpoint} answered {status}: {error.message}"
    match status:
        case 401 | 403:
            remedy = "check the topic key, or give the identity the role EventGrid Data Sender"
            return Refused(f"{message}; {remedy}", status=status)
        case 404:
            return NotFound(f"{message}; check the endpoint (it ends in /api/events)", status=status)
        case 429:
            return Throttled(message, status=status, retry_after=_retry_after(error))
        case 408:
            return RetryLater(message, status=status)
        case _ if status >= 500:
            return RetryLater(message, status=status, retry_after=_retry_after(error))
        case _:
            return Rejected(message, status=status)


def _retry_after(error: HttpResponseError) -> float | None:
    headers = getattr(error.response, "headers", None) or {}
    text = headers.get("Retry-After", "")
    try:
        return float(text)
    except ValueError:
        return None  # absent, or the date form, which Event Grid does not use
