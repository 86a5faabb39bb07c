from dataclasses import replace
from typing import Any

import pytest

from local.arm import Fault, Quirks, vm_template
from shared.adapters.azure_parsing import vm_body
from shared.adapters.errors import CapacityMissing, NotFound, StaleWrite
from shared.model import Pool, PoolKind, Priority
from tests.azure_compute.world import OURS, World
from tests.builders import pool

SOLO = pool("solo", kind=PoolKind.VM, priority=Priority.SPOT)


def create(world: World, name: str = "solo-1", of: Pool = SOLO, **tags: str) -> str:
    return world.compute.begin_create_vm(of, name, "2", {**OURS, **tags}, vm_template(of))


def test_a_vm_is_created_with_nic_and_disk_that_go_with_it(world: World) -> None:
    world.pools(SOLO)
    token = create(world)
    assert not world.compute.poll(token).done
    world.advance()
    assert world.compute.poll(token).ok
    (vm,) = world.compute.instances(SOLO)
    assert (vm.instance_id, vm.zone, vm.provisioning_state, len(vm.nics)) == ("solo-1", "2", "Succeeded", 1)
    assert world.compute.poll(world.compute.begin_delete(SOLO, ["solo-1"])).done is False
    world.advance()
    leaks = world.arm.truth.leaks()
    assert (world.compute.instances(SOLO), leaks.nics, leaks.disks) == ([], (), ())


def test_what_must_not_be_left_to_a_template_is_forced() -> None:
    template: dict[str, Any] = {
        "location": "westeurope",
        "tags": {"team": "vision"},
        "properties": {
            "priority": "Regular",
            "storageProfile": {
                "osDisk": {"deleteOption": "Detach"},
                "dataDisks": [{"lun": 0, "createOption": "Empty"}, {"lun": 1, "createOption": "Attach"}],
            },
            "networkProfile": {"networkInterfaceConfigurations": [{"name": "{name}-{zone}", "properties": {}}]},
        },
    }
    body = vm_body(SOLO, "solo-9", "3", OURS, template)
    properties = body["properties"]
    configuration = properties["networkProfile"]["networkInterfaceConfigurations"][0]
    assert (properties["priority"], properties["evictionPolicy"]) == ("Spot", "Delete")
    assert properties["billingProfile"] == {"maxPrice": -1}
    assert properties["storageProfile"]["osDisk"]["deleteOption"] == "Delete"
    assert [disk.get("deleteOption") for disk in properties["storageProfile"]["dataDisks"]] == ["Delete", None]
    assert (configuration["name"], configuration["properties"]["deleteOption"]) == ("solo-9-3", "Delete")
    assert (body["zones"], body["tags"]) == (["3"], {"team": "vision", **OURS})


def test_vms_of_another_clusters_pool_of_one_name_are_not_ours(quick: World) -> None:
    """Their machines never join our cluster: taken for ours, they would be deleted for it."""
    quick.pools(SOLO)
    create(quick)
    quick.advance()
    mine, theirs = replace(SOLO, cluster="inference"), replace(SOLO, cluster="training")
    assert [len(quick.compute.instances(of)) for of in (mine, theirs)] == [0, 1]


def test_a_template_is_not_changed_by_its_use() -> None:
    template = vm_template(SOLO)
    vm_body(SOLO, "solo-1", "1", OURS, template)
    assert template == vm_template(SOLO)


def test_a_regular_vm_carries_no_eviction_policy() -> None:
    regular = pool("solo", kind=PoolKind.VM)
    properties = vm_body(regular, "solo-1", "", OURS, {"properties": {"evictionPolicy": "Delete"}})["properties"]
    assert properties["priority"] == "Regular"
    assert "evictionPolicy" not in properties


def test_asking_twice_for_a_vm_makes_one(world: World) -> None:
    world.pools(SOLO)
    create(world)
    again = create(world)
    assert not world.compute.poll(again).done
    world.advance()
    assert world.compute.poll(again).ok
    assert world.compute.poll(create(world)).ok
    assert len(world.arm.truth.vms) == 1


def test_a_name_taken_by_another_operation_is_a_stale_write(quick: World) -> None:
    quick.pools(SOLO)
    create(quick)
    with pytest.raises(StaleWrite):
        create(quick, **{"sluice-operation": "op-2"})


def test_a_vm_that_cannot_be_allocated_stays_as_a_failed_one_with_its_code(world: World) -> None:
    world.pools(SOLO)
    world.arm.faults.add(Fault("vm.create", code="SkuNotAvailable", stage="async"))
    token = create(world)
    world.advance()
    assert world.compute.poll(token).code == "SkuNotAvailable"
    (failed,) = world.compute.instances(SOLO)
    assert (failed.provisioning_state, failed.failure) == ("Failed", "SkuNotAvailable")


def test_a_refusal_at_once_is_missing_capacity(quick: World) -> None:
    quick.pools(SOLO)
    quick.arm.faults.add(Fault("vm.create", code="SkuNotAvailable"))
    with pytest.raises(CapacityMissing) as caught:
        create(quick)
    assert caught.value.code == "SkuNotAvailable"


def test_only_vms_with_our_tag_and_name_belong_to_a_pool(quick: World) -> None:
    quick.pools(SOLO)
    create(quick)
    create(quick, "solo-2", **{"sluice-pool": "another"})
    create(quick, "other-1")
    quick.advance()
    assert [vm.name for vm in quick.compute.instances(SOLO)] == ["solo-1"]


def test_many_vms_are_deleted_under_one_token_that_stays_small(world: World) -> None:
    world.pools(SOLO)
    names = [f"solo-{number}" for number in range(12)]
    for name in names:
        create(world, name)
    world.advance()
    token = world.compute.begin_delete(SOLO, names)
    assert len(token) < 4000
    assert not world.compute.poll(token).done
    world.advance()
    assert world.compute.poll(token).ok
    assert world.compute.begin_delete(SOLO, names) == ""


def test_a_deletion_that_azure_gives_up_says_why(quick: World) -> None:
    quick.pools(SOLO)
    for name in ("solo-1", "solo-2"):
        create(quick, name)
    quick.advance()
    quick.arm.faults.add(Fault("vm.delete", "solo-2", code="InternalExecutionError", stage="async"))
    token = quick.compute.begin_delete(SOLO, ["solo-1", "solo-2"])
    quick.advance()
    status = quick.compute.poll(token)
    assert (status.done, status.ok, status.message) == (True, False, "solo-2")


def test_a_missing_vm_is_not_found(quick: World) -> None:
    quick.pools(SOLO)
    with pytest.raises(NotFound):
        quick.compute.instance(SOLO, "solo-404")


@pytest.mark.parametrize("inherits", [True, False])
def test_a_disk_and_nic_left_behind_are_found_and_deleted(world: World, inherits: bool) -> None:
    world.arm.cloud.quirks = Quirks(os_disk_inherits_tags=inherits)
    world.pools(SOLO)
    name = "solo-0a1b2c3d4e-0"  # as `create_vms` names them
    create(world, name)
    world.advance()
    world.arm.faults.add(Fault("nic.cleanup", stage="async"))
    world.arm.faults.add(Fault("disk.cleanup", stage="async"))
    world.compute.begin_delete(SOLO, [name])
    world.advance()
    left = world.compute.leftovers([SOLO])
    assert sorted(one.kind for one in left) == ["disk", "nic"]
    for one in left:
        world.compute.delete_leftover(one)
        world.compute.delete_leftover(one)
    assert world.compute.leftovers([SOLO]) == []
    leaks = world.arm.truth.leaks()
    assert (leaks.nics, leaks.disks) == ((), ())


def test_what_is_attached_is_listed_with_its_holder_and_not_deleted(world: World) -> None:
    world.pools(SOLO)
    create(world)
    world.advance()
    for one in world.compute.leftovers([SOLO]):
        assert one.attached.endswith("/virtualMachines/solo-1")
        with pytest.raises(StaleWrite):
            world.compute.delete_leftover(one)


def test_azure_itself_refuses_what_was_attached_in_between(quick: World) -> None:
    quick.pools(SOLO)
    create(quick)
    quick.advance()
    for one in quick.compute.leftovers([SOLO]):
        with pytest.raises(StaleWrite):
            quick.compute.delete_leftover(replace(one, attached=""))


def test_a_disk_of_that_name_in_the_way_is_a_stale_write_and_leaves_nothing_behind(quick: World) -> None:
    quick.pools(SOLO)
    quick.put("Microsoft.Compute/disks/solo-1_OsDisk", b'{"location": "westeurope"}')
    with pytest.raises(StaleWrite, match="already exists"):
        create(quick)
    assert (quick.arm.truth.vms, quick.arm.truth.nics, len(quick.arm.truth.disks)) == ([], [], 1)
