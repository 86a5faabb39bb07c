"""Nodes of a pool that go at the same time are deleted together, and each saga still answers for its own."""

from __future__ import annotations

import pytest

from local.arm.faults import Fault
from local.arm.faults import Stage as Stage_
from local.durable.model import Faults
from tests.orchestrations.stage import POOLS, Stage
from tests.orchestrations.test_single_machines import VMS, stage_of_vms

ALL_AT_ONCE = POOLS.replace("idle_after: 10m", "idle_after: 10m, max_parallel_fraction: 1.0")
ROOMY = ALL_AT_ONCE.replace("max: 10", "max: 100")
VMS_AT_ONCE = VMS.replace("idle_after: 10m", "idle_after: 10m, max_parallel_fraction: 1.0")
DELETIONS = "scale_set.delete_instances"


def with_empty_nodes(number: int, stage: Stage) -> Stage:
    stage.submit(number)
    stage.run(2)
    stage.say(seconds=400)
    assert len(stage.bound()) == number
    stage.finish()
    return stage


def asked(stage: Stage, route: str = DELETIONS) -> int:
    return stage.stand.arm.truth.requests[route]


def test_forty_nodes_go_by_a_handful_of_calls() -> None:
    stage = with_empty_nodes(40, Stage(ROOMY))
    stage.idle(seconds=600)
    assert sum(stage.machines().values()) == 0
    assert stage.nodes() == []
    assert asked(stage) <= 6
    assert len(stage.orchestrations("retire_node")) == 40
    leaks = stage.stand.arm.truth.leaks()
    assert (leaks.nics, leaks.disks) == ((), ())


def test_the_last_looks_cost_few_requests_too() -> None:
    stage = with_empty_nodes(40, Stage(ROOMY))
    stage.idle()
    before = stage.arm.requests
    stage.run(600)
    assert sum(stage.machines().values()) == 0
    assert stage.arm.requests - before < 5 * 40


def test_one_that_hangs_holds_up_nobody() -> None:
    stage = with_empty_nodes(5, stage_of_vms(VMS_AT_ONCE))
    slow = next(iter(sorted(stage.stand.arm.truth.live_vms(), key=lambda vm: vm.name))).name
    stage.stand.arm.faults.add(Fault("vm.delete", slow, stage="slow", seconds=800.0))
    stage.idle(seconds=180)
    assert [vm.name for vm in stage.stand.arm.truth.live_vms()] == [slow]
    assert len(stage.nodes()) == 1
    ended = [saga for saga in stage.orchestrations("retire_node") if saga.status == "Completed"]
    assert len(ended) == 4
    stage.run(900)
    assert stage.machines()["spot"] == 0
    assert stage.ledger()["retirements"] == {}


def test_one_that_is_busy_again_stays_and_the_others_go() -> None:
    stage = with_empty_nodes(5, Stage(ALL_AT_ONCE))
    chosen = stage.nodes()[2]["metadata"]["name"]
    stage.idle(seconds=1)
    stage.submit(1, prefix="late", nodeName=chosen)
    stage.run(300)
    assert [node["metadata"]["name"] for node in stage.nodes()] == [chosen]
    assert not stage.nodes()[0]["spec"].get("unschedulable")
    assert stage.ledger()["retirements"] == {}


def test_a_pool_that_is_busy_is_asked_again_for_all_that_wait_by_then() -> None:
    stage = with_empty_nodes(8, Stage(ALL_AT_ONCE))
    stage.stand.arm.faults.add(Fault(DELETIONS, code="Conflict", times=12))
    stage.idle(seconds=900)
    assert stage.machines()["spot"] == 0
    assert asked(stage) <= 16


def test_however_many_wait_for_a_busy_pool_one_removal_asks_for_all_of_them() -> None:
    stage = with_empty_nodes(8, Stage(ALL_AT_ONCE))
    stage.stand.arm.faults.add(Fault(DELETIONS, code="Conflict", times=12))
    before = asked(stage)
    stage.idle(seconds=400)
    assert stage.machines()["spot"] == 8
    assert len([each for each in stage.orchestrations("remove_nodes") if each.status == "Running"]) == 1
    assert asked(stage) - before <= 12  # in 400 s, with a minute between rounds in the end


def test_azure_that_fails_a_deletion_is_asked_again() -> None:
    stage = with_empty_nodes(4, Stage(ALL_AT_ONCE))
    stage.stand.arm.faults.add(Fault(DELETIONS, code="InternalServerError", stage="async"))
    stage.idle(seconds=600)
    assert stage.machines()["spot"] == 0
    assert stage.nodes() == []


@pytest.mark.parametrize("what", ["sync", "lost"])
def test_a_lost_answer_deletes_nothing_twice(what: Stage_) -> None:
    stage = with_empty_nodes(4, Stage(ALL_AT_ONCE))
    stage.stand.arm.faults.add(Fault(DELETIONS, code="ServiceUnavailable", stage=what))
    stage.idle(seconds=600)
    assert stage.machines()["spot"] == 0
    pool = stage.config.pool("spot")
    assert pool is not None
    assert pool.azure is not None
    assert stage.services.compute(pool.azure).scale_set(pool).capacity == 0


def test_together_they_leave_the_pools_minimum_standing() -> None:
    stage = with_empty_nodes(6, Stage(ALL_AT_ONCE.replace("priority: Spot", "priority: Spot\n    min: 2")))
    stage.idle(seconds=600)
    stage.idle(seconds=600)
    assert stage.machines()["spot"] == 2


def test_an_activity_that_runs_twice_removes_each_node_once() -> None:
    stage = with_empty_nodes(6, Stage(ALL_AT_ONCE, faults=Faults(rerun_activity_rate=1.0)))
    stage.idle(seconds=600)
    assert stage.machines()["spot"] == 0
    assert stage.nodes() == []


def test_a_nic_that_may_not_be_deleted_keeps_no_other_node_from_going() -> None:
    stage = with_empty_nodes(5, stage_of_vms(VMS_AT_ONCE))
    stage.stand.arm.faults.add(Fault("nic.cleanup", stage="async"))
    forbidden = stage.stand.arm.faults.add(Fault("nic.delete", code="AuthorizationFailed", status=403, times=None))
    stage.idle(seconds=150)
    assert stage.machines()["spot"] == 0
    assert len(stage.nodes()) == 1
    assert len(stage.stand.arm.truth.leaks().nics) == 1
    stage.stand.arm.faults.remove(forbidden)
    stage.run(120)
    assert stage.nodes() == []
    assert stage.stand.arm.truth.leaks().nics == ()
