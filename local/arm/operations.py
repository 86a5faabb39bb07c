"""Asynchronous operations: the Azure-AsyncOperation and Location URLs, and what they answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Protocol

from local.arm.errors import ArmError
from local.arm.state import Json
from local.timeline import Action, Timeline
from local.web import Response


@dataclass(slots=True)
class Operation:
    """One operation; `status` is InProgress, Succeeded, Failed or Canceled."""

    id: str
    name: str
    resource: str
    started_at: datetime
    status: str = "InProgress"
    ended_at: datetime | None = None
    code: str = ""
    message: str = ""
    details: tuple[tuple[str, str], ...] = ()  # (code, message) of what lies behind


class Later(Protocol):
    """How to put something on the timeline; see `Cloud.later`."""

    def __call__(self, seconds: float, action: Action, *, hang: float = 0.0) -> None: ...  # noqa: D102


class Operations:
    """All of them, by id; they are remembered for good (Azure forgets after some days)."""

    def __init__(
        self, timeline: Timeline, ids: Random, retry_after: int, later: Later, failed: Callable[[Operation], None]
    ) -> None:
        self._timeline, self._ids, self._retry_after, self._later = timeline, ids, retry_after, later
        self._failed = failed
        self.by_id: dict[str, Operation] = {}
        self.signature = ""  # Azure signs these URLs with some kilobytes of certificate; tests of token sizes set it

    def begin(self, name: str, resource: str) -> Operation:
        """A new one, in progress."""
        operation = Operation(f"{self._ids.getrandbits(128):032x}", name, resource, self._timeline.now())
        self.by_id[operation.id] = operation
        return operation

    def end(self, operation: Operation, code: str = "", message: str = "") -> None:
        """Succeeded, or Failed with `code`; the first end counts."""
        if operation.status != "InProgress":
            return
        operation.status = "Failed" if code else "Succeeded"
        operation.code, operation.message, operation.ended_at = code, message, self._timeline.now()
        if code:
            self._failed(operation)

    def end_later(
        self,
        operation: Operation,
        seconds: float,
        *,
        code: str = "",
        message: str = "",
        hang: float = 0.0,
        then: Callable[[], None],
    ) -> None:
        """End it in `seconds`, and do `then` at that moment, before anybody can see the end; `hang`: see
        `Cloud.later`."""

        def ending() -> None:
            then()
            self.end(operation, code, message)

        self._later(seconds, ending, hang=hang)

    def headers(
        self, operation: Operation, base: str, subscription: str, location: str, provider: str = "Microsoft.Compute"
    ) -> dict[str, str]:
        """What the first answer carries."""
        place = f"{base}/subscriptions/{subscription}/providers/{provider}/locations/{location}"
        query = f"api-version=2026-04-01{self.signature and '&t=1&c=' + self.signature}"
        headers = {
            "azure-asyncoperation": f"{place}/operations/{operation.id}?{query}",
            "location": f"{place}/operationResults/{operation.id}?{query}",
        }
        return headers | self._pace()

    def status(self, operation_id: str) -> Response:
        """The body behind Azure-AsyncOperation; 200 whatever became of the operation."""
        operation = self._known(operation_id)
        body: Json = {
            "name": operation.id,
            "startTime": operation.started_at.isoformat(),
            "status": operation.status,
        }
        if operation.ended_at:
            body["endTime"] = operation.ended_at.isoformat()
        if operation.code:
            body["error"] = {"code": operation.code, "message": operation.message}
            if operation.details:
                body["error"]["details"] = [{"code": code, "message": text} for code, text in operation.details]
        return Response.of_json(200, body, self._pace() if operation.status == "InProgress" else {})

    def result(self, operation_id: str) -> Response:
        """What Location answers: 202 while it runs."""
        operation = self._known(operation_id)
        if operation.status == "InProgress":
            return Response(202, {"location": "", **self._pace()})
        if operation.code:
            raise ArmError(409, operation.code, operation.message)
        return Response(204)

    def _known(self, operation_id: str) -> Operation:
        operation = self.by_id.get(operation_id)
        if operation is None:
            raise ArmError(404, "NotFound", f"The operation '{operation_id}' was not found.")
        return operation

    def _pace(self) -> dict[str, str]:
        return {"retry-after": str(self._retry_after)} if self._retry_after else {}
