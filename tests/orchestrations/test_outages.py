"""Azure or the API server does not answer for a while, in the middle of something."""

from __future__ import annotations

from typing import Any

from local.arm.faults import Fault
from local.arm.settings import ArmLatencies, Quirks
from local.machines import BootTimes
from local.system.stand_ins import Behaviour
from tests.orchestrations.stage import POOLS, Stage

Json = dict[str, Any]


def grown(pods: int = 1, pools: str = POOLS) -> Stage:
    stage = Stage(pools)
    stage.submit(pods)
    stage.run(2)
    stage.say(seconds=240)
    assert len(stage.bound()) == pods
    return stage


def outage(stage: Stage, *operations: str, code: str = "ServiceUnavailable") -> list[Fault]:
    """None of these ARM operations answers any more."""
    return [stage.stand.arm.faults.add(Fault(name, code=code, times=None)) for name in operations]


def over(stage: Stage, faults: list[Fault]) -> None:
    for fault in faults:
        stage.stand.arm.faults.remove(fault)


def is_open(node: Json) -> bool:
    return not node["spec"].get("unschedulable")


def test_a_node_whose_vm_is_being_deleted_is_not_put_back_to_work_while_azure_cannot_be_read() -> None:
    stage = grown()
    stage.finish()
    stage.event()
    stage.run(600)
    faults: list[Fault] = []
    opened = []
    stage.idle(minutes=2)
    for _ in range(120):
        stage.run(2)
        if not faults and any(path.endswith("/delete") for _, path in stage.arm.writes):
            faults = outage(stage, "scale_set.vms.get", "nic.list")
        opened += [node for node in stage.nodes() if faults and is_open(node)]
    assert faults
    assert opened == []
    over(stage, faults)
    stage.run(300)
    assert stage.nodes() == []


def test_machines_that_azure_would_not_list_are_not_bought_again() -> None:
    slow = Behaviour(quirks=Quirks(), boot=BootTimes(boot=(200.0, 200.0)), arm=ArmLatencies(create=(20.0, 20.0)))
    stage = Stage(behaviour=slow)
    stage.submit(3)
    stage.run(2)
    stage.say(seconds=10)
    assert stage.machines()["spot"] == 3
    faults = outage(stage, "scale_set.vms.list")
    stage.run(120)
    over(stage, faults)
    stage.say(seconds=60)
    stage.say(seconds=400)
    assert stage.machines() == {"spot": 3, "regular": 0}
    assert len(stage.bound()) == 3
