"""Each example's pools file is one that the app takes, and speaks of what its Terraform makes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from shared.model import Mode, PoolKind
from shared.settings.config import parse_config
from shared.settings.vm_template import template_problems
from tests.infra.readers import TERRAFORM, terraform_blocks

EXAMPLES = sorted(path.parent.name for path in (TERRAFORM / "examples").glob("*/pools.yaml"))
VALUES = {
    "cluster": "training",
    "subscription": "00000000-0000-0000-0000-000000000001",
    "resource_group": "nodes",
    "location": "westeurope",
    "aks_cluster": "training",
}


def filled(path: Path, **values: str) -> str:
    """As Terraform's templatefile fills it in; a placeholder without a value is an error there and here."""
    return re.sub(r"\$\{(\w+)\}", lambda found: {**VALUES, **values}[found[1]], path.read_text())


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_pools_file_is_one_to_begin_with(example: str) -> None:
    config = parse_config(filled(TERRAFORM / "examples" / example / "pools.yaml"), to_act=True)
    assert config.mode is Mode.OBSERVE
    kinds = {"aks": PoolKind.AKS, "scale-sets": PoolKind.VMSS, "availability-sets": PoolKind.VM}
    assert {pool.kind for pool in config.pools} == {kinds[example]}


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_rights_asked_for_are_those_of_its_kind_of_pool(example: str) -> None:
    config = parse_config(filled(TERRAFORM / "examples" / example / "pools.yaml"), to_act=True)
    groups = (TERRAFORM / "examples" / example / "main.tf").read_text()
    granted = set(re.findall(r'"(vmss|vm|aks)"\]', groups))
    assert granted == {pool.kind.value for pool in config.pools}


@pytest.mark.parametrize("example", ["aks", "scale-sets"])
def test_the_pools_are_what_terraform_makes(example: str) -> None:
    config = parse_config(filled(TERRAFORM / "examples" / example / "pools.yaml"), to_act=True)
    made = [body for _, label, body in terraform_blocks(f"examples/{example}", "resource") if label == "each"]
    (named,) = (body["for_each"] for body in made)
    assert {key.strip('"'): value.strip('"') for key, value in named.items()} == {
        pool.resource: pool.priority.value for pool in config.pools
    }
    (size,) = {body.get("vm_size") or body.get("sku") for body in made}
    assert {pool.sku for pool in config.pools} == {size.strip('"')}


def test_the_template_of_a_vm_is_one_that_vms_can_be_made_from() -> None:
    folder = TERRAFORM / "examples" / "availability-sets"
    config = parse_config(filled(folder / "pools.yaml"), to_act=True)
    text = filled(
        folder / "machine.json", availability_set_id="/a", subnet_id="/s", image_id="/i", ssh_public_key="ssh-rsa A"
    )
    (pool,) = config.pools
    assert pool.template == "machine.json"
    assert list(template_problems(json.loads(text), pool)) == []


def test_what_examples_have_in_common_is_the_same_in_each() -> None:
    for file in ("common.tf", "outputs.tf", "versions.tf"):
        assert len({(TERRAFORM / "examples" / example / file).read_bytes() for example in EXAMPLES}) == 1
