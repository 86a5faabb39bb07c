"""Back to Spot, by buying: whether Spot can be had again is only known once it was asked for.

On-demand nodes of a pool's fallbacks stand in for it. When nothing is remembered against the Spot pool any more, room
for one such node's pods is bought there; once it is Ready, the on-demand node goes as any idle one would, by all rules
of retirement and budgets. If that went well, twice as many are tried next, up to `max_parallel_fraction` of the nodes;
if Azure refuses, takes a node of the pool back, or lets none join, it ends there, and the next try comes after a pause
of 30 minutes, which doubles with each failure up to 8 hours. Whatever happens in between leaves an empty Spot node at
worst, which goes like any other.

Nodes with members of gangs, with pods that may not be moved or run to their end, are left where they are; and nothing
is begun while nodes come or go or pods wait for something.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
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
    ReturnState,
    Snapshot,
)
from shared.nodes.supply import join_time
from shared.packing.allocation import Effort
from shared.packing.pool_choice import known_price, refused
from shared.planning.plan import plan, pools_now
from shared.planning.replacing import NO_ROOM, is_busy

REASON = "Return to Spot"
FIRST_PAUSE = timedelta(minutes=30)
LONGEST_PAUSE = timedelta(hours=8)
MOST_AT_ONCE = 16
"""Nodes of one try: the ledger names them."""

_A_WHILE = timedelta(minutes=10)  # until it is looked again whether anybody could move
_SLACK = timedelta(minutes=5)  # beyond the time that a node has to join, until a try is over
_MOST_SINGLE = 6  # nodes that are asked about one by one when the first ones will not do

Changes = dict[str, ReturnState | None]


def is_due(there: Collection[str], config: Config, ledger: Ledger, now: datetime) -> bool:
    """Whether there is anything to look into: a try under way, or stand-ins among the pools that have nodes (`there`)
    for one whose pause is over, and which Azure is not known to refuse."""
    if not config.scale_down.return_to_spot or config.mode is not Mode.ACT:
        return False
    if any(state.since for state in ledger.returning.values()):
        return True
    return any(
        stand_ins(pool, config).keys() & set(there)
        and _may_try(ledger.returning.get(pool.name), now)
        and not refused(pool, ledger.failures, now)
        for pool in config.pools
    )


def stand_ins(spot: Pool, config: Config) -> dict[str, Pool]:
    """The dearer on-demand pools that a Spot pool falls back to, and these in turn."""
    found: dict[str, Pool] = {}
    price = known_price(spot)
    if spot.priority is not Priority.SPOT or spot.mode is not Mode.ACT or price is None:
        return found
    waiting, seen = list(spot.fallback), {spot.name}
    while waiting:
        pool = config.pool(waiting.pop(0))
        if pool is None or pool.name in seen:
            continue
        seen.add(pool.name)
        waiting += pool.fallback
        if pool.priority is not Priority.SPOT and pool.mode is Mode.ACT and (known_price(pool) or 0.0) > price:
            found[pool.name] = pool
    return found


def with_returns(made: Plan, snapshot: Snapshot, config: Config, ledger: Ledger, now: datetime) -> tuple[Plan, Changes]:
    """The plan with what a return takes next, and what the ledger has to learn of it."""
    known = {pool.name for pool in config.pools}
    gone: Changes = {name: None for name in ledger.returning if name not in known}
    turn = _Turn(snapshot, config, ledger, now)
    for name, state in ledger.returning.items():
        if state.since is not None and name in known:
            made, after = turn.go_on(made, name, state)
            return made, {**gone, name: after}
    if is_busy(made, ledger, now):
        return made, gone
    for pool in config.pools:
        state = ledger.returning.get(pool.name, ReturnState(1, timedelta(0), now))
        if state.next <= now and stand_ins(pool, config):
            found = turn.begin(made, pool, state)
            if found is not None:
                return found[0], {**gone, pool.name: found[1]}
    return made, gone


def _may_try(state: ReturnState | None, now: datetime) -> bool:
    return state is None or state.next <= now


@dataclass(frozen=True, slots=True)
class _Turn:
    """One look at one cluster."""

    snapshot: Snapshot
    config: Config
    ledger: Ledger
    now: datetime

    # A try under way

    def go_on(self, made: Plan, name: str, state: ReturnState) -> tuple[Plan, ReturnState]:
        """Let go whoever can go by now; or the end of the try, for better or worse."""
        if self._failed(name):
            return made, self._after_failure(state)
        there = {node.name: node for node in self.snapshot.nodes}
        left = [node for node in state.nodes if node in there]
        if not left:
            return self._kept_for(made, name, state), self._after_success(state)
        waiting = [node for node in left if node not in self.ledger.retiring and node not in self.ledger.cooling]
        if not waiting and not self.ledger.retiring.intersection(left):
            return made, self._ended(state)  # who is left could not be drained: nothing that Spot is to blame for
        made = self._kept_for(made, name, state)
        known = {going.node for going in made.retirements}
        going = tuple(replace(each, reason=REASON) for each in self._can_go(waiting) if each.node not in known)
        if going or len(waiting) < len(left) or not self._out_of_time(name, state):
            return replace(made, retirements=(*made.retirements, *going)), state
        return made, self._ended(state) if self._came(name, state) else self._after_failure(state)

    def _failed(self, name: str) -> bool:
        """Whether Azure has refused the pool's nodes, or takes them, or nobody may buy them any more."""
        taken = any(node.pool == name and node.evicting_at is not None for node in self.snapshot.nodes)
        return taken or bool(self._barred(name))

    def _barred(self, name: str) -> str:
        states = pools_now(self.snapshot, self.config, self.ledger, self.now)
        return next((state.barred for state in states if state.pool.name == name), "there is no such pool")

    def _after_failure(self, state: ReturnState) -> ReturnState:
        pause = min(LONGEST_PAUSE, max(FIRST_PAUSE, 2 * state.pause))
        return ReturnState(1, pause, self.now + pause)

    def _after_success(self, state: ReturnState) -> ReturnState:
        return ReturnState(min(MOST_AT_ONCE, 2 * state.batch), timedelta(0), self.now)

    def _ended(self, state: ReturnState) -> ReturnState:
        """No success, and nothing that Spot is to blame for: others took the room, or a budget let nobody go."""
        return ReturnState(1, state.pause, self.now + FIRST_PAUSE)

    def _out_of_time(self, name: str, state: ReturnState) -> bool:
        pool = self.config.pool(name)
        patience = join_time(pool, self.config.timing) if pool is not None else timedelta(0)
        return state.since is not None and self.now - state.since > patience + _SLACK

    def _came(self, name: str, state: ReturnState) -> bool:
        return any(self._is_new(node, name, state) and node.ready for node in self.snapshot.nodes)

    def _is_new(self, node: NodeView, name: str, state: ReturnState) -> bool:
        return node.pool == name and state.since is not None and node.created_at >= state.since

    def _kept_for(self, made: Plan, name: str, state: ReturnState) -> Plan:
        """The plan without the end of nodes that were bought for this, and are empty until it is done."""
        new = {node.name for node in self.snapshot.nodes if self._is_new(node, name, state)}
        return replace(made, retirements=tuple(going for going in made.retirements if going.node not in new))

    def _can_go(self, names: Sequence[str]) -> tuple[Retirement, ...]:
        return tuple(going for going in self._if_idle(names).retirements if going.node in names)

    # The next one

    def begin(self, made: Plan, spot: Pool, state: ReturnState) -> tuple[Plan, ReturnState] | None:
        """Buy for as many stand-ins as this try may take; None if there is none that could be served by this pool."""
        pools = stand_ins(spot, self.config)
        if self._barred(spot.name) or not any(node.pool in pools for node in self.snapshot.nodes):
            return None
        if any(node.pool == spot.name and node.evicting_at is not None for node in self.snapshot.nodes):
            return made, self._after_failure(state)
        asked = self._candidates(pools)
        if not asked:
            return made, replace(state, next=self.now + _A_WHILE)
        kept = self._if_idle(asked).kept
        wanting = [name for name in asked if kept.get(name, "").endswith(NO_ROOM)]
        ours = sum(bool(node.pool) for node in self.snapshot.nodes)
        most = min(state.batch, max(1, int(self.config.scale_down.max_parallel_fraction * ours)), len(wanting))
        for trial in self._trials(wanting, most):
            bought = self._bought_for(trial, spot)
            if bought:
                what = f"{REASON}: {bought} new of {spot.name} for the pods of {', '.join(trial)}"
                plan_ = replace(made, replacements={spot.name: bought}, notes=(*made.notes, what))
                return plan_, replace(state, since=self.now, nodes=tuple(trial))
        return made, replace(state, next=self.now + FIRST_PAUSE)

    @staticmethod
    def _trials(wanting: Sequence[str], most: int) -> Iterator[list[str]]:
        if most > 1:
            yield list(wanting[:most])
        yield from ([name] for name in wanting[:_MOST_SINGLE])

    def _candidates(self, pools: Mapping[str, Pool]) -> list[str]:
        """Stand-ins whose pods could all move, the dearest first."""
        old = self.now - timedelta(seconds=self.config.scale_down.idle_after)
        found = [
            node
            for node in self.snapshot.nodes
            if node.pool in pools and node.created_at <= old and _could_move(node) and self._is_free(node)
        ]
        return [
            node.name for node in sorted(found, key=lambda node: (-(known_price(pools[node.pool]) or 0.0), node.name))
        ]

    def _is_free(self, node: NodeView) -> bool:
        usable = node.ready and not node.unschedulable and node.evicting_at is None
        return usable and node.name not in self.ledger.retiring and node.name not in self.ledger.cooling

    def _bought_for(self, names: Sequence[str], spot: Pool) -> int:
        """How many nodes of the pool their pods would take if Azure took theirs; 0 if that will not do or not pay."""
        taken = {name: replace(node, evicting_at=self.now) for name, node in self._nodes(names).items()}
        pools = tuple(pool if pool.name == spot.name else replace(pool, mode=Mode.PAUSED) for pool in self.config.pools)
        made = self._plan(taken, replace(self.config, pools=pools))
        moving = {pod for node in taken.values() for bound in _moving(node) for pod in bound.pods}
        placed = {pod for delta in made.deltas for node in delta.nodes for pod in node.pods}
        placed |= {pod for each in made.fits_existing for pod in each.pods}
        price = sum(known_price(pool) or 0.0 for node in taken.values() if (pool := self.config.pool(node.pool)))
        if not moving <= placed or made.cost_per_hour >= price:
            return 0
        return sum(delta.add for delta in made.deltas)

    # What if

    def _nodes(self, names: Sequence[str]) -> dict[str, NodeView]:
        wanted = set(names)
        return {node.name: node for node in self.snapshot.nodes if node.name in wanted}

    def _if_idle(self, names: Sequence[str]) -> Plan:
        since = self.now - timedelta(seconds=self.config.scale_down.idle_after)
        asked = {name: replace(node, idle_since=since) for name, node in self._nodes(names).items()}
        others = {node.name: replace(node, idle_since=None) for node in self.snapshot.nodes if node.name not in asked}
        return self._plan({**others, **asked}, self.config)

    def _plan(self, changed: Mapping[str, NodeView], config: Config) -> Plan:
        nodes = tuple(changed.get(node.name, node) for node in self.snapshot.nodes)
        return plan(replace(self.snapshot, nodes=nodes), config, self.ledger, self.now, Effort.FIRST)


def _could_move(node: NodeView) -> bool:
    """Whether a return concerns the node at all: an empty one goes by itself."""
    if any(bound.movability in (Movability.BLOCKS, Movability.WAITS) for bound in node.bound):
        return False
    return bool(_moving(node)) and not any(bound.shape.gang for bound in _moving(node))


def _moving(node: NodeView) -> list[BoundPods]:
    return [bound for bound in node.bound if bound.movability is Movability.MOVES]
