"""The bridge from machines to nodes works against a real API server as it does against the stand-in."""

from __future__ import annotations

from datetime import timedelta

from local.machines import BootTimes, MachinesBridge
from tests import builders
from tests.kubernetes_contract.targets import NODES, PODS, Target, condition, is_ready, pod
from tests.machines.test_bridge import Machine, Machines

NAME = "general000000"


def test_a_machine_s_node_lives_and_is_lost_with_it(cluster: Target) -> None:
    machines = Machines()
    times = BootTimes(boot=(0.5, 0.5), silence=1.0)
    MachinesBridge(cluster.timeline, machines, cluster.api, builders.config(), boot=times)
    cluster.api.create(PODS, pod("waiting", nodeSelector={"sluice.io/pool": "general"}))
    with cluster.timeline.lock:
        machines.listeners["on_running"](Machine())
    running = cluster.until(lambda: is_ready(found := cluster.api.get(f"{PODS}/waiting")) and found)
    assert running["spec"]["nodeName"] == NAME

    with cluster.timeline.lock:
        machines.listeners["on_preempt_notice"](Machine(), cluster.timeline.now() + timedelta(seconds=30))
    noticed = cluster.until(
        lambda: condition(found := cluster.api.get(f"{NODES}/{NAME}"), "VMEventScheduled") and found
    )
    assert is_ready(noticed)
    cluster.until(lambda: "sluice.io/evicting-at" in cluster.api.get(f"{NODES}/{NAME}")["metadata"]["annotations"])

    with cluster.timeline.lock:
        machines.listeners["on_gone"](Machine())
    cluster.until(lambda: condition(cluster.api.get(f"{NODES}/{NAME}"), "Ready")["status"] == "Unknown")
    taints = cluster.until(lambda: cluster.api.get(f"{NODES}/{NAME}")["spec"].get("taints"))
    assert {one["key"] for one in taints} == {"node.kubernetes.io/unreachable"}
