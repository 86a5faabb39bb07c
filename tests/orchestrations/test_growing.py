"""What is asked of Azure, and what is not: nothing beyond a limit, nothing of an administrator's, nothing twice."""

from __future__ import annotations

from typing import Any

from local.arm.faults import Fault
from local.arm.settings import Quirks
from local.arm.state import ScaleSet
from local.machines import BootTimes
from local.system.stand_ins import Behaviour
from tests.orchestrations.stage import POOLS, Stage

SWEEP = 300.0


def stage_of(pools: str = POOLS, *, timers: bool = False, **quirks: Any) -> Stage:
    behaviour = Behaviour(quirks=Quirks(**quirks), boot=BootTimes(boot=(30.0, 30.0)))
    return Stage(pools, behaviour=behaviour, timers=timers)


def scale_set(stage: Stage, name: str = "spot") -> ScaleSet:
    groups = stage.stand.arm.cloud.estate.groups.values()
    return next(group.scale_sets[name] for group in groups if name in group.scale_sets)


def ever_made(stage: Stage, pool: str) -> int:
    return sum(vm.scale_set is not None and vm.scale_set.name == pool for vm in stage.stand.arm.truth.vms)


def test_a_growth_that_an_administrator_began_is_not_given_back() -> None:
    stage = stage_of(timers=True)
    mine = scale_set(stage)
    mine.capacity, mine.provisioning_state = 5, "Updating"  # accepted; Azure lists none of them yet
    stage.run(2.5 * SWEEP)
    assert mine.capacity == 5
    mine.provisioning_state = "Failed"
    stage.run(2.5 * SWEEP)
    assert mine.capacity == 0


def test_capacity_asked_for_in_vain_is_not_bought_with_the_next_growth() -> None:
    stage = one_under_way_and_one_in_vain()
    assert stage.machines() == {"spot": 1, "regular": 1}
    assert scale_set(stage).capacity == 2
    stage.submit(1, prefix="c")
    stage.run(1)
    stage.say(seconds=900)
    assert len(stage.bound()) == 3
    assert ever_made(stage, "spot") == 2
    assert stage.ledger()["phantoms"] == {}


def test_what_a_growth_asked_for_in_vain_is_given_back_when_the_others_are_through() -> None:
    stage = one_under_way_and_one_in_vain()
    assert scale_set(stage).capacity == 2
    stage.run(700)
    assert scale_set(stage).capacity == 1
    assert stage.ledger()["phantoms"] == {}


def one_under_way_and_one_in_vain() -> Stage:
    """Both of one pool, whose capacity now counts a VM that nobody is making."""
    stage = stage_of(overlapping_growth_preempts=False)
    faults = stage.stand.arm.faults
    faults.add(Fault("scale_set.update", "spot", stage="slow", seconds=500))
    stage.submit(1, prefix="a")
    stage.run(1)
    stage.say(seconds=5)
    faults.add(Fault("scale_set.update", "spot", code="NetworkingInternalOperationError", stage="async"))
    stage.submit(1, prefix="b")
    stage.run(1)
    stage.say(seconds=240)
    return stage


def test_what_a_quota_does_not_leave_is_not_asked_for_and_bought_elsewhere_before_the_rest_has_come() -> None:
    stage = stage_of()
    quota = stage.stand.arm.cloud.quota
    quota.set_limit("lowPriorityCores", 20)
    stage.submit(1, cpu="100m", prefix="first")
    stage.run(2)
    stage.say(seconds=90)
    quota.set_limit("lowPriorityCores", 12)  # somebody else has taken the rest since it was read
    stage.stand.arm.faults.add(Fault("scale_set.update", "spot", stage="slow", seconds=600))
    stage.submit(5)
    stage.run(2)
    stage.say(seconds=60)
    assert stage.machines() == {"spot": 3, "regular": 2}
    asked = [path for method, path in stage.arm.writes if method == "PATCH"]
    accepted = [write for write in stage.stand.arm.truth.writes if write.operation == "scale_set.update"]
    assert len(asked) == len(accepted), "nothing was asked for that the quota forbids"


def test_a_set_of_one_placement_group_takes_a_hundred_whatever_the_pools_file_says() -> None:
    stage = stage_of(POOLS.replace("max: 10", "max: 200"))
    scale_set(stage).single_group = True
    stage.submit(120)
    stage.run(2)
    stage.say(seconds=300)
    assert stage.machines() == {"spot": 100, "regular": 20}
    assert not [entry for entry in stage.ledger()["failures"] if entry["code"] == "OperationNotAllowed"]


def test_a_growth_whose_saga_never_started_is_noticed_and_planned_anew() -> None:
    stage = stage_of(timers=True)
    stage.submit(1)
    stage.run(2)
    now = stage.timeline.now().isoformat()
    tell = {"now": now, "holder": "somebody", "lease": 60}
    growth = {"op": "0123456789", "pool": "spot", "add": 1}
    stage.host.signal("cluster", "training", "record", {**tell, "event": "x", "force": True})
    begun = {**tell, "growths": [growth], "join_timeout": 900, "limit": 1, "spare": {}}
    stage.host.signal("cluster", "training", "begin", begun)
    stage.host.signal("cluster", "training", "release", {**tell, "generation": 1})
    stage.run(2)
    stage.say(seconds=200)
    assert stage.machines()["spot"] == 0, "a node for the pod is taken to be on its way"
    stage.run(3 * SWEEP)
    assert len(stage.bound()) == 1
    assert ever_made(stage, "spot") == 1


def test_a_pool_that_stays_locked_gives_its_wish_back() -> None:
    stage = stage_of()
    stage.submit(1)
    stage.run(2)
    lock = {"now": stage.timeline.now().isoformat(), "pool": "spot", "holder": "somebody", "seconds": 5000}
    stage.host.signal("cluster", "training", "lock_pool", lock)
    stage.say(seconds=500)
    assert [growth["stage"] for growth in stage.ledger()["growths"].values()] == ["intended"]
    stage.host.signal("cluster", "training", "unlock_pool", lock)
    stage.run(300)
    assert len(stage.bound()) == 1


def test_a_pool_with_a_ramp_is_asked_for_a_few_at_a_time_and_keeps_what_it_gets() -> None:
    stage = stage_of(
        POOLS.replace("max: 10\n    fallback", "max: 10\n    ramp: 2\n    fallback"), overlapping_growth_preempts=False
    )
    stage.submit(5)
    stage.run(2)
    stage.say(seconds=300)
    asked = [write.target for write in stage.stand.arm.truth.writes if write.resource == "spot"]
    assert asked == [2, 4, 5]
    assert len(stage.bound()) == 5
