"""How far Sluice may go, re-read at every step."""

from __future__ import annotations

import pytest

from tests.orchestrations.stage import POOLS, Stage


def test_observe_writes_nothing_and_says_what_it_would_have_done() -> None:
    stage = Stage(POOLS.replace("mode: act", "mode: observe"), timers=True)
    stage.submit(3)
    stage.run(2)
    stage.say(seconds=900)
    assert stage.arm.writes == []
    assert stage.cluster.writes == []
    plan = stage.status()["clusters"]["training"]["plan"]
    assert plan["mode"] == "observe"
    assert plan["deltas"] == {"spot": 3}


def test_paused_plans_nothing() -> None:
    stage = Stage(POOLS.replace("mode: act", "mode: paused"), timers=True)
    stage.submit(3)
    stage.run(2)
    stage.say(seconds=900)
    assert stage.arm.writes == []
    assert stage.document("latest.json") == {}


def test_a_pool_in_observe_is_planned_for_and_never_grown() -> None:
    stage = Stage(POOLS.replace("priority: Spot", "priority: Spot\n    mode: observe"))
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=200)
    assert stage.machines() == {"spot": 0, "regular": 0}
    assert stage.document("latest.json")["deltas"] == {"spot": 1}


@pytest.mark.parametrize("mode", ["observe", "paused"])
def test_a_change_of_mode_holds_from_the_next_step_on(mode: str) -> None:
    stage = Stage()
    stage.submit(1)
    stage.run(2)
    stage.stand.set_pools_file(POOLS)
    stage.publisher.publish([stage.event()])
    stage.stand.set_pools_file(POOLS.replace("mode: act", f"mode: {mode}"))
    stage.run(300)
    assert stage.arm.writes == []


def test_an_invalid_pools_file_is_refused_and_the_last_good_one_stays_in_force() -> None:
    stage = Stage()
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=200)
    stage.stand.set_pools_file("cluster: training\npools: nonsense\n")
    stage.submit(1, prefix="more")
    stage.run(2)
    stage.say(seconds=200)
    assert stage.machines()["spot"] == 2


@pytest.mark.parametrize("mode", ["observe", "paused"])
def test_nothing_is_written_any_more_though_a_vm_is_on_its_way_out(mode: str) -> None:
    stage = Stage()
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=200)
    stage.finish()
    stage.idle()
    while not any(path.endswith("/delete") for _, path in stage.arm.writes):
        stage.run(1)
    stage.stand.set_pools_file(POOLS.replace("mode: act", f"mode: {mode}"))
    stage.arm.writes.clear()
    stage.cluster.writes.clear()
    stage.run(900)
    assert stage.machines()["spot"] == 0
    assert (stage.arm.writes, stage.cluster.writes) == ([], [])


def test_grow_only_buys_and_takes_no_node_away() -> None:
    stage = Stage(POOLS.replace("mode: act", "mode: grow-only"), timers=True)
    stage.submit(2)
    stage.run(2)
    stage.say(seconds=240)
    assert len(stage.bound()) == 2
    stage.finish()
    stage.idle(seconds=1200)
    assert stage.machines()["spot"] == 2
    assert not any(node["spec"].get("unschedulable") for node in stage.nodes())
    kept = stage.document("latest.json")["kept"]
    assert set(kept.values()) == {"mode is grow-only"}


def test_grow_only_still_empties_a_node_that_azure_takes() -> None:
    stage = Stage(POOLS.replace("mode: act", "mode: grow-only"))
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=240)
    node = stage.nodes()[0]["metadata"]["name"]
    stage.stand.arm.preempt(node, 30.0)
    stage.say("sluice.node.evicting", {"nodes": [{"name": node}]}, seconds=5)
    assert stage.nodes()[0]["spec"]["unschedulable"]
    assert stage.bound("pod") == []
