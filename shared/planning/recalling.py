"""Nodes of ours that were on their way out and are called back, rather than that new ones are bought.

A saga that still drains its node can be told to stop, until it takes its pool's lock to delete the VM: the cluster's
ledger knows which are that far. A node that an administrator cordoned, before us or beside us, is never called back.
They come last of all that costs nothing, and as few of them as will do: their pods have moved, or are about to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from shared.model import Config, Ledger, NodeView, Snapshot
from shared.names import CORDONED_BEFORE_ANNOTATION, RETIRE_OPERATION_ANNOTATION, RETIRING_TAINT
from shared.nodes.supply import Site, settled_site
from shared.rules.predicates import UNSCHEDULABLE_TAINT

Attempt = Callable[[Sequence[Site]], tuple[Mapping[int, object], tuple[int, float]]]

_MOST_TRIALS = 4
_OUR_TAINTS = frozenset({RETIRING_TAINT, UNSCHEDULABLE_TAINT.key})


def as_called_back(snapshot: Snapshot, ledger: Ledger) -> Snapshot:
    """The snapshot with the cordons off that have been called back since it was taken."""
    if not ledger.recalled:
        return snapshot
    nodes = (_open_again(node) if _is_ours(node) and node.name in ledger.recalled else node for node in snapshot.nodes)
    return replace(snapshot, nodes=tuple(nodes))


def reserve(snapshot: Snapshot, config: Config, ledger: Ledger) -> list[Site]:
    """The nodes that could still be called back, as places for pods."""
    pools = {pool.name for pool in config.pools}
    return [
        replace(settled_site(_open_again(node), ours=True), fresh=False, idle=True, recalled=True)
        for node in snapshot.nodes
        if node.name in ledger.recallable
        and node.pool in pools
        and node.ready
        and node.evicting_at is None
        and _is_ours(node)
    ]


def with_least(found: list[Site], first: int, attempt: Attempt) -> list[Site]:
    """The part of the reserve that is worth calling back: none, unless it serves more pods or saves money.

    `attempt` plans with some of it beside the `first` sites, and says what is on which site, and what it comes to: pods
    left over, and the price.
    """
    _, without = attempt(())
    if not found or without == (0, 0.0):
        return []
    on_sites, best = attempt(found)
    if best >= without:
        return []
    used = [site for number, site in enumerate(found) if on_sites.get(first + number)]
    for site in used[:_MOST_TRIALS]:
        fewer = [other for other in used if other is not site]
        if attempt(fewer)[1] <= best:
            used = fewer
    return used


def _is_ours(node: NodeView) -> bool:
    """Whether nobody but us has cordoned it, if anybody has."""
    if CORDONED_BEFORE_ANNOTATION in node.annotations:
        return False
    return not node.unschedulable or RETIRE_OPERATION_ANNOTATION in node.annotations


def _open_again(node: NodeView) -> NodeView:
    """The node without our cordon."""
    taints = tuple(taint for taint in node.taints if taint.key not in _OUR_TAINTS)
    return replace(node, unschedulable=False, taints=taints)
