"""Pods that must run to their end: their node takes no more pods, and goes when they have ended."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from functions import housekeeping
from local.kube.controllers.kubelet import RUN_SECONDS
from shared.names import WAIT_FOR_COMPLETION_ANNOTATION
from tests.orchestrations.stage import POOLS, Stage
from tests.orchestrations.test_draining import node_of, why_kept
from tests.orchestrations.test_eviction import warn

LEARNING = POOLS.replace("idle_after: 10m", "idle_after: 10m, completion_timeout: 2h")
WAITING_POOL = LEARNING.replace("priority: Spot", "priority: Spot\n    drain: wait")
HOUR = 3600.0
WAITS = {WAIT_FOR_COMPLETION_ANNOTATION: "true"}


def with_run(pools: str = LEARNING, seconds: float = 1.2 * HOUR, notes: Any = None, **spec: Any) -> tuple[Stage, str]:
    """A node that is little used, by a pod that runs for so long."""
    stage = Stage(pools)
    notes = {RUN_SECONDS: str(seconds), **(WAITS if notes is None else notes)}
    stage.submit(1, cpu="1", prefix="train", notes=notes, restartPolicy="Never", **spec)
    stage.run(2)
    stage.say(seconds=240)
    assert stage.bound() == ["train-0"]
    return stage, stage.nodes()[0]["metadata"]["name"]


def test_the_node_is_closed_and_goes_when_the_run_has_ended() -> None:
    stage, node = with_run()
    stage.idle(seconds=300)
    assert node_of(stage, node)["spec"]["unschedulable"]
    assert stage.ledger()["retirements"][node]["stage"] == "waiting"
    stage.run(0.8 * HOUR)
    assert stage.pods("train")[0]["status"]["phase"] == "Running"
    stage.run(0.4 * HOUR)
    assert stage.machines()["spot"] == 0
    evictions = [path for method, path in stage.cluster.writes if path.endswith("/eviction")]
    assert evictions == []


def test_a_run_that_outlasts_the_time_it_may_have_gets_its_node_back() -> None:
    stage, node = with_run(seconds=10 * HOUR)
    stage.idle(seconds=1.9 * HOUR)
    assert node_of(stage, node)["spec"]["unschedulable"]
    stage.run(0.2 * HOUR)
    assert not node_of(stage, node)["spec"].get("unschedulable")
    assert "default/train-0 has not run to its end" in why_kept(stage, node)
    assert stage.pods("train")[0]["status"]["phase"] == "Running"


@pytest.mark.parametrize(
    ("notes", "policy", "closed"),
    [({}, "Never", True), ({}, "OnFailure", True), ({}, "Always", False)],
)
def test_a_pool_may_say_it_for_all_pods_that_end_by_themselves(notes: Any, policy: str, closed: bool) -> None:
    stage = Stage(WAITING_POOL)
    stage.submit(1, cpu="1", prefix="train", notes=notes, restartPolicy=policy)
    stage.run(2)
    stage.say(seconds=240)
    node = stage.nodes()[0]["metadata"]["name"]
    stage.idle(seconds=300)
    assert bool(node_of(stage, node)["spec"].get("unschedulable")) is closed


def test_pods_that_come_meanwhile_get_the_node_back() -> None:
    stage, node = with_run()
    stage.idle(seconds=300)
    stage.submit(1, cpu="2", prefix="late")
    stage.run(2)
    stage.say(seconds=300)
    assert stage.machines()["spot"] == 1
    assert stage.bound("late") == ["late-0"]
    assert not node_of(stage, node)["spec"].get("unschedulable")
    assert stage.ledger()["retirements"] == {}


def test_nodes_that_wait_keep_no_others_from_going() -> None:
    stage, node = with_run()
    stage.idle(seconds=300)
    stage.submit(1, cpu="3", prefix="short", nodeSelector={"sluice.io/pool": "regular"})
    stage.run(2)
    stage.say(seconds=300)
    assert stage.machines() == {"spot": 1, "regular": 1}
    stage.finish("short")
    stage.idle(seconds=300)
    assert stage.machines() == {"spot": 1, "regular": 0}
    assert stage.ledger()["retirements"][node]["stage"] == "waiting"


def test_others_on_the_node_are_moved_first() -> None:
    stage = Stage(LEARNING.replace("idle_after: 10m", "idle_after: 10m, utilization_below: 0.9"))
    stage.submit(1, cpu="1", prefix="train", notes={RUN_SECONDS: "4000", **WAITS}, restartPolicy="Never")
    stage.submit(1, cpu="1", prefix="web")
    stage.submit(1, cpu="2", prefix="filler")
    stage.submit(1, cpu="1", prefix="other", notes={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"})
    stage.run(2)
    stage.say(seconds=240)
    assert len(stage.nodes()) == 2
    stage.finish("filler")
    stage.idle(seconds=200)
    assert stage.pods("web") == []
    assert [pod["status"]["phase"] for pod in stage.pods("train")] == ["Running"]
    stage.run(4200)
    assert len(stage.nodes()) == 1


def test_azure_that_takes_the_vm_waits_for_nobody() -> None:
    stage, node = with_run()
    stage.stand.preempt(node)
    warn(stage, node)
    stage.run(20)
    assert all("deletionTimestamp" in pod["metadata"] for pod in stage.pods("train"))
    stage.run(300)
    assert node not in [each["metadata"]["name"] for each in stage.nodes()]


def test_a_saga_that_waits_as_long_as_the_file_lets_it_is_not_reported_as_stuck(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(housekeeping, "LONGEST", timedelta(minutes=20))
    stage = Stage(LEARNING, timers=True)
    stage.submit(1, cpu="1", prefix="train", notes={RUN_SECONDS: str(10 * HOUR), **WAITS}, restartPolicy="Never")
    stage.run(2)
    stage.say(seconds=240)
    stage.idle(seconds=1.9 * HOUR)
    (going,) = stage.ledger()["retirements"].values()
    assert going["stage"] == "waiting"
    assert stage.status()["clusters"]["training"]["stuck"] == []
