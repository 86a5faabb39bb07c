"""Nodes that must not go, and why."""

from __future__ import annotations

import pytest

from shared.names import NODE_IDLE
from tests.orchestrations.stage import POOLS, Stage

DAY = 86_400.0


def grown(pods: int = 1, pools: str = POOLS, **spec: object) -> Stage:
    stage = Stage(pools)
    stage.submit(pods, **spec)
    stage.run(2)
    stage.say(seconds=240)
    assert len(stage.bound()) == pods
    return stage


def test_a_node_that_is_busy_again_by_the_time_it_would_go_stays() -> None:
    stage = grown()
    stage.finish()
    stage.event()
    stage.run(660)
    event = stage.event(NODE_IDLE)
    stage.submit(1, prefix="late")
    stage.run(2)
    stage.publisher.publish([event])
    stage.run(120)
    assert stage.machines()["spot"] == 1
    assert len(stage.bound("late")) == 1
    assert not stage.nodes()[0]["spec"].get("unschedulable")
    verdicts = stage.status()["clusters"]["training"]["stayed"]
    assert "busy again" in next(iter(verdicts.values()))["kept"]


def test_a_disruption_budget_is_respected_and_the_node_goes_back_to_work() -> None:
    pools = POOLS.replace("idle_after: 10m", "idle_after: 10m, drain_timeout: 2m, utilization_below: 0.9")
    stage = grown(2, pools=pools, cpu="2500m")
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "all", "namespace": "default"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "pod"}}},
    }
    stage.api.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    stage.submit(1, prefix="third", cpu="3")
    stage.run(2)
    stage.say(seconds=240)
    stage.finish("third")
    stage.api.delete("/api/v1/namespaces/default/pods/pod-0", grace_seconds=0)
    stage.idle(seconds=60)
    stage.idle(seconds=400)
    assert len(stage.bound("pod")) == 1
    assert not any(node["spec"].get("unschedulable") for node in stage.nodes())


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"volumes": [{"name": "scratch", "emptyDir": {}}]}, "LocalStorage"),
    ],
)
def test_a_node_with_local_storage_stays_and_the_plan_says_why(spec: dict[str, object], why: str) -> None:
    stage = grown(1, cpu="1", **spec)
    stage.idle(seconds=60)
    assert stage.machines()["spot"] == 1
    kept = stage.status()["clusters"]["training"]["plan"]["kept"]
    assert why in next(iter(kept.values()))


def test_a_node_that_an_administrator_cordoned_is_left_alone() -> None:
    stage = grown()
    stage.finish()
    name = stage.nodes()[0]["metadata"]["name"]
    stage.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
    stage.idle(seconds=300)
    assert stage.machines()["spot"] == 1
    assert stage.nodes()[0]["spec"]["unschedulable"]


def test_a_pool_never_falls_below_its_minimum() -> None:
    pools = POOLS.replace("priority: Spot", "priority: Spot\n    min: 1")
    stage = grown(2, pools=pools)
    stage.finish()
    for _ in range(4):
        stage.idle(seconds=300)
    assert stage.machines()["spot"] == 1


def test_the_node_that_stayed_is_not_tried_again_before_there_are_news() -> None:
    stage = grown()
    stage.finish()
    stage.event()
    stage.run(660)
    event = stage.event(NODE_IDLE)
    stage.submit(1, prefix="late")
    stage.run(2)
    stage.publisher.publish([event])
    stage.run(60)
    assert len(stage.orchestrations("retire_node")) == 1
    assert stage.ledger()["cooling"]
    stage.finish("late")
    stage.run(60)
    assert len(stage.orchestrations("retire_node")) == 1
    stage.say(NODE_IDLE, seconds=60)
    assert len(stage.orchestrations("retire_node")) == 2


@pytest.mark.parametrize("mode", ["grow-only", "observe", "paused"])
def test_a_mode_that_forbids_it_keeps_every_node(mode: str) -> None:
    stage = grown()
    stage.finish()
    stage.stand.set_pools_file(POOLS.replace("mode: act", f"mode: {mode}"))
    stage.cluster.writes.clear()
    stage.arm.writes.clear()
    stage.idle(seconds=300)
    assert stage.machines()["spot"] == 1
    assert stage.arm.writes == []
    assert stage.cluster.writes == []
