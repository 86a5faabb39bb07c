"""Whether the app's identity may do what its pools need: the roles of `infra/roles` against its role assignments.

An assignment holds at its scope and below; actions may have wildcards, and `notActions` take away from the same role
alone (Microsoft Learn, "Understand Azure role definitions"). Deny assignments and conditions are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from local.doctor.findings import Cause, Check, Finding
from local.roles import Role

Json = dict[str, Any]
GIVING = ("Microsoft.Authorization/roleDefinitions/write", "Microsoft.Authorization/roleAssignments/write")
_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Permission:
    """What a role gives at a scope."""

    scope: str
    actions: tuple[str, ...]
    not_actions: tuple[str, ...] = ()

    def gives(self, action: str, scope: str) -> bool:
        """Azure's names are compared without regard to case."""
        own, wanted = self.scope.lower().rstrip("/"), scope.lower()
        if wanted != own and not wanted.startswith(f"{own}/"):
            return False
        return _matches(action, self.actions) and not _matches(action, self.not_actions)


@dataclass(frozen=True, slots=True)
class Need:
    """Actions on a scope; `file` is the role that has them all, `whose` the pools that need them."""

    file: str
    scope: str
    actions: tuple[str, ...]
    whose: tuple[str, ...]


def permissions_of(assignments: Iterable[Json], definitions: Mapping[str, Json]) -> tuple[Permission, ...]:
    """Role assignments with their definitions, by the ids that the assignments name."""
    return tuple(
        Permission(
            str(assignment["properties"]["scope"]),
            tuple(permission.get("actions") or ()),
            tuple(permission.get("notActions") or ()),
        )
        for assignment in assignments
        for permission in _permissions(definitions.get(str(assignment["properties"]["roleDefinitionId"]), {}))
    )


def permission_of(scope: str, said: Json) -> Permission:
    """One entry of ARM's list of what the caller may do at a scope."""
    return Permission(scope, tuple(said.get("actions") or ()), tuple(said.get("notActions") or ()))


def judge_rollout(scope: str, permissions: Sequence[Permission]) -> Finding:
    """Whether who asks may give the app its roles there: the stage `base` does."""
    check = Check("rollout", scope)
    missing = [action for action in GIVING if not any(each.gives(action, scope) for each in permissions)]
    if not missing:
        return check.ok("you may give the app its roles there")
    told = f"you lack {', '.join(missing)} there, and cannot give the app its roles"
    remedy = "have the stage base applied by an Owner, or by a User Access Administrator, of that resource group"
    return check.warning(told, remedy)


def judge(needs: Sequence[Need], permissions: Sequence[Permission], roles: Mapping[str, Role]) -> Iterator[Finding]:
    """One finding for each need."""
    for need in needs:
        check = Check("rights", f"{need.scope} ({need.file})")
        missing = [action for action in need.actions if not any(each.gives(action, need.scope) for each in permissions)]
        if not missing:
            yield check.ok(f"the app has all {len(need.actions)} actions that {_named(need.whose)} needs there")
            continue
        shown = ", ".join(missing[:_SHOWN]) + (f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else "")
        name = roles[need.file].name if need.file in roles else need.file
        yield check.failed(
            f"the app lacks {shown}, which {_named(need.whose)} needs",
            f"assign it the role '{name}' on {need.scope}: name that in pool_groups or linked_scopes of the cluster,"
            " and apply the stage base; rights take up to ten minutes to hold",
            Cause.RIGHTS,
        )


def _permissions(definition: Json) -> list[Json]:
    found: list[Json] = definition.get("properties", {}).get("permissions") or []
    return found


def _matches(action: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(action.lower(), pattern.lower()) for pattern in patterns)


def _named(pools: Sequence[str]) -> str:
    shown = ", ".join(pools[:_SHOWN]) + (f" and {len(pools) - _SHOWN} more" if len(pools) > _SHOWN else "")
    return f"pool {shown}" if len(pools) == 1 else f"each of {shown}"
