"""What may be bought of every pool, by itself and together with others, and why no more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from shared.model import Config, Ledger, Pool, Priority, Snapshot
from shared.packing.allowance import JointLimit
from shared.packing.pool_choice import PoolState
from shared.planning.mix import MixState, mix_states
from shared.planning.quota import QuotaLimit, quota_limits, with_refusals


@dataclass(frozen=True, slots=True)
class Bounds:
    """All that bounds a plan's purchases. `bought`: the nodes of each pool that are decided on, in `states`' order."""

    states: Sequence[PoolState]
    quotas: Sequence[QuotaLimit | SharedMaximum] = ()
    mixes: Sequence[MixState] = ()

    @property
    def joint(self) -> tuple[JointLimit, ...]:
        """The limits that do not depend on what else is bought."""
        return tuple(quota.limit for quota in self.quotas)

    def closed(self, pool: int, bought: Sequence[int]) -> str:
        """Why the pool gets not one more node, whoever asks; "" if it may."""
        own = self.states[pool].closed(bought[pool])
        if own:
            return own
        by_quota = (quota.refusal(pool, bought) for quota in self.quotas)
        by_mix = (mix.refusal(pool, bought) for mix in self.mixes)
        return next((refusal for refusal in (*by_quota, *by_mix) if refusal), "")

    def all_closed(self, bought: Iterable[tuple[int, object]]) -> list[str]:
        """The same for each pool; `bought` names the pool of each node that is decided on."""
        nodes = self.nodes(bought)
        return [self.closed(pool, nodes) for pool in range(len(self.states))]

    def nodes(self, bought: Iterable[tuple[int, object]]) -> list[int]:
        """How many nodes of each pool that is."""
        nodes = [0] * len(self.states)
        for pool, _ in bought:
            nodes[pool] += 1
        return nodes

    def most(self, pool: int, bought: Sequence[int], *, for_minimum: bool = False) -> int:
        """How many nodes of the pool may still be bought; `for_minimum`: by a pool that lacks them to its minimum."""
        state = self.states[pool]
        state = replace(state, barred=state.barred_always) if for_minimum else state
        most = state.room - bought[pool]
        for quota in self.quotas:
            limit = quota.limit
            spent = sum(cost * nodes for cost, nodes in zip(limit.costs, bought, strict=True))
            most = min(most, JointLimit(limit.costs, limit.left - spent).room(limit.costs[pool]))
        for mix in self.mixes:
            if pool in mix.spot:
                most = min(most, mix.may_add(bought))
        return max(0, most)

    def on_demand_first(self) -> list[int]:
        """The pools in the order in which to fill them up: what Spot nodes are allowed by has to come before them."""
        return sorted(range(len(self.states)), key=lambda pool: self.states[pool].pool.priority is Priority.SPOT)


@dataclass(frozen=True, slots=True)
class SharedMaximum:
    """The maximum of a pool whose zones are planned for one by one."""

    pool: Pool
    limit: JointLimit

    def refusal(self, pool: int, bought: Sequence[int]) -> str:
        """Why not one node more there, once these were bought; "" if there is room."""
        left = self.limit.left - sum(cost * nodes for cost, nodes in zip(self.limit.costs, bought, strict=True))
        return f"PoolFull: {self.pool.ceiling} of {self.pool.ceiling} nodes" if self.limit.costs[pool] > left else ""


def _shared_maximums(states: Sequence[PoolState]) -> list[SharedMaximum]:
    found = []
    for name in dict.fromkeys(state.pool.part_of for state in states if state.pool.part_of):
        parts = [state for state in states if state.pool.part_of == name]
        left = max(0, parts[0].pool.ceiling - sum(part.present for part in parts))
        found.append(SharedMaximum(parts[0].pool, JointLimit(tuple(int(s.pool.part_of == name) for s in states), left)))
    return found


def bounds_now(
    snapshot: Snapshot, config: Config, ledger: Ledger, now: datetime, states: Sequence[PoolState]
) -> Bounds:
    """The bounds of a plan that is made now."""
    pools = [state.pool for state in states]
    mixes = mix_states(config, pools, staying(snapshot, ledger, now)) if config.mixes else []
    quotas = quota_limits(pools, with_refusals(ledger.usages, ledger.failures, now))
    return Bounds(states, (*quotas, *_shared_maximums(states)), mixes)


def staying(snapshot: Snapshot, ledger: Ledger, now: datetime) -> dict[str, int]:
    """Nodes by pool that are not about to go, and those that were asked for."""
    numbers: dict[str, int] = {}
    for node in snapshot.nodes:
        if node.evicting_at is None and node.name not in ledger.retiring:
            numbers[node.pool] = numbers.get(node.pool, 0) + 1
    for upcoming in ledger.upcoming:
        if upcoming.deadline > now:
            numbers[upcoming.pool] = numbers.get(upcoming.pool, 0) + upcoming.count
    return numbers
