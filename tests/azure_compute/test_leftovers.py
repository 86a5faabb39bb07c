from dataclasses import replace
from typing import Any

import orjson
import pytest

from shared.adapters.azure_parsing import leftover_of
from shared.model import Pool, PoolKind
from tests.azure_compute.world import World
from tests.builders import pool

GPU = pool("gpu")
SOLO = pool("solo", kind=PoolKind.VM)
HEX = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("name", "of", "ours"),
    [
        (f"gpu_gpu_0_OsDisk_1_{HEX}", GPU, True),
        (f"gpu_0a1b2c3d_OsDisk_1_{HEX}", GPU, True),
        (f"GPU_gpu_17_osdisk_1_{HEX}", GPU, True),
        (f"gpu_spot_0_OsDisk_1_{HEX}", GPU, False),
        (f"gpu_spot_gpu_spot_0_OsDisk_1_{HEX}", GPU, False),
        ("gpu_gpu_0_OsDisk_1_backup", GPU, False),
        ("gpu-vm_OsDisk", GPU, False),
        ("solo-0a1b2c3d4e-0_OsDisk", SOLO, True),
        ("solo-primary_OsDisk", SOLO, False),
        ("solo-db-2_OsDisk", SOLO, False),
        (f"solo-web_OsDisk_1_{HEX}", SOLO, False),
        ("solo_OsDisk", SOLO, False),
    ],
)
def test_only_os_disks_named_after_our_own_vms_are_ours(name: str, of: Pool, ours: bool) -> None:
    body = {"id": f"/x/{name}", "name": name, "properties": {"osType": "Linux"}}
    assert (leftover_of(body, "disk", [of]) is not None) == ours


def test_a_data_disk_is_a_leftover_only_by_the_tag_of_the_operation_that_made_it_with_its_vm() -> None:
    tags = {"sluice-cluster": "training", "sluice-pool": "gpu"}
    body = {"id": "/x/d", "name": f"gpu_gpu_0_OsDisk_1_{HEX}", "tags": tags, "properties": {}}
    assert leftover_of(body, "disk", [GPU]) is None
    body["tags"] = {**tags, "sluice-operation": "0a1b2c3d4e"}
    assert leftover_of(body, "disk", [GPU]) is not None
    body["tags"] = {**tags, "sluice-operation": "0a1b2c3d4e", "kubernetes.io-created-for-pv-name": "pv-1"}
    assert leftover_of(body, "disk", [GPU]) is None


@pytest.mark.parametrize(
    ("body", "held"),
    [
        ({"properties": {"diskState": "Unattached"}}, False),
        ({"properties": {}}, False),
        ({"managedBy": "/x/vm", "properties": {"diskState": "Attached"}}, True),
        ({"managedByExtended": ["/x/vm"], "properties": {"diskState": "Unattached"}}, True),
        ({"properties": {"diskState": "ActiveSAS"}}, True),
        ({"properties": {"diskState": "Reserved"}}, True),
    ],
)
def test_a_disk_that_is_exported_or_shared_is_held(body: dict[str, Any], held: bool) -> None:
    tags = {"sluice-cluster": "training", "sluice-pool": "gpu"}
    properties = {**body["properties"], "osType": "Linux"}
    found = leftover_of({"id": "/x/d", "name": "d", "tags": tags, **body, "properties": properties}, "disk", [GPU])
    assert found is not None
    assert bool(found.attached) is held


@pytest.mark.parametrize("kind", ["nic", "disk"])
def test_what_another_cluster_has_tagged_is_not_ours_though_the_pools_have_one_name(kind: str) -> None:
    tags = {"sluice-cluster": "inference", "sluice-pool": "gpu"}
    body = {"id": "/x/thing", "name": "thing", "tags": tags, "properties": {"osType": "Linux"}}
    assert leftover_of(body, kind, [replace(GPU, cluster="training")]) is None
    assert leftover_of(body, kind, [replace(GPU, cluster="inference")]) is not None


def test_somebody_elses_nic_is_not_ours(quick: World) -> None:
    quick.pools(GPU)
    quick.put("Microsoft.Network/networkInterfaces/gpu-nic", orjson.dumps({"location": "w", "tags": {"team": "web"}}))
    quick.put(
        "Microsoft.Network/networkInterfaces/lost",
        orjson.dumps({"location": "w", "tags": {"sluice-cluster": "training", "sluice-pool": "gpu"}}),
    )
    assert [one.resource_id.rsplit("/", 1)[-1] for one in quick.compute.leftovers([GPU])] == ["lost"]
