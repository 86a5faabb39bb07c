"""Which pools are open, at which price, in which order for whom; and, where none serves, why not, pool by pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import isfinite

import numpy as np

from shared.model import Config, FailureMemory, Ledger, Mode, PlacementGroups, PodShape, Pool
from shared.nodes.template_node import Template, template_refusal
from shared.packing.allowance import Counts
from shared.packing.axes import MOST_ROOM, Matrix
from shared.packing.market import Market, Mask, Rows, Vector

_FREE_OF_CHARGE = 1e-6  # per hour, so that worth for the price stays a number
_DEAREST = 1e9  # per hour; beyond it is a slip, and sums of prices would not stay exact
_GROUPS = {
    PlacementGroups.SINGLE: "as many as a single placement group takes",
    PlacementGroups.MANY: "as many as a scale set takes",
    PlacementGroups.MANY_CUSTOM_IMAGE: "as many as a scale set of a custom image takes",
}
ASK_AGAIN = timedelta(minutes=4)  # less than from one sweep to the next
_BEYOND = 10.0  # a pool of unknown price counts as that much dearer, for its size, than the dearest known one


@dataclass(frozen=True, slots=True)
class PoolState:
    """A pool now: `room` nodes may still be added, unless it is `barred` (a reason).

    `barred_always`: the reason that holds for its minimum too. Who sets a minimum wants nodes of this pool and of no
    other, so Azure is asked again in every sweep, whatever it said in an earlier one.
    """

    template: Template
    present: int
    barred: str
    barred_always: str = ""

    @property
    def pool(self) -> Pool:
        """The pool's own definition."""
        return self.template.pool

    @property
    def room(self) -> int:
        """How many nodes may be added now."""
        return 0 if self.barred else max(0, self.pool.ceiling - self.present)

    def closed(self, added: int) -> str:
        """Why the pool by itself gets no more nodes, `added` being decided on already; "" if it may."""
        if self.barred or self.room > added:
            return self.barred
        full = f"PoolFull: {self.present + added} of {self.pool.ceiling} nodes"
        groups = self.pool.placement_groups
        return full if groups is None or self.pool.ceiling == self.pool.maximum else f"{full}, {_GROUPS[groups]}"


def pool_states(
    config: Config, templates: Mapping[str, Template], present: Mapping[str, int], ledger: Ledger, now: datetime
) -> list[PoolState]:
    """Every pool in the order of the file."""
    failures = ledger.failures
    fresh = [failure for failure in failures if failure.since is None or now - failure.since < ASK_AGAIN]
    return [
        PoolState(
            templates[pool.name], present.get(pool.name, 0), _barred(pool, failures, now), _barred(pool, fresh, now)
        )
        for pool in config.pools
    ]


def known_price(pool: Pool) -> float | None:
    """The pool's price per hour, if it is one; one that is negative, or no number anybody pays, is as good as none."""
    price = pool.price
    return price if price is not None and isfinite(price) and 0 <= price <= _DEAREST else None


def effective_prices(pools: Sequence[Pool], rooms: Matrix) -> Vector:
    """Prices to weigh pools with: above zero, and by size beyond the dearest known one where the price is unknown."""
    prices = np.array([_FREE_OF_CHARGE if (price := known_price(pool)) is None else price for pool in pools])
    known = np.array([known_price(pool) is not None for pool in pools], dtype=np.bool_)
    if not known.all():
        sizes = np.maximum((rooms / np.maximum(rooms.max(axis=0), 1.0)).mean(axis=1), 1e-9)
        dearest = float((prices[known] / sizes[known]).max()) if known.any() else 1.0
        prices = np.where(known, prices, _BEYOND * max(dearest, _FREE_OF_CHARGE) * sizes)
    floored: Vector = np.maximum(prices, _FREE_OF_CHARGE)
    return floored


def buying_rounds(states: Sequence[PoolState], limits: Counts, market: Market, suits: Mask) -> list[Mask]:
    """Where each class may be bought for, round by round (classes by pools): a later round is for what is left.
    `limits` says how many nodes each pool may get, all that bounds it considered.

    First come the fallbacks of a pool that would have been preferred but can't deliver, one after the other as its list
    says; then all pools of known price at once; then the rest.
    """
    known = np.array([known_price(state.pool) is not None for state in states], dtype=np.bool_)
    by_price = suits & known
    orders = _fallback_orders(states, limits, market, suits)
    rounds = []
    for step in range(max((len(order) for order in orders.values()), default=0)):
        allowed = by_price.copy()
        for row, order in orders.items():
            if step < len(order):
                allowed[row] = False
                allowed[row, order[step]] = True
        rounds.append(allowed)
    rounds.append(by_price)
    return rounds if known.all() else [*rounds, suits]


def reasons(
    shape: PodShape, states: Sequence[PoolState], closed: Sequence[str], refusals: Mapping[str, str]
) -> dict[str, str]:
    """For each pool, why it does not serve the pod; `closed` says of each why it gets no more nodes, or "".

    `refusals` says what rules between pods have against a new node; they are named where the node itself would do.
    """
    return {
        name: _reason(shape, state, shut, refusals.get(name, ""))
        for state, shut in zip(states, closed, strict=True)
        for name in (state.pool.name,)
    }


def _reason(shape: PodShape, state: PoolState, closed: str, by_rules: str) -> str:
    refusal = template_refusal(shape, state.template) or closed or by_rules
    if refusal or any(amount >= MOST_ROOM for _, amount in shape.requests):
        return refusal or "NodeResourcesFit: amounts of 2**52 and more are not planned with"
    return "Waits: such a node would do, but this plan found no way to add one"


def _barred(pool: Pool, failures: Sequence[FailureMemory], now: datetime) -> str:
    if pool.mode is Mode.PAUSED:
        return "Paused"
    remembered = [failure for failure in failures if failure.until > now and _concerns(failure, pool)]
    everywhere = [failure for failure in remembered if not failure.zone]
    if not everywhere:
        zones = {failure.zone for failure in remembered}
        if not pool.zones or not zones.issuperset(pool.zones):
            return ""
        everywhere = [failure for failure in remembered if failure.zone in pool.zones]
    last = max(everywhere, key=lambda failure: failure.until)
    told = f"; {last.detail}" if last.detail else ""
    return f"RecentFailure: {last.code} for {_what(last, pool)} until {last.until:%H:%M:%SZ}{told}"


def _what(failure: FailureMemory, pool: Pool) -> str:
    """What the failure speaks about, as far as it concerns the pool."""
    if failure.quota:
        return f"quota {failure.quota}"
    if not (failure.sku or failure.pool or failure.priority) and failure.subscription:
        return f"all of {failure.location or f'subscription {failure.subscription}'}"
    return " ".join(part for part in (pool.sku or pool.name, pool.priority.value) if part)


def refused(pool: Pool, failures: Sequence[FailureMemory], now: datetime) -> bool:
    """Whether Azure is remembered to refuse every new node of the pool."""
    return bool(_barred(replace(pool, mode=Mode.ACT), failures, now))


def open_zones(pool: Pool, failures: Sequence[FailureMemory], now: datetime) -> list[str]:
    """The pool's zones that Azure has not refused lately; all of them if it has refused each."""
    shut = {failure.zone for failure in failures if failure.until > now and _concerns(failure, pool)}
    return [zone for zone in pool.zones if zone not in shut] or list(pool.zones)


def _concerns(failure: FailureMemory, pool: Pool) -> bool:
    if failure.pool not in {"", pool.name, pool.part_of} or not pool.lies_in(failure.subscription, failure.location):
        return False
    if failure.quota:  # with numbers it is among the quotas: what is left of it may still be had
        against = (failure.subscription, failure.location, failure.quota)
        return failure.numbers is None and pool.counts_against(*against)
    return failure.sku in {"", pool.sku} and failure.priority in {None, pool.priority}


def _fallback_orders(states: Sequence[PoolState], limits: Counts, market: Market, suits: Mask) -> dict[int, list[int]]:
    """The pools to try first, by class: only for those whose preferred pool can't deliver and names fallbacks."""
    shut = [place for place, state in enumerate(states) if state.pool.fallback and not limits[place]]
    if not shut:
        return {}
    preferred = _cheapest_share(market, suits)
    lists = {place: fallbacks(place, states, limits) for place in shut}
    return {
        row: order
        for row, place in enumerate(preferred.tolist())
        if place in lists and suits[row, place]
        if (order := [each for each in lists[place] if suits[row, each]])
    }


def _cheapest_share(market: Market, suits: Mask) -> Rows:
    shares = np.full(suits.shape, np.inf)
    for kind, price in enumerate(market.prices.tolist()):
        room = np.where(market.rooms[kind] > 0, market.rooms[kind], np.inf)
        shares[:, kind] = np.where(suits[:, kind], (market.needs / room).max(axis=1) * price, np.inf)
    cheapest: Rows = shares.argmin(axis=1)
    return cheapest


def fallbacks(place: int, states: Sequence[PoolState], limits: Sequence[int] | Counts) -> list[int]:
    """A pool's fallbacks in order; one that can't deliver either is followed by its own."""
    by_name = {state.pool.name: number for number, state in enumerate(states)}
    order: list[int] = []
    asked = {place}

    def follow(pool: Pool) -> None:
        for name in pool.fallback:
            number = by_name.get(name)
            if number is None or number in asked:
                continue
            asked.add(number)
            if limits[number]:
                order.append(number)
            else:
                follow(states[number].pool)

    follow(states[place].pool)
    return order
