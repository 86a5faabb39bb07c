"""Nodes that start with a taint of ours: their pods are nominated to them, then they are opened."""

from __future__ import annotations

from typing import Any

from local.arm.settings import Quirks
from local.durable.model import Faults
from local.kube.faults import Fault
from local.machines import BootTimes
from local.system.stand_ins import Behaviour
from shared.names import NODE_JOINED, STARTING_TAINT
from tests.orchestrations.stage import POOLS, Stage

Json = dict[str, Any]


def tainted(pools: str = POOLS, *, timers: bool = False, **boot: Any) -> Stage:
    boot_times = BootTimes(boot=(30.0, 30.0), startup_taint=True, **boot)
    return Stage(pools, timers=timers, behaviour=Behaviour(quirks=Quirks(), boot=boot_times))


def closed(stage: Stage) -> list[str]:
    return [
        node["metadata"]["name"]
        for node in stage.nodes()
        if any(taint["key"] == STARTING_TAINT for taint in node["spec"].get("taints") or ())
    ]


def places(stage: Stage, prefix: str = "") -> dict[str, str]:
    """The node of each pod, "" for none."""
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in stage.pods(prefix)}


def grown(stage: Stage) -> Stage:
    """Two large pods and two small ones, for which a plan takes two nodes, and greed may need three."""
    stage.submit(2, "2900m", prefix="large")
    stage.submit(2, "1", prefix="small")
    stage.run(2)
    stage.say(seconds=120)
    assert len(stage.nodes()) == 2
    return stage


def test_a_node_takes_no_pods_before_it_is_opened() -> None:
    stage = grown(tainted())
    assert len(closed(stage)) == 2
    assert stage.bound() == []
    assert stage.machines()["spot"] == 2


def test_nodes_are_opened_once_their_pods_are_nominated_and_all_of_them_fit() -> None:
    stage = grown(tainted())
    stage.say(NODE_JOINED, seconds=30)
    assert closed(stage) == []
    assert len(stage.bound()) == 4
    assert stage.machines()["spot"] == 2
    statuses = [path for method, path in stage.cluster.writes if method == "PATCH" and path.endswith("/status")]
    assert len([path for path in statuses if "/pods/" in path]) == 4
    assert not [path for _, path in stage.cluster.writes if path.endswith("/binding")]


def test_closed_nodes_are_no_reason_to_buy_again() -> None:
    stage = grown(tainted())
    stage.say(seconds=0.0)
    assert stage.machines()["spot"] == 2


def test_a_node_without_pods_is_opened_too() -> None:
    stage = tainted(POOLS.replace("priority: Regular", "priority: Regular\n    min: 1"))
    stage.run(60)
    assert len(closed(stage)) == 1
    stage.say(NODE_JOINED, seconds=30)
    assert closed(stage) == []


def test_a_node_stays_closed_until_its_gpus_are_there() -> None:
    pools = POOLS.replace("shape: {cpu: 4, memory: 16Gi, pods: 30}", "shape: {cpu: 4, memory: 16Gi, nvidia.com/gpu: 1}")
    stage = tainted(pools, gpu=(60.0, 60.0))
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=60)
    stage.say(NODE_JOINED, seconds=20)
    assert len(closed(stage)) == 1
    stage.run(60)
    stage.say(NODE_JOINED, seconds=20)
    assert closed(stage) == []
    assert len(stage.bound()) == 1


def test_the_sweep_opens_what_nobody_opened() -> None:
    stage = tainted(timers=True)
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=120)
    stage.finish()
    assert len(closed(stage)) == 1
    stage.run(600)
    assert closed(stage) == []


def test_a_nomination_of_somebody_else_is_left_alone() -> None:
    stage = grown(tainted())
    first, second = (node["metadata"]["name"] for node in stage.nodes())
    for pod in stage.pods():
        stage.api.patch(
            f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}/status",
            {"status": {"nominatedNodeName": first if "large-0" in pod["metadata"]["name"] else second}},
        )
    stage.cluster.writes.clear()
    stage.say(NODE_JOINED, seconds=0.5)
    assert not [path for _, path in stage.cluster.writes if "/pods/" in path]
    stage.run(30)
    assert places(stage, "large")["large-0"] == first


def test_a_pool_that_only_observes_keeps_its_taints() -> None:
    stage = grown(tainted())
    stage.stand.set_pools_file(POOLS.replace("mode: act", "mode: observe"))
    stage.say(NODE_JOINED, seconds=30)
    assert len(closed(stage)) == 2


def test_where_nominations_are_refused_the_nodes_are_opened_all_the_same() -> None:
    stage = grown(tainted())
    stage.stand.cluster.faults.add(Fault("PATCH", "/pods/.*/status$", times=1000, code=403))
    stage.say(NODE_JOINED, seconds=30)
    assert closed(stage) == []
    assert len(stage.bound()) >= 3


def test_an_api_server_that_is_busy_is_asked_twice() -> None:
    stage = grown(tainted())
    stage.stand.cluster.faults.add(Fault("PATCH", "/nodes/", times=2, code=503))
    stage.say(NODE_JOINED, seconds=30)
    assert closed(stage) == []


def test_a_taint_that_has_moved_in_the_list_is_found_again() -> None:
    stage = grown(tainted())
    event = stage.event(NODE_JOINED)
    for node in stage.nodes():
        others = [{"key": "late", "effect": "PreferNoSchedule"}, *node["spec"]["taints"]]
        stage.api.patch(f"/api/v1/nodes/{node['metadata']['name']}", {"spec": {"taints": others}})
    stage.publisher.publish([event])
    stage.run(30)
    assert closed(stage) == []
    assert all(node["spec"]["taints"] for node in stage.nodes())


def test_a_run_with_the_taint_ends_as_it_should_even_if_every_activity_runs_twice() -> None:
    stage = Stage(
        faults=Faults(rerun_activity_rate=1.0),
        behaviour=Behaviour(quirks=Quirks(), boot=BootTimes(boot=(30.0, 30.0), startup_taint=True)),
    )
    grown(stage)
    stage.say(NODE_JOINED, seconds=30)
    assert len(stage.bound()) == 4
    stage.finish("large")
    stage.finish("small")
    stage.idle(seconds=900)
    assert stage.nodes() == []


def test_a_node_that_an_administrator_cordoned_stays_closed_until_it_is_uncordoned() -> None:
    stage = grown(tainted(timers=True))
    first = stage.nodes()[0]["metadata"]["name"]
    stage.say(NODE_JOINED, seconds=0.0)  # the plan that opens it was made before
    stage.api.patch(f"/api/v1/nodes/{first}", {"spec": {"unschedulable": True}})
    stage.run(900)
    assert closed(stage) == [first]
    stage.api.patch(f"/api/v1/nodes/{first}", {"spec": {"unschedulable": None}})
    stage.run(600)
    assert first not in closed(stage)
