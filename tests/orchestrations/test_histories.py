"""Replay costs grow with the square of a history: none grows long, however badly things go (`Stage.run` says so)."""

from __future__ import annotations

from typing import Any

import pytest

from local.arm.faults import Fault
from local.kube.faults import Fault as ApiFault
from shared.names import RETIRE_OPERATION_ANNOTATION, RETIRING_TAINT
from tests.orchestrations.stage import POOLS, Stage

Json = dict[str, Any]
STAYING = POOLS.replace("idle_after: 10m", "idle_after: 10m, return_to_spot: false")  # nobody makes evicted pods anew
ROOMY = POOLS.replace("max: 10", "max: 100")


@pytest.mark.parametrize("code", ["TooManyRequests", "ServiceUnavailable", "PreconditionFailed"])
@pytest.mark.parametrize("operation", ["scale_set.update", "scale_set.get", "scale_set.vms.list", "operation.get", "*"])
def test_a_growth_that_azure_refuses_half_of_the_time(operation: str, code: str) -> None:
    stage = Stage(STAYING)
    stage.stand.arm.faults.add(Fault(operation, code=code, times=40, probability=0.7, retry_after=1))
    stage.submit(3)
    stage.run(2)
    stage.say(seconds=900)
    for _ in range(6):
        stage.say(seconds=300)
    assert len(stage.bound()) == 3


def test_a_growth_that_is_preempted_while_its_machines_take_long() -> None:
    stage = Stage()
    stage.stand.arm.faults.add(Fault("scale_set.update", code="OperationPreempted", stage="async", partial=3))
    stage.stand.arm.faults.add(Fault("scale_set.update", stage="slow", seconds=600.0))
    stage.submit(3)
    stage.run(2)
    stage.say(seconds=1200)
    assert len(stage.bound()) == 3
    assert stage.machines() == {"spot": 3, "regular": 0}


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_drain_while_the_api_server_says_nothing_about_pods(code: int) -> None:
    stage = Stage(POOLS.replace("idle_after: 10m", "idle_after: 10m, utilization_below: 0.9"))
    stage.submit(2, cpu="2")
    stage.submit(1, prefix="other", cpu="2")
    stage.run(2)
    stage.say(seconds=240)
    stage.finish("pod-1")
    stage.idle()
    while not any(node["spec"].get("unschedulable") for node in stage.nodes()):
        stage.run(0.5)
    fault = stage.stand.cluster.faults.add(ApiFault(method="GET", code=code, path="/pods", times=10_000))
    stage.run(600)
    assert fault.hits > 10
    stage.stand.cluster.faults.clear()
    stage.run(300)
    assert stage.machines()["spot"] == 1


def test_many_retirements_at_once_queue_for_the_budget() -> None:
    text = ROOMY.replace("idle_after: 10m", "idle_after: 10m, max_parallel_fraction: 1.0")
    stage = Stage(text)
    stage.submit(45)
    stage.run(2)
    stage.say(seconds=400)
    assert len(stage.bound()) == 45
    stage.finish()
    stage.idle(seconds=1500)
    assert sum(stage.machines().values()) == 0


def test_a_sweep_that_finds_much_to_mend() -> None:
    stage = Stage(ROOMY, timers=True)
    stage.submit(20)
    stage.run(2)
    stage.say(seconds=240)
    assert len(stage.bound()) == 20
    names = [node["metadata"]["name"] for node in stage.nodes()]
    for name in names[:10]:
        _cordon_without_saga(stage, name)
    for name in names[10:]:
        stage.stand.arm.preempt(name, 1.0)
    stage.run(1200)
    assert not any(node["spec"].get("unschedulable") for node in stage.nodes())


def _cordon_without_saga(stage: Stage, name: str) -> None:
    taint = {"key": RETIRING_TAINT, "value": "lost", "effect": "NoSchedule"}
    notes = {"annotations": {RETIRE_OPERATION_ANNOTATION: "lost"}}
    stage.api.patch(f"/api/v1/nodes/{name}", {"metadata": notes, "spec": {"unschedulable": True, "taints": [taint]}})
