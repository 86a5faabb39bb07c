"""Hands off means hands off, few nodes are emptied at once, and none goes from under its volumes."""

from __future__ import annotations

import pytest

from local.arm.faults import Fault
from tests.checker.scene import GENERAL, NODES, POOLS, Scene

ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
RETIRED = {"metadata": {"annotations": {"sluice.io/retire-operation": "x"}}, "spec": {"unschedulable": True}}


@pytest.fixture
def scene() -> Scene:
    return Scene()


def grow(scene: Scene, size: int) -> None:
    with scene.stand_ins.watch.book.acting("functions"):
        scene.azure("PATCH", GENERAL, {"sku": {"capacity": size}})


@pytest.mark.parametrize("mode", ["observe", "paused"])
def test_a_write_to_azure_where_nothing_may_be_written_is_found(scene: Scene, mode: str):
    scene.stand_ins.set_pools_file(POOLS.replace("mode: act", f"mode: {mode}"))
    grow(scene, 3)
    assert scene.rules() == ["hands-off"]


def test_a_cordon_where_nothing_may_be_written_is_found(scene: Scene):
    scene.stand_ins.set_pools_file(POOLS.replace("mode: act", "mode: observe"))
    scene.sluice("PATCH", f"{NODES}/general000000", RETIRED)
    assert scene.rules() == ["hands-off"]


def test_what_others_write_there_is_their_business(scene: Scene):
    scene.stand_ins.set_pools_file(POOLS.replace("mode: act", "mode: paused"))
    scene.azure("PATCH", GENERAL, {"sku": {"capacity": 3}})
    assert scene.rules() == []


def test_a_file_that_is_none_changes_no_mode(scene: Scene):
    scene.stand_ins.set_pools_file("mode: paused")
    grow(scene, 3)
    assert scene.rules() == []


def test_more_nodes_emptied_at_once_than_may_be_are_found():
    scene = Scene(f"{POOLS}\nscale_down: {{max_parallel_fraction: 0.1}}\n")
    grow(scene, 5)
    scene.wait(60)
    names = sorted(scene.stand_ins.watch.book.machines)
    for name in names[:2]:
        scene.sluice("PATCH", f"{NODES}/{name}", RETIRED)
    assert scene.rules() == []
    scene.sluice("PATCH", f"{NODES}/{names[2]}", RETIRED)
    assert scene.rules() == ["too-many-at-once"]


def test_one_that_azure_has_said_it_deletes_is_no_longer_being_emptied_even_if_that_fails():
    scene = Scene(f"{POOLS}\nscale_down: {{max_parallel_fraction: 0.1}}\n")
    grow(scene, 5)
    scene.wait(60)
    names = sorted(scene.stand_ins.watch.book.machines)
    for name in names[:2]:
        scene.sluice("PATCH", f"{NODES}/{name}", RETIRED)
    scene.stand_ins.arm.faults.add(Fault("scale_set.delete_instances", code="OperationPreempted", stage="async"))
    scene.delete_vm(names[0])
    scene.sluice("PATCH", f"{NODES}/{names[2]}", RETIRED)
    assert scene.rules() == []


def test_a_vm_deleted_with_a_volume_attached_is_found(scene: Scene):
    body = {
        "metadata": {"name": "held"},
        "spec": {
            "nodeName": "general000000",
            "attacher": "disk.csi.azure.com",
            "source": {"persistentVolumeName": "v"},
        },
    }
    scene.admin("POST", ATTACHMENTS, body)
    scene.delete_vm("general000001")
    assert scene.rules() == []
    scene.delete_vm("general000000")
    assert scene.rules() == ["deleted-with-volume"]
