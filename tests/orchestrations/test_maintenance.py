"""The sweep heals what events did not tell, and costs next to nothing when nothing is wrong."""

from __future__ import annotations

from local.arm.faults import Fault
from local.arm.settings import Quirks
from local.machines import BootTimes
from local.system.stand_ins import Behaviour
from shared.names import RETIRE_OPERATION_ANNOTATION, RETIRING_TAINT
from tests.orchestrations.stage import POOLS, Stage

SWEEP = 300.0


def quiet(pods: int = 1, pools: str = POOLS) -> Stage:
    stage = Stage(pools, timers=True)
    stage.submit(pods)
    stage.run(2)
    stage.say(seconds=240)
    assert len(stage.bound()) == pods
    return stage


def test_pods_whose_event_was_lost_get_their_nodes() -> None:
    stage = Stage(timers=True)
    stage.submit(2)
    stage.run(3 * SWEEP)
    assert len(stage.bound()) == 2


def test_an_empty_node_whose_event_was_lost_goes() -> None:
    stage = quiet()
    stage.finish()
    stage.run(6 * SWEEP)
    assert stage.machines()["spot"] == 0
    assert stage.nodes() == []


def test_a_sweep_of_a_cluster_in_order_reads_three_lists_and_starts_nothing() -> None:
    stage = quiet()
    stage.run(SWEEP)
    before = len(stage.host.instances())
    stage.arm.requests = stage.cluster.requests = 0
    stage.run(SWEEP)
    assert (stage.cluster.requests, stage.arm.requests) == (2, 1)
    assert len(stage.host.instances()) == before


def test_a_pool_below_its_minimum_is_filled_up() -> None:
    stage = Stage(POOLS.replace("priority: Regular", "priority: Regular\n    min: 2"), timers=True)
    stage.run(3 * SWEEP)
    assert stage.machines()["regular"] == 2


def test_a_vm_that_never_became_a_node_is_deleted_and_remembered() -> None:
    behaviour = Behaviour(quirks=Quirks(), boot=BootTimes(boot=(90_000.0, 90_000.0)))
    stage = Stage(POOLS + "timing: {node_join_timeout: 5m}\n", behaviour=behaviour, timers=True)
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=4 * SWEEP)
    assert "NodeNeverJoined" in [entry["code"] for entry in stage.ledger()["failures"]]
    deleted = [path for _, path in stage.arm.writes if path.endswith("/delete")]
    assert deleted


def test_a_node_whose_vm_is_gone_is_buried() -> None:
    stage = quiet()
    stage.stand.arm.preempt(stage.nodes()[0]["metadata"]["name"], 1.0)
    name = stage.nodes()[0]["metadata"]["name"]
    stage.run(3 * SWEEP)
    assert name not in [node["metadata"]["name"] for node in stage.nodes()]


def test_a_cordon_of_ours_without_a_saga_is_taken_off() -> None:
    stage = quiet()
    name = stage.nodes()[0]["metadata"]["name"]
    patch = {
        "metadata": {"annotations": {RETIRE_OPERATION_ANNOTATION: "lost"}},
        "spec": {"unschedulable": True, "taints": [{"key": RETIRING_TAINT, "value": "lost", "effect": "NoSchedule"}]},
    }
    stage.api.patch(f"/api/v1/nodes/{name}", patch)
    stage.run(SWEEP)
    node = stage.nodes()[0]
    assert not node["spec"].get("unschedulable")
    assert RETIRE_OPERATION_ANNOTATION not in node["metadata"].get("annotations", {})


def test_capacity_without_an_instance_is_given_back() -> None:
    stage = quiet()
    pool = stage.config.pool("spot")
    assert pool is not None
    assert pool.azure is not None
    stage.stand.arm.faults.add(Fault("scale_set.update", "spot", code="AllocationFailed", stage="async"))
    compute = stage.services.compute(pool.azure)
    compute.begin_capacity(pool, 4, compute.scale_set(pool).etag)
    stage.run(25)
    assert compute.scale_set(pool).capacity == 4
    stage.run(2 * SWEEP)
    assert compute.scale_set(pool).capacity == 1


def test_a_leader_that_died_is_followed_by_the_next_sweep() -> None:
    stage = Stage(timers=True)
    stage.submit(1)
    stage.run(2)
    dead = {"now": stage.timeline.now().isoformat(), "event": "e", "holder": "dead", "lease": 60, "force": True}
    stage.host.signal("cluster", "training", "record", dead)
    stage.run(2 * SWEEP)
    assert len(stage.bound()) == 1
    assert stage.ledger()["lead"] is None


def test_a_machine_that_is_evicted_before_it_became_a_node_is_replaced_by_the_next_sweep() -> None:
    slow = Behaviour(quirks=Quirks(), boot=BootTimes(boot=(250.0, 250.0)))
    stage = Stage(behaviour=slow, timers=True)
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=80)
    assert stage.machines()["spot"] == 1
    stage.stand.arm.preempt(stage.stand.arm.truth.live_vms()[0].computer_name, 1.0)
    stage.run(60)
    assert stage.machines()["spot"] == 0
    stage.run(SWEEP)
    assert sum(stage.machines().values()) == 1


def test_an_empty_node_that_a_minimum_keeps_makes_no_sweep_plan() -> None:
    stage = Stage(POOLS.replace("price: 0.2\n", "price: 0.2\n    min: 1\n"), timers=True)
    stage.run(1200)
    assert stage.machines() == {"spot": 0, "regular": 1}
    before = len(stage.orchestrations("admit"))
    stage.run(3600)
    assert len(stage.orchestrations("admit")) == before
    assert stage.machines()["regular"] == 1
