"""What Sluice does in Azure, scene by scene: each needs rights, and breaks where one of them is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from local.arm import Fault, Quirks
from local.arm.pools import vm_template
from local.arm.rights import Demand, GuardedArm
from local.machines import BootTimes
from local.system.stand_ins import Behaviour
from shared.names import CONFIG_CONTAINER
from tests.orchestrations.stage import Stage
from tests.rights.granted import Right, grants

Json = dict[str, Any]

SUBSCRIPTION = "/subscriptions/00000000-0000-0000-0000-000000000001"
GROUP = f"{SUBSCRIPTION}/resourceGroups/nodes"
NODE_GROUP = f"{SUBSCRIPTION}/resourceGroups/MC_nodes_prod_westeurope"
SHARED = f"{SUBSCRIPTION}/resourceGroups/shared"  # what the VMs use lies in a group of its own
_COMPUTE, _NETWORK = f"{SHARED}/providers/Microsoft.Compute", f"{SHARED}/providers/Microsoft.Network"
SUBNET = f"{_NETWORK}/virtualNetworks/v/subnets/nodes"
PREFIX = f"{_NETWORK}/publicIPPrefixes/p"
PLACEMENT = f"{_COMPUTE}/proximityPlacementGroups/near"
GALLERY_IMAGE = f"{_COMPUTE}/galleries/g/images/node/versions/1.0.0"
IMAGE = f"{_COMPUTE}/images/node"
IDENTITY = f"{SHARED}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/node"

POOLS = """
cluster: training
mode: act
azure:
  subscription: 00000000-0000-0000-0000-000000000001
  resource_group: nodes
  location: westeurope
  aks_cluster: prod
pools:
  - name: work
    resource: work
    kind: {kind}
{more}    sku: Standard_D4s_v5
    shape: {{cpu: 4, memory: 16Gi, pods: 30}}
    price: 0.2
    max: 10
scale_down: {{idle_after: 10m}}
"""
_MORE = {"vm": "    template: vm.json\n"}


class Broken(AssertionError):
    """What a scene promises did not come about; the message ends with what `status` says of missing rights."""


@dataclass(frozen=True)
class Scene:
    """`play` raises AssertionError unless all goes as it should. `kinds`: of pool, by resource group."""

    name: str
    kind: str
    kinds: Mapping[str, Iterable[str]]
    play: Callable[[Stage], None]
    furnish: Callable[[Stage], None]
    flexible: bool = False
    timers: bool = False


@dataclass
class Performance:
    """What came of a scene: the rights that were asked for, and what broke."""

    demands: dict[str, Demand] = field(default_factory=dict)
    lacked: set[str] = field(default_factory=set)
    broken: Broken | None = None

    def note(self, demand: Demand, granted: bool) -> None:
        self.demands.setdefault(demand.action.lower(), demand)
        if not granted:
            self.lacked.add(demand.action.lower())


def perform(scene: Scene, without: Right | None = None) -> Performance:
    """Play a scene with all that Terraform grants, or without one right."""
    seen = Performance()
    quiet = Behaviour(
        quirks=Quirks(), boot=BootTimes(boot=(30.0, 30.0)), flexible=frozenset({"work"} if scene.flexible else ())
    )
    held = grants(scene.kinds, [SHARED], without=without)
    stage = Stage(
        pools_file(scene.kind),
        behaviour=quiet,
        timers=scene.timers,
        guard=lambda arm: GuardedArm(arm, lambda: arm.cloud.estate, held, seen.note),
    )
    scene.furnish(stage)
    try:
        scene.play(stage)
    except AssertionError as error:
        lacking = [each["what"] for each in stage.status()["clusters"]["training"]["lacking"]]
        seen.broken = Broken(f"{scene.name}: {error}; missing rights: {lacking}")
    return seen


def pools_file(kind: str) -> str:
    """One pool of this kind."""
    return POOLS.format(kind=kind, more=_MORE.get(kind, ""))


def grow_and_shrink(stage: Stage) -> None:
    """Pods get nodes; when they are gone, so is everything that was made, also what stayed behind at first."""
    stage.submit(3)
    stage.run(2)
    stage.say(seconds=300)
    assert len(stage.bound()) == 3, "three pods wait for nodes, and none came"
    assert stage.ledger()["failures"] == [], "a growth that went well is remembered as a failure"
    for kind in ("disk.cleanup", "nic.cleanup"):
        stage.stand.arm.faults.add(Fault(kind, code="InternalError", stage="async"))
    stage.finish()
    for _ in range(2):
        stage.idle(seconds=1500)
    assert stage.machines()["work"] == 0, "idle machines stay"
    assert stage.nodes() == [], "Node objects of machines that are gone stay"
    leaks = stage.stand.arm.truth.leaks()
    assert (leaks.nics, leaks.disks) == ((), ()), "what was made with the machines stays"


def fall_short(stage: Stage) -> None:
    """A growth that Azure cannot serve is told with Azure's own reason."""
    for operation in ("scale_set.update", "agent_pool.update", "vm.create"):
        stage.stand.arm.faults.add(Fault(operation, code="AllocationFailed", stage="async", times=9))
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=120)
    codes = {entry["code"] for entry in stage.ledger()["failures"]}
    assert codes == {"AllocationFailed"}, f"Azure said AllocationFailed, and what is known is {sorted(codes)}"


def stay_within_quotas(stage: Stage) -> None:
    """What a quota leaves no room for is not asked for."""
    stage.stand.arm.cloud.quota.set_limit("cores", 8)
    stage.submit(3)
    stage.run(2)
    stage.say(seconds=300)
    assert len(stage.bound()) == 2, "two nodes fit into the quota"
    assert not stage.stand.arm.truth.refusals, "Azure had to refuse what no quota has room for"


def free_addresses(stage: Stage) -> None:
    """A public IP that stayed behind is found by the sweep, and goes an hour later."""
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=300)
    assert len(stage.bound()) == 1, "a pod waits for a node, and none came"
    stage.stand.arm.faults.add(Fault("ip.cleanup", code="InternalError", stage="async"))
    stage.finish()
    stage.idle(seconds=2 * 3600)
    group = stage.stand.arm.cloud.estate.group(SUBSCRIPTION.rsplit("/", 1)[-1], "nodes")
    assert not group.addresses, "a public IP that nothing holds stays"


def in_scale_set(image: str) -> Callable[[Stage], None]:
    """The scale set's model names everything that one can."""

    def furnish(stage: Stage) -> None:
        group = stage.stand.arm.cloud.estate.group(SUBSCRIPTION.rsplit("/", 1)[-1], "nodes")
        properties = {"virtualMachineProfile": _profile(image), "proximityPlacementGroup": {"id": PLACEMENT}}
        identity = {"type": "UserAssigned", "userAssignedIdentities": {IDENTITY: {}}}
        group.scale_sets["work"].model = {"identity": identity, "properties": properties}

    return furnish


def in_template(stage: Stage) -> None:
    """The template of VMs names everything that one can."""
    pool = stage.config.pool("work")
    assert pool is not None
    body = vm_template(pool)
    profile = _profile(IMAGE)
    body["identity"] = {"type": "UserAssigned", "userAssignedIdentities": {IDENTITY: {}}}
    body["properties"] |= {
        "storageProfile": profile["storageProfile"],
        "networkProfile": profile["networkProfile"],
        "proximityPlacementGroup": {"id": PLACEMENT},
        "availabilitySet": {"id": f"{GROUP}/providers/Microsoft.Compute/availabilitySets/a"},
    }
    stage.store.put(CONFIG_CONTAINER, "vm.json", orjson.dumps(body))


def in_agent_pool(stage: Stage) -> None:
    """The agent pool names what one can; AKS knows the rest."""
    cluster = stage.stand.arm.cloud.estate.group(SUBSCRIPTION.rsplit("/", 1)[-1], "nodes").clusters["prod"]
    cluster.pools["work"].properties |= {
        "vnetSubnetID": SUBNET,
        "proximityPlacementGroupID": PLACEMENT,
        "nodePublicIPPrefixID": PREFIX,
    }


def _profile(image: str) -> Json:
    address = {
        "name": "ip",
        "properties": {
            "subnet": {"id": SUBNET},
            "loadBalancerBackendAddressPools": [{"id": f"{_NETWORK}/loadBalancers/l/backendAddressPools/nodes"}],
            "publicIPAddressConfiguration": {"name": "ip", "properties": {"publicIPPrefix": {"id": PREFIX}}},
        },
    }
    interface = {
        "name": "nic",
        "properties": {
            "primary": True,
            "networkSecurityGroup": {"id": f"{_NETWORK}/networkSecurityGroups/n"},
            "ipConfigurations": [address],
        },
    }
    encryption = {"id": f"{_COMPUTE}/diskEncryptionSets/d"}
    os_disk = {"createOption": "FromImage", "managedDisk": {"diskEncryptionSet": encryption}}
    return {
        "storageProfile": {"imageReference": {"id": image}, "osDisk": os_disk},
        "networkProfile": {"networkInterfaceConfigurations": [interface]},
    }


_SETS, _VMS = {GROUP: ["vmss"]}, {GROUP: ["vm"]}
_AKS = {GROUP: ["aks"], NODE_GROUP: ["aks-nodes"]}
_UNIFORM, _FLEXIBLE = in_scale_set(GALLERY_IMAGE), in_scale_set(IMAGE)
SCENES = (
    Scene("a uniform scale set grows and shrinks", "vmss", _SETS, grow_and_shrink, _UNIFORM),
    Scene("a growth of a scale set falls short", "vmss", _SETS, fall_short, _UNIFORM),
    Scene("a Flexible scale set grows and shrinks", "vmss", _SETS, grow_and_shrink, _FLEXIBLE, flexible=True),
    Scene("a scale set stays within its quota", "vmss", _SETS, stay_within_quotas, _UNIFORM),
    Scene("VMs come and go", "vm", _VMS, grow_and_shrink, in_template),
    Scene("a VM falls short", "vm", _VMS, fall_short, in_template),
    Scene("a VM's public IP stays behind", "vm", _VMS, free_addresses, in_template, timers=True),
    Scene("an agent pool grows and shrinks", "aks", _AKS, grow_and_shrink, in_agent_pool),
    Scene("a growth of an agent pool falls short", "aks", _AKS, fall_short, in_agent_pool),
)
