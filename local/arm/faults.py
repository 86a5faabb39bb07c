"""Failures on order: by name of operation and resource, so many times or by chance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import Literal

from local.arm.errors import ArmError
from local.timeline import Timeline

Stage = Literal["sync", "async", "lost", "slow"]

_STATUS = {
    "AuthorizationFailed": 403,
    "InternalServerError": 500,
    "InvalidParameter": 400,
    "PreconditionFailed": 412,
    "ServiceUnavailable": 503,
    "TooManyRequests": 429,
}
_MESSAGES = {
    "AllocationFailed": "Allocation failed. There is not enough capacity for the requested VM size in this region.",
    "InternalServerError": "An internal execution error occurred.",
    "OperationPreempted": "Operation execution has been preempted by a more recent operation.",
    "SkuNotAvailable": "The requested VM size is currently not available in this location.",
    "TooManyRequests": "The request is being throttled.",
    "ZonalAllocationFailed": "Allocation failed. There is not enough capacity for the requested VM size in this zone.",
}


@dataclass(slots=True)
class Fault:
    """One failure on order.

    `operation` names a route (docs/stand-ins.md lists them), "*" is any; `resource` is a name, "" is any.
    `stage`: "sync" refuses the request; "async" accepts it and lets the operation fail after `partial` VMs; "lost" does
    it and loses the answer; "slow" adds `seconds` to the operation. `times` None = for good; `probability` counts per
    match.
    """

    operation: str
    resource: str = ""
    code: str = "InternalServerError"
    message: str = ""
    stage: Stage = "sync"
    times: int | None = 1
    probability: float = 1.0
    partial: int = 0
    seconds: float = 0.0
    status: int = 0
    retry_after: float | None = None

    def error(self) -> ArmError:
        """As an answer."""
        headers = {} if self.retry_after is None else {"retry-after": str(math.ceil(self.retry_after))}
        return ArmError(self.status or _STATUS.get(self.code, 409), self.code, self.text, headers)

    @property
    def text(self) -> str:
        """The message, or the usual one of this code."""
        return self.message or _MESSAGES.get(self.code, f"{self.code}.")


class Faults:
    """The orders still open; `hits` counts, by operation and stage, what was delivered."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._open: list[Fault] = []
        self.hits: dict[tuple[str, str], int] = {}

    def add(self, fault: Fault) -> Fault:
        """Order one; earlier orders go first."""
        self._open.append(fault)
        return fault

    def remove(self, fault: Fault) -> None:
        """Take an order back."""
        self._open = [other for other in self._open if other is not fault]

    def take(self, operation: str, resource: str, stage: Stage) -> Fault | None:
        """The first order that matches, used up by one."""
        if not self._open:
            return None
        for fault in self._open:
            if fault.stage != stage or fault.operation not in {operation, "*"}:
                continue
            if fault.resource and fault.resource.lower() != resource.lower():
                continue
            if fault.probability >= 1.0 or self._chance.random() < fault.probability:
                return self._used(fault, operation, stage)
        return None

    def _used(self, fault: Fault, operation: str, stage: str) -> Fault:
        self.hits[operation, stage] = self.hits.get((operation, stage), 0) + 1
        if fault.times is not None:
            fault.times -= 1
            if fault.times <= 0:
                self.remove(fault)
        return fault


class Throttle:
    """Token buckets per subscription, reads apart from writes: `burst` requests at once, refilled at `per_second`."""

    def __init__(self, timeline: Timeline, *, reads: tuple[float, float], writes: tuple[float, float]) -> None:
        self._timeline = timeline
        self._rates = {"read": reads, "write": writes}
        self._buckets: dict[tuple[str, str], tuple[float, float]] = {}
        self.refused = 0

    def check(self, subscription: str, method: str) -> None:
        """Raises ArmError 429 with Retry-After when the bucket is empty."""
        kind = "read" if method in {"GET", "HEAD"} else "write"
        burst, per_second = self._rates[kind]
        now = self._timeline.now().timestamp()
        level, seen = self._buckets.get((subscription, kind), (burst, now))
        level = min(burst, level + (now - seen) * per_second)
        if level < 1:
            self._buckets[subscription, kind] = (level, now)
            self.refused += 1
            wait = max(1, math.ceil((1 - level) / per_second))
            raise ArmError(429, "TooManyRequests", _MESSAGES["TooManyRequests"], {"retry-after": str(wait)})
        self._buckets[subscription, kind] = (level - 1, now)
