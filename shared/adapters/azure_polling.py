"""Azure's long-running operations, started by one call and asked after by another, in another process if need be.

The SDK's synchronous poller starts a thread that polls and sleeps; here durable timers do the waiting, so the poller is
kept from starting one, its continuation token is cut down to what a later status request needs, and `ask` makes exactly
one such request.
"""

from __future__ import annotations

import base64
import uuid

import orjson
from azure.core.exceptions import HttpResponseError
from azure.core.polling.base_polling import BadResponse, BadStatus
from azure.core.rest import HttpResponse
from azure.mgmt.core.polling.arm_polling import ARMPolling

from shared.adapters.azure_errors import error_of, message_of, retry_after
from shared.adapters.operation_tokens import pack, unpack
from shared.adapters.protocols import OperationStatus

__all__ = ["OneShotPolling", "pack", "unpack"]

FINISHED = frozenset({"succeeded", "failed", "canceled"})
_NEEDED_HEADERS = ("azure-asyncoperation", "location")
_REQUEST_ID = "x-ms-client-request-id"  # the SDK wants one in a token: status requests bear it


class OneShotPolling(ARMPolling):
    """ARM polling that never polls by itself: `finished` tells the poller that a thread would have nothing to do."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(path_format_arguments={"endpoint": endpoint})

    def run(self) -> None:
        """Nothing: `ask` does it, once."""

    def finished(self) -> bool:
        """Always, as far as the SDK's poller is concerned; the real answer is in `status()`."""
        return True

    def get_continuation_token(self) -> str:
        """The SDK's token without the resource's body and, where a status URL is there, without the result's URL.

        Both Azure's signed status URLs and a scale set's body are some kilobytes long. The id that the request was sent
        under gives way to one made from the status URL: tokens go into histories, and equal runs have equal histories.
        """
        token = orjson.loads(base64.b64decode(super().get_continuation_token()))
        response = token["data"]["response"]
        headers = {name.lower(): value for name, value in response["headers"].items()}
        kept = next((name for name in _NEEDED_HEADERS if name in headers), "")
        response["headers"] = {kept: headers[kept]} if kept else {}
        response["content"] = "" if kept else _provisioning_state_only(response["content"])
        status_id = str(uuid.uuid5(uuid.NAMESPACE_URL, headers.get(kept, "")))
        token["data"]["request"]["headers"][_REQUEST_ID] = status_id
        token["data"]["context"] = {"deserialized_data": None}
        return base64.b64encode(orjson.dumps(token)).decode()

    def first_wait(self) -> float | None:
        """Seconds that Azure's first answer asks to be left alone for."""
        response: HttpResponse = self._pipeline_response.http_response
        return retry_after(response.headers)

    def ask(self) -> OperationStatus:
        """One status request, unless the operation had ended with its first answer."""
        if self.status().lower() not in FINISHED:
            self._request_status()
        response: HttpResponse = self._pipeline_response.http_response
        status = self.status().lower()
        if status not in FINISHED:
            return OperationStatus(done=False, ok=False, retry_after=retry_after(response.headers))
        if status == "succeeded":
            return OperationStatus(done=True, ok=True)
        code, message = error_of(_json_of(response))
        return OperationStatus(done=True, ok=False, code=code or status.capitalize(), message=message_of(code, message))

    def _request_status(self) -> None:
        try:
            self.update_status()
        except (BadStatus, BadResponse) as error:
            raise HttpResponseError(response=self._pipeline_response.http_response, error=error) from error


def _provisioning_state_only(content: str) -> str:
    """What polling by the resource's own state reads from the first answer, and no more."""
    try:
        body = orjson.loads(base64.b64decode(content))
    except ValueError:
        return ""
    state = body.get("properties", {}).get("provisioningState") if isinstance(body, dict) else None
    if state is None:
        return ""
    return base64.b64encode(orjson.dumps({"properties": {"provisioningState": state}})).decode()


def _json_of(response: HttpResponse) -> object:
    try:
        return orjson.loads(response.text())
    except orjson.JSONDecodeError:
        return None
