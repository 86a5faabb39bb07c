"""What a new node of a pool will look like: its labels, taints and the room that is left beside the DaemonSets.

Labels are those that the kubelet and Azure's node manager put on every Linux node, then the pool's own, which win; what
was learnt from real nodes of the pool (`shared.learning`) wins over both, and over the declared room and taints.
The host name of a node to come is unknown, so nothing that asks for a particular one is served by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shared import names
from shared.model import DaemonShape, HostPort, Learnt, PodShape, Pool
from shared.predicates import PODS, Ground, node_ports, node_resources_fit, static_refusal

ZONE_LABEL = "topology.kubernetes.io/zone"
REGION_LABEL = "topology.kubernetes.io/region"
HOSTNAME_LABEL = "kubernetes.io/hostname"
INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"

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
    free = {PODS: _KUBELET_MAX_PODS, **(pool.allocatable if learnt is None else learnt.allocatable)}
    ports: tuple[HostPort, ...] = ()
    settled = []
    for daemon in daemons:
        if settles(daemon.shape, grounds) and fits(daemon.shape, free, ports) is None:
            take(free, daemon.shape, 1)
            ports += daemon.shape.host_ports
            settled.append(daemon.shape)
    return Template(pool, grounds, free, ports, tuple(settled), learnt)


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
        free[name] = free.get(name, 0) - amount * count
    free[PODS] = free.get(PODS, 0) - count


def assumed_labels(pool: Pool) -> dict[str, str]:
    """Labels that a new node of the pool is taken to have, for all that the pools file says; its host name is none."""
    location = pool.azure.location if pool.azure else ""
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", names.POOL_LABEL: pool.name}
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
        return (Ground(_UNKNOWN_NAME, labels, taints),)
    return tuple(Ground(_UNKNOWN_NAME, {**labels, ZONE_LABEL: f"{location}-{zone}"}, taints) for zone in pool.zones)
