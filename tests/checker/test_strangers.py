"""What belongs to others stands beside Sluice's own, and looks like it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from local.system.strangers import AGE
from tests.checker.scene import SCOPE, SETS, Scene
from tests.simulation.worlds import ONE_POOL, QUICK, submit, task, world


@pytest.fixture
def scene() -> Scene:
    return Scene(behaviour=replace(QUICK, strangers=True))


def test_strangers_are_old_and_of_no_pool(scene: Scene):
    truth = scene.stand_ins.arm.truth
    names = {"bystanders_0", "general-other-0"}
    theirs = [vm for vm in truth.vms if vm.name in names]
    assert len(theirs) == 2
    assert all(vm.created_at <= scene.stand_ins.begun - AGE for vm in theirs)
    assert not any(pool.holds(vm) for pool in scene.stand_ins.pool_facts() for vm in theirs)
    assert scene.stand_ins.machines_now() == {"general": 2, "spot": 0}
    assert scene.verdict() == []


@pytest.mark.parametrize(
    "path",
    [
        f"{SCOPE}/Microsoft.Compute/virtualMachines/general-other-0",
        f"{SCOPE}/Microsoft.Compute/disks/their-backup",
        f"{SCOPE}/Microsoft.Compute/disks/their-os-disk",
        f"{SCOPE}/Microsoft.Network/networkInterfaces/their-nic",
        f"{SCOPE}/Microsoft.Network/networkInterfaces/their-other-nic",
        f"{SETS}/bystanders/virtualMachines/0",
    ],
)
def test_taking_any_of_them_away_is_found(scene: Scene, path: str):
    scene.azure("DELETE", path)
    scene.wait(60)
    assert "stranger-touched" in scene.rules()


def test_deleting_a_strangers_volume_is_found(scene: Scene):
    scene.azure("DELETE", f"{SCOPE}/Microsoft.Compute/disks/their-volume")
    assert scene.rules() == ["volume-deleted"]


def test_cordoning_a_strangers_node_is_found(scene: Scene):
    scene.cordon("bystanders000000", by="sluice")
    assert scene.rules() == ["stranger-touched"]


def test_sluice_lives_beside_them_and_touches_nothing():
    system = world(ONE_POOL, behaviour=replace(QUICK, strangers=True))
    submit(system, *(task(f"task-{number}") for number in range(5)))
    system.run_until(system.settled, timedelta(hours=2))
    system.run_for(timedelta(hours=1))  # two sweeps of leftovers
    assert system.stand_ins.watch.violations == ()
    assert len(system.stand_ins.arm.truth.live_vms()) == 2
