"""What Azure's error codes rule out, and for how long."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from shared.model import Mode, Pool, PoolKind, Priority
from shared.state.failures import failure_memory

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


@pytest.mark.parametrize(
    ("message", "sku", "priority", "minutes"),
    [
        ("exceeding approved LowPriorityCores quota. Current Limit: 10, Current Usage: 8", "", Priority.SPOT, 10),
        ("exceeding approved Total Regional Cores quota. Current Limit: 0, Current Usage: 0", "", None, 60),
        (
            "exceeding approved standardDSv5Family Cores quota. Current Limit: 8",
            "Standard_D4s_v5",
            Priority.REGULAR,
            10,
        ),
    ],
)
def test_a_quota_is_read_from_its_message(message: str, sku: str, priority: Priority | None, minutes: int) -> None:
    memory = failure_memory("OperationNotAllowed", message, REGULAR, NOW)
    assert memory is not None
    assert (memory.sku, memory.priority) == (sku, priority)
    assert memory.until == NOW + timedelta(minutes=minutes)


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
