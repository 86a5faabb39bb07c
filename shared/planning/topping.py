"""Nodes that serve no pod yet: what a pool lacks to its minimum, then what headroom lacks.

They come last: pods have the first choice of quota, maxima and mixes. Nodes bought for a minimum are headroom too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shared.model import Config, Ledger, Movability, NodeView, PodClass, Pool, Snapshot
from shared.nodes.supply import Site
from shared.packing.allocation import Allocation
from shared.packing.pool_choice import known_price
from shared.planning import retirement
from shared.planning.bounds import Bounds
from shared.planning.headroom import MEASURED, Spare, cheapest_for, counts, headroom_pools, is_free, spend
from shared.quantity import format_amount


@dataclass(frozen=True, slots=True)
class TopUp:
    """Nodes to add by pool, in all and those of them for headroom; `notes` say what headroom costs, or lacks."""

    nodes: Mapping[str, int] = field(default_factory=dict)
    headroom: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def top_up(
    snapshot: Snapshot,
    config: Config,
    ledger: Ledger,
    bounds: Bounds,
    sites: Sequence[Site],
    classes: Sequence[PodClass],
    allocation: Allocation,
) -> TopUp:
    """What to add beside an allocation; its rows beyond `classes` are pods below the priority cut-off."""
    topping = _Topping(snapshot, config, bounds, sites, classes, allocation)
    topping.fill_minimums(_healthy(snapshot, ledger, sites))
    if config.headroom.percent or any(pool.headroom for pool in config.pools):
        topping.fill_headroom()
    return topping.made()


def _healthy(snapshot: Snapshot, ledger: Ledger, sites: Sequence[Site]) -> dict[str, int]:
    """Nodes that count for a minimum. A node in trouble does not count, one that is coming does."""
    healthy = retirement.standing(snapshot, ledger)
    ready = {node.name for node in snapshot.nodes if node.ready}
    for site in sites:
        if site.coming and site.target not in ready:
            healthy[site.pool] = healthy.get(site.pool, 0) + 1
    return healthy


class _Topping:
    """What is added, on top of what was bought for pods; by number of the pool."""

    def __init__(
        self,
        snapshot: Snapshot,
        config: Config,
        bounds: Bounds,
        sites: Sequence[Site],
        classes: Sequence[PodClass],
        allocation: Allocation,
    ) -> None:
        self._config, self._bounds, self._sites = config, bounds, sites
        self._classes, self._allocation = classes, allocation
        self._nodes = {node.name: node for node in snapshot.nodes}
        self._bought = [0] * len(bounds.states)
        for pool, _ in allocation.bought:
            self._bought[pool] += 1
        self._added = [0] * len(bounds.states)
        self._spare = [0] * len(bounds.states)  # of those, for headroom
        self._notes: list[str] = []

    def fill_minimums(self, healthy: Mapping[str, int]) -> None:
        for number in self._bounds.on_demand_first():
            pool = self._pool(number)
            self._buy(number, pool.minimum - healthy.get(pool.name, 0) - self._bought[number], for_minimum=True)

    def fill_headroom(self) -> None:
        free = self._free_nodes()
        for number in self._bounds.on_demand_first():
            pool = self._pool(number)
            if pool.headroom:
                there = free.get(pool.name, 0) + self._added[number]
                bought = self._buy(number, pool.headroom - there)
                self._spare[number] += bought
                self._note_nodes(number, max(0, pool.headroom - there), bought)
        if self._config.headroom.percent:
            self._fill_share()

    def made(self) -> TopUp:
        names = [state.pool.name for state in self._bounds.states]
        return TopUp(
            {name: nodes for name, nodes in zip(names, self._added, strict=True) if nodes},
            {name: nodes for name, nodes in zip(names, self._spare, strict=True) if nodes},
            tuple(self._notes),
        )

    def _pool(self, number: int) -> Pool:
        return self._bounds.states[number].pool

    def _buy(self, number: int, wanted: int, *, for_minimum: bool = False) -> int:
        """As many as may be; returns how many that were."""
        most = self._bounds.most(number, self._bought, for_minimum=for_minimum) if wanted > 0 else 0
        nodes = max(0, min(wanted, most))
        self._bought[number] += nodes
        self._added[number] += nodes
        return nodes

    def _free_nodes(self) -> dict[str, int]:
        """Nodes by pool that hold nothing that counts, are there or coming, and were promised to nobody."""
        free: dict[str, int] = {}
        for number, site in enumerate(self._sites):
            node = self._nodes.get(site.target)
            if number not in self._promised() and (node is None or is_free(node, self._config.priority_cutoff)):
                free[site.pool] = free.get(site.pool, 0) + 1
        return free

    def _promised(self) -> set[int]:
        rows = len(self._classes)
        return {site for site, content in self._allocation.on_sites.items() if any(row < rows for row in content)}

    def _note_nodes(self, number: int, wanted: int, bought: int) -> None:
        pool = self._pool(number)
        self._notes.append(f"pool {pool.name}: headroom of {pool.headroom} nodes, {_cost(pool, pool.headroom)}")
        if bought < wanted:
            why = self._bounds.closed(number, self._bought)
            self._notes.append(f"pool {pool.name}: headroom is {wanted - bought} nodes short ({why})")

    def _fill_share(self) -> None:
        spare, percent = self._share(), self._config.headroom.percent
        names = {pool.name for pool in headroom_pools(self._config)}
        members = [number for number in range(len(self._bounds.states)) if self._pool(number).name in names]
        offers = sorted((known_price(self._pool(number)) is None, number) for number in members)
        while lacking := spare.lacking():
            priced = [number for unknown, number in offers if not unknown] or members
            chosen = self._cheapest(lacking, priced) or self._cheapest(lacking, members)
            if chosen is None:
                said = ", ".join(f"{format_amount(name, amount)} {name}" for name, amount in lacking.items())
                self._notes.append(f"headroom of {percent:g} %: {said} are lacking, and no pool may grow for it")
                return
            number, nodes = chosen
            self._spare[number] += self._buy(number, nodes)
            self._offer(spare, number, nodes)
            cost = _cost(self._pool(number), nodes)
            self._notes.append(
                f"headroom of {percent:g} %: {nodes} more nodes of pool {self._pool(number).name}, {cost}"
            )

    def _cheapest(self, lacking: Mapping[str, int], numbers: Sequence[int]) -> tuple[int, int] | None:
        states = self._bounds.states
        offers = [(n, states[n].template.free, known_price(states[n].pool) or 0.0) for n in numbers]
        return cheapest_for(lacking, offers, lambda number: self._bounds.most(number, self._bought))

    def _share(self) -> Spare:
        """What is free, and asked for, once all that is decided on has come true."""
        spare = Spare(self._config.headroom.percent, dict.fromkeys(MEASURED, 0), dict.fromkeys(MEASURED, 0))
        names = {pool.name for pool in headroom_pools(self._config)}
        for number, site in enumerate(self._sites):
            if site.pool in names:
                for name in MEASURED:
                    spare.free[name] += site.free.get(name, 0)
                self._count(spare, self._nodes.get(site.target))
                self._spend(spare, self._allocation.on_sites.get(number, {}))
        for number, content in self._allocation.bought:
            if self._pool(number).name in names:
                self._offer(spare, number, 1)
                self._spend(spare, content)
        for number, nodes in enumerate(self._added):
            if self._pool(number).name in names:
                self._offer(spare, number, nodes)
        return spare

    def _count(self, spare: Spare, node: NodeView | None) -> None:
        """The pods on a node: those that count ask, the others' room is as good as free."""
        for bound in node.bound if node is not None else ():
            demand = counts(bound, self._config.priority_cutoff)
            for name, amount in bound.shape.requests:
                if name in MEASURED and demand:
                    spare.asked[name] += amount * len(bound.pods)
                elif name in MEASURED and bound.movability is not Movability.STAYS:
                    spare.free[name] += amount * len(bound.pods)

    def _spend(self, spare: Spare, content: Mapping[int, int]) -> None:
        for row, pods in content.items():
            if row < len(self._classes):
                spend(spare, dict(self._classes[row].shape.requests), pods)

    def _offer(self, spare: Spare, number: int, nodes: int) -> None:
        for name in MEASURED:
            spare.free[name] += self._bounds.states[number].template.free.get(name, 0) * nodes


def _cost(pool: Pool, nodes: int) -> str:
    price = known_price(pool)
    return "at an unknown price" if price is None else f"{price * nodes:.3f} per hour"
