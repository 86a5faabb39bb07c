"""Nodes and the pods on them: starting, ending, falling silent."""

from __future__ import annotations

import pytest

from shared.adapters.errors import NotFound, Throttled
from tests.kubernetes_contract.targets import NODES, PODS, condition, is_ready, node, pod
from tests.kubernetes_stand_in.world import World

SILENT = {"metadata": {"annotations": {"kwok.x-k8s.io/node": None}}}


def test_a_pod_runs_for_as_long_as_its_annotation_says() -> None:
    world = World()
    world.node("n")
    world.pod("p", annotations={"sluice.io/run-seconds": "100"})
    world.run(101)
    assert world.phase("p") == "Running"
    world.run(2)
    assert world.phase("p") == "Succeeded"
    assert not is_ready(world.get_pod("p"))


def test_a_finished_pod_leaves_its_room_to_others() -> None:
    world = World()
    world.node("n", "1")
    world.pod("first", annotations={"sluice.io/run-seconds": "10"})
    world.pod("second")
    world.run(20)
    assert world.get_pod("second")["spec"]["nodeName"] == "n"


def test_stopping_takes_what_the_annotation_says_but_no_longer_than_the_grace_period() -> None:
    world = World()
    world.node("n")
    world.pod("p", annotations={"sluice.io/stop-seconds": "500"})
    world.run(5)
    world.api.delete(f"{PODS}/p", grace_seconds=60)
    world.run(59)
    assert world.pods() == ["p"]
    world.run(2)
    assert world.pods() == []


def test_a_second_deletion_can_cut_the_grace_period_short() -> None:
    world = World()
    world.node("n")
    world.pod("p", annotations={"sluice.io/stop-seconds": "500"})
    world.run(5)
    world.api.delete(f"{PODS}/p", grace_seconds=400)
    world.api.delete(f"{PODS}/p", grace_seconds=0)
    assert world.pods() == []


def test_a_pod_with_a_finalizer_stays_until_it_is_released() -> None:
    world = World()
    world.node("n")
    world.pod("p")
    world.run(5)
    world.api.patch(f"{PODS}/p", {"metadata": {"finalizers": ["example.com/hold"]}})
    world.api.delete(f"{PODS}/p")
    world.run(60)
    assert world.pods() == ["p"]
    world.api.patch(f"{PODS}/p", {"metadata": {"finalizers": None}})
    assert world.pods() == []


def test_a_silent_node_is_marked_lost_tainted_and_its_pods_go_after_five_minutes() -> None:
    world = World()
    world.node("n")
    world.pod("p")
    world.run(5)
    world.api.patch(f"{NODES}/n", SILENT)
    world.run(49)
    assert is_ready(world.api.get(f"{NODES}/n"))
    world.run(2)
    lost = world.api.get(f"{NODES}/n")
    assert condition(lost, "Ready")["status"] == "Unknown"
    assert {(one["key"].rpartition("/")[2], one["effect"]) for one in lost["spec"]["taints"]} == {
        ("unreachable", "NoSchedule"),
        ("unreachable", "NoExecute"),
    }
    assert not is_ready(world.get_pod("p"))
    world.run(298)
    assert "deletionTimestamp" not in world.get_pod("p")["metadata"]
    world.run(5)
    assert world.get_pod("p")["metadata"]["deletionTimestamp"]


def test_pods_of_a_silent_node_end_only_when_the_node_object_is_gone() -> None:
    world = World()
    world.node("n")
    world.pod("p")
    world.run(5)
    world.api.patch(f"{NODES}/n", SILENT)
    world.run(1000)
    assert world.pods() == ["p"]
    world.api.delete(f"{NODES}/n")
    world.run(61)
    assert world.pods() == []


def test_what_ended_on_a_silent_node_is_told_when_it_speaks_again() -> None:
    world = World()
    world.node("n")
    world.pod("p", annotations={"sluice.io/run-seconds": "20"})
    world.run(5)
    world.api.patch(f"{NODES}/n", SILENT)
    world.run(40)
    assert world.phase("p") == "Running"
    world.api.patch(f"{NODES}/n", {"metadata": {"annotations": {"kwok.x-k8s.io/node": "fake"}}})
    world.run(5)
    assert world.phase("p") == "Succeeded"


def test_a_node_that_speaks_again_in_time_keeps_its_pods() -> None:
    world = World()
    world.node("n")
    world.pod("p")
    world.run(5)
    world.api.patch(f"{NODES}/n", SILENT)
    world.run(100)
    world.api.patch(f"{NODES}/n", {"metadata": {"annotations": {"kwok.x-k8s.io/node": "fake"}}})
    world.run(600)
    assert is_ready(world.api.get(f"{NODES}/n"))
    assert is_ready(world.get_pod("p"))
    assert "taints" not in world.api.get(f"{NODES}/n")["spec"]


def test_a_cordon_appears_as_a_taint_and_goes_with_it() -> None:
    world = World()
    world.node("n")
    world.api.patch(f"{NODES}/n", {"spec": {"unschedulable": True}})
    world.run(0)
    assert world.api.get(f"{NODES}/n")["spec"]["taints"] == [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    ]
    world.api.patch(f"{NODES}/n", {"spec": {"unschedulable": None}})
    world.run(0)
    assert "taints" not in world.api.get(f"{NODES}/n")["spec"]


def test_a_no_execute_taint_drives_out_what_does_not_tolerate_it() -> None:
    world = World()
    world.node("n")
    world.pod("goes")
    world.pod("stays", tolerations=[{"key": "out", "operator": "Exists"}])
    world.run(5)
    world.api.patch(f"{NODES}/n", {"spec": {"taints": [{"key": "out", "effect": "NoExecute"}]}})
    world.run(5)
    assert world.pods() == ["stays"]


def test_pods_bound_before_their_node_is_ready_start_when_it_is() -> None:
    world = World()
    world.api.create(NODES, node("n"))
    world.api.create(PODS, pod("p", nodeName="n"))
    world.run(10)
    assert world.phase("p") == "Running"


def test_a_pod_on_a_node_that_never_was_is_collected() -> None:
    world = World()
    world.api.create(PODS, pod("p", nodeName="nowhere"))
    world.run(61)
    assert world.pods() == []


def test_the_truth_keeps_the_lives_of_pods_and_nodes() -> None:
    world = World()
    world.pod("p", annotations={"sluice.io/run-seconds": "10"})
    world.run(7)
    world.node("n")
    world.run(20)
    world.api.delete(f"{PODS}/p")
    world.api.delete(f"{NODES}/n")
    (record,) = world.stand_in.truth.pods.values()
    assert (record.wait, record.phase, record.node) == (8.0, "Succeeded", "n")
    assert (record.finished - record.started).total_seconds() == 10.0
    (life,) = world.stand_in.truth.nodes.values()
    assert (life.ready - life.created).total_seconds() == 1.0
    assert record.deleted == life.deleted == world.timeline.now()


def test_the_truth_keeps_the_budget_as_it_was_before_each_eviction() -> None:
    world = World()
    world.node("n")
    for name in ("p", "q"):
        world.pod(name, labels={"app": "a"})
    selector = {"matchLabels": {"app": "a"}}
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": selector}}
    world.api.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    world.run(10)
    first, second = (world.get_pod(name)["metadata"]["uid"] for name in ("p", "q"))
    world.api.evict("default", "p", first)
    with pytest.raises(Throttled):
        world.api.evict("default", "q", second)
    granted, refused = world.stand_in.truth.evictions
    assert (granted.name, granted.refusal, granted.budgets[0].allowed, granted.budgets[0].ready) == ("p", "", 1, 2)
    assert (refused.name, refused.budgets[0].allowed, refused.budgets[0].ready) == ("q", 0, 1)
    assert "disruption budget" in refused.refusal


def test_a_deleted_owner_takes_what_it_owns_along() -> None:
    world = World()
    world.node("n")
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("unused", "100m")["spec"]}
    path = "/apis/apps/v1/namespaces/default/deployments"
    world.api.create(path, {"metadata": {"name": "d"}, "spec": {**spec, "template": template}})
    world.run(10)
    assert len(world.pods()) == 2
    world.api.delete(f"{path}/d")
    world.run(10)
    assert world.pods() == []
    with pytest.raises(NotFound):
        world.api.get(f"{path}/d")


def test_orphans_stay_when_their_owner_is_deleted_so() -> None:
    world = World()
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("unused", "100m")["spec"]}
    path = "/apis/apps/v1/namespaces/default/replicasets"
    world.api.create(path, {"metadata": {"name": "r"}, "spec": {**spec, "template": template}})
    world.run(1)
    world.request("DELETE", f"{path}/r?propagationPolicy=Orphan")
    world.run(1)
    (left,) = world.api.list(PODS)[0]
    assert "ownerReferences" not in left["metadata"]
    assert world.api.list(path)[0] == []


def test_a_namespace_goes_with_everything_in_it() -> None:
    world = World()
    world.api.create("/api/v1/namespaces", {"metadata": {"name": "team"}})
    world.api.create("/api/v1/namespaces/team/configmaps", {"metadata": {"name": "c"}})
    world.api.delete("/api/v1/namespaces/team")
    world.run(1)
    with pytest.raises(NotFound):
        world.api.get("/api/v1/namespaces/team")
    assert world.api.list("/api/v1/configmaps")[0] == []
