"""From a Node to the machine that carries it, and to the pool that the machine belongs to.

The forms are those that cloud-provider-azure writes into `spec.providerID`; Azure's names are compared without regard
to case, since the resource group is lower-cased there and the rest is as it was typed when the resource was made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.model import Config, Pool, PoolKind
from shared.names import POOL_LABEL

Json = dict[str, Any]

AGENT_POOL_LABELS = ("kubernetes.azure.com/agentpool", "agentpool")

_FORM = re.compile(
    r"azure:///subscriptions/(?P<subscription>[\w-]+)/resourceGroups/(?P<group>[\w.()-]+)/providers/Microsoft\.Compute/"
    r"(?:virtualMachineScaleSets/(?P<set>[\w.-]+)/virtualMachines/(?P<instance>[\w-]+)|virtualMachines/(?P<vm>[\w.-]+))",
    re.IGNORECASE | re.ASCII,  # nothing that would change a URL made of it
)


@dataclass(frozen=True, slots=True)
class ProviderId:
    """A machine in Azure: `scale_set` and `instance_id` of a uniform set's VM, else `vm_name`; the others are empty."""

    subscription: str
    resource_group: str
    scale_set: str
    instance_id: str
    vm_name: str

    @property
    def deletion_id(self) -> str:
        """What a deletion takes: the number of a uniform scale set's VM, else the VM's name."""
        return self.instance_id or self.vm_name


def parse(provider_id: str) -> ProviderId | None:
    """None for anything that is not an Azure VM."""
    match = _FORM.fullmatch(provider_id)
    if match is None:
        return None
    return ProviderId(
        match["subscription"], match["group"], match["set"] or "", match["instance"] or "", match["vm"] or ""
    )


def pool_of(node: Json, config: Config) -> str:
    """The pool that a Node belongs to, or "": see `pool_for`."""
    spec, meta = node.get("spec") or {}, node.get("metadata") or {}
    return pool_for(spec.get("providerID", ""), meta.get("labels") or {}, config)


def pool_for(provider_id: str, labels: Mapping[str, str], config: Config) -> str:
    """The name of the pool, by what cannot be mistyped first: scale set, then VM name, then labels; "" for none.

    A label is believed only where the machine does not say otherwise: a node labelled into a pool whose scale set it
    does not come from is no node of that pool, or a deletion would hit a stranger by the same instance id.
    """
    machine = parse(provider_id)
    pools = [pool for pool in config.pools if _in_scope(pool, machine)]
    by_machine = _by_machine(machine, pools) if machine else None
    found = by_machine or _by_label(machine, labels, pools)
    return found.name if found else ""


def _in_scope(pool: Pool, machine: ProviderId | None) -> bool:
    """AKS keeps its nodes in a resource group of its own, so there only the subscription can be compared."""
    if pool.azure is None or machine is None:
        return True
    if not _agrees(pool.azure.subscription, machine.subscription):
        return False
    return pool.kind is PoolKind.AKS or _agrees(pool.azure.resource_group, machine.resource_group)


def _agrees(wanted: str, found: str) -> bool:
    return not wanted or wanted.casefold() == found.casefold()


def _by_machine(machine: ProviderId, pools: list[Pool]) -> Pool | None:
    if machine.scale_set:
        name = machine.scale_set.casefold()
        return next((pool for pool in pools if _is_set_of(pool, name)), None)
    name = machine.vm_name.casefold()
    carriers = [pool for pool in pools if pool.kind is not PoolKind.AKS and _carries(pool, name)]
    return max(carriers, key=lambda pool: len(pool.resource), default=None)


def _is_set_of(pool: Pool, scale_set: str) -> bool:
    """AKS names its scale sets aks-<pool>-<number>-vmss, and aks<pool> for Windows, as the names of its nodes show."""
    resource = pool.resource.casefold()
    if pool.kind is PoolKind.VMSS:
        return scale_set == resource
    if pool.kind is not PoolKind.AKS or not scale_set.startswith("aks"):
        return False
    number = scale_set.removeprefix(f"aks-{resource}-").removesuffix("-vmss")
    return number.isdigit() or scale_set == f"aks{resource}"


def _carries(pool: Pool, vm_name: str) -> bool:
    """VMs of a pool are named after it: `<resource>_<id>` by a flexible scale set, `<resource>-<id>` by Sluice."""
    return vm_name.startswith((f"{pool.resource.casefold()}_", f"{pool.resource.casefold()}-"))


def _by_label(machine: ProviderId | None, labels: Mapping[str, str], pools: list[Pool]) -> Pool | None:
    named = labels.get(POOL_LABEL, "")
    for pool in pools:
        if named == pool.name and not _contradicts(pool, machine):
            return pool
    agent_pools = {labels[label] for label in AGENT_POOL_LABELS if label in labels}
    return next((pool for pool in pools if pool.kind is PoolKind.AKS and pool.resource in agent_pools), None)


def _contradicts(pool: Pool, machine: ProviderId | None) -> bool:
    return machine is not None and bool(machine.scale_set) and pool.kind is not PoolKind.AKS
