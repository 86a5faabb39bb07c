"""Nodes whose kubelet fell silent, and VMs whose deletion hangs: what is done by force, and what never."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from local.arm.faults import Fault
from local.kube.controllers.kubelet import KUBELET_ANNOTATION
from local.web import Request
from shared.names import WAIT_FOR_COMPLETION_ANNOTATION
from shared.reading.drain import DO_NOT_DISRUPT, SAFE_TO_EVICT, SCALE_DOWN_DISABLED
from tests.orchestrations.stage import POOLS, Stage
from tests.orchestrations.test_disks import DISK
from tests.orchestrations.test_draining import node_of, why_kept
from tests.orchestrations.test_removals import ALL_AT_ONCE, with_empty_nodes
from tests.orchestrations.test_single_machines import stage_of_vms

MINUTE = 60.0
ATTACHMENT = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "VolumeAttachment",
    "metadata": {"name": "csi-1"},
    "spec": {"attacher": "disk.csi.azure.com", "source": {"persistentVolumeName": "pv-1"}},
}


def with_nodes(number: int = 2, pools: str = POOLS, notes: Any = None) -> tuple[Stage, str]:
    """Busy nodes, the first of which is to fall silent."""
    stage = Stage(pools, timers=True)
    stage.submit(number, notes=notes)
    stage.run(2)
    stage.say(seconds=240)
    assert len(stage.bound()) == number
    return stage, stage.pods("pod-0")[0]["spec"]["nodeName"]


def silence(stage: Stage, node: str) -> None:
    stage.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {KUBELET_ANNOTATION: None}}})


def names(stage: Stage) -> list[str]:
    return [node["metadata"]["name"] for node in stage.nodes()]


def test_a_node_that_stays_silent_is_given_up_with_its_vm_and_the_pods_that_hang_on_it() -> None:
    stage, node = with_nodes()
    silence(stage, node)
    stage.run(15 * MINUTE)
    assert node in names(stage)
    assert "deletionTimestamp" in stage.pods("pod-0")[0]["metadata"]
    stage.run(15 * MINUTE)
    assert node not in names(stage)
    assert stage.machines()["spot"] == 1
    assert stage.pods("pod-0") == []
    assert stage.ledger()["retirements"] == {}


def test_the_trail_says_that_the_node_was_dead_and_that_nobody_waited_for_its_guest() -> None:
    stage, node = with_nodes()
    silence(stage, node)
    stage.run(30 * MINUTE)
    found = stage.store.list("plans-training", f"trail/nodes/{node}/")
    events = {name.split("~")[2].removesuffix(".json") for name in found}
    assert {"dead", "cordoned", "forced", "deleted", "gone"} <= events


def test_a_silent_node_that_speaks_again_stays() -> None:
    stage, node = with_nodes(pools=POOLS.replace("idle_after: 10m", "idle_after: 3h"))
    silence(stage, node)
    stage.run(15 * MINUTE)
    stage.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {KUBELET_ANNOTATION: "fake"}}})
    stage.run(15 * MINUTE)
    assert node in names(stage)
    assert not node_of(stage, node)["spec"].get("unschedulable")


def test_when_many_are_silent_none_is_given_up() -> None:
    stage, _ = with_nodes(4)
    for node in names(stage)[:2]:
        silence(stage, node)
    stage.run(60 * MINUTE)
    assert len(names(stage)) == 4
    assert stage.machines()["spot"] == 4


@pytest.mark.parametrize("annotation", [DO_NOT_DISRUPT, SCALE_DOWN_DISABLED])
def test_an_opt_out_of_the_node_holds_though_it_is_dead(annotation: str) -> None:
    stage, node = with_nodes()
    stage.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {annotation: "true"}}})
    silence(stage, node)
    stage.run(60 * MINUTE)
    assert node in names(stage)


@pytest.mark.parametrize("notes", [{SAFE_TO_EVICT: "false"}, {WAIT_FOR_COMPLETION_ANNOTATION: "true"}])
def test_a_pod_that_opted_out_and_that_nobody_has_given_up_keeps_its_dead_node(notes: Any) -> None:
    stage = Stage(POOLS, timers=True)
    forever = [{"operator": "Exists"}]
    stage.submit(1, notes=notes, tolerations=forever)
    stage.submit(1, prefix="other")
    stage.run(2)
    stage.say(seconds=240)
    node = stage.pods("pod-0")[0]["spec"]["nodeName"]
    silence(stage, node)
    stage.run(60 * MINUTE)
    assert node in names(stage)
    assert "default/pod-0" in why_kept(stage, node)


def test_an_administrators_cordon_holds_though_the_node_is_dead() -> None:
    stage, node = with_nodes()
    stage.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    silence(stage, node)
    stage.run(60 * MINUTE)
    assert node in names(stage)


def test_volumes_that_nobody_detaches_any_more_do_not_keep_a_dead_node() -> None:
    stage, node = with_nodes()
    body = {**ATTACHMENT, "spec": {**ATTACHMENT["spec"], "nodeName": node}}  # type: ignore[dict-item]  # a spec
    stage.api.create("/apis/storage.k8s.io/v1/volumeattachments", body)
    silence(stage, node)
    stage.run(35 * MINUTE)
    assert node not in names(stage)


def test_a_disk_that_would_be_deleted_keeps_even_a_dead_node() -> None:
    stage, node = with_nodes()
    disk = {"location": "westeurope", "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 4}}
    stage.stand.arm.handle(Request("PUT", DISK, {"api-version": "2026-03-02"}, {}, orjson.dumps(disk)))
    stage.stand.arm.attach_disk(node, DISK, delete_option="Delete")
    silence(stage, node)
    stage.run(60 * MINUTE)
    assert node in names(stage)
    assert "deleteOption" in why_kept(stage, node)


def test_a_dead_node_goes_though_its_pool_is_at_its_minimum_and_another_one_comes() -> None:
    stage, node = with_nodes(2, POOLS.replace("priority: Spot", "priority: Spot\n    min: 2"))
    silence(stage, node)
    stage.run(40 * MINUTE)
    assert node not in names(stage)
    assert stage.machines()["spot"] == 2


@pytest.mark.parametrize("kind", ["uniform", "vm"])
def test_a_deletion_that_hangs_is_asked_for_again_by_force(kind: str) -> None:
    stage = Stage(ALL_AT_ONCE) if kind == "uniform" else stage_of_vms()
    stage = with_empty_nodes(1, stage)
    operation = "scale_set.delete_instances" if kind == "uniform" else "vm.delete"
    stage.stand.arm.faults.add(Fault(operation, stage="slow", seconds=36_000.0))
    stage.idle(seconds=14 * MINUTE)
    assert stage.machines()["spot"] == 1
    stage.run(5 * MINUTE)
    assert stage.machines()["spot"] == 0
    assert stage.nodes() == []
