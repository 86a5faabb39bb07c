"""What can go wrong outside, by what the caller can do about it. The vendor's error is always chained.

OutsideError
├── RetryLater              the same call may go through later (5xx, time-out, connection lost)
│   ├── Throttled           429; `retry_after` seconds is the server's own word, when it gave one
│   └── Unreachable         nothing answered: name resolution, connection refused, TLS
├── StaleWrite              409 or 412: somebody wrote in between; read again, then decide again
│   └── Occupied            AKS is still busy with an earlier operation, and takes no other one
├── NotFound                404: it is not there (a deletion may take this for success)
├── Expired                 410: a watch's resourceVersion is too old; list again
├── Refused                 401 or 403: a right is missing; the message names the action
├── CapacityMissing         Azure cannot deliver; `code` is its own code (AllocationFailed, SkuNotAvailable, quota ...)
└── Rejected                400, 422 and every other final no: the request itself is wrong
"""

from __future__ import annotations


class OutsideError(Exception):
    """Anything that the outside answered, or failed to."""

    def __init__(self, message: str, *, code: str = "", status: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status


class RetryLater(OutsideError):
    """The same call may go through later; `retry_after` seconds if the server said so."""

    def __init__(
        self, message: str, *, code: str = "", status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message, code=code, status=status)
        self.retry_after = retry_after


class Throttled(RetryLater):
    """429: too many requests (or, for an eviction, a PodDisruptionBudget that does not allow it now)."""


class Unreachable(RetryLater):
    """Nothing answered at all."""


class StaleWrite(OutsideError):
    """Somebody wrote in between: read again."""


class Occupied(StaleWrite):
    """An earlier operation is still under way there: the same call may go through when it has ended."""


class NotFound(OutsideError):
    """It is not there."""


class Expired(OutsideError):
    """The resourceVersion of a watch is too old: list again."""


class Refused(OutsideError):
    """A right is missing."""


class CapacityMissing(OutsideError):
    """Azure cannot deliver what was asked for, now or within the quota; `code` is Azure's own."""


class Rejected(OutsideError):
    """The request itself is wrong; the same call will never go through."""
