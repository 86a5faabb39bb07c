"""Each rule about VMs, disks and NICs fires on its violation, and is silent on what looks like it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from local.arm.faults import Fault
from local.arm.trouble import ArmTrouble
from local.system.stand_ins import StandIns
from local.system.trouble import Trouble
from tests.checker.scene import GENERAL, NODES, SCOPE, SETS, SILENT, Scene
from tests.simulation.worlds import QUICK

MINUTES = 60.0


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_quiet_scene_breaks_no_rule(scene: Scene):
    scene.azure("PATCH", GENERAL, {"sku": {"capacity": 3}})
    scene.wait(60)
    scene.delete_vm("general000002")
    scene.wait(60)
    assert scene.rules() == []


def test_a_request_above_the_maximum_is_found_when_it_is_accepted(scene: Scene):
    scene.azure("PATCH", GENERAL, {"sku": {"capacity": 7}})
    found = scene.broken("above-maximum")
    assert len(found) == 2
    assert found[0].startswith("t=60.0s above-maximum: scale_set.update of general asked for 7")
    assert "has 7 VMs" in found[1]


def test_a_request_below_what_lives_is_found(scene: Scene):
    scene.azure("PATCH", GENERAL, {"sku": {"capacity": 1}})
    assert set(scene.rules()) >= {"lowered-below-live", "deleted-unasked"}


def test_capacity_that_has_no_vm_may_be_lowered(scene: Scene):
    scene.stand_ins.arm.faults.add(Fault("scale_set.update", code="AllocationFailed", stage="async"))
    scene.azure("PATCH", GENERAL, {"sku": {"capacity": 4}})
    scene.wait(60)
    scene.azure("PATCH", GENERAL, {"sku": {"capacity": 2}})
    assert scene.rules() == []


def test_a_vm_deleted_under_a_pod_is_found(scene: Scene):
    node = scene.pod("working")
    scene.delete_vm(node)
    (found,) = scene.broken("not-drained")
    assert "default/working" in found


def test_a_vm_may_go_under_the_pods_of_daemon_sets_and_under_finished_ones(scene: Scene):
    node = scene.pod("done", annotations={"sluice.io/run-seconds": "1"}, restartPolicy="Never")
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": True}
    scene.pod("agent", nodeName=node)
    scene.admin("PATCH", "/api/v1/namespaces/default/pods/agent", {"metadata": {"ownerReferences": [owner]}})
    scene.delete_vm(node)
    assert scene.broken("not-drained") == []


def test_a_vm_whose_node_has_been_silent_for_long_may_go_with_its_pods(scene: Scene):
    node = scene.pod("lost", tolerations=[{"operator": "Exists"}])
    scene.admin("PATCH", f"{NODES}/{node}", SILENT)
    scene.wait(4 * MINUTES)
    scene.delete_vm(node)
    assert scene.broken("not-drained") == []


def test_a_vm_whose_node_is_silent_for_a_moment_may_not(scene: Scene):
    node = scene.pod("working")
    scene.admin("PATCH", f"{NODES}/{node}", SILENT)
    scene.wait(65)
    scene.delete_vm(node)
    assert len(scene.broken("not-drained")) == 1


def test_what_azure_takes_away_is_nobodys_fault(scene: Scene):
    scene.azure("PATCH", f"{SETS}/spot", {"sku": {"capacity": 1}})
    scene.wait(30)
    (vm,) = [vm for vm in scene.stand_ins.arm.truth.live_vms() if vm.spot]
    scene.pod("working", nodeName=vm.computer_name.lower())
    scene.stand_ins.preempt(vm.computer_name)
    scene.wait(120)
    assert scene.rules() == []


def test_a_volumes_disk_that_is_deleted_is_found(scene: Scene):
    node = scene.pod("db", annotations={"sluice.io/run-seconds": "1"}, restartPolicy="Never")
    scene.stand_ins.attach_persistent_volume(node, "pv-1")
    vm = next(vm for vm in scene.stand_ins.arm.truth.live_vms() if vm.data_disks)
    vm.data_disks[0].delete_option = "Delete"
    scene.delete_vm(node)
    scene.wait(60)
    assert len(scene.broken("volume-deleted")) == 1


def test_a_volumes_disk_that_outlives_its_vm_is_in_order(scene: Scene):
    node = scene.pod("db", annotations={"sluice.io/run-seconds": "1"}, restartPolicy="Never")
    scene.stand_ins.attach_persistent_volume(node, "pv-1")
    scene.delete_vm(node)
    scene.wait(60)
    assert scene.broken("volume-deleted") == []


@pytest.mark.parametrize("kind", ["disks", "networkInterfaces"])
def test_deleting_what_a_stranger_made_is_found(scene: Scene, kind: str):
    provider = "Microsoft.Compute" if kind == "disks" else "Microsoft.Network"
    path = f"{SCOPE}/{provider}/{kind}/theirs"
    scene.azure("PUT", path, {"location": "westeurope", "tags": {"owner": "somebody"}})
    scene.azure("DELETE", path)
    assert scene.rules() == ["stranger-touched"]


def test_deleting_what_an_own_vm_left_is_in_order(scene: Scene):
    scene.stand_ins.arm.faults.add(Fault("disk.cleanup", stage="async"))
    scene.delete_vm("general000001")
    scene.wait(60)
    (disk,) = scene.stand_ins.arm.truth.leaks().disks
    scene.azure("DELETE", disk)
    assert scene.rules() == []


def test_writing_to_a_strangers_scale_set_is_found(scene: Scene):
    body = {"location": "westeurope", "sku": {"name": "Standard_D2s_v5", "capacity": 1}}
    scene.azure("PUT", f"{SETS}/theirs", body)
    scene.wait(30)
    scene.azure("POST", f"{SETS}/theirs/delete", {"instanceIds": ["0"]})
    assert len(scene.broken("stranger-touched")) == 3


def test_a_vm_of_another_clusters_pool_of_the_same_name_is_a_strangers(scene: Scene):
    vm = scene.stand_ins.arm.truth.vms[0]
    alone = replace(vm, scale_set=None, tags={"sluice-pool": "general", "sluice-cluster": "other"})
    (pool, *_) = scene.stand_ins.pool_facts()
    assert not pool.holds(alone)
    assert pool.holds(replace(alone, tags={"sluice-pool": "general", "sluice-cluster": "small"}))


def test_a_pool_that_stays_below_its_minimum_is_found(scene: Scene):
    scene.delete_vm("general000000")
    scene.wait(19 * MINUTES)
    assert scene.broken("below-minimum") == []
    scene.wait(2 * MINUTES)
    assert len(scene.broken("below-minimum")) == 1


def test_the_time_below_a_minimum_counts_from_the_last_fault(scene: Scene):
    scene.delete_vm("general000000")
    scene.wait(19 * MINUTES)
    scene.stand_ins.disturbed()
    scene.wait(19 * MINUTES)
    assert scene.broken("below-minimum") == []


def test_a_failed_vm_does_not_count_towards_the_minimum(scene: Scene):
    scene.delete_vm("general000000")
    scene.stand_ins.arm.faults.add(Fault("machine.provision", code="OSProvisioningTimedOut", stage="async"))
    scene.azure("PATCH", GENERAL, {"sku": {"capacity": 2}})
    scene.wait(25 * MINUTES)
    assert len(scene.broken("below-minimum")) == 1


def test_a_pool_that_is_filled_again_in_time_is_in_order(scene: Scene):
    scene.delete_vm("general000000")
    scene.wait(10 * MINUTES)
    scene.azure("PATCH", GENERAL, {"sku": {"capacity": 2}})
    scene.wait(60 * MINUTES)
    assert scene.broken("below-minimum") == []


def test_an_idle_node_that_must_not_be_taken_is_missed(scene: Scene):
    word = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
    scene.admin("PATCH", f"{NODES}/general000000", {"metadata": {"annotations": {word: "true"}}})
    scene.delete_vm("general000000")
    (found,) = scene.broken("against-opt-out")
    assert word in found


def test_trouble_is_known_by_its_last_time(scene: Scene):
    stand_ins: StandIns = scene.stand_ins
    assert stand_ins.last_trouble() is None
    stand_ins.arm.faults.add(Fault("scale_set.get", code="ServiceUnavailable"))
    scene.stand_ins.arm.cloud.faults.take("scale_set.get", "general", "sync")
    assert stand_ins.last_trouble() == scene.timeline.now()
    assert stand_ins.probes() == {"arm.ordered scale_set.get sync": 1}


def test_a_vm_that_stands_without_a_node_is_found_in_the_end(scene: Scene):
    scene.stand_ins.arm.faults.add(Fault("machine.boot", stage="async"))
    scene.azure("PATCH", GENERAL, {"sku": {"capacity": 3}})
    scene.wait(30 * MINUTES)
    assert scene.verdict() == ["left-over"]
    scene.wait(40 * MINUTES)
    assert scene.verdict() == ["left-over", "leaked-vm"]


def test_a_capacity_written_over_what_somebody_had_just_written_is_found():
    scene = Scene(behaviour=replace(QUICK, trouble=Trouble(arm=ArmTrouble(touched=1.0))))
    scene.azure("PATCH", GENERAL, {"sku": {"capacity": 3}})
    assert scene.rules() == ["lost-update"]
