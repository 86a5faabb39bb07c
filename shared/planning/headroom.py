"""Spare room for sudden demand: bought last, from what nobody else needs, and left alone when nodes go.

Two measures. `headroom` of a pool is nodes free of pods. The file's `headroom` is a share of what pods ask for on the
nodes of its pools, wherever it is free there. DaemonSet pods do not count as pods, nor do those below the priority
cut-off, which the scheduler drives out when the room is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from shared.model import BoundPods, Config, Ledger, Movability, NodeView, Pool, Snapshot
from shared.quantity import format_amount

MEASURED = ("cpu", "memory")
_FREE_OF_CHARGE = 1e-6  # per hour, so that a pool without a price is compared by size


def is_free(node: NodeView, cutoff: int) -> bool:
    """Whether a node holds nothing that counts; one that holds pods nobody told of is not free."""
    idle = sum(len(bound.pods) for bound in node.bound if not counts(bound, cutoff))
    return node.requested.get("pods", 0) == idle


def counts(bound: BoundPods, cutoff: int) -> bool:
    """Whether these pods are demand: neither a DaemonSet's nor below the cut-off."""
    return bound.movability is not Movability.STAYS and bound.shape.priority >= cutoff


def stays(node: NodeView, ledger: Ledger) -> bool:
    """Whether the node takes pods now and is not about to go."""
    return node.ready and not node.unschedulable and node.evicting_at is None and node.name not in ledger.retiring


def reserved(snapshot: Snapshot, config: Config, ledger: Ledger, taken: Mapping[str, object]) -> dict[str, str]:
    """Free nodes that are a pool's headroom, the oldest first, each with the reason why it stays; `taken` ones are
    promised to pods."""
    wanted = {pool.name: pool.headroom for pool in config.pools if pool.headroom}
    held: dict[str, str] = {}
    if not wanted:
        return held
    for node in sorted(snapshot.nodes, key=lambda each: (each.created_at, each.name)):
        is_spare = node.pool in wanted and stays(node, ledger) and node.name not in taken
        if is_spare and wanted[node.pool] and is_free(node, config.priority_cutoff):
            wanted[node.pool] -= 1
            held[node.name] = f"Headroom: one of {_nodes(_pool(config, node.pool).headroom)} kept free in {node.pool}"
    return held


def headroom_pools(config: Config) -> list[Pool]:
    """The pools of the file's headroom: those it names, else all that let ordinary pods in."""
    named = config.headroom.pools
    return [
        pool
        for pool in config.pools
        if (pool.name in named if named else not any(taint.effect != "PreferNoSchedule" for taint in pool.taints))
    ]


@dataclass(slots=True)
class Spare:
    """What is free on nodes and what pods ask for there, by resource; `percent` of the latter is to be free."""

    percent: float
    free: dict[str, int]
    asked: dict[str, int]

    def lacking(self) -> dict[str, int]:
        """What is missing, by resource; empty when nothing is."""
        missing = {name: int(self.asked[name] * self.percent / 100) - self.free[name] for name in MEASURED}
        return {name: amount for name, amount in missing.items() if amount > 0}

    def refusal(self, node: NodeView) -> str:
        """Why the node may not go, or "": its pods go on asking elsewhere."""
        left = {name: self.free[name] - amount for name, amount in _offered(node).items()}
        short = Spare(self.percent, left, self.asked).lacking()
        if not short:
            return ""
        name = next(iter(short))
        kept = format_amount(name, int(self.asked[name] * self.percent / 100))
        return f"Headroom: {self.percent:g} % of {name} ({kept}) would not stay free"

    def goes(self, node: NodeView) -> None:
        """The node goes, its pods do not."""
        for name, amount in _offered(node).items():
            self.free[name] -= amount


def _offered(node: NodeView) -> dict[str, int]:
    """What a node offers to pods that count: all but what its DaemonSets take."""
    offered = {name: node.allocatable.get(name, 0) for name in MEASURED}
    for bound in node.bound:
        if bound.movability is Movability.STAYS:
            for name, amount in bound.shape.requests:
                if name in offered:
                    offered[name] -= amount * len(bound.pods)
    return offered


def spare_of(snapshot: Snapshot, config: Config, ledger: Ledger) -> Spare | None:
    """What is spare on nodes that stand; None where the file asks for none."""
    if not config.headroom.percent:
        return None
    names = {pool.name for pool in headroom_pools(config)}
    spare = Spare(config.headroom.percent, dict.fromkeys(MEASURED, 0), dict.fromkeys(MEASURED, 0))
    for node in snapshot.nodes:
        if node.pool in names and stays(node, ledger):
            for name, amount in _offered(node).items():
                spare.free[name] += amount
            for bound in node.bound:
                if counts(bound, config.priority_cutoff):
                    spend(spare, dict(bound.shape.requests), len(bound.pods))
    return spare


def spend(spare: Spare, requests: Mapping[str, int], pods: int) -> None:
    """Pods come to what is spare."""
    for name in MEASURED:
        spare.free[name] -= requests.get(name, 0) * pods
        spare.asked[name] += requests.get(name, 0) * pods


def cheapest_for(
    lacking: Mapping[str, int],
    pools: Sequence[tuple[int, Mapping[str, int], float]],
    most: Callable[[int], int],
) -> tuple[int, int] | None:
    """(number, nodes) of the pool that fills what is lacking for the least money, as far as it may be bought.

    `pools` are (number, room of a new node, price per hour).
    """
    offers = []
    for number, room, price in pools:
        if all(room.get(name, 0) > 0 for name in lacking) and (limit := most(number)) > 0:
            nodes = max(-(-amount // room[name]) for name, amount in lacking.items())
            offers.append((nodes * max(price, _FREE_OF_CHARGE), number, min(nodes, limit)))
    if not offers:
        return None
    _, number, nodes = min(offers)
    return number, nodes


def _pool(config: Config, name: str) -> Pool:
    return next(pool for pool in config.pools if pool.name == name)


def _nodes(number: int) -> str:
    return f"{number} node" if number == 1 else f"{number} nodes"
