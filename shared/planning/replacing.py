"""Nodes that can give way to cheaper ones, or to room that is there: found by asking the planner what if.

What if a busy node were idle: would it go? Then its pods fit elsewhere by every rule that retirement knows, and it
goes. What if Azure took it away: what would be bought for its pods? If that is cheaper by enough, it is bought, and
nothing else happens yet: once the new node is there, the first question is answered with yes. Whatever comes between
(other pods take the new node, a budget allows no eviction) only leaves an idle node, which goes like any other.

Nothing is shuffled for ever: each exchange lowers the price by `scale_down.replace_saving` at least, a node that is
younger than `idle_after` is left alone, and nothing is exchanged while nodes come, go or wait for their pods. On-demand
nodes do not give way to Spot ones here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from shared.model import (
    BoundPods,
    Config,
    Ledger,
    Mode,
    Movability,
    NodeView,
    Plan,
    Pool,
    Priority,
    Retirement,
    Snapshot,
)
from shared.packing.allocation import Effort
from shared.packing.pool_choice import known_price
from shared.planning.plan import plan
from shared.planning.retirement import waits_for_pods
from shared.reading.projection import utilization

NO_ROOM = "fits no node that stays"
"""How `shared.planning.retirement` ends the reason of a node that only wants for room."""

_MOST_SINGLE = 6  # nodes that are tried one by one, those with the most unused money first
_GROUPS = (2, 4, 8)  # and together
_MOST_ROUNDS = 3  # of leaving nodes out whose going would not pay


def with_replacements(made: Plan, snapshot: Snapshot, config: Config, ledger: Ledger, now: datetime) -> Plan:
    """The plan with the exchanges that pay in it; the same plan if there are none, or other things come first."""
    if not config.scale_down.replace_saving or is_busy(made, ledger, now):
        return made
    question = _Question(snapshot, config, ledger, now)
    if not question.candidates:
        return made
    going, wanting = question.going()
    if going:
        # Instead of the idle ones, which may be just the nodes that were bought for this; those can go next time.
        return replace(made, retirements=going)
    if question.spare:
        return made
    found = question.cheapest_exchange(wanting)
    if found is None:
        return made
    return replace(made, replacements=found.nodes, notes=(*made.notes, *found.notes))


def is_busy(made: Plan, ledger: Ledger, now: datetime) -> bool:
    """Whether nodes come or go, or wait for pods: then nothing is exchanged."""
    coming = any(upcoming.deadline > now for upcoming in ledger.upcoming)
    under_way = ledger.retiring - ledger.deleting
    waited_for = (
        made.fits_existing or made.fits_upcoming
    )  # pods on their way to a node, which hence is not to be emptied
    return bool(coming or under_way or waited_for or made.deltas or made.reuse or made.top_up)


@dataclass(frozen=True, slots=True)
class _Exchange:
    """Nodes to buy by pool, what they save per hour, and which nodes are to give way."""

    nodes: dict[str, int]
    saves: float
    notes: tuple[str, ...]


class _Question:
    """What if: the snapshot, with some of its nodes as they are not."""

    def __init__(self, snapshot: Snapshot, config: Config, ledger: Ledger, now: datetime) -> None:
        self._snapshot, self._config, self._ledger, self._now = snapshot, config, ledger, now
        self._pools = {pool.name: pool for pool in config.pools}
        self._nodes = {node.name: node for node in snapshot.nodes}
        ours = [node for node in snapshot.nodes if node.pool in self._pools]
        self.candidates = [node.name for node in ours if self._may_give_way(node)]
        self.spare = [node.name for node in ours if node.ready and not _moving(node)]
        self._most = max(1, int(config.scale_down.max_parallel_fraction * len(ours)))

    def going(self) -> tuple[tuple[Retirement, ...], list[str]]:
        """Nodes that can go now and are worth it; failing that, those that only want for room elsewhere."""
        asked = list(self.candidates)
        wanting: list[str] = []
        paying: list[Retirement] = []
        for _ in range(_MOST_ROUNDS):
            made = self._if_idle(asked)
            wanting = wanting or [name for name in asked if made.kept.get(name, "").endswith(NO_ROOM)]
            ours = [going for going in made.retirements if going.node in asked]
            paying = [going for group in _sharing(ours, self.spare) for going in group if self._pays(group)]
            if len(paying) == len(ours):
                break
            refused = {going.node for going in ours}.difference(going.node for going in paying)
            asked = [name for name in asked if name not in refused]
        reason = "Replaced: its pods fit on nodes that stay, or are cheaper"
        return tuple(replace(going, reason=reason) for going in paying), wanting

    def cheapest_exchange(self, wanting: Sequence[str]) -> _Exchange | None:
        """What to buy so that some of these nodes can go: the most that is saved by any of a few trials."""
        order = sorted(wanting, key=lambda name: (-self._unused(name), name))
        trials = [[name] for name in order[:_MOST_SINGLE]]
        trials += [order[:size] for size in _GROUPS if size <= min(self._most, len(order))]
        found = [exchange for trial in trials if (exchange := self._exchange(trial)) is not None]
        return max(found, key=lambda each: each.saves, default=None)

    def _may_give_way(self, node: NodeView) -> bool:
        pool, settings = self._pools[node.pool], self._config
        acts = settings.mode is Mode.OBSERVE or (settings.mode is Mode.ACT and pool.mode is Mode.ACT)
        old = self._now - node.created_at >= timedelta(seconds=settings.scale_down.idle_after)
        usable = node.ready and not node.unschedulable and node.evicting_at is None
        return acts and old and usable and not waits_for_pods(node) and bool(known_price(pool)) and bool(_moving(node))

    def _if_idle(self, names: Collection[str]) -> Plan:
        since = self._now - timedelta(seconds=self._config.scale_down.idle_after)
        asked = [replace(self._nodes[name], idle_since=since) for name in names]
        others = [replace(node, idle_since=None) for node in self._snapshot.nodes if node.name not in set(names)]
        return self._plan([*others, *asked], self._config)

    def _exchange(self, names: Sequence[str]) -> _Exchange | None:
        taken = [replace(self._nodes[name], evicting_at=self._now) for name in names]
        made = self._plan(taken, replace(self._config, pools=tuple(self._buyable(taken))))
        moving = {pod for node in taken for group in _moving(node) for pod in group.pods}
        placed = {pod for delta in made.deltas for node in delta.nodes for pod in node.pods}
        placed.update(pod for each in made.fits_existing for pod in each.pods)
        if not made.deltas or not moving <= placed:
            return None
        price = sum(self._price(name) for name in names)
        saves = price - made.cost_per_hour
        if saves < self._config.scale_down.replace_saving * price or saves <= 0:
            return None
        bought = Counter({delta.pool: delta.add for delta in made.deltas})
        what = " and ".join(f"{number} new of {pool}" for pool, number in sorted(bought.items()))
        who = ", ".join(names)
        return _Exchange(dict(bought), saves, (f"{what} for the pods of {who}: {saves:.4g} per hour less",))

    def _plan(self, changed: Sequence[NodeView], config: Config) -> Plan:
        other = {node.name: node for node in changed}
        nodes = tuple(other.get(node.name, node) for node in self._snapshot.nodes)
        return plan(replace(self._snapshot, nodes=nodes), config, self._ledger, self._now, Effort.FIRST)

    def _buyable(self, taken: Sequence[NodeView]) -> Iterator[Pool]:
        """The pools, closed where nothing may be bought in exchange for these nodes."""
        evictable = all(self._pools[node.pool].priority is Priority.SPOT for node in taken)
        modes = (Mode.ACT, Mode.GROW_ONLY, *((Mode.OBSERVE,) if self._config.mode is Mode.OBSERVE else ()))
        for pool in self._config.pools:
            suits = pool.mode in modes and known_price(pool) is not None
            suits = suits and (evictable or pool.priority is not Priority.SPOT)
            yield pool if suits else replace(pool, mode=Mode.PAUSED)

    def _pays(self, group: Sequence[Retirement]) -> bool:
        """Whether these nodes are worth more than the empty ones that are put to use for them."""
        price = sum(self._price(going.node) for going in group)
        used = {move.target for going in group for move in going.moves}.intersection(self.spare)
        cost = sum(self._price(name) for name in used)
        return price - cost >= self._config.scale_down.replace_saving * price

    def _price(self, name: str) -> float:
        pool = self._pools.get(self._nodes[name].pool)
        return (known_price(pool) or 0.0) if pool is not None else 0.0

    def _unused(self, name: str) -> float:
        """What of the node's price nobody makes use of."""
        return self._price(name) * max(0.0, 1.0 - utilization(self._nodes[name]))


def _sharing(retirements: Sequence[Retirement], spare: Collection[str]) -> list[list[Retirement]]:
    """Retirements in groups: those whose pods go to the same empty nodes are weighed together."""
    groups: list[tuple[set[str], list[Retirement]]] = []
    for going in retirements:
        targets = {move.target for move in going.moves}.intersection(spare)
        members = [going]
        for group in [each for each in groups if each[0] & targets]:
            groups.remove(group)
            targets |= group[0]
            members = [*group[1], *members]
        groups.append((targets, members))
    return [members for _, members in groups]


def _moving(node: NodeView) -> list[BoundPods]:
    return [bound for bound in node.bound if bound.movability is Movability.MOVES]
