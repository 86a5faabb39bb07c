"""The custom roles of the app, as `infra/roles` has them: one file per role, which Terraform and Bicep read, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from shared.model import PoolKind

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


def read_roles(folder: Path = FOLDER) -> dict[str, Role]:
    """By the names of their files; none where the sources of the project are not at hand."""
    documents = {file.stem: orjson.loads(file.read_bytes()) for file in sorted(folder.glob("*.json"))}
    return {name: Role(document["name"], document["actions"]) for name, document in documents.items()}
