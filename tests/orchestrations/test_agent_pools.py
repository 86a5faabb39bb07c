"""Agent pools of AKS through the whole system: one operation at a time, merged; deletion by name; nothing for ever."""

from collections import Counter
from typing import Any

from local.arm import Fault, Quirks
from local.machines import BootTimes
from local.system.stand_ins import Behaviour
from tests.orchestrations.stage import Stage

POOLS = """
cluster: training
mode: act
azure:
  subscription: 00000000-0000-0000-0000-000000000001
  resource_group: nodes
  location: westeurope
  aks_cluster: prod
pools:
  - name: spot
    resource: spot
    kind: aks
    sku: Standard_D4s_v5
    shape: {cpu: 4, memory: 16Gi, pods: 30}
    priority: Spot
    price: 0.05
    max: 10
    fallback: [regular]
  - name: regular
    resource: regular
    kind: aks
    sku: Standard_D4s_v5
    shape: {cpu: 4, memory: 16Gi, pods: 30}
    priority: Regular
    price: 0.2
    max: 10
scale_down: {idle_after: 10m}
"""
ONE = (
    POOLS.split("  - name: regular", maxsplit=1)[0].replace("    fallback: [regular]\n", "")
    + "scale_down: {idle_after: 10m}\n"
)
SPOT = {"tolerations": [{"key": "kubernetes.azure.com/scalesetpriority", "operator": "Exists"}]}


def stage(pools: str = POOLS, *, timers: bool = False, **quirks: bool) -> Stage:
    behaviour = Behaviour(quirks=Quirks(**quirks), boot=BootTimes(boot=(30.0, 30.0)))
    return Stage(pools, behaviour=behaviour, timers=timers)


def count(stage: Stage, pool: str) -> int:
    return (
        stage.stand.arm.cloud.estate.group("00000000-0000-0000-0000-000000000001", "nodes")
        .clusters["prod"]
        .pools[pool]
        .count
    )


def writes(stage: Stage, operation: str = "agent_pool.update") -> list[int]:
    """The counts asked for."""
    return [write.target for write in stage.stand.arm.truth.writes if write.operation == operation]


def refusals(stage: Stage) -> list[Any]:
    return [entry["code"] for entry in stage.status()["clusters"]["training"]["failures"]]


def test_pending_pods_become_nodes_of_the_agent_pool() -> None:
    scene = stage()
    scene.submit(3, **SPOT)
    scene.say(seconds=300)
    assert len(scene.bound()) == 3
    assert scene.machines() == {"spot": 3, "regular": 0}
    assert writes(scene) == [3]
    assert count(scene, "spot") == 3


def test_pods_that_tolerate_no_spot_get_a_regular_pool() -> None:
    scene = stage()
    scene.submit(2)
    scene.say(seconds=300)
    assert scene.machines() == {"spot": 0, "regular": 2}


def test_idle_nodes_go_by_name_and_the_count_with_them() -> None:
    scene = stage()
    scene.submit(3, **SPOT)
    scene.say(seconds=300)
    scene.finish()
    for _ in range(3):
        scene.idle(seconds=900)
    assert scene.machines()["spot"] == 0
    assert count(scene, "spot") == 0
    assert scene.nodes() == []
    assert scene.stand.arm.truth.chosen_by_azure == []
    assert scene.stand.arm.truth.leaks().disks == ()


def test_growths_that_wait_for_a_busy_pool_become_one_write() -> None:
    scene = stage(ONE)
    scene.stand.arm.occupy("spot", 45, "Scaling")
    for number in range(3):
        scene.submit(1, prefix=f"late{number}", **SPOT)
        scene.say(seconds=12)
    assert writes(scene) == []
    scene.run(300)
    assert writes(scene) == [3]
    assert len(scene.bound()) == 3


def test_what_waits_for_a_busy_pool_longer_than_a_node_takes_to_join_is_not_bought_again() -> None:
    scene = stage(f"{ONE}timing: {{node_join_timeout: 60s}}\n")
    scene.stand.arm.occupy("spot", 200, "Scaling")
    scene.submit(2, **SPOT)
    scene.say(seconds=90)
    scene.say(seconds=90)
    scene.run(300)
    assert writes(scene) == [len(scene.bound())]
    assert len(scene.orchestrations("grow_pool")) == 1


def test_growths_that_come_during_an_operation_wait_for_it_and_go_together() -> None:
    scene = stage(ONE)
    scene.submit(1, prefix="first", **SPOT)
    scene.say(seconds=5)
    for number in range(3):
        scene.submit(1, prefix=f"late{number}", **SPOT)
        scene.say(seconds=4)
    scene.run(400)
    assert writes(scene) == [1, 4]
    assert len(scene.bound()) == 4


def test_deletions_that_wait_become_one_call() -> None:
    scene = stage(ONE.replace("{idle_after: 10m}", "{idle_after: 10m, max_parallel_fraction: 1}"))
    scene.submit(4, **SPOT)
    scene.say(seconds=300)
    scene.finish()
    scene.idle(seconds=0)
    scene.stand.arm.occupy("spot", 120)
    scene.run(900)
    assert scene.machines()["spot"] == 0
    assert len(writes(scene, "agent_pool.delete_machines")) == 1


def test_an_upgrade_is_no_failure_and_pods_go_elsewhere_meanwhile() -> None:
    scene = stage()
    scene.stand.arm.occupy("spot", 3600)
    scene.submit(2, **SPOT)
    scene.say(seconds=60)
    assert scene.machines() == {"spot": 0, "regular": 0}
    scene.run(300)
    assert scene.machines() == {"spot": 0, "regular": 2}
    assert len(scene.bound()) == 2


def test_a_cluster_that_takes_no_write_for_an_hour_keeps_nobody_waiting_for_ever() -> None:
    scene = stage(aks_one_operation_per_cluster=True)
    scene.stand.arm.occupy("regular", 3600)
    scene.submit(1, **SPOT)
    scene.say(seconds=390)
    assert set(refusals(scene)) == {"AgentPoolBusy"}
    assert [view.status for view in scene.orchestrations("grow_pool")] == ["Completed", "Completed"]
    assert scene.arm.requests < 180
    assert count(scene, "spot") == count(scene, "regular") == 0
    scene.run(3300)
    scene.say(seconds=300)
    assert len(scene.bound()) == 1


def test_a_failed_growth_falls_back_at_once_and_leaves_no_phantom_count() -> None:
    scene = stage(aks_failed_scale_keeps_count=True, failed_growth_leaves_failed_instances=True)
    scene.stand.arm.faults.add(Fault("agent_pool.update", "spot", code="AllocationFailed", stage="async", partial=1))
    scene.submit(3, **SPOT)
    scene.say(seconds=600)
    assert len(scene.bound()) == 3
    assert scene.machines() == {"spot": 1, "regular": 2}
    assert count(scene, "spot") == 1
    assert scene.stand.arm.truth.chosen_by_azure == []


def test_what_is_cleared_up_lets_the_fallback_by_in_a_cluster_that_does_one_thing_at_a_time() -> None:
    scene = stage(aks_one_operation_per_cluster=True, failed_growth_leaves_failed_instances=True)
    scene.stand.arm.faults.add(Fault("agent_pool.update", "spot", code="AllocationFailed", stage="async"))
    scene.submit(3, **SPOT)
    scene.say(seconds=600)
    asked = [(write.operation, write.resource) for write in scene.stand.arm.truth.writes]
    assert asked[:2] == [("agent_pool.update", "spot"), ("agent_pool.update", "regular")]
    assert len(scene.bound()) == 3
    assert scene.machines()["spot"] == count(scene, "spot") == 0


def test_a_quota_that_aks_quotes_is_remembered_as_that_quota() -> None:
    scene = stage()
    scene.stand.arm.cloud.quota.set_limit("lowPriorityCores", 0)
    scene.submit(2, **SPOT)
    scene.say(seconds=300)
    assert scene.machines() == {"spot": 0, "regular": 2}


def test_a_growth_whose_answer_got_lost_is_not_bought_twice() -> None:
    scene = stage(ONE)
    scene.stand.arm.faults.add(Fault("agent_pool.update", "spot", stage="lost"))
    scene.submit(3, **SPOT)
    scene.say(seconds=400)
    assert scene.machines()["spot"] == 3
    assert count(scene, "spot") == 3
    assert len(scene.bound()) == 3


def test_a_write_that_somebody_elses_came_before_is_made_again() -> None:
    scene = stage(ONE)
    scene.stand.arm.faults.add(Fault("agent_pool.update", "spot", code="PreconditionFailed"))
    scene.submit(3, **SPOT)
    scene.say(seconds=400)
    assert len(scene.bound()) == 3
    assert writes(scene) == [3]


def test_a_pool_with_an_autoscaler_of_its_own_is_refused_with_the_remedy() -> None:
    scene = stage(ONE)
    pool = scene.stand.arm.cloud.estate.group("00000000-0000-0000-0000-000000000001", "nodes").clusters["prod"]
    pool.pools["spot"].properties["enableAutoScaling"] = True
    scene.submit(1, **SPOT)
    scene.say(seconds=120)
    assert scene.machines()["spot"] == 0
    (refusal,) = scene.status()["clusters"]["training"]["failures"]
    assert refusal["code"] == "PoolUnfit"
    assert "enableAutoScaling" in refusal["detail"]
    scene.say(seconds=10)
    reasons = Counter(reason.split(";")[0][:24] for reason in scene_reasons(scene))
    assert reasons == {"RecentFailure: PoolUnfit": 1}


def scene_reasons(scene: Stage) -> list[str]:
    plan = scene.status()["clusters"]["training"]["plan"]
    return [reason for each in plan["unserved"] for reason in each["reasons"].values()]


def test_the_sweep_finds_an_unfit_pool_before_anybody_needs_it() -> None:
    scene = stage(ONE, timers=True)
    pool = scene.stand.arm.cloud.estate.group("00000000-0000-0000-0000-000000000001", "nodes").clusters["prod"]
    pool.pools["spot"].properties["enableAutoScaling"] = True
    scene.run(400)
    assert refusals(scene) == ["PoolUnfit"]


def test_an_evicted_spot_node_is_replaced_and_comes_back_by_nobodys_count() -> None:
    scene = stage(ONE, timers=True, aks_eviction_lowers_count=False)
    scene.submit(2, **SPOT)
    scene.say(seconds=300)
    gone = scene.nodes()[0]["metadata"]["name"]
    scene.stand.preempt(gone)
    scene.run(900)
    assert count(scene, "spot") == len(scene.stand.arm.truth.live_vms()) == scene.machines()["spot"]
    assert gone not in [node["metadata"]["name"] for node in scene.nodes()]


def test_what_a_quota_does_not_allow_is_not_asked_for_and_bought_elsewhere() -> None:
    scene = stage()
    scene.stand.arm.cloud.quota.set_limit("lowPriorityCores", 8)
    scene.submit(4, **SPOT)
    scene.say(seconds=400)
    assert scene.machines() == {"spot": 2, "regular": 2}
    assert writes(scene) == [2, 2]
