from typing import Any

import pytest

from local.arm import ArmLatencies, Fault
from shared.model import AzureScope, PoolKind, Priority
from tests.arm_stand_in.conftest import GROUP, Bare
from tests.builders import pool

SCOPE = AzureScope("subscription", "group", "westeurope", "aks")
POOLS = f"{GROUP}/Microsoft.ContainerService/managedClusters/aks/agentPools"


def agents(bare: Bare, **fields: Any) -> None:
    bare.pools(pool("np1", kind=PoolKind.AKS, azure=SCOPE, **fields))


def put(bare: Bare, **properties: Any) -> tuple[int, Any, dict[str, str]]:
    body = bare.ask("GET", f"{POOLS}/np1")[1]
    body["properties"] |= properties
    return bare.ask("PUT", f"{POOLS}/np1", body)


def properties(bare: Bare) -> Any:
    return bare.ask("GET", f"{POOLS}/np1")[1]["properties"]


def machines(bare: Bare) -> list[Any]:
    return list(bare.ask("GET", f"{POOLS}/np1/machines")[1]["value"])


def delete(bare: Bare, *names: str) -> tuple[int, Any, dict[str, str]]:
    return bare.ask("POST", f"{POOLS}/np1/deleteMachines", {"machineNames": list(names)})


def test_a_pool_is_busy_until_its_machines_run_and_aks_has_looked_at_them(bare: Bare) -> None:
    agents(bare)
    status, body, headers = put(bare, count=2)
    assert (status, body["properties"]["provisioningState"]) == (200, "Scaling")
    bare.advance(1.5)
    assert bare.status(headers)["status"] == "InProgress"
    bare.advance(1.0)
    assert bare.status(headers)["status"] == "Succeeded"
    assert properties(bare)["provisioningState"] == "Succeeded"
    assert len(machines(bare)) == 2


def test_a_busy_pool_names_the_operation_that_is_in_the_way(bare: Bare) -> None:
    agents(bare, minimum=1)
    put(bare, count=2)
    for status, body, _ in (put(bare, count=3), delete(bare, machines(bare)[0]["name"])):
        assert (status, body["error"]["code"]) == (409, "OperationNotAllowed")
        assert "(np1 - Scaling) is in progress" in body["error"]["message"]


@pytest.mark.parametrize("per_cluster", [False, True])
def test_whether_the_other_pools_of_the_cluster_are_busy_too_is_drawn(bare: Bare, per_cluster: bool) -> None:
    bare.quirks(aks_one_operation_per_cluster=per_cluster)
    bare.pools(*(pool(name, kind=PoolKind.AKS, azure=SCOPE) for name in ("np1", "np2")))
    bare.arm.occupy("np2", 60)
    assert put(bare, count=1)[0] == (409 if per_cluster else 200)


def test_deleting_machines_lowers_the_count(bare: Bare) -> None:
    agents(bare, minimum=3)
    status, _, headers = delete(bare, machines(bare)[1]["name"])
    assert status == 202
    bare.advance()
    assert bare.status(headers)["status"] == "Succeeded"
    assert properties(bare)["count"] == len(machines(bare)) == 2


@pytest.mark.parametrize("refused", [False, True])
def test_machines_that_are_not_there_are_left_out_or_refused(bare: Bare, refused: bool) -> None:
    bare.quirks(aks_unknown_machine_refused=refused)
    agents(bare, minimum=1)
    assert delete(bare, machines(bare)[0]["name"], "aks-np1-1-vmss00000z")[0] == (400 if refused else 202)


def test_a_deletion_on_order_fails_and_leaves_the_machines(bare: Bare) -> None:

    agents(bare, minimum=1)
    bare.arm.faults.add(Fault("agent_pool.delete_machines", "np1", code="InternalServerError", stage="async"))
    _, _, headers = delete(bare, machines(bare)[0]["name"])
    bare.advance()
    assert bare.status(headers)["error"]["code"] == "InternalServerError"
    assert (properties(bare)["provisioningState"], properties(bare)["count"]) == ("Failed", 1)


def test_a_count_below_the_machines_lets_aks_choose_and_is_remembered(bare: Bare) -> None:
    agents(bare, minimum=3)
    put(bare, count=1)
    bare.advance()
    assert len(machines(bare)) == 1
    assert len(bare.arm.truth.chosen_by_azure) == 2


def test_a_system_pool_keeps_one_machine(bare: Bare) -> None:
    agents(bare, minimum=1, labels={"kubernetes.azure.com/mode": "system"})
    assert put(bare, count=0)[1]["error"]["message"].startswith("agentPoolProfile.count was 0.")
    assert delete(bare, machines(bare)[0]["name"])[0] == 400


def test_what_the_autoscaler_scales_nobody_else_does(bare: Bare) -> None:
    agents(bare, minimum=1)
    assert put(bare, enableAutoScaling=True)[0] == 200
    bare.advance()
    assert put(bare, count=2)[0] == 400


@pytest.mark.parametrize("lowered", [False, True])
def test_an_eviction_takes_the_machine_and_perhaps_the_count(bare: Bare, lowered: bool) -> None:
    bare.quirks(aks_eviction_lowers_count=lowered)
    agents(bare, minimum=2, priority=Priority.SPOT)
    bare.arm.preempt(machines(bare)[0]["name"], 1.0)
    bare.advance()
    assert len(machines(bare)) == 1
    assert properties(bare)["count"] == (1 if lowered else 2)


def test_the_next_write_brings_back_what_was_evicted(bare: Bare) -> None:
    agents(bare, minimum=2, priority=Priority.SPOT)
    bare.arm.preempt(machines(bare)[0]["name"], 1.0)
    bare.advance()
    put(bare, nodeLabels={"a": "b"})
    bare.advance()
    assert len(machines(bare)) == 2


@pytest.mark.parametrize("kept", [False, True])
def test_a_failed_growth_leaves_the_pool_failed_and_perhaps_the_count_above(bare: Bare, kept: bool) -> None:
    bare.quirks(aks_failed_scale_keeps_count=kept, partial_allocation=True)
    agents(bare)
    bare.arm.set_stock(1)
    put(bare, count=3)
    bare.advance()
    assert (properties(bare)["provisioningState"], len(machines(bare))) == ("Failed", 1)
    assert properties(bare)["count"] == (3 if kept else 1)


def test_a_spot_pool_says_so(bare: Bare) -> None:
    bare.arm.cloud.latencies = ArmLatencies()
    agents(bare, priority=Priority.SPOT)
    found = properties(bare)
    assert (found["scaleSetPriority"], found["scaleSetEvictionPolicy"], found["spotMaxPrice"]) == ("Spot", "Delete", -1)


def test_the_cluster_tells_where_its_nodes_live(bare: Bare) -> None:
    agents(bare, minimum=1)
    body = bare.ask("GET", POOLS.removesuffix("/agentPools"))[1]
    assert body["properties"]["nodeResourceGroup"] == "MC_group_aks_westeurope"
    assert "/resourceGroups/MC_group_aks_westeurope/" in machines(bare)[0]["properties"]["resourceId"]
    (one,) = machines(bare)
    assert bare.ask("GET", f"{POOLS}/np1/machines/{one['name']}")[1] == one
    assert bare.ask("GET", f"{POOLS}/np1/machines/nobody")[0] == 404
    assert bare.ask("GET", f"{POOLS}/np9")[0] == bare.ask("GET", POOLS.replace("/aks/", "/other/"))[0] == 404
