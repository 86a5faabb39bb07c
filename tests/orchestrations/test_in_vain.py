"""Nodes that are not what was promised: the class they were bought for buys no more of them for a while."""

from __future__ import annotations

from local.arm.settings import Quirks
from local.machines import BootTimes
from local.node_trouble import NodeTrouble
from local.system.stand_ins import Behaviour
from local.system.trouble import Trouble
from tests.orchestrations.stage import Stage


def stage_of(trouble: NodeTrouble) -> Stage:
    behaviour = Behaviour(quirks=Quirks(), boot=BootTimes(boot=(30.0, 30.0)), trouble=Trouble(nodes=trouble))
    return Stage(behaviour=behaviour, timers=True)


def bought(stage: Stage) -> int:
    return len(stage.stand.arm.truth.vms)


def test_a_surprise_taint_costs_one_node_in_each_pause() -> None:
    stage = stage_of(NodeTrouble(tainted=1.0))
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=0)
    for _ in range(8):
        stage.say(seconds=30)
    assert bought(stage) == 1
    (unserved,) = stage.document("latest.json")["unserved"]
    reason = unserved["reasons"]["spot"]
    assert "does not tolerate example.com/not-yet:NoSchedule, which the pools file does not tell of" in reason
    stage.run(1500)
    assert bought(stage) <= 3, "5 and 10 minutes lie between one and the next"


def test_nodes_that_offer_too_little_are_not_bought_again_and_again() -> None:
    stage = stage_of(NodeTrouble(shrunken=1.0, shrink_by=(0.4, 0.4)))
    stage.submit(1, cpu="3500m")
    stage.run(2)
    for _ in range(8):
        stage.say(seconds=30)
    assert bought(stage) == 1
    (unserved,) = stage.document("latest.json")["unserved"]
    assert "needs 3500m cpu, it has" in unserved["reasons"]["spot"]


def test_pods_that_come_later_and_nodes_in_order_are_not_held_up() -> None:
    stage = stage_of(NodeTrouble())
    for wave in range(4):
        stage.submit(1, prefix=f"wave{wave}")
        stage.run(2)
        stage.say(seconds=40 * wave)
    stage.run(240)
    assert len(stage.bound()) == 4
    assert bought(stage) == 4
    assert stage.ledger()["vain"] == {}
