"""Nodes that hold back pods until what was planned for them is arranged: the startup taint, and when it may go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from shared.model import Config, NodeView, Plan, PodClass, PodRef, PodShape, Pool, Snapshot, Taint
from shared.names import STARTING_TAINT

_STARTUP_TAINTS = (  # set while a node starts, by the kubelet, the cloud's node manager, network and disk drivers
    STARTING_TAINT,
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/network-unavailable",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.cilium.io/agent-not-ready",
    "disk.csi.azure.com/agent-not-ready",
    "file.csi.azure.com/agent-not-ready",
    "startup-taint.cluster-autoscaler.kubernetes.io/",  # prefixes that other people's node images use already
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
)


SMALL = 0.05
"""The share of its node below which a pod is not told where to go: it finds a place anyhow. On b-2000 that saves four
patches in ten, and costs nothing; at 0.1 it is half of them for 0.2 % of price, at 0.25 1.1 %."""


MOST_NOMINATED = 4000
"""Per plan: some ten seconds of patches; whoever is left out is small. On b-15000 twice as many would save 0.7 %."""


@dataclass(frozen=True, slots=True)
class Guest:
    """A pod to be nominated; `instead_of` is the node of that name that is no more, which it was nominated to."""

    pod: PodRef
    instead_of: str = ""


@dataclass(frozen=True, slots=True)
class Opening:
    """A node whose taint, the `taint`-th of its list, can be lifted, and the pods that were planned for it."""

    node: str
    uid: str
    pool: str
    taint: int
    guests: tuple[Guest, ...]


def is_startup_taint(taint: Taint) -> bool:
    """Whether it only says that the node has not finished starting."""
    return taint.key.startswith(_STARTUP_TAINTS)


def is_starting(node: NodeView) -> bool:
    """Whether it still holds pods back."""
    return any(taint.key == STARTING_TAINT for taint in node.taints)


def can_open(node: NodeView, pool: Pool) -> bool:
    """Whether nothing but our taint holds pods back: Ready, no other startup taint, and the promised devices there.

    A pod that is tried before its node can take it loses its nomination, so all of this must be over first.
    """
    others = any(is_startup_taint(taint) and taint.key != STARTING_TAINT for taint in node.taints)
    devices = (name for name, amount in pool.allocatable.items() if "/" in name and amount)
    return is_starting(node) and node.ready and not others and all(node.allocatable.get(name) for name in devices)


def openings(
    snapshot: Snapshot, config: Config, plan: Plan, may_act: Callable[[Pool], bool], most: int
) -> tuple[Opening, ...]:
    """Every node that can be opened now, with at most `most` pods to be nominated in all, the largest first."""
    ready = [
        (node, pool)
        for node in snapshot.nodes
        if (pool := config.pool(node.pool)) is not None and may_act(pool) and can_open(node, pool)
    ]
    if not ready:
        return ()
    guests = _guests(snapshot, plan, {node.name for node, _ in ready}, most) if _order_matters(snapshot) else {}
    return tuple(_opening(node, guests.get(node.name, ())) for node, _ in ready)


def _order_matters(snapshot: Snapshot) -> bool:
    """Pods that are all alike fill their nodes in any order: greed can't go wrong, and the patches are saved."""
    shapes = {each.shape for each in snapshot.pending}
    return len(shapes) > 1 or any(shape.near or shape.apart or shape.spread for shape in shapes)


def _opening(node: NodeView, guests: Sequence[Guest]) -> Opening:
    place = next(number for number, taint in enumerate(node.taints) if taint.key == STARTING_TAINT)
    return Opening(node.name, node.uid, node.pool, place, tuple(guests))


def _guests(snapshot: Snapshot, plan: Plan, opening: set[str], most: int) -> dict[str, list[Guest]]:
    known = {node.name: node for node in snapshot.nodes}
    waiting = {pod: each for each in snapshot.pending for pod in each.pods}
    found = [
        (size, placed.target, Guest(pod, waiting[pod].nominated))
        for placed in (*plan.fits_existing, *plan.fits_upcoming)
        if placed.target in opening
        for pod in placed.pods
        if _may_be_told(waiting.get(pod), known) and (size := _size(waiting[pod].shape, known[placed.target])) >= SMALL
    ]
    if len(found) > most:
        found.sort(key=lambda each: -each[0])
    guests: dict[str, list[Guest]] = {}
    for _, node, guest in found[:most]:
        guests.setdefault(node, []).append(guest)
    return guests


def _may_be_told(waiting: PodClass | None, known: Mapping[str, NodeView]) -> bool:
    """A nomination to a node that exists is somebody's decision, and stays."""
    return waiting is not None and waiting.nominated not in known


def _size(shape: PodShape, node: NodeView) -> float:
    """The largest share of the node that the pod takes."""
    return max(_shares(shape, node), default=0.0)


def _shares(shape: PodShape, node: NodeView) -> Iterator[float]:
    for name, amount in shape.requests:
        yield amount / max(1, node.allocatable.get(name, 0))
