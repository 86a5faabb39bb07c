from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from shared.model import HostPort, Movability, PodRef, Taint, Toleration
from shared.names import EVICTING_AT_ANNOTATION
from shared.reading.projection import (
    UNKNOWN_TIME,
    daemon_shapes,
    next_idle_since,
    pending_classes,
    project,
    project_node,
    utilization,
)
from tests.reading.builders import CONFIG, container, node, owned, pod

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def snapshot(pods=(), nodes=(), **more):
    return project(cluster="test", epoch=1, sequence=2, now=NOW, config=CONFIG, pods=pods, nodes=nodes, **more)


def cpu(amount, name="p", **more):
    return pod(name, containers=[container(requests={"cpu": amount})], nodeName="n", **more)


def test_pending_pods_are_grouped_by_shape_in_the_order_of_their_names():
    small, large = (
        {"containers": [container(requests={"cpu": "1"})]},
        {"containers": [container(requests={"cpu": "2"})]},
    )
    pods = [pod("d", **small), pod("c", **large), pod("b", **small), pod("a", **large), pod("e", "aaa", **small)]
    random.Random(1).shuffle(pods)
    assert [[str(ref) for ref in group.pods] for group in pending_classes(pods)] == [
        ["aaa/e", "default/b", "default/d"],
        ["default/a", "default/c"],
    ]


def test_the_order_of_the_lists_does_not_matter():
    pods = [pod(f"p{i}", nodeName=f"n{i % 3}" if i % 2 else None) for i in range(20)]
    nodes = [node(f"n{i}") for i in range(3)]
    assert snapshot(pods[::-1], nodes[::-1]) == snapshot(pods, nodes)


def test_a_node_holds_what_is_bound_to_it_and_nothing_else():
    view = snapshot([cpu("1"), pod("pending"), pod("elsewhere", nodeName="m")], [node("n")]).nodes[0]
    assert view.requested == {"pods": 1, "cpu": 1000}
    assert [str(ref) for group in view.bound for ref in group.pods] == ["default/p"]


def test_ended_pods_take_no_room():
    ended = [cpu("1", status={"phase": "Succeeded"}), cpu("1", "q", status={"phase": "Failed"})]
    view = project_node(node(), ended, CONFIG)
    assert view.requested == {"pods": 0}
    assert view.bound == ()


def test_a_terminating_pod_takes_room_and_needs_no_eviction_and_is_not_pending():
    leaving = cpu("1", meta={"deletionTimestamp": "2026-01-01T00:00:00Z", **owned()})
    view = project_node(node(), [leaving], CONFIG)
    assert view.requested["cpu"] == 1000
    assert view.bound[0].movability is Movability.STAYS
    assert pending_classes([leaving]) == ()


def test_what_terminating_pods_still_hold_is_told_apart():
    leaving = pod("going", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}, nodeName="n")
    view = snapshot([leaving, pod("staying", nodeName="n")], [node("n")]).nodes[0]
    assert (view.requested["cpu"], view.leaving["cpu"], view.leaving["pods"]) == (2000, 1000, 1)


def test_pending_pods_with_a_nominated_node_are_grouped_by_it():
    found = pending_classes([pod("a"), pod("b", status={"nominatedNodeName": "n"}), pod("c")])
    assert [(each.nominated, len(each.pods)) for each in found] == [("", 2), ("n", 1)]


def test_a_pending_daemon_set_pod_pinned_to_its_node_is_not_pending():
    assert pending_classes([pod(meta=owned("DaemonSet"))]) == ()


def test_bound_pods_are_grouped_by_shape_and_by_what_a_drain_would_do():
    pods = [cpu("1", "a", meta=owned()), cpu("1", "b", meta=owned()), cpu("1", "bare")]
    view = project_node(node(), pods, CONFIG)
    assert [(len(group.pods), group.movability) for group in view.bound] == [
        (2, Movability.MOVES),
        (1, Movability.BLOCKS),
    ]
    assert view.bound[1].blocked_by.startswith("BarePod")


def test_a_nodes_own_facts_are_taken_over():
    written = node(
        "n",
        meta={
            "labels": {"zone": "1", "sluice.io/pool": "gpu"},
            "annotations": {"karpenter.sh/do-not-disrupt": "true", "other": "x"},
        },
        status={"allocatable": {"cpu": "3920m", "memory": "1Gi", "pods": "30", "hugepages-1Gi": "0"}},
        taints=[{"key": "sku", "value": "gpu", "effect": "NoSchedule"}, {"key": "x", "effect": "NoExecute"}],
        unschedulable=True,
    )
    view = project_node(written, [], CONFIG)
    assert (view.name, view.uid, view.pool, view.ready, view.unschedulable) == ("n", "uid-n", "gpu", True, True)
    assert view.labels == {"zone": "1", "sluice.io/pool": "gpu"}
    assert view.taints == (Taint("sku", "gpu", "NoSchedule"), Taint("x", "", "NoExecute"))
    assert view.allocatable == {"cpu": 3920, "memory": 2**30, "pods": 30}
    assert view.created_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert view.annotations == {"karpenter.sh/do-not-disrupt": "true"}


@pytest.mark.parametrize(
    "conditions", [[], [{"type": "Ready", "status": "False"}], [{"type": "Ready", "status": "Unknown"}]]
)
def test_a_node_is_ready_only_when_it_says_so(conditions):
    assert not project_node(node(status={"conditions": conditions}), [], CONFIG).ready


def test_a_hand_written_node_without_times_or_status_is_old_and_empty():
    view = project_node({"metadata": {"name": "n"}}, [], CONFIG)
    assert (view.created_at, view.allocatable, view.ready) == (UNKNOWN_TIME, {}, False)


def test_capacity_stands_in_for_allocatable():
    written = node(status={"allocatable": None, "capacity": {"cpu": "2"}})
    assert project_node(written, [], CONFIG).allocatable == {"cpu": 2000}


def test_host_ports_of_bound_pods_are_taken():
    ports = [container(ports=[{"hostPort": 80}])]
    view = project_node(node(), [pod("a", nodeName="n", containers=ports), pod("b", nodeName="n")], CONFIG)
    assert view.host_ports == (HostPort("", "TCP", 80),)


def test_utilization_is_the_larger_of_cpu_and_memory():
    heavy = pod(nodeName="n", meta=owned(), containers=[container(requests={"cpu": "1", "memory": "12Gi"})])
    assert utilization(project_node(node(), [heavy], CONFIG)) == 0.75


def test_daemon_set_pods_do_not_make_a_node_busy():
    assert utilization(project_node(node(), [cpu("4", meta=owned("DaemonSet"))], CONFIG)) == 0.0


def test_blocking_pods_make_a_node_busy():
    assert utilization(project_node(node(), [cpu("4")], CONFIG)) == 1.0


def test_on_a_gpu_node_only_the_gpus_count():
    written = node(status={"allocatable": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "4", "pods": "110"}})
    one_gpu = pod("g", nodeName="n", meta=owned(), containers=[container(requests={"nvidia.com/gpu": "1"})])
    assert utilization(project_node(written, [cpu("4", meta=owned())], CONFIG)) == 0.0
    assert utilization(project_node(written, [cpu("4", meta=owned()), one_gpu], CONFIG)) == 0.25


def test_other_extended_resources_count_beside_cpu():
    written = node(status={"allocatable": {"cpu": "4", "vendor.com/nic": "2"}})
    one = pod(nodeName="n", meta=owned(), containers=[container(requests={"cpu": "1", "vendor.com/nic": "1"})])
    assert utilization(project_node(written, [one], CONFIG)) == 0.5


def test_a_node_that_offers_nothing_is_not_used():
    assert utilization(project_node({"metadata": {"name": "n"}}, [], CONFIG)) == 0.0


def test_an_idle_node_keeps_the_time_since_when_it_is():
    since = NOW - timedelta(minutes=5)
    assert snapshot([], [node("n")], idle_since={"n": since}).nodes[0].idle_since == since


def test_a_node_that_is_busy_again_is_not_idle_since():
    busy = snapshot([cpu("2", meta=owned())], [node("n")], idle_since={"n": NOW}).nodes[0]
    assert busy.idle_since is None


def test_idle_times_start_now_and_run_on():
    labelled = {"labels": {"sluice.io/pool": "cpu"}}
    views = [
        project_node(node("old", meta=labelled), [], CONFIG),
        project_node(node("new", meta=labelled), [], CONFIG),
        project_node(node("busy", meta=labelled), [cpu("4", meta=owned())], CONFIG),
        project_node(node("stranger"), [], CONFIG),
        project_node(node("down", meta=labelled, status={"conditions": []}), [], CONFIG),
    ]
    before = {"old": NOW - timedelta(hours=1), "busy": NOW - timedelta(hours=1), "gone": NOW}
    assert next_idle_since(views, before, CONFIG, NOW) == {"old": NOW - timedelta(hours=1), "new": NOW}


def test_the_node_agents_word_is_the_eviction_time():
    told = node(meta={"annotations": {EVICTING_AT_ANNOTATION: "2026-01-02T03:04:05+01:00"}})
    assert project_node(told, [], CONFIG).evicting_at == datetime(2026, 1, 2, 2, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize("text", ["soon", "", "2026-01-02T03:04:05"])
def test_an_eviction_time_that_is_none_says_nothing(text):
    told = node(meta={"annotations": {EVICTING_AT_ANNOTATION: text}})
    assert project_node(told, [], CONFIG).evicting_at is None


def condition(kind, status="True", message=""):
    return {
        "conditions": [
            {"type": kind, "status": status, "message": message, "lastTransitionTime": "2026-01-02T00:00:00Z"}
        ]
    }


@pytest.mark.parametrize(
    "status",
    [
        condition("VMEventScheduled", message="Preempt Scheduled: Fri, 02 Jan 2026"),
        condition("VMEventScheduled"),
        condition("PreemptionScheduled"),
    ],
)
def test_a_condition_set_by_others_gives_half_a_minute(status):
    assert project_node(node(status=status), [], CONFIG).evicting_at == NOW + timedelta(seconds=30)


@pytest.mark.parametrize(
    "status",
    [
        condition("VMEventScheduled", status="False"),
        condition("VMEventScheduled", message="Freeze Scheduled"),
        condition("VMEventScheduled", message="Reboot Scheduled"),
        condition("MemoryPressure"),
    ],
)
def test_a_node_that_azure_leaves_in_place_is_not_evicting(status):
    assert project_node(node(status=status), [], CONFIG).evicting_at is None


def daemon_set(name="agent", **spec):
    spec.setdefault("containers", [container(requests={"cpu": "100m"})])
    return {"metadata": {"name": name, "namespace": "kube-system"}, "spec": {"template": {"spec": spec}}}


def test_a_daemon_sets_pod_tolerates_what_its_controller_lets_it_tolerate():
    (found,) = daemon_shapes([daemon_set(tolerations=[{"key": "sku", "operator": "Exists"}])])
    assert found.name == "kube-system/agent"
    assert found.shape.requests == (("cpu", 100),)
    assert Toleration("sku", "Exists", "", "") in found.shape.tolerations
    assert Toleration("node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule") in found.shape.tolerations


def test_only_a_daemon_on_the_host_network_tolerates_a_node_without_one():
    network = Toleration("node.kubernetes.io/network-unavailable", "Exists", "", "NoSchedule")
    plain, host = daemon_shapes([daemon_set("a"), daemon_set("b", hostNetwork=True)])
    assert network not in plain.shape.tolerations
    assert network in host.shape.tolerations


def test_the_pieces_make_the_whole():
    pods = [pod("waits"), cpu("1", meta=owned())]
    whole = snapshot(pods, [node("n")], daemon_sets=[daemon_set()])
    assert whole.pending == pending_classes(pods)
    assert whole.nodes == (project_node(node("n"), pods[1:], CONFIG),)
    assert whole.daemons == daemon_shapes([daemon_set()])
    assert (whole.cluster, whole.epoch, whole.sequence, whole.observed_at) == ("test", 1, 2, NOW)


def test_a_pod_reference_carries_the_uid():
    assert pending_classes([pod("p")])[0].pods == (PodRef("default", "p", "uid-default-p"),)


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        (
            {"pods": [pod("bad", containers=[container(requests={"cpu": "lots"})])]},
            "pod default/bad is malformed.*'lots'",
        ),
        ({"pods": [pod("bad", containers=[{"resources": {"requests": {"cpu": []}}}])]}, "pod default/bad is malformed"),
        ({"pods": [pod("bad", tolerations=7)]}, "pod default/bad is malformed"),
        ({"pods": [{"metadata": {"name": "bad"}, "spec": "x"}]}, "pod bad is malformed"),
        ({"pods": [{"spec": {}}]}, "malformed"),
        ({"pods": ["x"]}, "malformed"),
        ({"nodes": [{"metadata": {}}]}, r"node \? is malformed: no 'name'"),
        ({"nodes": [node("bad", status={"allocatable": {"cpu": "x"}})]}, "node bad is malformed.*'x'"),
        ({"nodes": [node("bad", taints=[{"effect": "NoSchedule"}])]}, "node bad is malformed: no 'key'"),
        ({"daemon_sets": [{"metadata": {"name": "bad"}}]}, "daemon set bad is malformed: no 'spec'"),
    ],
)
def test_a_malformed_object_is_refused_by_name(broken, named):
    with pytest.raises(ValueError, match=named):
        snapshot(**broken)
