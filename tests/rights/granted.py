"""What Terraform grants the app in Azure, read from its files: which roles there are, and where each is assigned."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import hcl2

from local.arm.rights import Grant

INFRA = Path(__file__).parents[2] / "infra"
BASE = INFRA / "terraform" / "base"
_ASSIGNED = ("pool_rights", "linked_rights", "quota_rights")
Right = tuple[str, str]  # the role's key in rights.tf, and an action of it


@cache
def roles() -> Mapping[str, frozenset[str]]:
    """Actions by the role's key, of every custom role in rights.tf."""
    files = _locals()["role_files"]
    return {_bare(key): frozenset(_role(_bare(name))["actions"]) for key, name in files.items()}


def role_file(key: str) -> str:
    """The stem of the file that a key of rights.tf stands for."""
    return _bare({_bare(each): name for each, name in _locals()["role_files"].items()}[key])


def role_files() -> dict[str, dict[str, Any]]:
    """Every role by the stem of its file."""
    return {path.stem: _role(path.stem) for path in sorted((INFRA / "roles").glob("*.json"))}


def rights() -> list[Right]:
    """Every action of every role."""
    return [(role, action) for role, actions in sorted(roles().items()) for action in sorted(actions)]


def grants(
    pool_groups: Mapping[str, Iterable[str]], linked_scopes: Iterable[str] = (), *, without: Right | None = None
) -> list[Grant]:
    """The assignments of `azurerm_role_assignment.app_pools` for one cluster, whose variables these are; `without` is
    taken out of its role."""
    pools = [(kind, group) for group, kinds in pool_groups.items() for kind in kinds]
    written = [group for group, kinds in pool_groups.items() if set(kinds) != {"aks-nodes"}]
    linked = [("linked", scope) for scope in [*written, *linked_scopes]]
    subscriptions = sorted({"/".join(group.split("/")[:3]) for group in pool_groups})
    assigned = [*pools, *linked, *(("quota", subscription) for subscription in subscriptions)]
    return [Grant(role, scope, roles()[role] - set(_taken(role, without))) for role, scope in assigned]


def app_rights() -> str:
    """How rights.tf puts the assignments together, for a test to hold `grants` against."""
    found = {name: str(_locals()[name]) for name in (*_ASSIGNED, "app_rights")}
    return "\n".join(found.values())


def _taken(role: str, without: Right | None) -> Iterator[str]:
    if without is not None and without[0] == role:
        yield without[1]


def _role(name: str) -> dict[str, Any]:
    role: dict[str, Any] = json.loads((INFRA / "roles" / f"{name}.json").read_text())
    return role


@cache
def _locals() -> dict[str, Any]:
    (found,) = hcl2.loads((BASE / "rights.tf").read_text())["locals"]
    return dict(found)


def _bare(text: str) -> str:
    return text.strip('"')
