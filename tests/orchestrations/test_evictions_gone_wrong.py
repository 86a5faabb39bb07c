"""Evictions that Azure only half carries out, announces late or not at all, or makes many of at once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import orjson
import pytest

from local.web import Request
from shared.names import EVICTING_AT_ANNOTATION, NODE_EVICTING
from shared.state.bulk import unpack
from shared.wire.events import make_notice
from tests.orchestrations.stage import POOLS, Stage

Json = dict[str, Any]
GROUP = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/nodes/providers/Microsoft.Compute"


def grown(pods: int = 1, pools: str = POOLS, *, timers: bool = False) -> Stage:
    stage = Stage(pools, timers=timers)
    stage.submit(pods)
    stage.run(2)
    stage.say(seconds=200)
    assert len(stage.bound()) == pods
    return stage


def names(stage: Stage) -> list[str]:
    return [node["metadata"]["name"] for node in stage.nodes()]


def notice(stage: Stage, node: str, seconds: float = 30.0) -> Json:
    """What the node agent says: Azure takes the VM in so many seconds."""
    now = stage.timeline.now()
    said = {"name": node, "evicting_at": (now + timedelta(seconds=seconds)).isoformat()}
    return make_notice(NODE_EVICTING, "training", now, subject=node, detail={"count": 1, "nodes": [said]})


def warn(stage: Stage, *nodes: str) -> None:
    stage.publisher.publish([notice(stage, node) for node in nodes])


def vm_of(stage: Stage, node: str) -> Any:
    return next(vm for vm in stage.stand.arm.truth.live_vms() if vm.computer_name == node)


def deallocating(stage: Stage) -> None:
    for vm in stage.stand.arm.truth.live_vms():
        vm.eviction_policy = "Deallocate"


def cordoned(stage: Stage) -> list[str]:
    return [node["metadata"]["name"] for node in stage.nodes() if node["spec"].get("unschedulable")]


def preempted(stage: Stage, said: Json) -> Json:
    """What Azure itself says of a VM of the subscription."""
    return {
        "specversion": "1.0",
        "id": "azure-1",
        "source": "/subscriptions/00000000-0000-0000-0000-000000000001",
        "type": "Microsoft.ResourceNotifications.HealthResources.ResourceAnnotated",
        "subject": "x",
        "time": stage.timeline.now().isoformat(),
        "data": {"resourceInfo": {"properties": said}},
    }


def leaks(stage: Stage) -> int:
    found = stage.stand.arm.truth.leaks()
    return len(found.nics) + len(found.disks)


def test_a_vm_that_is_only_deallocated_is_deleted_with_all_that_hangs_on_it() -> None:
    stage = grown(1)
    deallocating(stage)
    (node,) = names(stage)
    stage.stand.preempt(node)
    warn(stage, node)
    stage.run(150)
    assert stage.machines()["spot"] == 1  # its replacement
    assert node not in names(stage)
    assert leaks(stage) == 0
    stage.run(200)
    assert stage.ledger()["retirements"] == {}


def test_a_whole_pool_of_deallocated_vms_is_deleted_by_few_requests() -> None:
    stage = grown(8)
    deallocating(stage)
    old = names(stage)
    for node in old:
        stage.stand.preempt(node)
    warn(stage, *old)
    stage.arm.writes.clear()
    stage.run(400)
    assert not set(old) & set(names(stage))
    assert len([path for _, path in stage.arm.writes if path.endswith("/delete")]) <= 2
    assert leaks(stage) == 0


def test_a_deallocated_vm_with_somebodys_disk_that_would_go_with_it_stays() -> None:
    stage = grown(1)
    deallocating(stage)
    (node,) = names(stage)
    disk = f"{GROUP}/disks/data"
    body = {"location": "westeurope", "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 4}}
    stage.stand.arm.handle(Request("PUT", disk, {"api-version": "2026-03-02"}, {}, orjson.dumps(body)))
    stage.run(60)
    stage.stand.arm.attach_disk(node, disk, delete_option="Delete")
    stage.stand.preempt(node)
    warn(stage, node)
    stage.run(3600 + 900)
    assert vm_of(stage, node).power == "deallocated"
    assert cordoned(stage) == [node]
    assert "only deallocated" in stage.document(f"nodes/{node}.json")["kept"]


def test_a_deallocated_vm_that_nobody_told_of_is_found_by_the_sweep() -> None:
    stage = grown(2, timers=True)
    deallocating(stage)
    old = names(stage)
    for node in old:
        stage.stand.preempt(node, 1.0)
        stage.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {EVICTING_AT_ANNOTATION: None}}})
    stage.run(1200)
    assert not set(old) & set(names(stage))
    assert leaks(stage) == 0


@pytest.mark.parametrize("sweeps", [True, False])
def test_azures_word_after_the_fact_clears_up_and_frees_the_pods(sweeps: bool) -> None:
    stage = grown(1, timers=sweeps)
    (node,) = names(stage)
    vm = vm_of(stage, node)
    stage.stand.preempt(node, 0.0)
    stage.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {EVICTING_AT_ANNOTATION: None}}})
    stage.run(20)
    body = {"annotationName": "VirtualMachinePreempted", "targetResourceId": vm.id}
    stage.publisher.publish([preempted(stage, body)])
    stage.run(60)
    assert node not in names(stage)
    assert stage.bound() == []
    assert not stage.status()["dead_letters"]


def test_azures_word_about_somebody_elses_vm_is_no_bad_event() -> None:
    stage = grown(1)
    body = {"annotationName": "VirtualMachinePreempted", "targetResourceId": f"{GROUP}/virtualMachines/stranger"}
    stage.publisher.publish([preempted(stage, body)])
    stage.run(30)
    assert not stage.status()["dead_letters"]
    assert cordoned(stage) == []


def test_a_node_that_vanishes_without_a_word_is_cleared_by_the_sweep() -> None:
    stage = grown(1, timers=True)
    (node,) = names(stage)
    stage.stand.preempt(node, 0.0)
    stage.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {EVICTING_AT_ANNOTATION: None}}})
    stage.run(700)
    assert node not in names(stage)
    assert leaks(stage) == 0


@pytest.mark.parametrize("late", [60.0, 600.0])
def test_a_notice_that_comes_late_for_a_node_that_runs_does_nothing(late: float) -> None:
    stage = grown(1)
    (node,) = names(stage)
    old = notice(stage, node)
    stage.run(30 + late)
    stage.cluster.writes.clear()
    stage.publisher.publish([old])
    stage.run(60)
    assert stage.cluster.writes == []
    assert len(stage.bound()) == 1
    assert stage.orchestrations("replace_evicted")[0].output["kind"] == "withdrawn"


def test_a_notice_that_comes_late_for_a_node_that_azure_has_taken_clears_up() -> None:
    stage = grown(1)
    (node,) = names(stage)
    old = notice(stage, node)
    stage.stand.preempt(node, 30.0)
    stage.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {EVICTING_AT_ANNOTATION: None}}})
    stage.run(45)
    stage.publisher.publish([old])
    stage.run(60)
    assert node not in names(stage)


def test_a_whole_pool_is_cordoned_at_once_looked_at_once_and_replaced_by_one_plan() -> None:
    stage = grown(100, POOLS.replace("max: 10", "max: 200"))
    old = names(stage)
    for node in old:
        stage.stand.preempt(node)
    stage.run(1)
    for node in old:  # nobody but the agents tells of it
        stage.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {EVICTING_AT_ANNOTATION: None}}})
    warn(stage, *old)
    stage.run(4)
    assert len(cordoned(stage)) == 100
    assert len(stage.orchestrations("look_again")) <= 2
    assert sum(growth["add"] for growth in unpack(stage.ledger())["growths"].values()) == 100
    stage.run(500)
    assert not set(old) & set(names(stage))
    assert stage.ledger()["retirements"] == {}
    assert leaks(stage) == 0


def test_many_evictions_of_one_kind_are_replaced_on_demand_and_later_ones_on_spot_again() -> None:
    stage = grown(3)
    old = names(stage)
    for node in old:
        stage.stand.preempt(node)
    warn(stage, *old)
    stage.run(200)
    assert stage.machines() == {"spot": 0, "regular": 3}
    stage.submit(4, prefix="now")  # one more than fits on them
    stage.run(2)
    stage.say(seconds=60)
    assert stage.machines() == {"spot": 0, "regular": 4}
    stage.run(900)
    stage.submit(1, prefix="later")
    stage.run(2)
    stage.say(seconds=60)
    assert stage.machines() == {"spot": 1, "regular": 4}


def test_a_single_eviction_is_replaced_by_spot() -> None:
    stage = grown(3)
    node = names(stage)[0]
    stage.stand.preempt(node)
    warn(stage, node)
    stage.run(200)
    assert stage.machines() == {"spot": 3, "regular": 0}


def test_an_eviction_takes_over_a_node_that_drains_already() -> None:
    stage = grown(2)
    (stays, goes) = sorted(pod["metadata"]["name"] for pod in stage.pods())
    node = next(pod["spec"]["nodeName"] for pod in stage.pods() if pod["metadata"]["name"] == goes)
    stage.api.delete(f"/api/v1/namespaces/default/pods/{goes}", grace_seconds=0)
    attachment = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": "csi-1"},
        "spec": {"attacher": "disk.csi.azure.com", "nodeName": node, "source": {"persistentVolumeName": "pv-1"}},
    }
    stage.api.create("/apis/storage.k8s.io/v1/volumeattachments", attachment)
    stage.idle(seconds=30)
    assert stage.ledger()["retirements"][node]["stage"] == "draining"
    stage.stand.preempt(node)
    warn(stage, node)
    stage.run(20)
    assert stage.ledger()["retirements"][node]["stage"] == "evicting"
    (retirement,) = stage.orchestrations("retire_node")
    assert retirement.output["kind"] == "taken"
    stage.run(300)
    assert node not in names(stage)
    assert stage.ledger()["retirements"] == {}
    assert stays in stage.bound()


@pytest.mark.parametrize("name", ["../pods", "a/../../secrets", "", "A", "x" * 300, 7])
def test_a_notice_that_names_no_node_starts_nothing(name: Any) -> None:
    stage = grown(1)
    said = make_notice(NODE_EVICTING, "training", stage.timeline.now(), subject="x", detail={"nodes": [{"name": name}]})
    stage.publisher.publish([said])
    stage.run(10)
    assert stage.orchestrations("replace_evicted") == []
