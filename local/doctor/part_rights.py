"""What the app's identity has been given, what its pools need, and who may give it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from local.arm.rights import linked
from local.doctor import judging_rights
from local.doctor.findings import Check, Finding
from local.doctor.judging_rights import Need, Permission
from local.doctor.probing_azure import AUTHORIZATION_API, Arm
from local.roles import BY_KIND, LINKED, MACHINES, QUOTA, read_roles
from shared.model import AzureScope, Pool, PoolKind

Json = dict[str, Any]
Wanted = tuple[str, str, tuple[str, ...]]  # role file, scope, actions


def rights_of_app(arm: Arm, principal: str, needs: Callable[[], list[Need]]) -> Iterator[Finding]:
    """By its role assignments in every subscription that it needs something in."""
    roles = read_roles()
    if not roles:
        remedy = "run the command from a checkout of the project, where infra/roles says what is needed"
        yield Check("rights").skipped("the roles of the project are not at hand", remedy)
        return
    wanted = needs()
    subscriptions = sorted({need.scope.split("/")[2] for need in wanted})
    permissions = [each for subscription in subscriptions for each in _permissions(arm, subscription, principal)]
    yield from judging_rights.judge(wanted, permissions, roles)


def rights_to_roll_out(arm: Arm, pools: Iterable[Pool]) -> Iterator[Finding]:
    """Of whoever asks, by ARM's own word: there is no app yet whose rights could be looked at."""
    for group in dict.fromkeys(group_of(pool.azure) for pool in pools if pool.azure is not None):
        path = f"{group}/providers/Microsoft.Authorization/permissions"
        said = arm.list(path, AUTHORIZATION_API, f"your rights on {group}")
        yield judging_rights.judge_rollout(group, [judging_rights.permission_of(group, each) for each in said])


def needs_of(
    pools: Iterable[Pool], bodies: Mapping[tuple[str, str], Json], node_groups: Mapping[str, str]
) -> list[Need]:
    """Each role at each scope once. `bodies`: what carries the pools, by cluster and pool. `node_groups`: where AKS
    keeps the nodes of a cluster."""
    actions = {name: tuple(role.actions) for name, role in read_roles().items()}
    whose: dict[Wanted, list[str]] = defaultdict(list)
    for pool in pools:
        body = bodies.get((pool.cluster, pool.name), {})
        for wanted in _wanted(pool, body, node_groups.get(pool.cluster, ""), actions):
            whose[wanted].append(pool.name)
    return [Need(file, scope, wanted, tuple(names)) for (file, scope, wanted), names in whose.items()]


def group_of(scope: AzureScope) -> str:
    """The resource group's id."""
    return f"/subscriptions/{scope.subscription}/resourceGroups/{scope.resource_group}"


def _wanted(pool: Pool, body: Json, nodes: str, actions: Mapping[str, tuple[str, ...]]) -> Iterator[Wanted]:
    scope = pool.azure
    if scope is None:
        return
    yield BY_KIND[pool.kind], group_of(scope), actions[BY_KIND[pool.kind]]
    yield QUOTA, f"/subscriptions/{scope.subscription}", actions[QUOTA]
    if pool.kind is PoolKind.AKS and nodes:
        yield MACHINES, f"/subscriptions/{scope.subscription}/resourceGroups/{nodes}", actions[MACHINES]
    for demand in dict.fromkeys(linked(body)):
        yield LINKED, demand.scope, (demand.action,)


def _permissions(arm: Arm, subscription: str, principal: str) -> tuple[Permission, ...]:
    path = f"/subscriptions/{subscription}/providers/Microsoft.Authorization/roleAssignments"
    query = {"$filter": f"assignedTo('{principal}')"}
    assigned = arm.list(path, AUTHORIZATION_API, "role assignments of the app's identity", **query)
    ids = sorted({str(each["properties"]["roleDefinitionId"]) for each in assigned})
    definitions = {each: arm.get(each, AUTHORIZATION_API, "a role of the app's identity") for each in ids}
    return judging_rights.permissions_of(assigned, definitions)
