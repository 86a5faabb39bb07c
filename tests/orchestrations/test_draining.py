"""What a drain does to the pods of a node, and what ends it before its time."""

from __future__ import annotations

from typing import Any

import pytest

from functions.nodes import cordon, uncordon
from local.kube.controllers.kubelet import STOP_SECONDS
from local.web import Request, Response
from shared.names import RETIRE_OPERATION_ANNOTATION, RETIRING_TAINT
from shared.reading.drain import DO_NOT_DISRUPT, SAFE_TO_EVICT, SCALE_DOWN_DISABLED
from tests.orchestrations.stage import POOLS, Stage

Json = dict[str, Any]
PATIENT = POOLS.replace("idle_after: 10m", "idle_after: 10m, utilization_below: 0.9, drain_timeout: 5m")
SLOW = {STOP_SECONDS: "3600"}


def with_pod_to_move(pools: str = PATIENT, **pod: Any) -> tuple[Stage, str]:
    """Two nodes with a pod each; the one of `pod-0` is to go, since the other's has opted out."""
    stage = Stage(pools)
    stage.submit(1, cpu="1", notes=pod.pop("notes", None), finalizers=pod.pop("finalizers", ()), **pod)
    stage.submit(1, cpu="2", prefix="filler")
    stage.submit(1, cpu="2", prefix="other", notes={SAFE_TO_EVICT: "false"})
    stage.run(2)
    stage.say(seconds=240)
    stage.finish("filler")
    return stage, stage.pods("pod-0")[0]["spec"]["nodeName"]


def drain(stage: Stage, node: str) -> None:
    """Until the first pod is on its way out."""
    stage.idle()
    for _ in range(200):
        if any("deletionTimestamp" in pod["metadata"] for pod in stage.pods()):
            return
        stage.run(0.5)
    raise AssertionError(f"{node} does not drain")


def node_of(stage: Stage, name: str) -> Json:
    return next(node for node in stage.nodes() if node["metadata"]["name"] == name)


def why_kept(stage: Stage, node: str) -> str:
    return str(stage.document(f"nodes/{node}.json").get("kept", ""))


def test_a_pod_has_all_of_its_grace_period_though_that_is_longer_than_the_drain_timeout() -> None:
    stage, node = with_pod_to_move(notes={STOP_SECONDS: "1100"}, terminationGracePeriodSeconds=1200)
    drain(stage, node)
    stage.run(1000)
    assert len(stage.nodes()) == 2
    assert [pod["metadata"]["name"] for pod in stage.pods("pod-0")] == ["pod-0"]
    stage.run(400)
    assert [each["metadata"]["name"] for each in stage.nodes()] != [node]
    assert len(stage.nodes()) == 1


def test_a_pod_that_ignores_its_termination_is_ended_by_its_kubelet_and_the_node_goes() -> None:
    stage, node = with_pod_to_move(notes=SLOW, terminationGracePeriodSeconds=120)
    drain(stage, node)
    stage.run(400)
    assert len(stage.nodes()) == 1


def test_a_finalizer_that_nobody_lifts_ends_the_drain_and_the_verdict_names_it() -> None:
    stage, node = with_pod_to_move(finalizers=["example.com/backup"])
    drain(stage, node)
    stage.run(900)
    assert "default/pod-0 has ended, and its finalizers hold it: example.com/backup" in why_kept(stage, node)
    assert not node_of(stage, node)["spec"].get("unschedulable")
    assert RETIRE_OPERATION_ANNOTATION not in node_of(stage, node)["metadata"]["annotations"]
    assert stage.machines()["spot"] == 2


def test_an_owner_who_opts_out_during_the_drain_keeps_the_node() -> None:
    stage, node = with_pod_to_move(notes=SLOW, terminationGracePeriodSeconds=200)
    stage.submit(1, cpu="500m", prefix="second", nodeName=node)
    stage.run(5)
    budget = {
        "metadata": {"name": "second", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "second"}}},
    }
    stage.api.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    drain(stage, node)
    notes = {"annotations": {DO_NOT_DISRUPT: "true"}}
    stage.api.patch("/api/v1/namespaces/default/pods/second-0", {"metadata": notes})
    stage.run(60)
    assert f"annotation {DO_NOT_DISRUPT}" in why_kept(stage, node)
    assert "second-0" in why_kept(stage, node)
    assert not node_of(stage, node)["spec"].get("unschedulable")


@pytest.mark.parametrize("annotation", [SCALE_DOWN_DISABLED, DO_NOT_DISRUPT])
def test_an_opt_out_that_is_set_on_the_node_during_the_drain_keeps_it(annotation: str) -> None:
    stage, node = with_pod_to_move(notes=SLOW, terminationGracePeriodSeconds=200)
    drain(stage, node)
    stage.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {annotation: "true"}}})
    stage.run(60)
    assert annotation in why_kept(stage, node)
    assert not node_of(stage, node)["spec"].get("unschedulable")
    assert stage.machines()["spot"] == 2


def test_a_pod_that_comes_during_the_drain_keeps_the_node_and_is_not_evicted() -> None:
    stage, node = with_pod_to_move(notes=SLOW, terminationGracePeriodSeconds=200)
    drain(stage, node)
    stage.submit(1, cpu="500m", prefix="late", nodeName=node)
    stage.run(60)
    assert "busy again: default/late-0 has come" in why_kept(stage, node)
    assert not node_of(stage, node)["spec"].get("unschedulable")
    assert "deletionTimestamp" not in stage.pods("late")[0]["metadata"]


def test_who_the_system_needs_most_leaves_after_all_others() -> None:
    stage, node = with_pod_to_move(notes={STOP_SECONDS: "100"}, terminationGracePeriodSeconds=150)
    stage.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", CRITICAL)
    stage.submit(1, cpu="500m", prefix="system", nodeName=node, priorityClassName="system-cluster-critical")
    stage.run(5)
    drain(stage, node)
    stage.run(60)
    assert "deletionTimestamp" in stage.pods("pod-0")[0]["metadata"]
    assert "deletionTimestamp" not in stage.pods("system")[0]["metadata"]
    stage.run(200)
    assert stage.pods("system") == []
    assert len(stage.nodes()) == 1


def test_whose_turn_comes_after_the_deadline_still_has_it() -> None:
    stage, node = with_pod_to_move(notes={STOP_SECONDS: "400"}, terminationGracePeriodSeconds=500)
    stage.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", CRITICAL)
    stage.submit(1, cpu="500m", prefix="system", nodeName=node, priorityClassName="system-cluster-critical")
    stage.run(5)
    drain(stage, node)
    stage.run(390)
    assert "deletionTimestamp" not in stage.pods("system")[0]["metadata"]
    stage.run(120)
    assert stage.pods("system") == []
    assert len(stage.nodes()) == 1


def test_a_budget_that_never_allows_it_ends_the_drain_at_its_deadline_whatever_the_grace_periods() -> None:
    stage, node = with_pod_to_move(terminationGracePeriodSeconds=3600)
    budget = {
        "metadata": {"name": "pod", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "pod"}}},
    }
    stage.api.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    stage.idle(seconds=270)
    assert node_of(stage, node)["spec"]["unschedulable"]
    stage.run(60)
    assert not node_of(stage, node)["spec"].get("unschedulable")
    assert "a PodDisruptionBudget holds default/pod-0" in why_kept(stage, node)
    assert "deletionTimestamp" not in stage.pods("pod-0")[0]["metadata"]


CRITICAL = {"metadata": {"name": "system-cluster-critical"}, "value": 2_000_000_000}


def test_pods_below_the_priority_cut_off_hold_no_node() -> None:
    stage, node = with_pod_to_move()
    stage.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "low"}, "value": -100})
    stage.submit(1, cpu="500m", prefix="low", nodeName=node, priorityClassName="low")
    stage.run(5)
    stage.idle(seconds=300)
    assert len(stage.nodes()) == 1


def test_an_administrators_cordon_that_comes_between_the_check_and_ours_is_left_alone() -> None:
    stage, node = with_pod_to_move()
    stage.finish("pod-0")
    path, looks = f"/api/v1/nodes/{node}", 0
    handle = stage.cluster.handle

    def cordoned_in_between(request: Request) -> Response:
        nonlocal looks
        looks += request.method == "GET" and request.path == path
        if looks == 1 and request.path != path:
            looks += 1
            stage.api.patch(path, {"spec": {"unschedulable": True}})
        return handle(request)

    stage.cluster.handle = cordoned_in_between  # type: ignore[method-assign]  # the door is the test's own
    stage.idle(seconds=120)
    found = node_of(stage, node)
    assert looks > 1
    assert found["spec"]["unschedulable"]
    assert RETIRE_OPERATION_ANNOTATION not in (found["metadata"].get("annotations") or {})
    assert "cordoned by an administrator" in why_kept(stage, node)


@pytest.mark.parametrize("lost", [False, True])
def test_once_our_cordon_was_taken_off_one_that_is_there_again_is_somebody_elses(lost: bool) -> None:
    stage, node = with_pod_to_move()
    api = stage.services.cluster("training")
    cordon(api, {"node": node, "op": "r1"})
    path = f"/api/v1/nodes/{node}"
    if lost:
        stage.api.patch(path, {"spec": {"unschedulable": None}})
        stage.api.patch(path, {"spec": {"unschedulable": True}})
    assert uncordon(api, node, "r1", lost=lost)
    found = node_of(stage, node)
    assert bool(found["spec"].get("unschedulable")) is lost
    assert RETIRING_TAINT not in {taint["key"] for taint in found["spec"].get("taints") or ()}
    assert RETIRE_OPERATION_ANNOTATION not in found["metadata"]["annotations"]


def test_what_was_done_to_the_node_and_its_pod_stands_in_the_trail() -> None:
    stage, node = with_pod_to_move()
    uid = stage.pods("pod-0")[0]["metadata"]["uid"]
    drain(stage, node)
    stage.run(200)
    container = "plans-training"
    events = [name.split("~")[2].removesuffix(".json") for name in stage.store.list(container, f"trail/nodes/{node}/")]
    assert set(events) == {"cordoned", "evicted", "deleted", "gone"}
    (evicted,) = stage.store.list(container, "trail/pods/default/pod-0/")
    said = stage.document(evicted)
    assert said["uid"] == uid
    assert said["node"] == node
    assert "idle" in said["why"]
    assert "ReplicaSet" in said["rule"]
