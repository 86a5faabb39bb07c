"""What Azure's error codes rule out, and for how long."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from shared.model import AzureScope, FailureMemory, Mode, Pool, PoolKind, Priority
from shared.state.failures import RULES, failure_memory
from shared.state.ledger import failure_entry, planning_ledger

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SPOT = Pool(
    name="spot",
    kind=PoolKind.VMSS,
    resource="spot",
    sku="Standard_D4s_v5",
    shape={"cpu": 4000},
    reserved={},
    priority=Priority.SPOT,
    price=0.1,
    minimum=0,
    maximum=10,
    zones=(),
    labels={},
    taints=(),
    fallback=(),
    template="",
    mode=Mode.ACT,
    azure=None,
)
REGULAR = replace(SPOT, name="regular", priority=Priority.REGULAR)


@pytest.mark.parametrize("code", ["AllocationFailed", "ZonalAllocationFailed"])
def test_spot_that_cannot_be_had_says_nothing_about_on_demand_of_the_same_size(code: str) -> None:
    memory = failure_memory(code, "", SPOT, NOW)
    assert memory is not None
    assert memory.priority is Priority.SPOT
    assert memory.until == NOW + timedelta(hours=1)


def test_on_demand_that_cannot_be_had_rules_out_spot_as_well() -> None:
    memory = failure_memory("AllocationFailed", "", REGULAR, NOW)
    assert memory is not None
    assert memory.priority is None


def test_a_size_that_is_not_offered_comes_back_sooner_as_spot() -> None:
    spot, regular = (
        failure_memory("SkuNotAvailable", "", SPOT, NOW),
        failure_memory("SkuNotAvailable", "", REGULAR, NOW),
    )
    assert spot is not None
    assert regular is not None
    assert (spot.until - NOW, regular.until - NOW) == (timedelta(hours=1), timedelta(hours=23))


@pytest.mark.parametrize(
    ("zones", "asked", "remembered"), [((), "", ""), (("1",), "", "1"), (("1", "2"), "", ""), (("1", "2"), "2", "2")]
)
def test_a_zone_is_remembered_where_it_is_known(zones: tuple[str, ...], asked: str, remembered: str) -> None:
    memory = failure_memory("AllocationFailed", "", replace(SPOT, zones=zones), NOW, asked)
    assert memory is not None
    assert memory.zone == remembered


def test_a_constraint_over_all_zones_is_remembered_for_all_of_them() -> None:
    memory = failure_memory("OverconstrainedAllocationRequest", "", replace(SPOT, zones=("1",)), NOW)
    assert memory is not None
    assert memory.zone == ""


LIMIT_0 = "exceeding approved {} quota. Current Limit: 0, Current Usage: 0, Additional Required: 4"
LIMIT_8 = (
    "exceeding approved {} quota. Additional details - Location: x, Current Limit: 8, Current Usage: 6, Additional"
)
HOUR, BRIEF, HALF = 60, 3, 30
SIZE, POOL, QUOTA, REGION, SUBSCRIPTION, NOTHING = "size", "pool", "quota", "region", "subscription", ""

OVERLAPS = (
    "OperationPreempted",
    "TooManyRequests",
    "Conflict",
    "ConcurrentOperation",
    "OperationInProgress",
    "AnotherOperationInProgress",
    "PreconditionFailed",
    "SagaLost",
)
TABLE = [
    # code, message, what it rules out, minutes for Spot, minutes on demand
    ("SkuNotAvailable", "", SIZE, HOUR, 23 * HOUR),
    ("AllocationFailed", "", SIZE, HOUR, HOUR),
    ("ZonalAllocationFailed", "", SIZE, HOUR, HOUR),
    ("OverconstrainedZonalAllocationRequest", "", SIZE, HOUR, HOUR),
    ("OverconstrainedAllocationRequest", "", SIZE, HOUR, HOUR),
    ("VMSizeNotSupported", "", SIZE, 23 * HOUR, 23 * HOUR),
    ("OperationNotAllowed", LIMIT_0.format("LowPriorityCores"), QUOTA, HOUR, HOUR),
    ("OperationNotAllowed", LIMIT_8.format("standardDSv5Family Cores"), QUOTA, 10, 10),
    ("OperationNotAllowed", LIMIT_8.format("Total Regional Cores"), QUOTA, 10, 10),
    ("QuotaExceeded", LIMIT_8.format("LowPriorityCores"), QUOTA, 10, 10),
    ("SubscriptionQuotaReached", LIMIT_8.format("LowPriorityCores"), QUOTA, HOUR, HOUR),
    ("QuotaExceeded", "no more of these", SIZE, 10, 10),
    ("ErrCode_InsufficientVCPUQuota", "Insufficient vcpu quota requested 2, remaining 0 for family X", SIZE, 10, 10),
    ("InsufficientVCPUQuota", "Insufficient regional vcpu quota left, requested quota 4", SIZE, 10, 10),
    ("OperationNotAllowed", "the set is marked for deletion", POOL, 5, 5),
    ("LocationNotAvailableForResourceType", "", REGION, HOUR, HOUR),
    ("RegionDoesNotAllowProvisioning", "", REGION, HOUR, HOUR),
    ("SubscriptionNotFound", "", SUBSCRIPTION, HOUR, HOUR),
    ("MissingSubscriptionRegistration", "", SUBSCRIPTION, HOUR, HOUR),
    ("ReadOnlyDisabledSubscription", "", SUBSCRIPTION, HOUR, HOUR),
    *(
        (code, "", POOL, minutes, minutes)
        for minutes, codes in {
            11: "PoolUnfit",
            BRIEF: (
                "AgentPoolBusy "
                "NetworkingInternalOperationError InternalOperationError InternalExecutionError InternalServerError "
                "ServiceUnavailable VMStartTimedOut OperationTimedOut"
            ),
            HALF: (
                "InvalidParameter InvalidResourceReference BadRequest RequestDisallowedByPolicy ScopeLocked "
                "MarketplacePurchaseEligibilityFailed AuthorizationFailed LinkedAuthorizationFailed "
                "OSProvisioningTimedOut OSProvisioningClientError OSProvisioningInternalError "
                "VMExtensionProvisioningError VMExtensionProvisioningTimeout NodeNeverJoined DevicesNeverAppeared"
            ),
            10: "NotFound ResourceNotFound ParentResourceNotFound ResourceGroupNotFound PlacementGroupFull",
            5: "PoolIsFull InstancesMissing BadWeather",
        }.items()
        for code in codes.split()
    ),
    *((code, "", NOTHING, 0, 0) for code in OVERLAPS),
]
HERE = AzureScope("s", "g", "westeurope")


def _ruled_out(memory: FailureMemory | None) -> str:
    if memory is None:
        return NOTHING
    if memory.quota:
        return QUOTA
    if memory.pool:
        return POOL
    if memory.sku:
        return SIZE
    return REGION if memory.location else SUBSCRIPTION


@pytest.mark.parametrize(("code", "message", "what", "spot", "regular"), TABLE)
def test_each_code_rules_out_what_the_table_says(code: str, message: str, what: str, spot: int, regular: int) -> None:
    for pool, minutes in ((replace(SPOT, azure=HERE), spot), (replace(REGULAR, azure=HERE), regular)):
        memory = failure_memory(code, message, pool, NOW)
        assert _ruled_out(memory) == what
        assert memory is None or memory.until == NOW + timedelta(minutes=minutes)


def test_the_table_leaves_out_no_code() -> None:
    assert {row[0] for row in TABLE} - {"OperationNotAllowed", "BadWeather"} == set(RULES)


def test_the_page_tells_of_each_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "azure-errors.md").read_text()
    assert [code for code in RULES if f"`{code}`" not in page and code != "SagaLost"] == []


@pytest.mark.parametrize(
    ("name", "quota"),
    [
        ("LowPriorityCores", "lowPriorityCores"),
        ("Total Regional Cores", "cores"),
        ("standardDSv5Family Cores", "standardDSv5Family"),
    ],
)
def test_a_quota_is_read_from_its_message_with_its_numbers(name: str, quota: str) -> None:
    message = f"setting capacity: OperationNotAllowed: {LIMIT_8.format(name)}"
    memory = failure_memory("OperationNotAllowed", message, replace(REGULAR, azure=HERE), NOW)
    assert memory is not None
    assert (memory.quota, memory.numbers, memory.since) == (quota, (8, 6), NOW)
    assert (memory.subscription, memory.location) == ("s", "westeurope")


def test_a_missing_right_is_remembered_by_its_name() -> None:
    message = "creating VM: the identity lacks Microsoft.Network/virtualNetworks/subnets/join/action on /x/subnets/a"
    memory = failure_memory("LinkedAuthorizationFailed", message, SPOT, NOW)
    assert memory is not None
    assert memory.detail == message.removeprefix("creating VM: ")


@pytest.mark.parametrize("memory", [failure_memory(row[0], row[1], replace(SPOT, azure=HERE), NOW) for row in TABLE])
def test_a_memory_travels_whole(memory: FailureMemory | None) -> None:
    if memory is not None:
        assert planning_ledger({"failures": [failure_entry(memory)]}).failures == (memory,)


@pytest.mark.parametrize("code", ["OperationPreempted", "TooManyRequests", "Conflict"])
def test_writes_that_met_say_nothing_about_capacity(code: str) -> None:
    assert failure_memory(code, "", SPOT, NOW) is None


def test_an_error_that_nobody_has_named_bars_its_own_pool_for_a_few_minutes() -> None:
    memory = failure_memory("BadWeather", "", SPOT, NOW)
    assert memory is not None
    assert memory.pool == "spot"
    assert memory.until == NOW + timedelta(minutes=5)


def test_a_pool_without_a_size_is_remembered_by_its_name() -> None:
    memory = failure_memory("AllocationFailed", "", replace(SPOT, sku=""), NOW)
    assert memory is not None
    assert memory.pool == "spot"
