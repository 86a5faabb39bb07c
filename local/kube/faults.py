"""Scripted misbehaviour of the API server: what a test orders, once or several times, and nothing by itself."""

from __future__ import annotations

import re
from dataclasses import dataclass

from local.kube.problems import ApiProblem
from local.web import Request


@dataclass(slots=True)
class Fault:
    """What happens to the next `times` requests that match; `path` is a regular expression searched in the path.

    `code` 0 answers as usual. `delay`: seconds that the answer takes (the write itself happens at once). With `after`
    the request is carried out and only its answer is lost, as when a connection breaks.
    """

    method: str = ""
    path: str = ""
    times: int = 1
    code: int = 0
    reason: str = ""
    message: str = "scripted fault"
    retry_after: int = 0
    delay: float = 0.0
    after: bool = False
    hits: int = 0

    def matches(self, request: Request) -> bool:
        """Whether it is this request's turn to suffer."""
        if self.hits >= self.times or (self.method and self.method.upper() != request.method):
            return False
        return not self.path or re.search(self.path, request.path) is not None

    def problem(self) -> ApiProblem:
        """The error to answer with."""
        details = {"retryAfterSeconds": self.retry_after} if self.retry_after else {}
        reason = self.reason or _REASONS.get(self.code, "InternalError")
        return ApiProblem(self.code, reason, self.message, details)


_REASONS = {
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class Faults:
    """The script. Faults apply in the order they were added, one per request."""

    def __init__(self) -> None:
        self._script: list[Fault] = []

    def add(self, fault: Fault) -> Fault:
        """Order one; its `hits` say how often it struck."""
        self._script.append(fault)
        return fault

    def clear(self) -> None:
        """Behave again."""
        self._script.clear()

    def strike(self, request: Request) -> Fault | None:
        """The fault that this request suffers, counted; None when there is none."""
        for fault in self._script:
            if fault.matches(request):
                fault.hits += 1
                return fault
        return None
