"""What wakes Sluice, and what its nodes are for: the verdicts of the scheduler and the kubelet."""

from __future__ import annotations

from typing import Any

import pytest

from shared.adapters.errors import StaleWrite
from tests.kubernetes_contract.targets import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NODES,
    PODS,
    Target,
    condition,
    deployment,
    is_ready,
    node,
    pod,
    template,
)


def _verdict(cluster: Target, name: str) -> str:
    """Why the pod waits, once the scheduler has said so."""
    return cluster.until(lambda: condition(cluster.api.get(f"{PODS}/{name}"), "PodScheduled").get("message"))


def _host(cluster: Target, name: str) -> str:
    """Where the pod is bound, once it is."""
    return cluster.until(lambda: cluster.api.get(f"{PODS}/{name}")["spec"].get("nodeName"))


def _ready_node(cluster: Target, name: str, *args: Any, **more: Any) -> None:
    cluster.api.create(NODES, node(name, *args, **more))
    cluster.until(lambda: _open_to_pods(cluster.api.get(f"{NODES}/{name}")))


def _open_to_pods(found: dict) -> bool:
    taints = found["spec"].get("taints") or ()
    return is_ready(found) and not any(one["key"] == "node.kubernetes.io/not-ready" for one in taints)


def test_without_nodes_a_pod_is_reported_unschedulable(cluster: Target) -> None:
    cluster.api.create(PODS, pod("a"))
    assert _verdict(cluster, "a") == "no nodes available to schedule pods"
    scheduled = condition(cluster.api.get(f"{PODS}/a"), "PodScheduled")
    assert (scheduled["status"], scheduled["reason"]) == ("False", "Unschedulable")


def test_a_pod_that_fits_nowhere_is_told_what_is_short(cluster: Target) -> None:
    _ready_node(cluster, "small", "2")
    cluster.api.create(PODS, pod("big", "3"))
    assert _verdict(cluster, "big").startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_a_new_node_is_not_ready_at_first_and_then_takes_the_waiting_pod(cluster: Target) -> None:
    cluster.api.create(PODS, pod("waiting"))
    _verdict(cluster, "waiting")
    made = cluster.api.create(NODES, node("new"))
    assert [one["key"] for one in made["spec"]["taints"]] == ["node.kubernetes.io/not-ready"]
    assert _host(cluster, "waiting") == "new"
    running = cluster.until(lambda: is_ready(found := cluster.api.get(f"{PODS}/waiting")) and found)
    assert running["status"]["phase"] == "Running"
    assert condition(running, "PodScheduled")["status"] == "True"


def test_a_node_that_nobody_stands_behind_takes_no_pods(cluster: Target) -> None:
    body = node("mute")
    del body["metadata"]["annotations"]
    # As a kubelet registers: a Node without any condition loses its taint for a moment, and takes pods.
    body["status"]["conditions"] = [{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}]
    cluster.api.create(NODES, body)
    cluster.api.create(PODS, pod("a"))
    assert "1 node(s) had untolerated taint" in _verdict(cluster, "a")


def test_a_cordoned_node_takes_no_pods_until_it_is_opened(cluster: Target) -> None:
    _ready_node(cluster, "n")
    cluster.api.patch(f"{NODES}/n", {"spec": {"unschedulable": True}})
    cluster.until(lambda: cluster.api.get(f"{NODES}/n")["spec"].get("taints"))
    cluster.api.create(PODS, pod("a"))
    assert "unschedulable" in _verdict(cluster, "a")
    cluster.api.patch(f"{NODES}/n", {"spec": {"unschedulable": None}})
    assert _host(cluster, "a") == "n"


def test_taints_keep_pods_off_that_do_not_tolerate_them(cluster: Target) -> None:
    _ready_node(cluster, "gpu", taints=[{"key": "sku", "value": "gpu", "effect": "NoSchedule"}])
    cluster.api.create(PODS, pod("plain"))
    tolerant = [{"key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}]
    cluster.api.create(PODS, pod("tolerant", tolerations=tolerant))
    assert _host(cluster, "tolerant") == "gpu"
    assert "untolerated taint" in _verdict(cluster, "plain")


def test_selectors_and_affinity_choose_nodes_by_label(cluster: Target) -> None:
    _ready_node(cluster, "a", labels={"zone": "1", "size": "10"})
    _ready_node(cluster, "b", labels={"zone": "2", "size": "20"})
    cluster.api.create(PODS, pod("selects", "100m", nodeSelector={"zone": "2"}))
    terms = [{"matchExpressions": [{"key": "size", "operator": "Lt", "values": ["15"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    cluster.api.create(PODS, pod("prefers", "100m", affinity={"nodeAffinity": required}))
    cluster.api.create(PODS, pod("nowhere", "100m", nodeSelector={"zone": "3"}))
    assert _host(cluster, "selects") == "b"
    assert _host(cluster, "prefers") == "a"
    assert "didn't match Pod's node affinity/selector" in _verdict(cluster, "nowhere")


def test_a_host_port_is_taken_once_per_node(cluster: Target) -> None:
    _ready_node(cluster, "n")
    for name in ("first", "second"):
        body = pod(name, "100m")
        body["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
        cluster.api.create(PODS, body)
        cluster.until(lambda name=name: condition(cluster.api.get(f"{PODS}/{name}"), "PodScheduled"))
    assert _host(cluster, "first") == "n"
    assert "didn't have free ports" in _verdict(cluster, "second")


def test_init_containers_and_sidecars_count_as_the_scheduler_counts_them(cluster: Target) -> None:
    _ready_node(cluster, "n", "4")
    body = pod("a", "1")
    image, cpu = "example.invalid/app:1", lambda amount: {"requests": {"cpu": amount}}
    body["spec"]["initContainers"] = [
        {"name": "sidecar", "image": image, "restartPolicy": "Always", "resources": cpu("1")},
        {"name": "init", "image": image, "resources": cpu("2500m")},
    ]
    cluster.api.create(PODS, body)
    cluster.api.create(PODS, pod("b", "500m"))
    cluster.api.create(PODS, pod("c", "100m"))
    hosts = [_host(cluster, "a"), _host(cluster, "b")]
    assert hosts == ["n", "n"]  # 3.5 and 0.5: the sidecar runs beside the init container
    assert "Insufficient cpu" in _verdict(cluster, "c")


def test_a_node_takes_no_more_pods_than_it_says(cluster: Target) -> None:
    body = node("n")
    body["status"]["capacity"]["pods"] = "1"
    cluster.api.create(NODES, body)
    cluster.until(lambda: _open_to_pods(cluster.api.get(f"{NODES}/n")))
    cluster.api.create(PODS, pod("a", "100m"))
    assert _host(cluster, "a") == "n"
    cluster.api.create(PODS, pod("b", "100m"))
    assert "Too many pods" in _verdict(cluster, "b")


def test_pods_spread_over_equal_nodes(cluster: Target) -> None:
    for name in ("a", "b"):
        _ready_node(cluster, name)
    for name in ("p", "q"):
        cluster.api.create(PODS, pod(name, "2"))
        _host(cluster, name)
    assert {_host(cluster, "p"), _host(cluster, "q")} == {"a", "b"}


def test_a_gated_pod_is_not_looked_at(cluster: Target) -> None:
    _ready_node(cluster, "n")
    cluster.api.create(PODS, pod("gated", schedulingGates=[{"name": "example.com/wait"}]))
    cluster.api.create(PODS, pod("open"))
    assert _host(cluster, "open") == "n"
    gated = cluster.api.get(f"{PODS}/gated")
    assert condition(gated, "PodScheduled")["reason"] == "SchedulingGated"
    cluster.api.patch(f"{PODS}/gated", {"spec": {"schedulingGates": None}})
    assert _host(cluster, "gated") == "n"


def test_another_scheduler_s_pods_are_left_alone_and_can_be_bound_by_hand(cluster: Target) -> None:
    _ready_node(cluster, "n")
    cluster.api.create(PODS, pod("other", schedulerName="somebody-else"))
    cluster.api.create(PODS, pod("ours"))
    _host(cluster, "ours")
    assert not cluster.api.get(f"{PODS}/other")["spec"].get("nodeName")
    binding = {"metadata": {"name": "other"}, "target": {"apiVersion": "v1", "kind": "Node", "name": "n"}}
    cluster.api.create(f"{PODS}/other/binding", binding)
    assert _host(cluster, "other") == "n"
    with pytest.raises(StaleWrite, match='already assigned to node "n"'):
        cluster.api.create(f"{PODS}/other/binding", binding)


def test_a_deployment_makes_its_pods_and_reports_them_ready(cluster: Target) -> None:
    _ready_node(cluster, "n")
    cluster.api.create(DEPLOYMENTS, deployment("web", 3))
    status = cluster.until(
        lambda: (found := cluster.api.get(f"{DEPLOYMENTS}/web")["status"]).get("readyReplicas") == 3 and found
    )
    assert (status["replicas"], status["availableReplicas"]) == (3, 3)
    pods, _ = cluster.api.list(PODS, label_selector="app=web")
    assert {one["metadata"]["ownerReferences"][0]["kind"] for one in pods} == {"ReplicaSet"}


def test_a_daemon_set_puts_a_pod_on_each_new_node_even_a_cordoned_one(cluster: Target) -> None:
    labels = {"app": "agent"}
    spec = {"selector": {"matchLabels": labels}, "template": template(labels)}
    cluster.api.create(DAEMON_SETS, {"metadata": {"name": "agent"}, "spec": spec})
    cluster.api.create(NODES, node("n", unschedulable=True))

    def placed() -> list[str]:
        pods, _ = cluster.api.list(PODS, label_selector="app=agent", field_selector="status.phase=Running")
        return [one["spec"].get("nodeName") for one in pods]

    assert cluster.until(placed) == ["n"]


def test_a_job_s_pod_runs_to_its_end(cluster: Target) -> None:
    _ready_node(cluster, "n")
    spec = {"template": template({"app": "job"}, restartPolicy="Never")}
    cluster.api.create(JOBS, {"metadata": {"name": "once"}, "spec": spec})
    cluster.until(lambda: condition(cluster.api.get(f"{JOBS}/once"), "Complete").get("status") == "True")
    pods, _ = cluster.api.list(PODS, label_selector="job-name=once")
    assert [one["status"]["phase"] for one in pods] == ["Succeeded"]


def test_room_that_a_pod_leaves_is_given_to_one_that_waits(cluster: Target) -> None:
    _ready_node(cluster, "n", "1")
    cluster.api.create(PODS, pod("first"))
    _host(cluster, "first")
    cluster.api.create(PODS, pod("second"))
    _verdict(cluster, "second")
    cluster.api.delete(f"{PODS}/first", grace_seconds=1)
    assert _host(cluster, "second") == "n"
