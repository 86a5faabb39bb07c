"""A pool of the pools file against a scale set or an agent pool as ARM shows it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from local.doctor.findings import Finding, Status
from local.doctor.judging_pools import judge
from shared.model import Pool
from shared.settings.config import parse_config

Json = dict[str, Any]
FILE = """
cluster: training
azure: {subscription: 00000000-0000-0000-0000-000000000001, resource_group: nodes, location: westeurope, aks_cluster: a}
pools:
  - name: gpu
    sku: Standard_NC4as_T4_v3
    shape: {cpu: 4, memory: 28Gi, nvidia.com/gpu: 1}
    priority: Spot
    max: 200
    zones: ["1"]
    labels: {gpu: "true"}
    taints: ["sku=gpu:NoSchedule"]
  - name: agents
    kind: aks
    sku: Standard_D4s_v5
    max: 10
    labels: {team: web}
    taints: ["only=web:NoSchedule"]
"""
SCALE_SET: Json = {
    "name": "gpu",
    "location": "West Europe",
    "sku": {"name": "Standard_NC4as_T4_v3", "capacity": 3},
    "zones": ["1"],
    "tags": {},
    "properties": {
        "orchestrationMode": "Flexible",
        "singlePlacementGroup": False,
        "overprovision": False,
        "virtualMachineProfile": {
            "priority": "Spot",
            "evictionPolicy": "Delete",
            "storageProfile": {"osDisk": {"deleteOption": "Delete"}},
            "networkProfile": {
                "networkInterfaceConfigurations": [{"name": "nic", "properties": {"deleteOption": "Delete"}}]
            },
        },
    },
}
AGENT_POOL: Json = {
    "name": "agents",
    "properties": {
        "vmSize": "Standard_D4s_v5",
        "count": 2,
        "scaleSetPriority": "Regular",
        "nodeLabels": {"team": "web"},
        "nodeTaints": ["only=web:NoSchedule"],
    },
}
TEMPLATE = "k8s.io_cluster-autoscaler_node-template_"


def pool(name: str) -> Pool:
    found = parse_config(FILE).pool(name)
    assert found is not None
    return found


def changed(body: Json, path: str, value: object) -> Json:
    made = copy.deepcopy(body)
    place: Any = made
    *way, last = path.split(".")
    for part in way:
        place = place[int(part)] if isinstance(place, list) else place.setdefault(part, {})
    place[last] = value
    return made


def only(findings: list[Finding]) -> Finding:
    assert len(findings) == 1, findings
    return findings[0]


@pytest.mark.parametrize(("name", "body"), [("gpu", SCALE_SET), ("agents", AGENT_POOL)])
def test_what_is_as_the_file_says_is_well(name: str, body: Json) -> None:
    assert only(list(judge(pool(name), body))).status is Status.OK


@pytest.mark.parametrize(
    ("path", "value", "told", "remedy"),
    [
        ("sku.name", "Standard_D4s_v5", "sku: the pools file says Standard_NC4as_T4_v3, Azure Stand", "set sku"),
        ("properties.virtualMachineProfile.priority", "Regular", "priority: the pools file says Spot", "set priority"),
        ("zones", [], "zones: the pools file says [1], Azure []", "set zones"),
        ("location", "northeurope", "location: the pools file says westeurope", "set location"),
        ("properties.virtualMachineProfile.evictionPolicy", "Deallocate", "evictionPolicy is Dealloc", "policy Delete"),
        ("properties.overprovision", True, "overprovision is true", "set overprovision: false"),
        ("properties.singlePlacementGroup", True, "max 200 is above the 100 VMs", "lower max"),
        ("tags", {"cluster-autoscaler-enabled": "true"}, "is tagged for cluster-autoscaler", "take it from that one"),
        ("tags", {"Cluster-Autoscaler-Name": "a", "min": "0", "max": "9"}, "cluster-autoscaler", "does nothing"),
        ("tags", {"aks-managed-poolName": "gpu"}, "belongs to an AKS agent pool", "declare the pool as kind aks"),
        ("tags", {f"{TEMPLATE}label_gpu": "false"}, "labels: the pools file says gpu=true", "give the pool's nodes"),
        (
            "tags", {f"{TEMPLATE}taint_example.com_big": "yes:NoSchedule"},
            "taints: nodes get, and the pools file lacks example.com/big=yes:NoSchedule", "add them to `taints`",
        ),
        (
            "properties.virtualMachineProfile.storageProfile.osDisk.deleteOption", "Detach",
            "deleteOption of osDisk is Detach", "set deleteOption: Delete",
        ),
        (
            "properties.virtualMachineProfile.networkProfile.networkInterfaceConfigurations.0.properties.deleteOption",
            "Detach", "deleteOption of network interface nic is Detach", "set deleteOption: Delete",
        ),
    ],
)  # fmt: skip
def test_each_difference_of_a_scale_set_is_told_with_its_remedy(
    path: str, value: object, told: str, remedy: str
) -> None:
    finding = next(judge(pool("gpu"), changed(SCALE_SET, path, value)))
    assert finding.bad
    assert told in finding.message
    assert remedy in finding.remedy


@pytest.mark.parametrize(
    ("path", "value", "told", "remedy"),
    [
        ("properties.vmSize", "Standard_D8s_v5", "sku: the pools file says Standard_D4s_v5", "set sku"),
        ("properties.scaleSetPriority", "Spot", "priority: the pools file says Regular", "set priority"),
        ("properties.availabilityZones", ["3"], "zones: the pools file says [], Azure [3]", "set zones"),
        ("properties.nodeLabels", {}, "labels: the pools file says team=web", "give the pool's nodes"),
        ("properties.nodeTaints", [], "taints: the pools file says, and nodes do not get only=web", "take them out"),
        ("properties.enableAutoScaling", True, "scaled by AKS itself", "Sluice does nothing with the pool"),
    ],
)
def test_each_difference_of_an_agent_pool_is_told_with_its_remedy(
    path: str, value: object, told: str, remedy: str
) -> None:
    finding = only(list(judge(pool("agents"), changed(AGENT_POOL, path, value))))
    assert finding.bad
    assert told in finding.message
    assert remedy in finding.remedy


@pytest.mark.parametrize(("name", "kind"), [("gpu", "scale set"), ("agents", "agent pool")])
def test_a_pool_that_nothing_carries_is_told_by_its_name(name: str, kind: str) -> None:
    finding = only(list(judge(pool(name), None)))
    assert finding.message == f"resource: there is no {kind} {name} in nodes"
    assert f"make the {kind}" in finding.remedy


def test_more_machines_than_the_maximum_are_a_warning() -> None:
    finding = only(list(judge(pool("agents"), changed(AGENT_POOL, "properties.count", 12))))
    assert finding.status is Status.WARNING
    assert finding.message == "limits: agents has 12 machines, max is 10"


def test_a_tag_that_switches_cluster_autoscaler_off_is_none() -> None:
    body = changed(SCALE_SET, "tags", {"cluster-autoscaler-enabled": "false"})
    assert only(list(judge(pool("gpu"), body))).status is Status.OK


def test_several_faults_are_told_at_once() -> None:
    body = changed(changed(SCALE_SET, "zones", ["2"]), "sku.name", "Standard_D2s_v5")
    assert [finding.message.partition(":")[0] for finding in judge(pool("gpu"), body)] == ["sku", "zones"]
