"""Azure's answers as the project's error tree.

Codes follow Microsoft's "Azure Resource Manager common errors" and "Troubleshoot allocation failures" pages, and the
classification of Karpenter's Azure provider; quota refusals come as OperationNotAllowed with HTTP 409.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import orjson
import tenacity
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
    ServiceResponseError,
)

from shared.adapters.errors import (
    CapacityMissing,
    NotFound,
    OutsideError,
    Refused,
    Rejected,
    RetryLater,
    StaleWrite,
    Throttled,
    Unreachable,
)

CAPACITY_CODES = frozenset(
    {
        "AllocationFailed",
        "ErrCode_InsufficientVCPUQuota",
        "InsufficientVCPUQuota",
        "OverconstrainedAllocationRequest",
        "OverconstrainedZonalAllocationRequest",
        "QuotaExceeded",
        "SkuNotAvailable",
        "SubscriptionQuotaReached",
        "VMSizeNotSupported",
        "ZonalAllocationFailed",
    }
)
RIGHT_CODES = frozenset({"AuthorizationFailed", "LinkedAuthorizationFailed"})
_QUOTA = re.compile(r"\bquota\b", re.IGNORECASE)
# a linked scope is what the request refers to: a subnet to join, a security group, an image, an identity
_ACTIONS = (
    re.compile(r"perform action(?:\(s\))? '([^']+)' over scope '([^']+)'"),
    re.compile(r"perform action(?:\(s\))? '([^']+)' on the linked scope(?:\(s\))? '([^']+)'"),
)


_REMEDY = "assign it a role with this action there (infra/roles/README.md says which), and wait ten minutes"
_QUOTED = re.compile(r"""\bcode"?\s*[=:]\s*"(\w+)\"""", re.IGNORECASE)  # AKS quotes compute in the text as well
_NUMBERS = "Current Limit"
_DEEPEST = 4


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise what the SDK raises inside as `OutsideError`, chained; `doing` starts the message."""
    try:
        yield
    except AzureError as error:
        raise translate(error, doing) from error


def translate(error: AzureError, doing: str) -> OutsideError:
    """One SDK error as the caller can act on it."""
    response: Any = error.response if isinstance(error, HttpResponseError) else None  # typed too narrowly by the SDK
    if response is None:
        return _without_answer(error, doing)
    code, message = error_of(_parsed(response.text()))
    code = code or str(response.headers.get("x-ms-error-code", ""))
    return from_answer(
        response.status_code,
        code,
        message or code or f"HTTP {response.status_code}",
        retry_after=retry_after(response.headers),
        doing=doing,
    )


def from_answer(
    status: int, code: str, message: str, *, retry_after: float | None = None, doing: str = ""
) -> OutsideError:
    """An HTTP error by status and Azure's code."""
    text = f"{doing}: {code}: {message}" if code and code != message else f"{doing}: {message}"
    if status == 429:
        return Throttled(text, code=code, status=status, retry_after=retry_after)
    if capacity_missing(code, message):
        return CapacityMissing(text, code=code, status=status)
    if status in {401, 403} or code in RIGHT_CODES:
        return Refused(_named_right(doing, message, text), code=code, status=status)
    if status in {408, 500, 502, 503, 504}:
        return RetryLater(text, code=code, status=status, retry_after=retry_after)
    kind = {404: NotFound, 410: NotFound, 409: StaleWrite, 412: StaleWrite}.get(status, Rejected)
    return kind(text, code=code, status=status)


def capacity_missing(code: str, message: str) -> bool:
    """Whether Azure says that it cannot deliver: by its code, or a quota refusal by its text."""
    return code in CAPACITY_CODES or (code == "OperationNotAllowed" and _QUOTA.search(message) is not None)


def error_of(body: object) -> tuple[str, str]:
    """(code, message) of an ARM error body or a failed operation's. What says most may lie in the `details`, or
    be quoted in the text: missing capacity, a missing right, or the numbers of a quota that AKS calls exceeded and
    compute counts."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return "", ""
    told = list(_told(error))
    return max(told, key=_says)  # the outermost of those that say as much


def _told(error: dict[str, Any], depth: int = 0) -> Iterator[tuple[str, str]]:
    message = str(error.get("message") or "")
    yield str(error.get("code") or ""), message
    yield from ((code, message) for code in _QUOTED.findall(message))
    for detail in (error.get("details") or ()) if depth < _DEEPEST else ():
        if isinstance(detail, dict):
            yield from _told({"message": message, **detail}, depth + 1)


def _says(told: tuple[str, str]) -> int:
    code, message = told
    if not capacity_missing(code, message):
        return int(code in RIGHT_CODES)
    return 3 if _NUMBERS in message else 2


def message_of(code: str, message: str) -> str:
    """Of a failed operation, whose error no status code says to be about rights."""
    return _named_right(code, message, message) if code in RIGHT_CODES else message


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds; Azure sends whole seconds, and Retry-After dates are left to the caller's own pace."""
    for name, unit in (("retry-after-ms", 0.001), ("x-ms-retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value and value.strip().isdigit():
            return int(value) * unit
    return None


def _without_answer(error: AzureError, doing: str) -> OutsideError:
    text = f"{doing}: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
    if isinstance(error, ServiceRequestError):
        return Unreachable(text)
    if isinstance(error, ClientAuthenticationError):
        return Refused(text)
    return RetryLater(text)


def _named_right(doing: str, message: str, text: str) -> str:
    found = next((found for action in _ACTIONS if (found := action.search(message))), None)
    return f"{doing}: the identity lacks {found[1]} on {found[2]}: {_REMEDY}" if found else text


def _parsed(text: str) -> Any:  # noqa: ANN401 - an error body may be any JSON, or none at all
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def short_retries(sleep: Callable[[float], None]) -> tenacity.Retrying:
    """One more try, at once, of a read whose connection broke before the answer: idle connections do that."""
    return tenacity.Retrying(
        stop=tenacity.stop_after_attempt(2),
        wait=tenacity.wait_fixed(0.2),
        retry=tenacity.retry_if_exception_type(ServiceResponseError),
        sleep=sleep,
        reraise=True,
    )
