"""Events come twice, late, out of order, all at once: what they lead to comes once."""

from __future__ import annotations

import pytest

from shared.names import NODE_JOINED
from tests.orchestrations.stage import POOLS, Stage


def test_a_doubled_event_buys_once() -> None:
    stage = Stage()
    stage.submit(2)
    stage.run(2)
    event = stage.say(seconds=1)
    stage.publisher.publish([event, event])
    stage.run(200)
    stage.publisher.publish([event])
    stage.run(60)
    assert stage.machines() == {"spot": 2, "regular": 0}
    assert len(stage.orchestrations("grow_pool")) == 1


def test_events_that_pour_in_while_nodes_boot_buy_nothing_twice() -> None:
    stage = Stage()
    stage.submit(4)
    stage.run(2)
    for _ in range(40):
        stage.say(seconds=3)
        stage.say(NODE_JOINED, seconds=1)
    stage.run(120)
    assert stage.machines() == {"spot": 4, "regular": 0}
    assert len(stage.bound()) == 4


def test_an_older_event_that_comes_late_changes_nothing() -> None:
    stage = Stage()
    stage.submit(1)
    stage.run(2)
    late = stage.event()
    stage.say(seconds=200)
    stage.publisher.publish([late])
    stage.run(200)
    assert stage.machines()["spot"] == 1


def test_events_that_come_at_the_same_moment_have_one_leader() -> None:
    stage = Stage()
    stage.submit(3)
    stage.run(2)
    stage.publisher.publish([stage.event() for _ in range(8)])
    stage.run(200)
    roles = [view.output["role"] for view in stage.orchestrations("admit")]
    assert roles.count("lead") >= 1
    assert stage.machines()["spot"] == 3


def test_pods_that_went_away_before_the_plan_are_not_bought_for() -> None:
    stage = Stage()
    stage.submit(2)
    stage.run(2)
    event = stage.event()
    stage.finish()
    stage.publisher.publish([event])
    stage.run(60)
    assert stage.machines()["spot"] == 0
    assert stage.ledger()["growths"] == {}


def test_pods_that_went_away_in_part_are_planned_for_in_part() -> None:
    stage = Stage()
    stage.submit(2)
    stage.submit(2, prefix="gone")
    stage.run(2)
    event = stage.event()
    stage.finish("gone")
    stage.publisher.publish([event])
    stage.run(200)
    assert stage.machines()["spot"] == 2


def test_a_growth_leaves_the_ledger_when_its_nodes_are_seen() -> None:
    stage = Stage()
    stage.submit(2)
    stage.run(2)
    stage.say(seconds=200)
    assert stage.ledger()["growths"]
    stage.say(NODE_JOINED, seconds=5)
    assert stage.ledger()["growths"] == {}


def test_a_pool_is_never_bought_beyond_its_maximum() -> None:
    stage = Stage(POOLS.replace("max: 10", "max: 2"))
    stage.submit(9)
    stage.run(2)
    for _ in range(10):
        stage.say(seconds=30)
    assert stage.machines() == {"spot": 2, "regular": 2}
    assert stage.document("latest.json")["unserved_pods"] == 5


@pytest.mark.parametrize("flexible", [frozenset(), frozenset({"spot"})])
def test_uniform_and_flexible_sets_grow_and_shrink_alike(flexible: frozenset[str]) -> None:
    from local.arm.settings import Quirks  # noqa: PLC0415 - beside its one use
    from local.machines import BootTimes  # noqa: PLC0415 - beside its one use
    from local.system.stand_ins import Behaviour  # noqa: PLC0415 - beside its one use

    stage = Stage(behaviour=Behaviour(quirks=Quirks(), boot=BootTimes(boot=(30.0, 30.0)), flexible=flexible))
    stage.submit(2)
    stage.run(2)
    stage.say(seconds=200)
    assert len(stage.bound()) == 2
    stage.finish()
    stage.idle(seconds=200)
    stage.idle(seconds=200)
    assert stage.machines()["spot"] == 0
    assert stage.nodes() == []
