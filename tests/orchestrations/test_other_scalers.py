"""A pool has one scaler: what cluster-autoscaler or AKS scales is neither grown nor shrunk, and the reason is told."""

from __future__ import annotations

import pytest

from tests.orchestrations.stage import Stage
from tests.orchestrations.test_dead_nodes import names, silence, with_nodes

ENABLED = {"cluster-autoscaler-enabled": "true", "cluster-autoscaler-name": "training"}
BOUNDED = {"min": "1", "max": "5", "k8s.io_cluster-autoscaler_node-template_label_gpu": "true"}
OF_AKS = {"aks-managed-poolName": "spot"}


def tag(stage: Stage, tags: dict[str, str], name: str = "spot") -> None:
    group = stage.stand.arm.cloud.estate.group("00000000-0000-0000-0000-000000000001", "nodes")
    scale_set = group.scale_sets[name]
    scale_set.tags = {**scale_set.tags, **tags}


def refusals(stage: Stage) -> list[str]:
    return [entry["code"] for entry in stage.status()["clusters"]["training"]["failures"]]


@pytest.mark.parametrize("tags", [ENABLED, BOUNDED, OF_AKS], ids=["enabled", "bounded", "aks"])
def test_what_somebody_else_scales_is_not_grown_and_its_fallback_is(tags: dict[str, str]) -> None:
    stage = Stage()
    tag(stage, tags)
    stage.submit(3)
    stage.run(2)
    stage.say(seconds=400)
    assert stage.machines() == {"spot": 0, "regular": 3}
    assert refusals(stage) == ["PoolUnfit"]
    assert not [path for _, path in stage.arm.writes if path.endswith("/spot")]


def test_a_set_that_was_taken_from_cluster_autoscaler_is_grown_though_its_templates_stay() -> None:
    stage = Stage()
    tag(stage, {**ENABLED, **BOUNDED, "cluster-autoscaler-enabled": "false"})
    stage.submit(2)
    stage.run(2)
    stage.say(seconds=400)
    assert stage.machines() == {"spot": 2, "regular": 0}


def grown(*, timers: bool) -> Stage:
    stage = Stage(timers=timers)
    stage.submit(2)
    stage.run(2)
    stage.say(seconds=300)
    assert stage.machines()["spot"] == 2
    stage.finish()
    return stage


def test_idle_nodes_of_a_set_that_cluster_autoscaler_got_are_not_even_cordoned() -> None:
    stage = grown(timers=True)
    tag(stage, ENABLED)
    stage.run(320)
    before = len(stage.cluster.writes)
    stage.idle(seconds=900)
    assert stage.machines()["spot"] == 2
    assert not [path for _, path in stage.cluster.writes[before:] if path.startswith("/api/v1/nodes/")]


def test_a_vm_is_not_deleted_once_cluster_autoscaler_has_its_set_and_its_node_goes_back_to_work() -> None:
    stage = grown(timers=False)
    tag(stage, ENABLED)
    stage.idle(seconds=900)
    assert stage.machines()["spot"] == 2
    assert not any(node["spec"].get("unschedulable") for node in stage.nodes())
    assert "cluster-autoscaler" in str(stage.document(f"nodes/{stage.nodes()[0]['metadata']['name']}.json"))


def test_a_dead_node_of_a_set_that_cluster_autoscaler_has_is_left_to_it() -> None:
    stage, node = with_nodes()
    tag(stage, ENABLED)
    silence(stage, node)
    stage.run(3600)
    assert node in names(stage)
    assert not any(each["spec"].get("unschedulable") for each in stage.nodes())
