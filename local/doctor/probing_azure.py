"""What ARM says to the person who runs the doctor, as plain JSON; only ever read, keys of the app's host aside."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol

from azure.core import PipelineClient
from azure.core.rest import HttpRequest, HttpResponse

from local.azure_transport import NoAuthentication, NoCredential
from shared.adapters.azure_access import RawArm, client_options
from shared.adapters.azure_errors import translated
from shared.adapters.errors import NotFound, OutsideError

Json = dict[str, Any]

EVENT_GRID_API = "2022-06-15"
AUTHORIZATION_API = "2022-04-01"
WEB_API = "2023-12-01"
COMPUTE_API = "2024-07-01"
SKUS_API = "2021-07-01"
CONTAINER_API = "2025-05-01"
AUTOSCALE_API = "2022-10-01"


class Arm(Protocol):
    """What judges' facts are read from. Raises `shared.adapters.errors`."""

    def get(self, path: str, version: str, doing: str) -> Json:
        """One resource."""
        ...

    def list(self, path: str, version: str, doing: str, **query: str) -> list[Json]:
        """All pages of a list."""
        ...

    def post(self, path: str, version: str, doing: str) -> Json:
        """An action that only answers, such as a list of keys."""
        ...


class OperatorsArm:
    """ARM with the login of whoever runs the doctor (Azure CLI, environment, managed identity); without `login`, as a
    stand-in takes it. `heard` is told the Date of each answer."""

    def __init__(self, endpoint: str, heard: Callable[[str | None], None], *, login: bool) -> None:
        self._endpoint, self._heard, self._login = endpoint.rstrip("/"), heard, login

    def get(self, path: str, version: str, doing: str) -> Json:
        """See `Arm.get`."""
        return self._raw.get(path, version, doing)

    def list(self, path: str, version: str, doing: str, **query: str) -> list[Json]:
        """See `Arm.list`."""
        return self._raw.list(path, version, doing, **query)

    def post(self, path: str, version: str, doing: str) -> Json:
        """See `Arm.post`."""
        answer: Json = self._raw.send("POST", self._endpoint + path, {"api-version": version}, doing).json()
        return answer

    @cached_property
    def _raw(self) -> RawArm:
        return RawArm(_Client(self._endpoint, self._heard, login=self._login), self._endpoint, time.sleep)


class _Client:
    """See `shared.adapters.azure_access.Client`."""

    def __init__(self, endpoint: str, heard: Callable[[str | None], None], *, login: bool) -> None:
        authentication = None if login else NoAuthentication()
        self._heard = heard
        self._client: PipelineClient[Any, Any] = PipelineClient(
            **client_options(_login() if login else NoCredential(), endpoint, None, authentication)
        )

    def send_request(self, request: HttpRequest) -> HttpResponse:
        """Through the pipeline."""
        response: HttpResponse = self._client.send_request(request)
        self._heard(response.headers.get("date"))
        return response

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _login() -> Any:  # noqa: ANN401 - a TokenCredential, whose package is dear to import
    from azure.identity import DefaultAzureCredential  # noqa: PLC0415 - only who asks Azure pays for it

    logging.getLogger("azure.identity").setLevel(logging.CRITICAL)  # its refusal is told by whoever asked for a token
    return DefaultAzureCredential(exclude_interactive_browser_credential=True)


def entra_token(scope: str) -> str:
    """An access token of whoever runs the doctor. Raises OutsideError."""
    with translated(f"a token for {scope}"):
        return str(_login().get_token(scope).token)


def found(arm: Arm, path: str, version: str, doing: str) -> Json | None:
    """One resource, or None when it is not there."""
    try:
        return arm.get(path, version, doing)
    except NotFound:
        return None


def webhook_key(arm: Arm, app_id: str) -> str:
    """The app's system key for Event Grid; "" as in `_keys`."""
    return str((_keys(arm, app_id).get("systemKeys") or {}).get("eventgrid_extension") or "")


def function_key(arm: Arm, app_id: str) -> str:
    """The key that opens all of the app's functions, as far as they take keys; "" as in `_keys`."""
    return str((_keys(arm, app_id).get("functionKeys") or {}).get("default") or "")


def _keys(arm: Arm, app_id: str) -> Json:
    """None while the host starts, which answers in many ways, and where who asks may not see them: then the app itself
    says that a key is missing."""
    try:
        return arm.post(f"{app_id}/host/default/listKeys", WEB_API, "keys of the app's host")
    except OutsideError:
        return {}
