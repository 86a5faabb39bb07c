"""The custom roles of the app, as `infra/roles` has them: one file per role, which Terraform and Bicep read, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from local.arm.rights import Grant
from shared.model import Config, PoolKind

FOLDER = Path(__file__).parents[1] / "infra" / "roles"
LINKED, QUOTA, MACHINES = "linked-resources", "quota-reader", "agent-pool-machines"
BY_KIND: Mapping[PoolKind, str] = {
    PoolKind.VMSS: "scale-sets",
    PoolKind.VM: "virtual-machines",
    PoolKind.AKS: "agent-pools",
}
"""The role for the resource groups of a kind's pools; the others are for what lies beside."""


@dataclass(frozen=True, slots=True)
class Role:
    """`actions` by name, each with the call that needs it."""

    name: str
    actions: Mapping[str, str]


def grants_of(config: Config, roles: Mapping[str, Role]) -> list[Grant]:
    """What `infra/terraform/base/rights.tf` assigns where all that the VMs of the pools use lies in their own resource
    groups."""
    found: set[tuple[str, str]] = set()
    for pool in config.pools:
        if pool.azure is None:
            continue
        subscription = f"/subscriptions/{pool.azure.subscription}"
        group = f"{subscription}/resourceGroups/{pool.azure.resource_group}"
        found |= {(BY_KIND[pool.kind], group), (LINKED, group), (QUOTA, subscription)}
        if pool.kind is PoolKind.AKS:
            kept_by_aks = f"MC_{pool.azure.resource_group}_{pool.azure.aks_cluster}_{pool.azure.location}"
            found.add((MACHINES, f"{subscription}/resourceGroups/{kept_by_aks}"))
    return [Grant(role, scope, frozenset(roles[role].actions)) for role, scope in sorted(found)]


def read_roles(folder: Path = FOLDER) -> dict[str, Role]:
    """By the names of their files; none where the sources of the project are not at hand."""
    documents = {file.stem: orjson.loads(file.read_bytes()) for file in sorted(folder.glob("*.json"))}
    return {name: Role(document["name"], document["actions"]) for name, document in documents.items()}
