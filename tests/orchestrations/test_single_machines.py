"""Pools of stand-alone VMs."""

from __future__ import annotations

import orjson
import pytest

from local.arm.faults import Fault
from local.arm.faults import Stage as Stage_
from local.arm.pools import vm_template
from shared.names import CONFIG_CONTAINER
from tests.orchestrations.stage import POOLS, Stage

VMS = POOLS.replace("resource: spot\n", "resource: spot\n    kind: vm\n    template: vm.json\n")
ON_DEMAND = VMS.replace("priority: Spot", "priority: Regular")


def stage_of_vms(pools: str = VMS) -> Stage:
    stage = Stage(pools)
    pool = stage.config.pool("spot")
    assert pool is not None
    stage.store.put(CONFIG_CONTAINER, "vm.json", orjson.dumps(vm_template(pool)))
    return stage


def test_machines_are_created_by_name_and_leave_nothing_behind() -> None:
    stage = stage_of_vms()
    stage.submit(10)
    stage.run(2)
    stage.say(seconds=300)
    assert len(stage.bound()) == 10
    assert len(stage.orchestrations("grow_pool")) == 2
    stage.finish()
    stage.idle(seconds=1200)
    assert stage.machines()["spot"] == 0
    leaks = stage.stand.arm.truth.leaks()
    assert (leaks.nics, leaks.disks) == ((), ())


def test_one_that_cannot_be_created_is_cleared_away_and_bought_elsewhere() -> None:
    stage = stage_of_vms()
    stage.stand.arm.faults.add(Fault("vm.create", code="AllocationFailed", stage="async"))
    stage.submit(3)
    stage.run(2)
    stage.say(seconds=400)
    assert len(stage.bound()) == 3
    assert stage.machines() == {"spot": 2, "regular": 1}


def test_a_template_that_is_missing_is_told_by_name_and_another_pool_serves() -> None:
    stage = Stage(VMS)
    stage.store.delete(CONFIG_CONTAINER, "vm.json")
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=300)
    assert stage.machines() == {"spot": 0, "regular": 1}


@pytest.mark.parametrize("how", ["sync", "async"])
def test_a_zone_without_room_says_nothing_about_the_others(how: Stage_) -> None:
    stage = stage_of_vms(VMS.replace("template: vm.json\n", 'template: vm.json\n    zones: ["1", "2"]\n'))
    stage.stand.arm.faults.add(Fault("vm.create", code="ZonalAllocationFailed", stage=how))
    stage.submit(4)
    stage.run(2)
    stage.say(seconds=400)
    assert len(stage.bound()) == 4
    assert [entry["zone"] for entry in stage.ledger()["failures"]] == ["1"]
    assert stage.machines() == {"spot": 4, "regular": 0}


@pytest.mark.parametrize(
    ("pools", "zones", "most", "told"),
    [
        ("on demand", '["1"]', 10, "and a VM in a zone can be in none: remove one of the two"),
        ("on demand", "[]", 300, "and max is 300: an availability set takes 200 VMs, so lower max"),
        ("spot", "[]", 10, "and Azure takes no Spot VM into one: remove one of the two"),
    ],
)
def test_an_availability_set_that_cannot_be_is_told_and_another_pool_serves(
    pools: str, zones: str, most: int, told: str
) -> None:
    text = VMS if pools == "spot" else ON_DEMAND
    stage = stage_of_vms(text.replace("max: 10\n    fallback", f"max: {most}\n    zones: {zones}\n    fallback"))
    in_set(stage)
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=300)
    assert stage.machines() == {"spot": 0, "regular": 1}
    (problem,) = stage.status()["clusters"]["training"]["config_problems"]
    assert told in problem


def test_machines_of_an_availability_set_are_created_like_others() -> None:
    stage = stage_of_vms(ON_DEMAND)
    in_set(stage)
    stage.submit(2)
    stage.run(2)
    stage.say(seconds=300)
    assert stage.machines()["spot"] == 2
    assert stage.status()["clusters"]["training"]["config_problems"] == []


def in_set(stage: Stage) -> None:
    pool = stage.config.pool("spot")
    assert pool is not None
    body = vm_template(pool)
    body["properties"]["availabilitySet"] = {"id": "/subscriptions/s/availabilitySets/a"}
    stage.store.put(CONFIG_CONTAINER, "vm.json", orjson.dumps(body))


ZONAL = VMS.replace("max: 10\n    fallback", 'max: 10\n    zones: ["1", "2", "3"]\n    fallback')


def in_zone(number: int) -> dict[str, str]:
    return {"topology.kubernetes.io/zone": f"westeurope-{number}"}


def zones_of(stage: Stage) -> list[str]:
    return sorted(vm.zone for vm in stage.stand.arm.truth.live_vms() if vm.zone)


def test_machines_are_made_in_the_zones_that_their_pods_need_and_others_in_turns() -> None:
    stage = stage_of_vms(ZONAL)
    stage.submit(2, prefix="a", nodeSelector=in_zone(3))
    stage.submit(3, prefix="b")
    stage.run(2)
    stage.say(seconds=300)
    assert len(stage.bound()) == 5
    assert zones_of(stage).count("3") >= 2
    assert len(set(zones_of(stage))) == 3


def test_a_pod_that_comes_while_its_zone_is_served_buys_no_other_machine() -> None:
    stage = stage_of_vms(ZONAL)
    stage.submit(1, cpu="1", prefix="a", nodeSelector=in_zone(2))
    stage.run(2)
    stage.say(seconds=10)
    stage.submit(1, cpu="1", prefix="b", nodeSelector=in_zone(2))
    stage.run(2)
    stage.say(seconds=300)
    assert (len(stage.bound()), zones_of(stage)) == (2, ["2"])


def test_a_zone_that_azure_refuses_is_served_from_another_one_at_once() -> None:
    stage = stage_of_vms(ZONAL)
    stage.stand.arm.set_stock(0, zone="1")
    stage.submit(3)
    stage.run(2)
    stage.say(seconds=400)
    assert len(stage.bound()) == 3
    assert stage.machines() == {"spot": 3, "regular": 0}
    assert "1" not in zones_of(stage)
