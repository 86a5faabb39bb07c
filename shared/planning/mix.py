"""Spot beside on-demand: of the nodes of some pools a number first, and a share always, must be on demand.

What a mix allows depends on how many on-demand nodes are bought beside, so it is no fixed limit. The whole answer is
worked out again with fewer Spot nodes until the most are found that the on-demand ones of the same answer allow; those
who find no Spot node then are served on demand, or told.

Counted are nodes that stay and nodes to come. A plan never adds Spot nodes beyond what the rule allows, and never
takes an on-demand node away that it needs; what Azure itself takes (evictions, refusals) it can only make good later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TypeVar

from shared.model import Config, Mix, Pool, Priority
from shared.packing.allowance import JointLimit
from shared.packing.axes import UNBOUNDED

T = TypeVar("T")

_MOST_TRIES = 6  # answers worked out for one plan; three or four do in most cases


@dataclass(frozen=True, slots=True)
class MixState:
    """A mix with the numbers of its pools (places in the order they were given), and how many nodes there are now."""

    mix: Mix
    spot: tuple[int, ...]
    regular: tuple[int, ...]
    spot_now: int
    regular_now: int

    def allowed(self, regular: int) -> int:
        """How many Spot nodes there may be in all beside so many on-demand ones in all."""
        share = _exactly(self.mix.spot_max_share)
        if regular < self.mix.on_demand_floor:
            return 0
        return UNBOUNDED if share >= 1 else int(share * regular / (1 - share))

    def may_add(self, bought: Sequence[int]) -> int:
        """How many Spot nodes more, after these nodes of each pool were bought."""
        regular = self.regular_now + sum(bought[pool] for pool in self.regular)
        return max(0, self.allowed(regular) - self.spot_now - sum(bought[pool] for pool in self.spot))

    def holds(self, bought: Sequence[int]) -> bool:
        """Whether buying these nodes of each pool keeps to the rule. One that is broken as it is bars Spot alone."""
        spot = sum(bought[pool] for pool in self.spot)
        regular = self.regular_now + sum(bought[pool] for pool in self.regular)
        return not spot or self.spot_now + spot <= self.allowed(regular)

    def refusal(self, pool: int, bought: Sequence[int]) -> str:
        """Why not one more node of that pool, once these were bought; "" if the rule has nothing against it."""
        if pool not in self.spot or self.may_add(bought) > 0:
            return ""
        spot = self.spot_now + sum(bought[each] for each in self.spot)
        return _told(self.mix, spot, self.regular_now + sum(bought[each] for each in self.regular))

    def refusal_to_go(self, pool: int) -> str:
        """Why a node of that pool has to stay beside the Spot nodes there are; "" if it may go. A rule that is broken
        as it is keeps what on-demand nodes there are."""
        if pool not in self.regular or self.spot_now <= self.allowed(self.regular_now - 1):
            return ""
        return _told(self.mix, self.spot_now, self.regular_now - 1).replace(" have ", " would have ", 1)

    def without(self, pool: int) -> MixState:
        """One node of that pool less."""
        spot, regular = self.spot_now - (pool in self.spot), self.regular_now - (pool in self.regular)
        return replace(self, spot_now=spot, regular_now=regular)


def _exactly(share: float) -> Fraction:
    """The share as it was written: 0.7 is seven tenths."""
    return Fraction(repr(share))


def _told(mix: Mix, spot: int, regular: int) -> str:
    group = "+".join(mix.pools)
    if regular < mix.on_demand_floor:
        return f"OnDemandFloor: {group} have {regular} of {mix.on_demand_floor} nodes on demand that come before Spot"
    return f"SpotShare: {group} have {spot} Spot and {regular} on-demand nodes, at most {mix.spot_max_share:.0%} Spot"


def mix_states(config: Config, pools: Sequence[Pool], counts: Mapping[str, int]) -> list[MixState]:
    """The file's mixes; `counts` says how many nodes of each pool stay or are to come."""
    found = []
    for mix in config.mixes:
        members = [(number, pool) for number, pool in enumerate(pools) if pool.name in mix.pools]
        spot = tuple(number for number, pool in members if pool.priority is Priority.SPOT)
        regular = tuple(number for number, pool in members if pool.priority is not Priority.SPOT)
        now = [sum(counts.get(pools[number].name, 0) for number in group) for group in (spot, regular)]
        found.append(MixState(mix, spot, regular, *now))
    return found


@dataclass(slots=True)
class _Search:
    """For one mix: the most Spot nodes known to go, the fewest known to be too many, and what to try next."""

    state: MixState
    size: int
    good: int = 0
    bad: int | None = None
    next: int | None = None
    seen: list[tuple[int, int]] = field(default_factory=list)  # (Spot, on-demand) bought, try by try

    def limit(self) -> JointLimit | None:
        """What the next answer has to keep to."""
        if self.next is None:
            return None
        return JointLimit(tuple(int(pool in self.state.spot) for pool in range(self.size)), self.next)

    def learn(self, bought: Sequence[int]) -> None:
        spot = sum(bought[pool] for pool in self.state.spot)
        self.seen.append((spot, sum(bought[pool] for pool in self.state.regular)))
        if self.state.holds(bought):
            self.good = max(self.good, spot if self.next is None else self.next)
        else:
            self.bad = spot if self.bad is None else min(self.bad, spot)
        if self.bad is not None:
            self.next = max(0, min(max(self.good + 1, self._guess()), self.bad - 1))

    def _guess(self) -> int:
        """The most Spot nodes that would do, if on-demand ones went on taking their place as they have done so far."""
        (spot, regular), rate = self.seen[0], Fraction(1)
        fewer, more = self.seen[-1]
        if fewer < spot and more > regular:
            rate = Fraction(more - regular, spot - fewer)
        low, high = 0, spot
        while low < high:
            middle = (low + high + 1) // 2
            beside = self.state.regular_now + regular + int(rate * (spot - middle))
            allowed = self.state.spot_now + middle <= self.state.allowed(beside)
            low, high = (middle, high) if allowed else (low, middle - 1)
        return low

    @property
    def is_open(self) -> bool:
        """Whether more Spot nodes than known to go may still be tried."""
        return self.next is not None and self.next > self.good


def within(
    states: Sequence[MixState],
    attempt: Callable[[Sequence[JointLimit]], T],
    bought: Callable[[T], Sequence[int]],
    loss: Callable[[T], tuple[float, float]],
) -> T:
    """The best answer that keeps to all mixes. `attempt` works one out under limits, `bought` counts its nodes by pool,
    and of two that hold the one of less `loss` is taken."""
    first = attempt(())
    if all(state.holds(bought(first)) for state in states):
        return first
    searches = [_Search(state, len(bought(first))) for state in states]
    answer, best = first, None
    for _ in range(_MOST_TRIES):
        for search in searches:
            search.learn(bought(answer))
        if all(search.state.holds(bought(answer)) for search in searches):
            best = answer if best is None or loss(answer) < loss(best) else best
            if not any(search.is_open for search in searches):
                return best
        answer = attempt([limit for search in searches if (limit := search.limit()) is not None])
    return best if best is not None else _without_spot(searches, attempt)


def _without_spot(searches: Sequence[_Search], attempt: Callable[[Sequence[JointLimit]], T]) -> T:
    """No new Spot node in any mix: that always holds."""
    for search in searches:
        search.next = 0
    return attempt([limit for search in searches if (limit := search.limit()) is not None])
