"""What an Azure error code says about the next attempt: which offers it rules out, and for how long.

Every code has a row in `RULES`: its scope, and how long it is remembered for Spot and for on-demand. Scopes and times
of allocation failures follow what karpenter-provider-azure learnt in the field (pkg/providers/instance/offerings and
its offering cache), with one exception, for pools that fall back from Spot to on-demand on the same SKU: a refusal met
while asking for Spot rules out Spot alone, since on-demand is served from capacity that Spot never sees; one met while
asking for on-demand rules out both where the code speaks of the size as such. Codes about rights, images and requests
follow Microsoft's "Azure Resource Manager common errors" and "Troubleshoot VM deployment errors". The table, with all
sources, stands in docs/azure-errors.md.

A quota that is used up is remembered as a reading of that quota, so that planning goes on with what is left of it, and
a newer reading lifts it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from shared.model import SPOT_CORES, TOTAL_CORES, FailureMemory, Pool, Priority, Usage

MINUTE = 60.0
HOUR = 3600.0
DETAIL_LENGTH = 160

NEVER_JOINED = "NodeNeverJoined"  # a VM that did not become a node in time
DEVICES_MISSING = "DevicesNeverAppeared"  # a node that did not announce the GPUs it was bought for
MISSING = "InstancesMissing"  # Azure named no error, and delivered less than was asked for
FULL = "PoolIsFull"  # at its maximum when it came to writing
GROUP_FULL = "PlacementGroupFull"
POOL_BUSY = "AgentPoolBusy"  # AKS was at work on it for longer than pods should wait
POOL_UNFIT = "PoolUnfit"  # as it is, it must not be written to
SAGA_LOST = "SagaLost"  # nobody carries the growth on; what there is of it is counted, and the rest planned anew


class Scope(StrEnum):
    """What a refusal speaks about."""

    NOTHING = "nothing"  # writes that overlapped, or came too fast
    ZONE = "size in zone"  # where the zone that was asked for is known; else as REGION_SIZE
    SIZE = "size"  # the VM size in this region of the subscription
    QUOTA = "quota"  # every pool that counts against it
    REGION = "region"  # all of the subscription's pools in the region
    SUBSCRIPTION = "subscription"
    POOL = "pool"


@dataclass(frozen=True, slots=True)
class Rule:
    """How long a code is remembered, in seconds; `both`: met on-demand, it rules out Spot too."""

    scope: Scope
    spot: float
    regular: float
    both: bool = False


_NOTHING = Rule(Scope.NOTHING, 0.0, 0.0)
_BRIEF = Rule(Scope.POOL, 3 * MINUTE, 3 * MINUTE)  # trouble inside Azure: long enough to try elsewhere first
_REQUEST = Rule(Scope.POOL, 30 * MINUTE, 30 * MINUTE)  # the same request will be refused again until somebody mends it
_IMAGE = Rule(Scope.POOL, 30 * MINUTE, 30 * MINUTE)  # the next VM boots the same image with the same bootstrap data
_GONE = Rule(Scope.POOL, 10 * MINUTE, 10 * MINUTE)
_MISFIT = Rule(Scope.POOL, 11 * MINUTE, 11 * MINUTE)  # two sweeps, each of which looks again
_CLOSED = Rule(Scope.SUBSCRIPTION, HOUR, HOUR)
_UNNAMED = Rule(Scope.POOL, 5 * MINUTE, 5 * MINUTE)
"""An error that nobody has named says something about its pool alone: long enough to try elsewhere first."""

_QUOTA_SHORT = 10 * MINUTE
_QUOTA_NONE = HOUR  # "Current Limit: 0": nobody has asked Azure for any yet

RULES = {
    "SkuNotAvailable": Rule(Scope.ZONE, HOUR, 23 * HOUR),
    "AllocationFailed": Rule(Scope.ZONE, HOUR, HOUR, both=True),
    "ZonalAllocationFailed": Rule(Scope.ZONE, HOUR, HOUR, both=True),
    "OverconstrainedZonalAllocationRequest": Rule(Scope.ZONE, HOUR, HOUR),
    "OverconstrainedAllocationRequest": Rule(Scope.SIZE, HOUR, HOUR),
    "VMSizeNotSupported": Rule(Scope.SIZE, 23 * HOUR, 23 * HOUR, both=True),
    "QuotaExceeded": Rule(Scope.QUOTA, _QUOTA_SHORT, _QUOTA_SHORT),
    "ErrCode_InsufficientVCPUQuota": Rule(Scope.QUOTA, _QUOTA_SHORT, _QUOTA_SHORT),
    "InsufficientVCPUQuota": Rule(Scope.QUOTA, _QUOTA_SHORT, _QUOTA_SHORT),
    "SubscriptionQuotaReached": Rule(Scope.QUOTA, _QUOTA_NONE, _QUOTA_NONE),
    "OperationPreempted": _NOTHING,
    "TooManyRequests": _NOTHING,
    "Conflict": _NOTHING,
    "ConcurrentOperation": _NOTHING,
    "OperationInProgress": _NOTHING,
    "AnotherOperationInProgress": _NOTHING,
    "PreconditionFailed": _NOTHING,
    SAGA_LOST: _NOTHING,
    "InternalServerError": _BRIEF,
    "InternalExecutionError": _BRIEF,
    "InternalOperationError": _BRIEF,
    "NetworkingInternalOperationError": _BRIEF,
    "ServiceUnavailable": _BRIEF,
    "OperationTimedOut": _BRIEF,
    "BadRequest": _REQUEST,
    "InvalidParameter": _REQUEST,
    "InvalidResourceReference": _REQUEST,
    "AuthorizationFailed": _REQUEST,
    "LinkedAuthorizationFailed": _REQUEST,
    "RequestDisallowedByPolicy": _REQUEST,
    "ScopeLocked": _REQUEST,
    "MarketplacePurchaseEligibilityFailed": _REQUEST,
    "NotFound": _GONE,
    "ResourceNotFound": _GONE,
    "ParentResourceNotFound": _GONE,
    "ResourceGroupNotFound": _GONE,
    "OSProvisioningTimedOut": _IMAGE,
    "OSProvisioningClientError": _IMAGE,
    "OSProvisioningInternalError": _IMAGE,
    "VMExtensionProvisioningError": _IMAGE,
    "VMExtensionProvisioningTimeout": _IMAGE,
    "VMStartTimedOut": _BRIEF,
    "SubscriptionNotFound": _CLOSED,
    "MissingSubscriptionRegistration": _CLOSED,
    "ReadOnlyDisabledSubscription": _CLOSED,
    "LocationNotAvailableForResourceType": Rule(Scope.REGION, HOUR, HOUR),
    "RegionDoesNotAllowProvisioning": Rule(Scope.REGION, HOUR, HOUR),
    NEVER_JOINED: _IMAGE,
    DEVICES_MISSING: _IMAGE,
    GROUP_FULL: _GONE,
    POOL_BUSY: _BRIEF,
    POOL_UNFIT: _MISFIT,
    FULL: _UNNAMED,
    MISSING: _UNNAMED,
}

_LIMIT = re.compile(r"Current Limit:\s*(\d+)", re.IGNORECASE)
_USED = re.compile(r"Current Usage:\s*(\d+)", re.IGNORECASE)
_QUOTA_NAME = re.compile(r"exceeding (?:the )?(?:approved|quota limit|available)\s+(.+?)\s+quota", re.IGNORECASE)
_LACKS = re.compile(r"the identity lacks [^:]+")


def rule_of(code: str, message: str = "") -> Rule:
    """What a code means; compute refuses for lack of quota as OperationNotAllowed, which has other meanings too."""
    if code == "OperationNotAllowed" and "quota" in message.lower():
        return RULES["QuotaExceeded"]
    return RULES.get(code, _UNNAMED)


def is_zonal(code: str) -> bool:
    """Whether the code speaks about the zone that was asked for, and about no other."""
    return rule_of(code).scope is Scope.ZONE


def failure_memory(code: str, message: str, pool: Pool, now: datetime, zone: str = "") -> FailureMemory | None:
    """What to remember of Azure's `code` for `pool`, or None when it does not speak about what can be had.

    `zone` is the zone that Azure was asked for; without one, a pool of a single zone stands for it.
    """
    rule = rule_of(code, message)
    if rule.scope is Scope.NOTHING:
        return None
    return replace(_memory(rule, code, message, pool, now, zone), since=now)


def _memory(rule: Rule, code: str, message: str, pool: Pool, now: datetime, zone: str) -> FailureMemory:
    if rule.scope is Scope.QUOTA:
        return _quota(code, message, pool, now, rule)
    is_spot = pool.priority is Priority.SPOT
    until = now + timedelta(seconds=rule.spot if is_spot else rule.regular)
    detail = _detail(rule, message)
    subscription, location = _place(pool)
    if rule.scope is Scope.SUBSCRIPTION and subscription:
        return FailureMemory("", "", None, code, until, subscription=subscription, detail=detail)
    if rule.scope is Scope.REGION and subscription:
        return FailureMemory("", "", None, code, until, subscription=subscription, location=location, detail=detail)
    if rule.scope in (Scope.ZONE, Scope.SIZE) and pool.sku:
        priority = None if rule.both and not is_spot else pool.priority
        at = _zone(pool, zone) if rule.scope is Scope.ZONE else ""
        return FailureMemory(pool.sku, at, priority, code, until, subscription=subscription, location=location)
    at = _zone(pool, zone) if rule.scope is Scope.ZONE else ""
    return FailureMemory(pool.sku, at, pool.priority, code, until, pool.name, detail=detail)


def quota_text(usage: Usage) -> str:
    """A quota that leaves too little, in compute's own words: what was not asked for is remembered like a refusal."""
    return f"exceeding approved {usage.name} quota. Current Limit: {usage.limit}, Current Usage: {usage.used}"


def _zone(pool: Pool, zone: str) -> str:
    return zone or (pool.zones[0] if len(pool.zones) == 1 else "")


def _place(pool: Pool) -> tuple[str, str]:
    """Where a refusal holds: zones are numbered, and quotas kept, for each subscription by itself."""
    return (pool.azure.subscription, pool.azure.location) if pool.azure else ("", "")


def _detail(rule: Rule, message: str) -> str:
    """What a reader must know to mend it; of a right, which one is lacking."""
    if rule not in (_REQUEST, _UNNAMED, _MISFIT):
        return ""
    found = _LACKS.search(message)
    return (found[0] if found else message)[:DETAIL_LENGTH]


def _quota(code: str, message: str, pool: Pool, now: datetime, rule: Rule) -> FailureMemory:
    """Compute names the quota and its numbers in the message, AKS quotes compute."""
    limit, used = _LIMIT.search(message), _USED.search(message)
    none_at_all = limit is not None and int(limit[1]) == 0
    until = now + timedelta(seconds=_QUOTA_NONE if none_at_all else rule.regular)
    name = _quota_name(message)
    subscription, location = _place(pool)
    if not name or not subscription:
        return _quota_of_size(code, name, pool, until)
    numbers = (int(limit[1]), int(used[1])) if limit is not None and used is not None else None
    return FailureMemory(
        "",
        "",
        Priority.SPOT if name == SPOT_CORES else Priority.REGULAR,
        code,
        until,
        subscription=subscription,
        location=location,
        quota=name,
        numbers=numbers,
    )


def _quota_of_size(code: str, name: str, pool: Pool, until: datetime) -> FailureMemory:
    """Where the message does not name a quota, or the pools file not the place."""
    if name == SPOT_CORES:
        return FailureMemory("", "", Priority.SPOT, code, until)
    if name == TOTAL_CORES:
        return FailureMemory("", "", Priority.REGULAR, code, until)
    return FailureMemory(pool.sku, "", pool.priority, code, until, "" if pool.sku else pool.name)


def _quota_name(message: str) -> str:
    """As the list of usages has it: all Spot cores, all cores of the region, or those of a family."""
    words = message.lower().replace(" ", "")
    if "lowprioritycores" in words:
        return SPOT_CORES
    if "totalregionalcores" in words or "totalregionalvcpus" in words:
        return TOTAL_CORES
    found = _QUOTA_NAME.search(message)
    if found is not None and found[1].lower() == TOTAL_CORES:
        return TOTAL_CORES
    return re.sub(r"\s*(cores|vcpus)$", "", found[1], flags=re.IGNORECASE).strip() if found else ""
