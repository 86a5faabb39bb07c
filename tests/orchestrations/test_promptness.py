"""What cannot wait does not: nothing is asked twice on the way to Azure, and its no is heard at once."""

from __future__ import annotations

from datetime import datetime

import pytest

from local.arm.faults import Fault
from local.arm.settings import ArmLatencies, Quirks
from local.machines import BootTimes
from local.system.stand_ins import Behaviour
from tests.orchestrations.stage import POOLS, Stage
from tests.orchestrations.test_eviction import running, warn

FAILS_AFTER = 17.0


def refused(retry_after: int) -> Stage:
    """Spot VMs were asked for, and cannot be allocated; Azure needs `FAILS_AFTER` seconds to find out."""
    arm = ArmLatencies(failure=(FAILS_AFTER, FAILS_AFTER), retry_after=retry_after)
    stage = Stage(behaviour=Behaviour(arm=arm, quirks=Quirks(), boot=BootTimes(boot=(30.0, 30.0))))
    stage.stand.arm.faults.add(Fault("scale_set.update", "spot", code="AllocationFailed", stage="async"))
    stage.submit(2)
    stage.run(2)
    stage.say(seconds=1)
    return stage


def polls(stage: Stage) -> int:
    return stage.stand.arm.truth.requests["operation.get"]


def ended(stage: Stage) -> datetime:
    (failed,) = [each for each in stage.stand.arm.cloud.operations.by_id.values() if each.code]
    assert failed.ended_at is not None
    return failed.ended_at


def test_on_demand_nodes_are_asked_for_a_second_after_azure_could_not_allocate_spot_ones() -> None:
    stage = refused(retry_after=0)
    stage.run(60)
    (write,) = [write for write in stage.stand.arm.truth.writes if write.resource == "regular"]
    assert (write.at - ended(stage)).total_seconds() <= 1.0


def test_no_poll_comes_before_azure_wants_it_not_even_the_first() -> None:
    stage = refused(retry_after=10)
    stage.run(8)
    assert polls(stage) == 0
    stage.run(6)
    assert polls(stage) == 1
    stage.run(10)
    assert polls(stage) == 2


def test_an_operation_is_asked_after_less_often_than_azure_allows_in_a_minute() -> None:
    stage = Stage(behaviour=Behaviour(arm=ArmLatencies(retry_after=0), quirks=Quirks(), boot=BootTimes()))
    stage.stand.arm.faults.add(Fault("scale_set.update", "spot", stage="slow", seconds=600))
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=60)
    first = polls(stage)
    assert 20 < first <= 45
    stage.run(60)
    assert polls(stage) - first <= 10


def test_a_growth_costs_two_readings_and_a_write() -> None:
    stage = Stage()
    stage.submit(2)
    stage.run(2)
    stage.say(seconds=5)
    counted = stage.stand.arm.truth.requests
    names = ("scale_set.get", "scale_set.vms.list", "scale_set.update", "usages")
    assert [counted[name] for name in names] == [1, 1, 1, 1]


def test_the_door_itself_cordons_a_node_that_azure_takes() -> None:
    stage = running()
    node = next(pod["spec"]["nodeName"] for pod in stage.pods())
    stage.host.engine.stop()
    warn(stage, node)
    stage.run(1)
    (found,) = [each for each in stage.nodes() if each["metadata"]["name"] == node]
    assert found["spec"]["unschedulable"]


@pytest.mark.parametrize("mode", ["observe", "paused"])
def test_the_door_cordons_nothing_where_nothing_may_be_written(mode: str) -> None:
    stage = running()
    node = next(pod["spec"]["nodeName"] for pod in stage.pods())
    stage.stand.set_pools_file(POOLS.replace("mode: act", f"mode: {mode}"))
    warn(stage, node)
    stage.run(5)
    assert not any(each["spec"].get("unschedulable") for each in stage.nodes())
