"""Pods that come while a node is on its way out get that node, if it can still be had, and another one if not."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.admission import plan_capacity
from functions.durable import Steps
from local.arm.faults import Fault
from tests.orchestrations.stage import Stage


def with_empty_node() -> tuple[Stage, str]:
    stage = Stage()
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=200)
    stage.finish()
    return stage, stage.nodes()[0]["metadata"]["name"]


def hold(stage: Stage, node: str) -> None:
    """A volume keeps the node in its drain."""
    attachment = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": "csi-1"},
        "spec": {"attacher": "disk.csi.azure.com", "nodeName": node, "source": {"persistentVolumeName": "pv-1"}},
    }
    stage.api.create("/apis/storage.k8s.io/v1/volumeattachments", attachment)


def test_a_node_that_still_drains_is_called_back() -> None:
    stage, node = with_empty_node()
    hold(stage, node)
    stage.idle(seconds=60)
    assert stage.nodes()[0]["spec"]["unschedulable"]
    stage.submit(1, prefix="late")
    stage.run(2)
    stage.say(seconds=60)
    assert stage.machines()["spot"] == 1
    assert len(stage.bound("late")) == 1
    assert not stage.nodes()[0]["spec"].get("unschedulable")
    assert stage.document("latest.json")["reuse"] == {node: 1}
    assert stage.ledger()["retirements"] == {}
    assert "called back" in stage.status()["clusters"]["training"]["stayed"][node]["kept"]
    stage.run(600)
    assert stage.machines()["spot"] == 1


@pytest.mark.parametrize("seconds", [25.0, 25.2, 27.0, 29.6, 29.8, 30.0])
def test_whenever_pods_come_while_a_node_goes_they_end_on_a_node_that_stays(seconds: float) -> None:
    stage, node = with_empty_node()
    hold(stage, node)
    stage.stand.arm.faults.add(Fault("scale_set.delete_instances", stage="slow", seconds=600.0))
    stage.idle(seconds=seconds)
    stage.submit(1, prefix="late")
    stage.run(0.2)
    stage.api.delete("/apis/storage.k8s.io/v1/volumeattachments/csi-1")
    stage.say(seconds=900)
    assert len(stage.bound("late")) == 1
    assert stage.machines()["spot"] == 1
    assert stage.ledger()["retirements"] == {}
    assert not any(each["spec"].get("unschedulable") for each in stage.nodes())


class Told:
    """An orchestration's context that answers by the name of what is called, and remembers what that was."""

    instance_id = "event-1"
    current_utc_datetime = datetime(2026, 3, 1, tzinfo=UTC)

    def __init__(self, answers: dict[str, Any]) -> None:
        self._answers = answers
        self.calls: dict[str, Any] = {}

    def get_input(self) -> dict[str, Any]:
        return {"cluster": "training", "holder": "event-1", "generation": 3, "view": {}}

    def call_activity(self, name: str, order: Any) -> Any:
        self.calls[name] = order
        return self._answers[name]

    def call_entity(self, entity: object, operation: str, order: Any) -> Any:
        return self.call_activity(operation, order)


def run_through(steps: Steps[Any]) -> None:
    """Every task is its own answer."""
    answer = next(steps)
    with contextlib.suppress(StopIteration):
        while True:
            answer = steps.send(answer)


def test_when_a_node_had_gone_too_far_another_plan_is_made_at_once() -> None:
    made = {"ok": True, "plan": "acted/p1.json", "growths": [], "retirements": [], "recalls": ["n1"], "settled": {}}
    begun = {"growths": [], "retirements": [], "recalls": [], "refused": {}}
    told = Told(
        {
            "make_plan": {**made, "limit": 1, "spare": {}, "join_timeout": 900},
            "begin": begun,
            "start_sagas": {"ok": True},
        }
    )
    run_through(plan_capacity(told))
    assert [saga["id"] for saga in told.calls["start_sagas"]["starts"]] == ["replan:p1"]
    assert "recall_nodes" not in told.calls
