"""Failures on order: by name of operation and resource, so many times or by chance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal

from local.arm.errors import ArmError
from local.timeline import Timeline

Stage = Literal["sync", "async", "lost", "slow", "unreached"]

_STATUS = {
    "AuthorizationFailed": 403,
    "BadGateway": 502,
    "BadRequest": 400,
    "GatewayTimeout": 504,
    "InternalServerError": 500,
    "InvalidParameter": 400,
    "LinkedAuthorizationFailed": 403,
    "PreconditionFailed": 412,
    "ServiceUnavailable": 503,
    "TooManyRequests": 429,
    "VMSizeNotSupported": 400,
}
_MESSAGES = {
    "AllocationFailed": "Allocation failed. There is not enough capacity for the requested VM size in this region.",
    "ConcurrentOperation": "Another operation on this resource is in progress.",
    "Conflict": "The request failed due to conflict with a concurrent request.",
    "InternalServerError": "An internal execution error occurred.",
    "LinkedAuthorizationFailed": (
        "The client has permission to perform action 'Microsoft.Network/virtualNetworks/subnets/join/action' on scope"
        " of the write, however the linked subscription or scope was not authorized."
    ),
    "NetworkingInternalOperationError": "An unexpected error occurred while networking was set up for the VM.",
    "OSProvisioningTimedOut": "OS provisioning for the VM did not finish in the allotted time.",
    "OperationNotAllowed": "The operation is not allowed while another one is in progress on the resource.",
    "OperationPreempted": "Operation execution has been preempted by a more recent operation.",
    "OverconstrainedAllocationRequest": "Allocation failed. The constraints cannot be met in this region.",
    "OverconstrainedZonalAllocationRequest": "Allocation failed. The constraints cannot be met in this zone.",
    "SkuNotAvailable": "The requested VM size is currently not available in this location.",
    "TooManyRequests": "The request is being throttled.",
    "ZonalAllocationFailed": "Allocation failed. There is not enough capacity for the requested VM size in this zone.",
}


@dataclass(slots=True)
class Fault:
    """One failure on order.

    `operation` names a route (docs/stand-ins.md lists them), "*" is any; `resource` is a name, "" is any.
    `stage`: "sync" refuses the request; "async" accepts it and lets the operation fail after `partial` VMs; "lost" does
    it and loses the answer; "unreached" breaks the connection before; "slow" adds `seconds` to the operation. `times`
    None = for good; `probability` counts per match. `share` is to a growth of any size what `partial` is in VMs.
    """

    operation: str
    resource: str = ""
    code: str = "InternalServerError"
    message: str = ""
    stage: Stage = "sync"
    times: int | None = 1
    probability: float = 1.0
    partial: int = 0
    share: float = 0.0
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


ByChance = Callable[[str, str, Stage], Fault | None]
OnStrike = Callable[[str, str, Stage], None]


class Faults:
    """The orders still open; `hits` counts, by operation and stage, what was delivered. What nobody ordered may still
    happen `by_chance`; `on_strike` hears of every order that is delivered, by operation, resource and stage."""

    def __init__(self, chance: Random, by_chance: ByChance | None = None, on_strike: OnStrike | None = None) -> None:
        self._chance, self._by_chance, self._on_strike = chance, by_chance, on_strike
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
        for fault in self._open:
            if fault.stage != stage or fault.operation not in {operation, "*"}:
                continue
            if fault.resource and fault.resource.lower() != resource.lower():
                continue
            if fault.probability >= 1.0 or self._chance.random() < fault.probability:
                return self._used(fault, operation, resource, stage)
        return self._by_chance(operation, resource, stage) if self._by_chance is not None else None

    def _used(self, fault: Fault, operation: str, resource: str, stage: Stage) -> Fault:
        if self._on_strike is not None:
            self._on_strike(operation, resource, stage)
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
