"""A persistent volume's disk is never deleted; what was made with a VM goes with it."""

from __future__ import annotations

import orjson

from local.arm.faults import Fault
from local.status_text import as_text
from local.web import Request
from tests.orchestrations.stage import Stage

DISK = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/nodes/providers/Microsoft.Compute/disks/data"


def with_empty_node() -> tuple[Stage, str]:
    stage = Stage()
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=200)
    stage.finish()
    return stage, stage.nodes()[0]["metadata"]["name"]


def test_a_vm_whose_data_disk_would_go_with_it_is_kept_and_the_reason_says_so() -> None:
    stage, node = with_empty_node()
    disk = {"location": "westeurope", "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 4}}
    made = stage.stand.arm.handle(Request("PUT", DISK, {"api-version": "2026-03-02"}, {}, orjson.dumps(disk)))
    assert made.status < 300, made.body
    stage.run(60)
    stage.stand.arm.attach_disk(node, DISK, delete_option="Delete")
    stage.idle(seconds=200)
    assert stage.machines()["spot"] == 1
    assert not stage.nodes()[0]["spec"].get("unschedulable")
    assert "Detach" in stage.status()["clusters"]["training"]["stayed"][node]["kept"]


def test_a_vm_goes_only_when_its_volumes_are_detached() -> None:
    stage, node = with_empty_node()
    attachment = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": "csi-1"},
        "spec": {"attacher": "disk.csi.azure.com", "nodeName": node, "source": {"persistentVolumeName": "pv-1"}},
    }
    stage.api.create("/apis/storage.k8s.io/v1/volumeattachments", attachment)
    stage.idle(seconds=120)
    assert stage.machines()["spot"] == 1
    stage.api.delete("/apis/storage.k8s.io/v1/volumeattachments/csi-1")
    stage.run(200)
    assert stage.machines()["spot"] == 0


def test_a_vm_that_never_joined_is_kept_and_told_of_when_a_disk_would_go_with_it() -> None:
    stage = Stage(timers=True)
    stage.stand.arm.faults.add(Fault("machine.boot", stage="async"))
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=120)
    (vm,) = stage.stand.arm.truth.live_vms()
    disk = {"location": "westeurope", "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 4}}
    stage.stand.arm.handle(Request("PUT", DISK, {"api-version": "2026-03-02"}, {}, orjson.dumps(disk)))
    stage.stand.arm.attach_disk(vm.computer_name, DISK, delete_option="Delete")
    stage.run(1800)
    assert vm in stage.stand.arm.truth.live_vms()
    (told,) = stage.status()["clusters"]["training"]["kept_vms"]
    assert (told["instance"], told["pool"]) == (vm.instance_id, "spot")
    assert "data would be deleted with the VM" in told["kept"]
    assert any("should be gone: VM" in line for line in as_text(stage.status()))
