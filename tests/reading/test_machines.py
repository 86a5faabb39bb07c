from __future__ import annotations

import pytest

from shared.provider_id import ProviderId, parse, pool_for, pool_of
from shared.settings.config import parse_config
from tests.reading.builders import node

SUBSCRIPTION = "11111111-2222-3333-4444-555555555555"
GROUP = f"azure:///subscriptions/{SUBSCRIPTION}/resourceGroups/rg/providers/Microsoft.Compute"
UNIFORM = GROUP + "/virtualMachineScaleSets/{}/virtualMachines/7"
MACHINE = GROUP + "/virtualMachines/{}"

CONFIG = parse_config(
    f"""
cluster: c
azure: {{subscription: {SUBSCRIPTION}, resource_group: RG}}
pools:
  - {{name: cpu, resource: Set-CPU, max: 1, sku: Standard_D4s_v5}}
  - {{name: gpu, kind: vm, max: 1, sku: Standard_D4s_v5}}
  - {{name: gpu-spot, kind: vm, max: 1, sku: Standard_D4s_v5}}
  - {{name: agents, kind: aks, resource: np1, max: 1, sku: Standard_D4s_v5}}
"""
)


def test_a_uniform_scale_sets_machine_is_known_by_its_number():
    assert parse(UNIFORM.format("set")) == ProviderId(SUBSCRIPTION, "rg", "set", "7", "")
    assert parse(UNIFORM.format("set")).deletion_id == "7"


def test_a_machine_of_its_own_is_known_by_its_name():
    assert parse(MACHINE.format("vm-1")) == ProviderId(SUBSCRIPTION, "rg", "", "", "vm-1")
    assert parse(MACHINE.format("vm-1")).deletion_id == "vm-1"


def test_the_fixed_parts_may_be_written_in_any_case():
    assert parse(UNIFORM.format("set").replace("resourceGroups", "resourcegroups")) is not None


@pytest.mark.parametrize(
    "text",
    ["", "aws:///eu-1/i-1", "kind://docker/x", MACHINE.format(""), MACHINE.format("a/b"), MACHINE.format("a") + "\n"],
)
def test_what_is_no_azure_machine_has_no_id(text):
    assert parse(text) is None


@pytest.mark.parametrize(
    ("provider_id", "labels", "pool"),
    [
        (UNIFORM.format("set-cpu"), {}, "cpu"),
        (UNIFORM.format("other"), {}, ""),
        (MACHINE.format("set-cpu_0a1b2c"), {}, "cpu"),
        (MACHINE.format("gpu-1"), {}, "gpu"),
        (MACHINE.format("gpu-spot-1"), {}, "gpu-spot"),
        (MACHINE.format("GPU-Spot-1"), {}, "gpu-spot"),
        (MACHINE.format("gpux-1"), {}, ""),
        ("", {"sluice.io/pool": "gpu"}, "gpu"),
        ("", {"sluice.io/pool": "nobody"}, ""),
        ("", {}, ""),
        (MACHINE.format("named-otherwise"), {"sluice.io/pool": "gpu"}, "gpu"),
        (UNIFORM.format("aks-np1-123-vmss"), {"agentpool": "np1"}, "agents"),
        (UNIFORM.format("aks-np1-123-vmss"), {"kubernetes.azure.com/agentpool": "np1"}, "agents"),
        (UNIFORM.format("aks-np9-123-vmss"), {"agentpool": "np9"}, ""),
        (UNIFORM.format("aks-np1-123-vmss"), {}, "agents"),
        (UNIFORM.format("aksnp1"), {}, "agents"),
        (UNIFORM.format("aks-np1-x-123-vmss"), {}, ""),
    ],
)
def test_a_node_belongs_to_the_pool_that_its_machine_comes_from(provider_id, labels, pool):
    assert pool_for(provider_id, labels, CONFIG) == pool


def test_a_label_does_not_win_over_a_scale_set_that_is_not_the_pools():
    assert pool_for(UNIFORM.format("other"), {"sluice.io/pool": "cpu"}, CONFIG) == ""


def test_a_machine_of_another_resource_group_or_subscription_is_no_member():
    elsewhere = UNIFORM.format("set-cpu")
    assert pool_for(elsewhere.replace("/rg/", "/other/"), {}, CONFIG) == ""
    assert pool_for(elsewhere.replace(SUBSCRIPTION, SUBSCRIPTION.replace("1", "9")), {}, CONFIG) == ""


def test_an_agent_pools_nodes_live_in_a_resource_group_of_their_own():
    machine = UNIFORM.format("aks-np1-1-vmss").replace("/rg/", "/MC_rg_aks_westeurope/")
    assert pool_for(machine, {"agentpool": "np1"}, CONFIG) == "agents"


def test_a_node_object_is_read_by_provider_id_and_labels():
    assert pool_of(node(providerID=UNIFORM.format("set-cpu")), CONFIG) == "cpu"
    assert pool_of(node(meta={"labels": {"sluice.io/pool": "gpu"}}), CONFIG) == "gpu"
    assert pool_of({}, CONFIG) == ""
