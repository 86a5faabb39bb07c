"""The cheapest of all ways to divide a few pods over new nodes: most plans are for a few, where nobody need guess.

Sets of pods are vectors of counts by class. What a set costs is what its cheapest node costs if one holds it all, or
the least over all ways to split it in two; each set is looked at once, the smaller ones first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shared.packing.market import Bin, Counts, Market, Mask, Rows, Vector

MOST_SETS = 256
"""Each is held against each: about 4 ms. Eight different pods have so many, or 255 equal ones."""


def cheapest(market: Market, usable: Mask, bins: Sequence[Bin]) -> list[Bin] | None:
    """The same pods at the least price; None if they are too many, or if some must not share a node with others."""
    pods: dict[int, int] = {}
    for each in bins:
        for row, number in each.content:
            pods[row] = pods.get(row, 0) + number * each.times
    rows = np.array(sorted(pods), dtype=np.intp)
    counts = np.array([pods[row] for row in rows.tolist()], dtype=np.int64)
    if not 0 < len(rows) < MOST_SETS.bit_length() or float(np.prod(counts + 1.0)) > MOST_SETS or _clash(market, rows):
        return None
    sets = np.stack(np.unravel_index(np.arange(int((counts + 1).prod())), counts + 1), axis=1)
    price, kind = _on_one_node(market, usable, rows, sets)
    parts = _divided(sets, price)
    return [
        Bin(int(kind[part]), tuple((int(rows[n]), int(sets[part, n])) for n in np.flatnonzero(sets[part])), 1, 0.0)
        for part in parts
    ]


def _clash(market: Market, rows: Rows) -> bool:
    return market.clashes is not None and bool(market.clashes[np.ix_(rows, rows)].any())


def _on_one_node(market: Market, usable: Mask, rows: Rows, sets: Counts) -> tuple[Vector, Rows]:
    """What the cheapest node costs that holds each set whole, and its kind; infinite where none does."""
    loads = sets @ market.needs[rows]
    barred = (sets > 0) @ ~usable[rows] > 0
    too_many: Mask = np.asarray((sets > market.most[rows]).any(axis=1))
    barred |= too_many[:, None]
    for kind, room in enumerate(market.rooms):
        barred[:, kind] |= (loads > room).any(axis=1)
    prices = np.where(barred, np.inf, market.prices)
    return prices.min(axis=1), prices.argmin(axis=1)


def _divided(sets: Counts, price: Vector) -> list[int]:
    """The numbers of the sets, each on one node, that make up the largest at the least price in all."""
    least, first_part = np.full(len(sets), np.inf), np.zeros(len(sets), dtype=np.intp)
    least[0] = 0.0
    for whole in range(1, len(sets)):
        leading = int(np.flatnonzero(sets[whole])[0])
        # A part of a set has the smaller number, and the number of the rest is the difference.
        parts = np.flatnonzero((sets[: whole + 1] <= sets[whole]).all(axis=1) & (sets[: whole + 1, leading] > 0))
        costs = price[parts] + least[whole - parts]
        best = int(costs.argmin())
        least[whole], first_part[whole] = costs[best], parts[best]
    found, rest = [], len(sets) - 1
    while rest:
        found.append(int(first_part[rest]))
        rest -= found[-1]
    return found
