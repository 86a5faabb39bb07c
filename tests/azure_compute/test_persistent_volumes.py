import orjson
import pytest

from local.arm import vm_template
from shared.model import Pool, PoolKind
from tests.azure_compute.world import GROUP, OURS, World
from tests.builders import pool

DISK = "Microsoft.Compute/disks/pvc-1"
PV_TAGS = {"kubernetes.io-created-for-pv-name": "pvc-1", "sluice-pool": "gpu", "sluice-cluster": "training"}
GPU = pool("gpu", minimum=1)
SOLO = pool("solo", kind=PoolKind.VM)


def make_volume(world: World, name: str = "pvc-1") -> str:
    world.put(f"Microsoft.Compute/disks/{name}", orjson.dumps({"location": "westeurope", "tags": PV_TAGS}))
    return f"{GROUP}/Microsoft.Compute/disks/{name}"


def test_a_volume_attached_by_csi_is_seen_and_may_be_detached_by_deletion(world: World) -> None:
    world.pools(GPU)
    world.arm.attach_disk("gpu000000", make_volume(world))
    (vm,) = world.compute.instances(GPU)
    assert (len(vm.data_disks), vm.undeletable_disks) == (1, ())
    world.compute.begin_delete(GPU, ["0"])
    world.advance()
    (volume,) = world.arm.truth.persistent_volumes()
    assert (volume.deleted_at, volume.held_by) == (None, "")


@pytest.mark.parametrize("of", [GPU, SOLO])
def test_a_volume_that_would_die_with_its_vm_makes_the_vm_undeletable(quick: World, of: Pool) -> None:
    quick.pools(of)
    if of is SOLO:
        quick.compute.begin_create_vm(of, "solo-1", "", OURS, vm_template(of))
        quick.advance()
    (vm,) = quick.compute.instances(of)
    volume = make_volume(quick)
    quick.arm.attach_disk(vm.name, volume, delete_option="Delete")
    assert quick.compute.instances(of)[0].undeletable_disks == (volume,)


def test_data_disks_of_our_own_template_do_not_hold_a_vm_back(quick: World) -> None:
    quick.pools(SOLO)
    template = vm_template(SOLO)
    template["properties"]["storageProfile"]["dataDisks"] = [{"lun": 0, "createOption": "Empty", "diskSizeGB": 64}]
    quick.compute.begin_create_vm(SOLO, "solo-1", "", OURS, template)
    quick.advance()
    (vm,) = quick.compute.instances(SOLO)
    assert (len(vm.data_disks), vm.undeletable_disks) == (1, ())
    quick.compute.begin_delete(SOLO, ["solo-1"])
    quick.advance()
    assert quick.arm.truth.leaks().disks == ()


def test_a_volume_is_never_a_leftover_whatever_its_tags_and_name_say(quick: World) -> None:
    quick.pools(GPU)
    make_volume(quick)
    make_volume(quick, f"gpu_gpu_0_OsDisk_1_{'a' * 32}")
    kinds = [(one.kind, one.attached != "") for one in quick.compute.leftovers([GPU])]
    assert kinds == [("disk", True)]
