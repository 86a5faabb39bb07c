"""What the clients of Azure's services have in common: their pipeline, and plain JSON read through it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from azure.core.pipeline import policies
from azure.core.rest import HttpRequest
from azure.mgmt.core.policies import ARMChallengeAuthenticationPolicy

from shared.adapters.azure_errors import short_retries, translated
from shared.adapters.protocols import Json

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential
    from azure.core.pipeline.policies import SansIOHTTPPolicy
    from azure.core.pipeline.transport import HttpTransport
    from azure.core.rest import HttpResponse

CONNECTION_SECONDS = 5
READ_SECONDS = 60


class Client(Protocol):
    """Any of the SDK's management clients."""

    def send_request(self, request: HttpRequest) -> HttpResponse:
        """Through the client's pipeline."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


def client_options(
    credential: TokenCredential,
    endpoint: str,
    transport: HttpTransport[Any, Any] | None,
    authentication_policy: SansIOHTTPPolicy[Any, Any] | None,
) -> dict[str, Any]:
    """What every client is made with: no retries of the SDK's, which would sleep inside a function."""
    chain = [
        policies.RequestIdPolicy(),
        policies.HeadersPolicy(),
        policies.UserAgentPolicy("sluice"),
        policies.ProxyPolicy(),
        authentication_policy or ARMChallengeAuthenticationPolicy(credential, f"{endpoint}/.default"),
    ]
    timeouts = {"connection_timeout": CONNECTION_SECONDS, "read_timeout": READ_SECONDS}
    extra: dict[str, Any] = {"transport": transport} if transport is not None else {}
    return {"base_url": endpoint, "policies": chain, **timeouts, **extra}


class RawArm:
    """ARM's answers as plain JSON. The SDK's models cost forty times what is needed of them, and drop what they do not
    know. A reading whose connection broke is asked once more; a write never is."""

    def __init__(self, client: Client, endpoint: str, sleep: Callable[[float], None]) -> None:
        self._client = client
        self._endpoint = endpoint.rstrip("/")
        self.retrying = short_retries(sleep)

    def list(self, path: str, version: str, doing: str, **query: str) -> list[Json]:
        """All pages."""
        page: Json = self.get(path, version, doing, **query)
        items: list[Json] = list(page.get("value") or ())
        while next_link := page.get("nextLink"):
            page = self.send("GET", str(next_link), {}, doing).json()
            items.extend(page.get("value") or ())
        return items

    def get(self, path: str, version: str, doing: str, **query: str) -> Json:
        """One resource."""
        body: Json = self.send("GET", self._endpoint + path, {"api-version": version, **query}, doing).json()
        return body

    def send(self, method: str, url: str, parameters: Mapping[str, str], doing: str) -> HttpResponse:
        """One request. Raises `OutsideError` by the answer."""
        request = HttpRequest(method, url, params=dict(parameters))
        with translated(doing):
            send = self._client.send_request
            response: HttpResponse = self.retrying(send, request) if method == "GET" else send(request)
            response.raise_for_status()
            return response
