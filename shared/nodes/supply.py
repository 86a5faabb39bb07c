"""What may hold pods without being bought: nodes that are there, nodes that are joining, nodes that were asked for.

A node in trouble, cordoned, going, or being taken away by Azure is no supply. A young node of ours that is not ready
yet counts as what its pool promises until its time to join is over; extended resources (GPUs) that it has not
announced count until the time for those is over, also over a restart: otherwise the same pods would be bought for
twice. After that a node counts as what it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.model import (
    Config,
    DaemonShape,
    HostPort,
    Ledger,
    Movability,
    NodeView,
    PodShape,
    Pool,
    Snapshot,
    Timing,
)
from shared.nodes.starting import is_startup_taint
from shared.nodes.template_node import Template, attachable, fits, settles, take, with_disk_zone
from shared.rules.predicates import PODS, Ground
from shared.rules.tallies import Place

Content = tuple[tuple[PodShape, int], ...]
_AWAY = "node.kubernetes.io/unreachable"  # a young node that is silent restarts, for a driver perhaps


@dataclass(frozen=True, slots=True)
class Site:
    """One node, or one node to come, as a place for pods.

    `target` names it in the plan; `coming` ones can't run anything yet, others nobody who asks for a resource that they
    still lack (`lacks`). `fresh` ones are a pool's of ours and hold nothing but DaemonSet pods, so they can still be
    filled as if they were bought now. `idle` ones may go soon, `recalled` ones are about to, and would be called back.
    `content` is what runs there, DaemonSet pods to come included.
    """

    target: str
    pool: str
    grounds: tuple[Ground, ...]
    free: Mapping[str, int]
    host_ports: tuple[HostPort, ...]
    coming: bool = False
    fresh: bool = False
    idle: bool = False
    content: Content = ()
    lacks: frozenset[str] = frozenset()
    recalled: bool = False


def is_extended(resource: str) -> bool:
    """Whether a device plugin announces it, after the node has joined: the kubelet's own resources have no domain."""
    return "/" in resource


def join_time(pool: Pool, timing: Timing) -> timedelta:
    """How long after its creation a node of the pool may lack what the pool promises and still be waited for."""
    late = timing.resources_timeout if any(map(is_extended, pool.allocatable)) else 0.0
    return timedelta(seconds=max(timing.node_join_timeout, late))


def sites_of(
    snapshot: Snapshot, config: Config, ledger: Ledger, templates: Mapping[str, Template], now: datetime
) -> list[Site]:
    """Every place that counts as supply: nodes in the snapshot's order, then those asked for, in the ledger's."""
    patience = {pool.name: join_time(pool, config.timing) for pool in config.pools}
    sites = []
    for node in snapshot.nodes:
        if node.unschedulable or node.evicting_at is not None or node.name in ledger.retiring:
            continue
        template = templates.get(node.pool)
        if template is not None and now - node.created_at < patience[node.pool]:
            sites.append(_young(node, template, snapshot.daemons))
        elif node.ready:
            sites.append(settled_site(node, ours=template is not None))
    return sites + _asked_for(ledger, templates, now)


def late_resources(snapshot: Snapshot, config: Config, now: datetime) -> Iterator[str]:
    """Of which nodes extended resources are still missing, or missing again, after all patience: a line for each."""
    promised = {
        pool.name: (join_time(pool, config.timing), extended)
        for pool in config.pools
        if (extended := [(name, amount) for name, amount in pool.allocatable.items() if amount and is_extended(name)])
    }
    for node in snapshot.nodes if promised else ():
        patience, extended = promised.get(node.pool, (timedelta(), []))
        if now - node.created_at < patience or not node.ready:
            continue
        for name, amount in extended:
            if (has := node.allocatable.get(name, 0)) < amount:
                yield f"node {node.name} of pool {node.pool} has {has} {name} instead of {amount}, and counts with that"


def without_devices(node: NodeView, pool: Pool, timing: Timing, now: datetime) -> str:
    """What a node never got of the devices (GPUs) that it was bought for, after all patience; "" for any other.

    A node that is not Ready may be restarting to get them, and is somebody else's trouble if it stays away.
    """
    if not node.ready or node.evicting_at is not None or now - node.created_at < join_time(pool, timing):
        return ""
    never = [(name, amount) for name, amount in pool.allocatable.items() if amount and is_extended(name)]
    never = [(name, amount) for name, amount in never if not node.allocatable.get(name)]
    minutes = int((now - node.created_at).total_seconds() // 60)
    texts = ", ".join(f"0 of {amount} {name}" for name, amount in never)
    return f"DevicesNeverAppeared: {texts} after {minutes} min" if never else ""


def bystanders(snapshot: Snapshot, sites: Sequence[Site]) -> list[Place]:
    """Nodes that take no pods but are there, with their pods: rules between pods count both."""
    taking = {site.target for site in sites}
    return [
        Place((Ground(node.name, node.labels, node.taints, node.unschedulable),), content_of(node))
        for node in snapshot.nodes
        if node.name not in taking
    ]


def content_of(node: NodeView) -> Content:
    """The pods on a node; on one that Azure takes away those that move are planned for, and no more counted here."""
    going = node.evicting_at is not None
    return tuple((bound.shape, len(bound.pods)) for bound in node.bound if not (going and bound.comes_again))


def present(snapshot: Snapshot, ledger: Ledger, now: datetime) -> dict[str, int]:
    """How many nodes each pool has or has asked for, going ones included: what counts against its maximum."""
    numbers: dict[str, int] = {}
    for node in snapshot.nodes:
        numbers[node.pool] = numbers.get(node.pool, 0) + 1
    for upcoming in ledger.upcoming:
        if upcoming.deadline > now:
            numbers[upcoming.pool] = numbers.get(upcoming.pool, 0) + upcoming.count
    return numbers


def settled_site(node: NodeView, *, ours: bool) -> Site:
    """A node that has started, as it is."""
    return Site(
        node.name,
        node.pool,
        (Ground(node.name, node.labels, node.taints),),
        _free(node.allocatable, node.requested),
        node.host_ports,
        fresh=ours and _holds_daemons_only(node),
        idle=node.idle_since is not None,
        content=content_of(node),
    )


def _young(node: NodeView, template: Template, daemons: Sequence[DaemonShape]) -> Site:
    taints = tuple(taint for taint in node.taints if not is_startup_taint(taint) and taint.key != _AWAY)
    ground = Ground(node.name, with_disk_zone(node.labels, known=bool(template.pool.azure)), taints)
    promised = {name: amount for name, amount in template.allocatable.items() if amount}
    lacks = frozenset(name for name, amount in promised.items() if _is_missing(name, amount, node))
    allocatable = {**attachable(template), **node.allocatable, **{name: promised[name] for name in lacks}}
    free = _free(allocatable, node.requested)
    ports = node.host_ports
    content = content_of(node)
    for daemon in _daemons_missing(node, ground, daemons):
        if fits(daemon.shape, free, ports) is None:
            take(free, daemon.shape, 1)
            ports += daemon.shape.host_ports
            content += ((daemon.shape, 1),)
    return Site(
        node.name,
        node.pool,
        (ground,),
        free,
        ports,
        coming=not node.ready or len(taints) < len(node.taints),
        fresh=_holds_daemons_only(node),
        idle=node.idle_since is not None,
        content=content,
        lacks=lacks,
    )


def _is_missing(name: str, amount: int, node: NodeView) -> bool:
    """Whether more is still expected: a device plugin may announce its devices one by one, the kubelet says all."""
    has = node.allocatable.get(name, 0)
    return has < amount if is_extended(name) else not has


def _asked_for(ledger: Ledger, templates: Mapping[str, Template], now: datetime) -> list[Site]:
    return [
        _promise(template)
        for upcoming in ledger.upcoming
        if upcoming.deadline > now and (template := templates.get(upcoming.pool)) is not None
        for _ in range(upcoming.count)
    ]


def _promise(template: Template) -> Site:
    name = template.pool.name
    return Site(
        name,
        name,
        template.grounds,
        template.free,
        template.host_ports,
        coming=True,
        fresh=True,
        content=tuple((shape, 1) for shape in template.daemons),
    )


def _free(allocatable: Mapping[str, int], requested: Mapping[str, int]) -> dict[str, int]:
    return {name: amount - requested.get(name, 0) for name, amount in allocatable.items()}


def _holds_daemons_only(node: NodeView) -> bool:
    staying = sum(len(bound.pods) for bound in node.bound if bound.movability is Movability.STAYS)
    return node.requested.get(PODS, 0) == staying


def _daemons_missing(node: NodeView, ground: Ground, daemons: Sequence[DaemonShape]) -> list[DaemonShape]:
    """DaemonSets whose pods will still come: none of equal size is there, and all pods there are known."""
    if not daemons or node.requested.get(PODS, 0) != sum(len(bound.pods) for bound in node.bound):
        return []
    there = {bound.shape.requests for bound in node.bound if bound.movability is Movability.STAYS}
    return [each for each in daemons if each.shape.requests not in there and settles(each.shape, (ground,))]
