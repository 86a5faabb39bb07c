"""New nodes for pods that fit nowhere yet: which pools, and which pods to each node, at a price close to the least.

Three ideas carry it. What a pod is *worth* is the price of its share of a node where that share is cheapest; these
values come from the fluid problem (pods and nodes cut at will), whose dual is climbed by multiplicative weights.
A node is *filled* with what is worth most for the room that it takes, the room being what is left. And the pool whose
filled node gives most worth for its price is bought from, the same filling as often as the counts allow.

All work is counted in steps, never in time, and every tie is broken by position: equal input, equal answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from shared.packing.allowance import Allowance
from shared.packing.axes import UNBOUNDED, Matrix
from shared.packing.filling import LOOK, Content, Filler

Vector = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]

KEENNESS = 1.4  # how much a pod's worth counts against the room it takes; 1.1 to 1.6 tie on other workloads, 3 is bad
_FLUID_ROUNDS = 40  # more gain under 0.1 % of price
_FLUID_WORK = 4_000_000  # entries of (class, pool) looked at in all those rounds, so that huge inputs get fewer of them
_URGENCY = 2.0  # of a class that is kept apart: by the share of nodes that it must be on; 1 to 4 tie
_FEW_PODS = 16  # below, cutting pods and nodes at will says little: a pod's own cheapest share will do
_MOST_ROWS = 4096  # classes that one filling chooses from: of more, every so many-th
_THOROUGH_WORK = 6_000_000  # classes looked at by all fillings together, some seconds; what comes then is done frugally
_FRUGAL_ROWS = 512
_FRUGAL_KINDS = 2
_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Market:
    """Classes of pods (rows of `needs`, at most `most` to a node) and kinds of nodes (rows of `rooms`, with `prices`).

    `allowed` says which class may go to which kind by labels and taints; prices are above zero. `clashes` says which
    classes must not share a node, if there are any.
    """

    needs: Matrix
    most: Counts
    rooms: Matrix
    prices: Vector
    allowed: Mask
    clashes: Mask | None = None

    def some(self, rows: Rows) -> Market:
        """The same with these classes only."""
        clashes = None if self.clashes is None else self.clashes[np.ix_(rows, rows)]
        return replace(self, needs=self.needs[rows], most=self.most[rows], allowed=self.allowed[rows], clashes=clashes)


@dataclass(frozen=True, slots=True)
class Bin:
    """`times` nodes of one kind with the same content; `worth` is the value of that content."""

    kind: int
    content: Content
    times: int
    worth: float


def fitting(market: Market) -> Mask:
    """`allowed`, less what is too large for an empty node: classes by kinds."""
    suits = market.allowed.copy()
    for axis in range(market.needs.shape[1]):
        suits &= market.needs[:, axis, None] <= market.rooms[None, :, axis]
    return suits


def worths(market: Market, counts: Counts, suits: Mask) -> Vector:
    """What a pod of each class is worth, in price per hour; 0 for classes that no kind takes.

    The values are the best dual solution met on the way: summed over all pods, a bound that no packing can beat.
    """
    served = suits.any(axis=1)
    values = np.zeros(len(counts))
    if not served.any():
        return values
    needs, pods = market.needs[served], counts[served].astype(np.float64)
    closed = np.where(suits[served], 0.0, np.inf)
    if pods.sum() <= _FEW_PODS:
        shares = np.stack([(needs * row).max(axis=1) for row in _unit_prices(market)], axis=1)
        values[served] = (shares + closed).min(axis=1)
    else:
        values[served] = _climb(needs, pods, closed, _unit_prices(market), _fluid_rounds(closed.size))
    return np.round(values, 12)


def fluid_work(suits: Mask) -> int:
    """What `worths` costs at most, in the measure of `shared.packing.filling.LOOK`."""
    return _fluid_rounds(suits.size) * (3 * LOOK + 2 * suits.size)


def _fluid_rounds(entries: int) -> int:
    return max(8, min(_FLUID_ROUNDS, _FLUID_WORK // max(1, entries)))


def _unit_prices(market: Market) -> Matrix:
    """The price of one unit of each axis, if it alone had to pay for the node."""
    with np.errstate(divide="ignore"):
        return np.where(market.rooms > 0, market.prices[:, None] / market.rooms, 0.0)


def _climb(needs: Matrix, pods: Vector, closed: Matrix, units: Matrix, rounds: int) -> Vector:
    """Split each kind's price over its axes so that the pods, each going where it pays least, pay most in all."""
    split = (units > 0).astype(np.float64)
    split /= np.maximum(split.sum(axis=1, keepdims=True), 1.0)
    best, answer = -1.0, np.zeros(len(pods))
    for step in range(rounds):
        costs = needs @ (split * units).T + closed
        least = costs.min(axis=1)
        bound = float(pods @ least)
        if bound > best:
            best, answer = bound, least
        # Nearly equal kinds share a class: all of it to the cheapest would make the loads jump from round to round.
        share = np.exp((least[:, None] - costs) / np.maximum(0.02 * least[:, None], _TINY))
        share *= (pods / share.sum(axis=1))[:, None]
        loads = (share.T @ needs) * units
        fullest = loads.max(axis=1, keepdims=True)
        eagerness = 0.8 / np.sqrt(1.0 + 0.1 * step)
        split *= np.exp(eagerness * (loads / np.maximum(fullest, _TINY) - 1.0))
        split = np.maximum(split / split.sum(axis=1, keepdims=True), 1e-6) * (units > 0)
    return answer


class Packer:
    """Takes nodes for classes, kind by kind, until the pods or the room in the kinds are used up.

    `left` counts the pods without a node; `allowance` says how many nodes may still be taken of each kind. `eager` is
    worth as it counts while a node is filled (by default sharpened), `turn` where fillings begin among many classes.
    """

    def __init__(
        self,
        market: Market,
        counts: Counts,
        allowance: Allowance,
        worth: Vector,
        eager: Vector | None = None,
        turn: int = 0,
    ) -> None:
        self.market = market
        self.left = counts.copy()
        self._allowance = allowance
        self._worth = worth
        self._kept_apart = market.most < UNBOUNDED
        eager = worth**KEENNESS if eager is None else eager
        self._filler = Filler(market.needs, market.most, market.clashes, eager, turn)
        self._work = 0

    @property
    def work(self) -> int:
        """How much was looked at, see `shared.packing.filling.LOOK`."""
        return self._filler.work

    def take(self, usable: Mask) -> list[Bin]:
        """Take nodes for classes with pods left; `usable` (classes by kinds) says where each may go, and fits."""
        bins: list[Bin] = []
        stale = np.flatnonzero(usable.any(axis=0) & (self._allowance.left > 0)).tolist()
        offers: dict[int, Bin] = {}
        later: list[int] = []  # kinds whose turn comes when others have nothing to offer any more
        while True:
            for kind in stale:
                if self._allowance.left[kind] > 0 and (offer := self._offer(kind, usable[:, kind])):
                    offers[kind] = offer
            if self._work > _THOROUGH_WORK and len(offers) > _FRUGAL_KINDS:
                later += self._put_off(offers)
            if not offers:
                if not later:
                    return bins
                stale = [later.pop(0)]
                continue
            best = max(offers, key=lambda kind: self._appeal(offers[kind]))
            if times := self._accept(offers[best], usable[:, best]):
                bins.append(replace(offers[best], times=times))
            del offers[best]
            stale = [best]

    def _put_off(self, offers: dict[int, Bin]) -> list[int]:
        """Take all offers but the most appealing back; their kinds, the most appealing first."""
        kinds = sorted(offers, key=lambda kind: self._appeal(offers[kind]), reverse=True)[_FRUGAL_KINDS:]
        for kind in kinds:
            del offers[kind]
        return kinds

    def _appeal(self, offer: Bin) -> tuple[float, float, int]:
        """Worth for the price; among equals the larger node, since fewer nodes carry fewer DaemonSets."""
        price = float(self.market.prices[offer.kind])
        return round(offer.worth / price, 9), price, -offer.kind

    def _accept(self, offer: Bin, usable: Mask) -> int:
        """Take what was offered as often as pods and limits still allow: not at all if others took the pods since."""
        times = min(
            int(self._allowance.left[offer.kind]), *(int(self.left[row]) // pods for row, pods in offer.content)
        )
        if times > 1 and self._kept_apart.any():
            times = min(times, self._spared(offer, usable))
        for row, pods in offer.content:
            self.left[row] -= times * pods
        self._allowance.take(offer.kind, times)
        return times

    def _spared(self, offer: Bin, usable: Mask) -> int:
        """How often to repeat so that a class that is kept apart, and not in there, still finds enough other nodes."""
        waiting = usable & (self.left > 0)
        absent = waiting & self._kept_apart
        absent[[row for row, _ in offer.content]] = False
        if not absent.any():
            return UNBOUNDED
        return max(1, self._nodes_needed(offer.kind, waiting) - int(self._nodes_apart(absent).max()))

    def _nodes_apart(self, rows: Mask) -> Counts:
        """Over how many nodes each class must be laid at least, being kept apart."""
        apart: Counts = -(-self.left[rows] // self.market.most[rows])
        return apart

    def _nodes_needed(self, kind: int, rows: Mask) -> int:
        """At least that many nodes of the kind, would it take all of these classes."""
        load = self.left[rows] @ self.market.needs[rows]
        room = np.maximum(self.market.rooms[kind], _TINY)
        return max(int(np.ceil((load / room).max())), int(self._nodes_apart(rows).max()))

    def _urgency(self, kind: int, rows: Rows) -> Vector | None:
        """For classes that are kept apart: by how many of the nodes to come they must be on; None if there are none."""
        apart = self._kept_apart[rows]
        if not apart.any():
            return None
        waiting = np.zeros(len(self.left), dtype=np.bool_)
        waiting[rows] = True
        shares = self._nodes_apart(waiting) / self._nodes_needed(kind, waiting)
        urgent: Vector = np.where(apart, (_TINY + shares) ** _URGENCY, 1.0)
        return urgent

    def _offer(self, kind: int, usable: Mask) -> Bin | None:
        rows = np.flatnonzero(usable & (self.left > 0))
        if not len(rows):
            return None
        most = _FRUGAL_ROWS if self._work > _THOROUGH_WORK else _MOST_ROWS
        if len(rows) > most:
            rows = rows[:: -(-len(rows) // most)]
        self._work += len(rows)
        content = self._filler.fill(self.market.rooms[kind], rows, self.left, self._urgency(kind, rows))
        if not content:
            return None
        return Bin(kind, content, 1, float(sum(self._worth[row] * pods for row, pods in content)))
