"""What a new node of a pool will look like: its labels, taints and the room that is left beside the DaemonSets.

Labels are those that the kubelet and Azure's node manager put on every Linux node, then the pool's own, which win; what
was learnt from real nodes of the pool (`shared.nodes.learning`) wins over both, and over the declared room and taints.
The host name of a node to come is unknown, so nothing that asks for a particular one is served by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shared import names
from shared.model import DaemonShape, HostPort, Learnt, PodShape, Pool
from shared.reading.storage import AZURE_DISK_DRIVER
from shared.rules.predicates import ATTACHABLE, PODS, Ground, node_ports, node_resources_fit, static_refusal
from shared.sku_catalogue import data_disks

ZONE_LABEL = "topology.kubernetes.io/zone"
REGION_LABEL = "topology.kubernetes.io/region"
HOSTNAME_LABEL = "kubernetes.io/hostname"
DISK_ZONE_LABEL = "topology.disk.csi.azure.com/zone"
"""Set with the Azure disk driver: the node's zone, or nothing where it has none; disks ask for it."""
INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
DEFAULT_DATA_DISKS = 16
"""What the Azure disk driver says of a size that it does not know (its `defaultAzureVolumeLimit`)."""

_AZURE_DISKS = f"{ATTACHABLE}{AZURE_DISK_DRIVER}"
_UNKNOWN_NAME = "\0new"  # no pod can name it: a valid node name has no such character
_KUBELET_MAX_PODS = 110  # the kubelet's default, where the pool's shape does not say


@dataclass(frozen=True, slots=True)
class Template:
    """A node of a pool before it exists.

    `grounds` has one entry, or one for each zone that Azure may choose for the node: a pod is served only if it is on
    all of them. `free` and `host_ports` are what the DaemonSets leave and take, whose pods are `daemons`; `learnt` is
    what nodes of the pool have taught, if there were any.
    """

    pool: Pool
    grounds: tuple[Ground, ...]
    free: dict[str, int]
    host_ports: tuple[HostPort, ...]
    daemons: tuple[PodShape, ...] = ()
    learnt: Learnt | None = None

    @property
    def allocatable(self) -> Mapping[str, int]:
        """What pods may use of a fresh node, DaemonSet pods too: learnt, or promised."""
        return self.pool.allocatable if self.learnt is None else self.learnt.allocatable


def template_of(pool: Pool, daemons: Iterable[DaemonShape], learnt: Learnt | None = None) -> Template:
    """A new node of the pool, with each DaemonSet on it that fits."""
    grounds = _grounds(pool, learnt)
    promised = pool.allocatable if learnt is None else learnt.allocatable
    free = {PODS: _KUBELET_MAX_PODS, _AZURE_DISKS: _data_disks(pool), **promised}
    ports: tuple[HostPort, ...] = ()
    settled = []
    for daemon in daemons:
        if settles(daemon.shape, grounds) and fits(daemon.shape, free, ports) is None:
            take(free, daemon.shape, 1)
            ports += daemon.shape.host_ports
            settled.append(daemon.shape)
    return Template(pool, grounds, free, ports, tuple(settled), learnt)


def attachable(template: Template) -> dict[str, int]:
    """How many volumes of each CSI driver with a limit a new node takes beside its DaemonSets, as resources.

    Unless nodes of the pool have taught it, or the pools file says it: Azure disks by the size's own limit; of a size
    that is not in the catalogue two per core and at most `DEFAULT_DATA_DISKS`, an assumption. Other drivers (files,
    blobs) attach without a limit.
    """
    return {name: amount for name, amount in template.free.items() if name.startswith(ATTACHABLE)}


def _data_disks(pool: Pool) -> int:
    known = data_disks(pool.sku)
    return min(DEFAULT_DATA_DISKS, 2 * max(1, pool.shape.get("cpu", 0) // 1000)) if known is None else known


def template_refusal(shape: PodShape, template: Template) -> str | None:
    """Why a fresh, empty node of the pool would not take the pod, or None; in the order in which a person would ask."""
    refused = [reason for ground in template.grounds if (reason := static_refusal(shape, ground))]
    if refused and len(refused) < len(template.grounds):
        return "ZoneNotChoosable: one pool per zone serves it"
    return refused[0] if refused else fits(shape, template.free, template.host_ports)


def fits(shape: PodShape, free: dict[str, int], ports: tuple[HostPort, ...]) -> str | None:
    """Why what is left on a node does not take the pod, or None."""
    return node_resources_fit(shape, free) or node_ports(shape, ports)


def settles(shape: PodShape, grounds: Iterable[Ground]) -> bool:
    """Whether the DaemonSet controller would put its pod there: rules that only place ordinary pods do not count."""
    bare = PodShape(
        requests=(), node_selector=shape.node_selector, affinity=shape.affinity, tolerations=shape.tolerations
    )
    return all(static_refusal(bare, ground) is None for ground in grounds)


def take(free: dict[str, int], shape: PodShape, count: int) -> None:
    """Book `count` pods of the shape on what is left of a node."""
    for name, amount in shape.requests:
        if name in free or not name.startswith(ATTACHABLE):
            free[name] = free.get(name, 0) - amount * count
    free[PODS] = free.get(PODS, 0) - count


def assumed_labels(pool: Pool) -> dict[str, str]:
    """Labels that a new node of the pool is taken to have, for all that the pools file says; its host name is none."""
    location = pool.azure.location if pool.azure else ""
    name = pool.part_of or pool.name
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", names.POOL_LABEL: name}
    if pool.sku:
        labels[INSTANCE_TYPE_LABEL] = pool.sku
    if location:
        labels[REGION_LABEL] = location
        if len(pool.zones) == 1:
            labels[ZONE_LABEL] = f"{location}-{pool.zones[0]}"
    return {**labels, **pool.labels}


def _grounds(pool: Pool, learnt: Learnt | None) -> tuple[Ground, ...]:
    labels: dict[str, str] = {**assumed_labels(pool), HOSTNAME_LABEL: _UNKNOWN_NAME}
    taints = pool.taints
    if learnt is not None:
        labels = {key: value for key, value in labels.items() if key not in learnt.lacking} | dict(learnt.labels)
        taints = learnt.taints
    location = pool.azure.location if pool.azure else ""
    if not location or len(pool.zones) < 2 or ZONE_LABEL in labels:
        return (Ground(_UNKNOWN_NAME, with_disk_zone(labels, known=bool(location)), taints),)
    zones = [{**labels, ZONE_LABEL: f"{location}-{zone}"} for zone in pool.zones]
    return tuple(Ground(_UNKNOWN_NAME, with_disk_zone(each, known=True), taints) for each in zones)


def with_disk_zone(labels: Mapping[str, str], *, known: bool) -> dict[str, str]:
    """The labels with the disk driver's own, which comes a little after the node; unless `known`, only from a zone.

    A node outside all zones has its fault domain, a number, for a zone, and an empty one for its disks.
    """
    zone = labels.get(ZONE_LABEL, "")
    if DISK_ZONE_LABEL in labels or not (known or zone):
        return dict(labels)
    return {**labels, DISK_ZONE_LABEL: "" if zone.isdecimal() else zone}
