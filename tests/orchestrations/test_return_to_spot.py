"""Nodes that stand in for Spot give way to it again: bought first, then drained, and not tried too often."""

from __future__ import annotations

import pytest

from local.arm.faults import Fault
from tests.orchestrations.stage import POOLS, Stage

HALF = POOLS.replace("idle_after: 10m", "idle_after: 10m, max_parallel_fraction: 0.5")
MINUTE = 60.0


def refuse(stage: Stage, times: int = 1) -> None:
    """Azure has no Spot for so many requests."""
    for _ in range(times):
        stage.stand.arm.faults.add(Fault("scale_set.update", "spot", code="AllocationFailed", stage="async"))


def standing_in(pods: int = 1, pools: str = HALF, *, refusals: int = 1, **spec: object) -> Stage:
    """All pods run on demand, since Spot could not be had."""
    stage = Stage(pools, timers=True)
    refuse(stage)
    stage.submit(pods, **spec)
    stage.run(2)
    stage.say(seconds=300)
    assert stage.machines() == {"spot": 0, "regular": pods}
    assert len(stage.bound()) == pods
    refuse(stage, refusals - 1)
    return stage


def play_controller(stage: Stage, prefix: str, number: int) -> None:
    """As a ReplicaSet does: what was evicted is made anew."""
    missing = number - len([pod for pod in stage.pods(prefix) if "deletionTimestamp" not in pod["metadata"]])
    if missing > 0:
        stage.submit(missing, prefix=f"{prefix}-again-{int(stage.timeline.now().timestamp())}")


def pass_time(stage: Stage, minutes: int, pods: int = 1) -> None:
    for _ in range(minutes):
        stage.run(MINUTE)
        play_controller(stage, "pod", pods)


def test_one_node_is_bought_and_ready_before_the_one_on_demand_drains() -> None:
    stage = standing_in()
    pass_time(stage, 50)
    assert stage.machines() == {"spot": 0, "regular": 1}  # the refusal is remembered for an hour
    seen = set()
    for _ in range(300):
        stage.run(10)
        play_controller(stage, "pod", 1)
        ready = len([node for node in stage.nodes("spot") if stage.machines()["spot"]])
        drained = any(node["spec"].get("unschedulable") for node in stage.nodes("regular"))
        seen.add((ready, drained))
    assert (1, False) in seen
    assert (0, True) not in seen
    assert stage.machines() == {"spot": 1, "regular": 0}
    assert len(stage.bound()) == 1
    assert stage.ledger()["retirements"] == {}


def test_batches_double_within_the_budget() -> None:
    stage = standing_in(7)
    batches = []
    for _ in range(180):
        pass_time(stage, 1, 7)
        nodes = [going for state in stage.ledger().get("returning", {}).values() for going in state["nodes"]]
        if nodes and (not batches or batches[-1] != nodes):
            batches.append(nodes)
    assert [len(nodes) for nodes in batches] == [1, 2, 3, 1]
    assert stage.machines() == {"spot": 7, "regular": 0}
    assert len(stage.bound()) == 7


@pytest.mark.parametrize(("failures", "pause"), [(1, 1800), (2, 3600)])
def test_a_refusal_stops_it_and_doubles_the_pause(failures: int, pause: int) -> None:
    stage = standing_in(2, refusals=1 + failures)
    pass_time(stage, 70 + 70 * (failures - 1) + 30 * (failures - 1), 2)
    state = stage.ledger()["returning"]["spot"]
    assert (state["pause"], state["batch"], state["nodes"]) == (pause, 1, [])
    assert stage.machines() == {"spot": 0, "regular": 2}


def test_an_eviction_during_a_try_stops_it() -> None:
    stage = standing_in(1)
    while not stage.nodes("spot"):
        stage.run(5)
    stage.stand.preempt(stage.nodes("spot")[0]["metadata"]["name"])
    stage.say("sluice.node.evicting", {"nodes": []}, seconds=100)
    state = stage.ledger()["returning"]["spot"]
    assert (state["pause"], state["nodes"]) == (1800, [])
    assert stage.machines()["regular"] == 1


def test_nothing_moves_when_the_file_says_so() -> None:
    stage = standing_in(1, HALF.replace("idle_after: 10m", "idle_after: 10m, return_to_spot: false"))
    pass_time(stage, 120)
    assert stage.machines() == {"spot": 0, "regular": 1}


def test_pods_that_run_to_their_end_are_left_alone() -> None:
    stage = standing_in(1)
    (pod,) = stage.pods()
    meta = {"annotations": {"sluice.io/wait-for-completion": "true"}}
    stage.api.patch(f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}", {"metadata": meta})
    pass_time(stage, 120)
    assert stage.machines() == {"spot": 0, "regular": 1}


def test_a_budget_that_lets_nobody_go_keeps_spot_from_being_bought() -> None:
    stage = standing_in(1)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "pod", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "pod"}}},
    }
    stage.api.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    pass_time(stage, 120)
    assert stage.machines() == {"spot": 0, "regular": 1}
