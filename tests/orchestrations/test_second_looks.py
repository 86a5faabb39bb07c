"""What was true when it was planned is looked at again before it is acted on, and what cannot be seen is left alone."""

from __future__ import annotations

from typing import Any

import orjson

from local.arm.faults import Fault
from local.web import Request
from tests.orchestrations.stage import POOLS, Stage

Json = dict[str, Any]
GROUP = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/nodes/providers/Microsoft.Compute"


def grown(pods: int = 1, pools: str = POOLS) -> Stage:
    stage = Stage(pools)
    stage.submit(pods)
    stage.run(2)
    stage.say(seconds=240)
    assert len(stage.bound()) == pods
    return stage


def vm_of(stage: Stage, node: str) -> Any:
    return next(vm for vm in stage.stand.arm.truth.live_vms() if vm.computer_name == node)


def test_a_vm_that_azure_calls_failed_is_not_deleted_under_the_pods_of_its_ready_node() -> None:
    stage = grown(2)
    working = vm_of(stage, stage.nodes()[0]["metadata"]["name"])
    working.set_state("Failed", power="running", failure="VMExtensionProvisioningError")
    order = {"cluster": "training", "pool": "spot", "op": "undo-1", "kind": "vmss", "budget": "b"}
    ids = [vm.instance_id for vm in stage.stand.arm.truth.live_vms()]
    stage.host.client_start("undo_growth", {**order, "failed": ids}, "undo:1")
    stage.run(200)
    assert stage.machines()["spot"] == 2


def test_a_node_whose_pool_is_taken_out_of_the_file_goes_back_to_work() -> None:
    stage = grown()
    stage.finish()
    node = stage.nodes()[0]["metadata"]["name"]
    attachment = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": "csi-1"},
        "spec": {"attacher": "disk.csi.azure.com", "nodeName": node, "source": {"persistentVolumeName": "pv-1"}},
    }
    stage.api.create("/apis/storage.k8s.io/v1/volumeattachments", attachment)
    stage.idle(seconds=60)
    assert stage.nodes()[0]["spec"].get("unschedulable")
    head, _, tail = POOLS.replace("fallback: [spot]", "").partition("  - name: spot\n")
    stage.stand.set_pools_file(head + tail[tail.index("  - name: regular") :])
    stage.run(60)
    assert not stage.nodes()[0]["spec"].get("unschedulable")
    assert stage.ledger()["gone"] == {}


def test_a_node_that_cannot_go_does_not_hold_up_those_that_can() -> None:
    stage = grown(3)
    stage.finish()
    stuck = min(node["metadata"]["name"] for node in stage.nodes())
    disk = f"{GROUP}/disks/data"
    body = {"location": "westeurope", "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 4}}
    made = stage.stand.arm.handle(Request("PUT", disk, {"api-version": "2026-03-02"}, {}, orjson.dumps(body)))
    assert made.status < 300, made.body
    stage.run(60)
    stage.stand.arm.attach_disk(stuck, disk, delete_option="Delete")
    stage.idle(seconds=600)
    assert [node["metadata"]["name"] for node in stage.nodes()] == [stuck]


def test_a_sweep_that_took_long_does_not_bring_an_older_picture_back() -> None:
    stage = Stage()
    stage.submit(1)
    stage.run(2)
    newest = stage.event()
    stage.publisher.publish([newest])
    stage.run(1)
    known = stage.ledger()["snapshot"]
    assert known
    old = {"cluster": "training", "event": "sweep:old", "snapshot": "sweeps/old.json", "force": True}
    stage.host.client_start("admit", {**old, "epoch": 1, "sequence": 0}, "sweep:old")
    stage.run(5)
    assert stage.ledger()["snapshot"] == known


def test_a_growth_that_had_to_wait_is_not_larger_for_what_went_meanwhile() -> None:
    stage = grown(3)
    stage.stand.arm.faults.add(Fault("scale_set.update", "spot", code="TooManyRequests", retry_after=60))
    stage.submit(2, prefix="more")
    stage.run(2)
    stage.say(seconds=5)
    for vm in list(stage.stand.arm.truth.live_vms())[:2]:
        stage.stand.arm.preempt(vm.computer_name, 1.0)
    stage.run(200)
    assert stage.machines()["spot"] == 3 - 2 + 2


def test_a_burst_of_many_shapes_is_looked_at_by_one_list() -> None:
    stage = Stage(POOLS.replace("max: 10", "max: 500"))
    for number in range(100):
        stage.submit(3, prefix=f"shape-{number}", cpu=f"{1000 + number}m")
    stage.run(2)
    event = stage.event()
    stage.cluster.requests = 0
    stage.publisher.publish([event])
    stage.run(1)
    assert stage.cluster.requests == 1
    assert stage.orchestrations("grow_pool")
