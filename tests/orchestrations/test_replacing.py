"""A node that is too dear for what is left on it: a cheaper one is bought, and only then does it go."""

from __future__ import annotations

from tests.orchestrations.stage import POOLS, Stage

_MARK = "pools:\n"
_POOLS = """pools:
  - {name: big, resource: big, sku: Standard_D16s_v5, shape: {cpu: 16, memory: 64Gi, pods: 30}, price: 0.5, max: 3}
  - {name: small, resource: small, sku: Standard_D4s_v5, shape: {cpu: 4, memory: 16Gi, pods: 30}, price: 0.2, max: 3}
scale_down: {idle_after: 10m, replace_saving: 0.2}
"""


def test_a_cheaper_node_is_bought_and_joins_before_the_dearer_one_is_emptied_and_deleted() -> None:
    stage = Stage(POOLS[: POOLS.index(_MARK)] + _POOLS)
    stage.submit(1, cpu="12", prefix="large")
    stage.submit(1, cpu="3", prefix="web")
    stage.run(2)
    stage.say(seconds=300)
    assert stage.machines() == {"big": 1, "small": 0}
    stage.finish("large")
    stage.idle(seconds=300)
    assert stage.machines() == {"big": 1, "small": 1}
    assert stage.bound() == ["web-0"]
    stage.idle(seconds=40)
    assert stage.pods("web") == []
    stage.submit(1, cpu="3", prefix="again")  # as the ReplicaSet does that nobody plays here
    stage.run(300)
    assert stage.bound("again") == ["again-0"]
    assert stage.machines() == {"big": 0, "small": 1}


def test_nothing_is_bought_for_a_node_whose_pods_no_disruption_budget_lets_go() -> None:
    stage = Stage(POOLS[: POOLS.index(_MARK)] + _POOLS)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    stage.api.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    stage.submit(1, cpu="12", prefix="large")
    stage.submit(1, cpu="3", prefix="web")
    stage.run(2)
    stage.say(seconds=300)
    stage.finish("large")
    stage.idle(seconds=300)
    assert stage.machines() == {"big": 1, "small": 0}
    assert stage.bound() == ["web-0"]
