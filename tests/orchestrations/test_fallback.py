"""What happens when Azure says no."""

from __future__ import annotations

import pytest

from local.arm.faults import Fault
from local.arm.settings import Quirks
from local.machines import BootTimes
from local.system.stand_ins import Behaviour
from tests.orchestrations.stage import Stage

NO_ROOM = "AllocationFailed"


def refusing(quirks: Quirks | None = None, **fault: object) -> Stage:
    stage = Stage(behaviour=Behaviour(quirks=quirks or Quirks(), boot=BootTimes(boot=(30.0, 30.0))))
    order = {"operation": "scale_set.update", "resource": "spot", "code": NO_ROOM, **fault}
    stage.stand.arm.faults.add(Fault(**order))  # type: ignore[arg-type]  # a test's own dict
    stage.submit(3)
    stage.run(2)
    stage.say()
    return stage


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_the_fallback_pool_is_bought_within_a_minute_when_the_first_one_cannot_be(kind: str) -> None:
    stage = refusing(stage=kind)
    stage.run(60)
    assert stage.machines()["regular"] == 3
    stage.run(120)
    assert len(stage.bound()) == 3
    assert stage.machines()["spot"] == 0


@pytest.mark.parametrize("leaves_failed", [False, True])
@pytest.mark.parametrize("keeps_capacity", [False, True])
def test_capacity_that_came_to_nothing_is_given_back(leaves_failed: bool, keeps_capacity: bool) -> None:
    quirks = Quirks(failed_growth_leaves_failed_instances=leaves_failed, failed_growth_keeps_capacity=keeps_capacity)
    stage = refusing(quirks, stage="async")
    stage.run(300)
    pool = stage.config.pool("spot")
    assert pool is not None
    assert pool.azure is not None
    compute = stage.services.compute(pool.azure)
    assert compute.scale_set(pool).capacity == 0
    assert compute.instances(pool) == []
    assert len(stage.bound()) == 3


def test_what_was_delivered_of_a_growth_that_failed_is_kept() -> None:
    stage = refusing(Quirks(partial_allocation=True), stage="async", partial=2)
    stage.run(400)
    assert stage.machines() == {"spot": 2, "regular": 1}
    assert len(stage.bound()) == 3


def test_the_failure_is_remembered_for_the_size_and_priority_that_failed() -> None:
    stage = refusing(stage="async")
    stage.run(60)
    memory = stage.ledger()["failures"]
    assert [(entry["sku"], entry["priority"], entry["code"]) for entry in memory] == [
        ("Standard_D4s_v5", "Spot", NO_ROOM)
    ]


def test_a_quota_that_is_used_up_bars_all_spot() -> None:
    message = (
        "Operation could not be completed as it results in exceeding approved LowPriorityCores quota. Current Limit: 0"
    )
    stage = refusing(stage="sync", code="OperationNotAllowed", message=message)
    stage.run(180)
    assert stage.machines() == {"spot": 0, "regular": 3}
    assert [(entry["sku"], entry["priority"]) for entry in stage.ledger()["failures"]] == [("", "Spot")]


def test_when_nothing_can_be_bought_each_pod_has_a_reason_for_each_pool() -> None:
    stage = Stage()
    stage.stand.arm.faults.add(Fault("scale_set.update", code=NO_ROOM, stage="async", times=None))
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=180)
    unserved = stage.document("latest.json")["unserved"]
    assert set(unserved[0]["reasons"]) == {"spot", "regular"}
    assert all(NO_ROOM in reason for reason in unserved[0]["reasons"].values())


def test_throttling_is_waited_out_and_nothing_is_bought_twice() -> None:
    stage = Stage()
    stage.stand.arm.faults.add(Fault("scale_set.update", "spot", code="TooManyRequests", retry_after=20, times=2))
    stage.submit(2)
    stage.run(2)
    stage.say(seconds=240)
    assert stage.machines() == {"spot": 2, "regular": 0}


def test_a_lost_answer_to_the_write_buys_nothing_twice() -> None:
    stage = Stage()
    stage.stand.arm.faults.add(Fault("scale_set.update", "spot", stage="lost"))
    stage.submit(2)
    stage.run(2)
    stage.say(seconds=240)
    assert stage.machines() == {"spot": 2, "regular": 0}
    assert len(stage.bound()) == 2


def test_an_operation_that_was_preempted_is_judged_by_its_instances() -> None:
    stage = Stage()
    stage.stand.arm.faults.add(Fault("scale_set.update", "spot", code="OperationPreempted", stage="async", partial=2))
    stage.submit(2)
    stage.run(2)
    stage.say(seconds=240)
    assert len(stage.bound()) == 2
    assert stage.machines()["regular"] == 0


def test_a_quota_that_others_used_up_since_it_was_read_is_bought_to_its_end_and_the_rest_elsewhere() -> None:
    stage = Stage()
    quota = stage.stand.arm.cloud.quota
    quota.set_limit("lowPriorityCores", 100)
    stage.submit(1, cpu="100m", prefix="first")
    stage.run(2)
    stage.say(seconds=60)
    assert stage.machines() == {"spot": 1, "regular": 0}
    quota.set_limit("lowPriorityCores", 12)
    stage.submit(4)
    stage.run(2)
    stage.say(seconds=240)
    assert stage.machines() == {"spot": 3, "regular": 1}
    assert len(stage.bound()) == 5


def test_a_right_that_lacks_is_named_and_not_tried_again() -> None:
    message = (
        "The client 'x' has permission to perform action 'Microsoft.Compute/virtualMachineScaleSets/write' on scope"
        " 'y'; however, it does not have permission to perform action(s)"
        " 'Microsoft.Network/virtualNetworks/subnets/join/action' on the linked scope(s)"
        " '/subscriptions/s/subnets/a' (respectively) or the linked scope(s) are invalid."
    )
    stage = Stage()
    refusal = Fault("scale_set.update", code="LinkedAuthorizationFailed", message=message, times=None, status=403)
    stage.stand.arm.faults.add(refusal)
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=900)
    writes = [path for method, path in stage.arm.writes if method == "PATCH"]
    assert len(writes) == 2, "one try for each pool"
    (unserved,) = stage.document("latest.json")["unserved"]
    lacking = "the identity lacks Microsoft.Network/virtualNetworks/subnets/join/action on /subscriptions/s/subnets/a"
    assert all(reason.endswith(lacking) for reason in unserved["reasons"].values())
