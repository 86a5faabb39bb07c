"""What exists in the stand-in's subscriptions. Plain records; the rules are in the modules beside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

Json = dict[str, Any]
DELETE = "Delete"
DETACH = "Detach"
PV_TAG_PREFIX = "kubernetes.io-created-for"


@dataclass(slots=True)
class Disk:
    """A managed disk. `held_by` is the VM's resource id; `made_with` the VM that it was created with, if any."""

    id: str
    name: str
    location: str
    created_at: datetime
    os: bool = False
    size_gb: int = 30
    zone: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    held_by: str = ""
    made_with: str = ""
    deleted_at: datetime | None = None

    @property
    def persistent_volume(self) -> bool:
        """Whether a CSI driver made it: such a disk holds somebody's data."""
        return any(name.startswith(PV_TAG_PREFIX) for name in self.tags)


@dataclass(slots=True)
class Nic:
    """A network interface; those of uniform scale sets are `child`ren and appear in no list of their own."""

    id: str
    name: str
    location: str
    created_at: datetime
    child: bool = False
    tags: dict[str, str] = field(default_factory=dict)
    held_by: str = ""
    made_with: str = ""
    deleted_at: datetime | None = None


@dataclass(slots=True)
class Address:
    """A public IP address. `held_by` is the id of the IP configuration, of a NIC for instance."""

    id: str
    name: str
    location: str
    tags: dict[str, str] = field(default_factory=dict)
    held_by: str = ""


@dataclass(slots=True)
class Attached:
    """A data disk on a VM."""

    lun: int
    disk: Disk
    create_option: str
    delete_option: str


@dataclass(slots=True)
class Vm:
    """A virtual machine of any kind; `instance_id` is set for those of uniform scale sets only."""

    id: str
    name: str
    computer_name: str
    group: str
    location: str
    sku: str
    zone: str
    spot: bool
    eviction_policy: str
    created_at: datetime
    instance_id: str = ""
    scale_set: ScaleSet | None = None
    tags: dict[str, str] = field(default_factory=dict)
    provisioning_state: str = "Creating"
    failure: str = ""
    power: str = "starting"
    nics: list[tuple[Nic, str]] = field(default_factory=list)
    os_disk: Disk | None = None
    os_delete_option: str = DETACH
    data_disks: list[Attached] = field(default_factory=list)
    addresses: list[tuple[Address, str]] = field(default_factory=list)
    preempting: bool = False
    ready_at: datetime | None = None
    deleting_at: datetime | None = None
    deleted_at: datetime | None = None
    rendered: orjson.Fragment | None = None
    deletion: Callable[[], None] | None = None  # what ends it, once it is being deleted

    @property
    def resource(self) -> str:
        """The agent pool's or scale set's name, or the VM's own."""
        return self.scale_set.resource if self.scale_set else self.name

    @property
    def provider_id(self) -> str:
        """As the cloud provider writes it on the node: the resource id with its group in lower case."""
        return "azure://" + self.id.replace(f"/resourceGroups/{self.group}/", f"/resourceGroups/{self.group.lower()}/")

    def set_state(self, state: str, *, power: str = "", failure: str = "") -> None:
        """Change what readers see."""
        self.provisioning_state = state
        self.power = power or self.power
        self.failure = failure
        self.rendered = None


@dataclass(slots=True)
class ScaleSet:
    """A scale set of either orchestration mode; `profile` is its virtualMachineProfile as given."""

    id: str
    name: str
    subscription: str
    group: str
    location: str
    sku: str
    capacity: int
    flexible: bool
    zones: list[str]
    profile: Json
    tags: dict[str, str] = field(default_factory=dict)
    provisioning_state: str = "Succeeded"
    version: int = 1
    next_instance: int = 0
    vms: dict[str, Vm] = field(default_factory=dict)  # by instance id, or by name in a Flexible set
    vacant: int = 0  # VMs deleted by name that its capacity still stands for, and that the next write brings back
    growing: str = ""  # the id of the growth operation under way
    single_group: bool = False  # all VMs in one placement group
    model: Json = field(default_factory=dict)  # all of the body that it was made from
    agent_pool: AgentPool | None = None

    @property
    def resource(self) -> str:
        """What its owner knows it by: the agent pool that it carries, or its own name."""
        return self.agent_pool.name if self.agent_pool else self.name

    @property
    def etag(self) -> str:
        """Changes with every write and every change of capacity."""
        return f'"{self.version}"'

    @property
    def spot(self) -> bool:
        """Whether its VMs may be evicted."""
        return self.profile.get("priority") in {"Spot", "Low"}

    def living(self) -> list[Vm]:
        """VMs that exist and are not on their way out."""
        return [vm for vm in self.vms.values() if vm.deleting_at is None]


@dataclass(slots=True)
class AgentPool:
    """A pool of an AKS cluster; `properties` as its owner gave them, `scale_set` is what carries it, in a resource
    group of AKS's own. `count` is what the owner asked for, less what was deleted by name."""

    id: str
    name: str
    scale_set: ScaleSet
    properties: Json
    count: int = 0
    provisioning_state: str = "Succeeded"
    version: int = 1

    @property
    def etag(self) -> str:
        """Changes with every write, and when its effect has come."""
        return f"{self.version:08d}-aks"

    def settle(self, state: str) -> None:
        """Rest in a state."""
        self.provisioning_state = state
        self.version += 1


@dataclass(slots=True)
class ManagedCluster:
    """An AKS cluster, with its pools by name."""

    id: str
    name: str
    location: str
    node_group: str
    pools: dict[str, AgentPool] = field(default_factory=dict)


@dataclass(slots=True)
class Group:
    """One resource group; names are keys in lower case."""

    subscription: str
    name: str
    scale_sets: dict[str, ScaleSet] = field(default_factory=dict)
    vms: dict[str, Vm] = field(default_factory=dict)
    nics: dict[str, Nic] = field(default_factory=dict)
    disks: dict[str, Disk] = field(default_factory=dict)
    addresses: dict[str, Address] = field(default_factory=dict)
    clusters: dict[str, ManagedCluster] = field(default_factory=dict)

    def path(self, provider: str, *parts: str) -> str:
        """A resource id in this group."""
        return "/".join((f"/subscriptions/{self.subscription}/resourceGroups/{self.name}/providers/{provider}", *parts))


@dataclass(slots=True)
class Estate:
    """Everything that exists."""

    groups: dict[tuple[str, str], Group] = field(default_factory=dict)

    def group(self, subscription: str, name: str) -> Group:
        """The group; made on first mention, since who may make groups is none of the stand-in's business."""
        key = (subscription.lower(), name.lower())
        if key not in self.groups:
            self.groups[key] = Group(subscription, name)
        return self.groups[key]

    def all_vms(self) -> Iterator[Vm]:
        """VMs of every kind that exist now."""
        for group in self.groups.values():
            yield from group.vms.values()
            for scale_set in group.scale_sets.values():
                if not scale_set.flexible:
                    yield from scale_set.vms.values()

    def find_vm(self, any_id: str) -> Vm | None:
        """By resource id, provider id or computer name."""
        wanted = any_id.removeprefix("azure://").lower()
        return next((vm for vm in self.all_vms() if wanted in {vm.id.lower(), vm.computer_name.lower()}), None)
