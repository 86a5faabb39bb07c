"""What an Azure error code says about the next attempt: which offers it rules out, and for how long.

A memory is kept per (SKU, zone, priority). Scopes and times follow what karpenter-provider-azure learnt in the field
(pkg/providers/instance/offerings and its offering cache), with one exception, for pools that fall back from Spot to
on-demand on the same SKU: a refusal met while asking for Spot rules out Spot alone, since on-demand is served from
capacity that Spot never sees; one met while asking for on-demand rules out both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.model import FailureMemory, Pool, Priority

MINUTE = 60.0
HOUR = 3600.0

# Writes that overlapped, or came too fast, say nothing about capacity.
_NO_MEMORY = frozenset(
    {"OperationPreempted", "TooManyRequests", "Conflict", "ConcurrentOperation", "PreconditionFailed"}
)
_QUOTA = frozenset({"OperationNotAllowed", "QuotaExceeded", "SubscriptionQuotaReached"})
_LIMIT = re.compile(r"Current Limit:\s*(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Rule:
    """`zonal`: only the zone asked for; `any_priority`: on-demand too, if Spot was not what failed."""

    spot: float
    regular: float
    zonal: bool
    any_priority: bool


_RULES = {
    "SkuNotAvailable": _Rule(spot=HOUR, regular=23 * HOUR, zonal=True, any_priority=False),
    "AllocationFailed": _Rule(spot=HOUR, regular=HOUR, zonal=True, any_priority=True),
    "ZonalAllocationFailed": _Rule(spot=HOUR, regular=HOUR, zonal=True, any_priority=True),
    "OverconstrainedZonalAllocationRequest": _Rule(spot=HOUR, regular=HOUR, zonal=True, any_priority=False),
    "OverconstrainedAllocationRequest": _Rule(spot=HOUR, regular=HOUR, zonal=False, any_priority=False),
    "VMSizeNotSupported": _Rule(spot=23 * HOUR, regular=23 * HOUR, zonal=False, any_priority=True),
}

_UNNAMED = 5 * MINUTE
"""An error that nobody has named says something about its pool alone: long enough to try elsewhere first."""


def is_zonal(code: str) -> bool:
    """Whether the code speaks about the zone that was asked for, and about no other."""
    rule = _RULES.get(code)
    return rule is not None and rule.zonal


def failure_memory(code: str, message: str, pool: Pool, now: datetime, zone: str = "") -> FailureMemory | None:
    """What to remember of Azure's `code` for `pool`, or None when it does not speak about capacity.

    `zone` is the zone that Azure was asked for; without one, a pool of a single zone stands for it.
    """
    if code in _NO_MEMORY:
        return None
    if code in _QUOTA:
        return _quota(code, message, pool, now)
    rule = _RULES.get(code)
    if rule is None:
        return FailureMemory(pool.sku, "", pool.priority, code, now + timedelta(seconds=_UNNAMED), pool.name)
    is_spot = pool.priority is Priority.SPOT
    return _of_size(
        pool,
        code,
        now + timedelta(seconds=rule.spot if is_spot else rule.regular),
        zone=_zone(pool, zone) if rule.zonal else "",
        priority=None if rule.any_priority and not is_spot else pool.priority,
    )


def _of_size(pool: Pool, code: str, until: datetime, *, zone: str, priority: Priority | None) -> FailureMemory:
    """A memory of this size of VM; a pool that names no SKU can only be remembered itself."""
    return FailureMemory(pool.sku, zone, priority, code, until, "" if pool.sku else pool.name)


def _zone(pool: Pool, zone: str) -> str:
    return zone or (pool.zones[0] if len(pool.zones) == 1 else "")


def _quota(code: str, message: str, pool: Pool, now: datetime) -> FailureMemory:
    """Compute names the quota in its message: all Spot cores, all cores of the region, or those of a family."""
    limit = _LIMIT.search(message)
    seconds = HOUR if limit is not None and limit.group(1) == "0" else 10 * MINUTE
    until = now + timedelta(seconds=seconds)
    words = message.lower().replace(" ", "")
    if "lowprioritycores" in words:
        return FailureMemory("", "", Priority.SPOT, code, until)
    if "totalregionalcores" in words:
        return FailureMemory("", "", None, code, until)
    return _of_size(pool, code, until, zone="", priority=pool.priority)
