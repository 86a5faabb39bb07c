"""No mistake is bought twice, as far as that can be told from outside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from local.arm.faults import Fault
from local.arm.settings import Quirks
from local.machines import BootTimes
from local.system.stand_ins import Behaviour
from tests.checker.scene import GENERAL, POOLS, SETS, Scene
from tests.simulation.worlds import QUICK

NO_MINIMUM = POOLS.replace(", max: 6, min: 2", ", max: 30").replace("priority: Spot", "priority: Regular")
SPOT = f"{SETS}/spot"


@pytest.fixture
def scene() -> Scene:
    return Scene(NO_MINIMUM)


def buy(scene: Scene, capacity: int, path: str = GENERAL, wait: float = 30.0) -> None:
    scene.azure("PATCH", path, {"sku": {"capacity": capacity}})
    scene.wait(wait)


def submit(scene: Scene, pods: int, cpu: str, name: str = "task", **spec: Any) -> None:
    for number in range(pods):
        container = {"name": "main", "image": "main", "resources": {"requests": {"cpu": cpu}}}
        body = {"metadata": {"name": f"{name}-{number}"}, "spec": {"containers": [container], **spec}}
        scene.users.create("/api/v1/namespaces/default/pods", body)
    scene.wait(1)


def test_as_many_nodes_as_the_pods_can_need_and_one_are_in_order(scene: Scene):
    submit(scene, 6, "2")  # two on a node of four cores
    buy(scene, 4)
    assert scene.rules() == []


def test_one_more_is_too_many(scene: Scene):
    submit(scene, 6, "2")
    buy(scene, 5)
    (found,) = scene.broken("bought-too-much")
    assert "5 nodes within 5 min for 6 pods, which can need 4 at most" in found


def test_buying_the_same_again_in_another_pool_is_found(scene: Scene):
    submit(scene, 4, "3")
    buy(scene, 4)
    buy(scene, 4, SPOT)
    assert scene.rules() == ["bought-too-much"]


def test_what_only_another_pool_can_take_is_no_reason_to_buy_in_this_one():
    scene = Scene(NO_MINIMUM.replace("{name: spot,", "{name: spot, taints: ['sku=spot:NoSchedule'],"))
    submit(scene, 6, "3", nodeSelector={"sluice.io/pool": "general"})
    tolerant = [{"key": "sku", "operator": "Exists"}]
    submit(scene, 1, "3", "one", nodeSelector={"sluice.io/pool": "spot"}, tolerations=tolerant)
    for capacity in (1, 2):
        buy(scene, capacity, SPOT)
    assert scene.rules() == []
    buy(scene, 3, SPOT)
    (found,) = scene.broken("bought-too-much")
    assert "3 nodes of pool spot within 5 min, which can need 2 at most" in found


def test_after_a_back_off_period_it_may_be_bought_again(scene: Scene):
    submit(scene, 4, "3")
    buy(scene, 4, wait=301)
    buy(scene, 4, SPOT)
    assert scene.rules() == []


def test_what_azure_fails_may_be_bought_elsewhere_at_once(scene: Scene):
    submit(scene, 4, "3")
    scene.stand_ins.arm.faults.add(Fault("machine.provision", code="OSProvisioningTimedOut", stage="async", times=4))
    buy(scene, 4)
    buy(scene, 4, SPOT)
    assert scene.rules() == []


def test_a_machine_whose_node_does_not_come_may_be_bought_again():
    quiet = Behaviour(arm=QUICK.arm, quirks=Quirks(), boot=BootTimes(boot=(9000.0, 9000.0)))
    scene = Scene(NO_MINIMUM, quiet)
    submit(scene, 4, "3")
    buy(scene, 4, wait=155)
    buy(scene, 4, SPOT)
    assert scene.rules() == []


def test_machines_that_are_given_back_for_no_reason_count_as_bought(scene: Scene):
    submit(scene, 2, "5")  # too large for any node, so nothing runs there
    buy(scene, 1)
    scene.delete_vm("general000000")
    buy(scene, 1)
    assert scene.rules() == ["bought-too-much"]


def test_a_node_that_offers_less_than_promised_holds_fewer(scene: Scene):
    submit(scene, 1, "2")
    buy(scene, 1)
    small = {"status": {"allocatable": {"cpu": "2", "memory": "16Gi", "pods": "110"}}}
    scene.admin("PATCH", "/api/v1/nodes/general000000/status", small)
    scene.wait(301)
    submit(scene, 6, "2", "more")
    buy(scene, 7)
    assert scene.rules() == []


def test_what_comes_of_a_pool_that_disappoints_may_be_bought_elsewhere(scene: Scene):
    submit(scene, 4, "3")
    buy(scene, 4)
    small = {"status": {"allocatable": {"cpu": "2", "memory": "16Gi", "pods": "110"}}}
    scene.admin("PATCH", "/api/v1/nodes/general000000/status", small)
    buy(scene, 4, SPOT)
    assert scene.rules() == []


def test_what_daemon_sets_take_counts(scene: Scene):
    template = {
        "metadata": {"labels": {"app": "agent"}},
        "spec": {"containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": "500m"}}}]},
    }
    spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": template}
    scene.admin("POST", "/apis/apps/v1/namespaces/default/daemonsets", {"metadata": {"name": "agent"}, "spec": spec})
    submit(scene, 4, "2")
    buy(scene, 5)
    assert scene.rules() == []


def test_a_minimum_is_bought_without_pods():
    scene = Scene(POOLS.replace("min: 2", "min: 3"))
    for name in ("general000000", "general000001"):
        scene.delete_vm(name)
    scene.wait(30)
    buy(scene, 3)
    assert scene.rules() == []


def test_pods_of_a_node_that_azure_takes_need_another():
    scene = Scene(POOLS.replace(", max: 6, min: 2", ", max: 6"))
    buy(scene, 1, SPOT)
    (vm,) = scene.stand_ins.arm.truth.live_vms()
    for number in range(3):
        scene.pod(f"task-{number}", cpu="1", nodeName=vm.computer_name.lower())
    scene.wait(301)
    scene.stand_ins.preempt(vm.computer_name)
    buy(scene, 2)
    assert scene.rules() == []


@pytest.mark.parametrize("lowers", [True, False])
def test_what_a_write_brings_back_of_a_flexible_set_was_not_bought(lowers: bool):
    """Where Azure leaves the capacity as it was when VMs are deleted, the next write makes them anew."""
    quirks = Quirks(flexible_deletion_lowers_capacity=lowers)
    scene = Scene(NO_MINIMUM, replace(QUICK, flexible=frozenset({"general"}), quirks=quirks))
    submit(scene, 2, "3")
    buy(scene, 2)
    for vm in scene.stand_ins.arm.truth.live_vms():
        scene.azure("DELETE", vm.id)
    scene.wait(400)
    submit(scene, 1, "3", "later")
    buy(scene, 4)
    assert len(scene.stand_ins.arm.truth.live_vms()) == 4
    assert bool(scene.broken("bought-too-much")) is lowers
