"""Which idle nodes can go: those whose pods all fit elsewhere, a few at a time, the easiest and dearest first.

Nothing here empties a node: the saga that does checks again, asks each PodDisruptionBudget, and stops when it must.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from types import MappingProxyType

import numpy as np

from shared import names
from shared.model import (
    BoundPods,
    Config,
    HostPort,
    Ledger,
    Mode,
    Movability,
    NodeView,
    Placement,
    PodShape,
    Pool,
    Retirement,
    Snapshot,
)
from shared.nodes.supply import without_devices
from shared.nodes.template_node import take
from shared.packing.axes import Axes
from shared.packing.census import Census, has_rules
from shared.packing.market import Mask
from shared.packing.pool_choice import known_price
from shared.packing.stock import Stock
from shared.planning.gang_needs import running, shortages
from shared.planning.keeping import Keeper
from shared.reading.gang_members import gang_name, role_name, title
from shared.rules.matching import Matcher
from shared.rules.predicates import Ground, waiting_claim
from shared.rules.tallies import Place
from shared.state.failures import POOL_UNFIT

_NOBODY = -(2**31)  # no priority is lower
Taken = Mapping[str, Mapping[PodShape, int]]

# What cluster-autoscaler and Karpenter read on a node: who moves over from them keeps what they said.
_OPT_OUTS = (("cluster-autoscaler.kubernetes.io/scale-down-disabled", "true"), ("karpenter.sh/do-not-disrupt", "true"))
_SHRINKING = (Mode.ACT, Mode.OBSERVE)  # observe says what act would do


@dataclass(frozen=True, slots=True)
class Going:
    """Nodes to retire, and why each other idle candidate stays."""

    retirements: tuple[Retirement, ...] = ()
    kept: Mapping[str, str] = field(default_factory=dict)


def plan(
    snapshot: Snapshot,
    config: Config,
    ledger: Ledger,
    now: datetime,
    taken: Taken,
    added: Mapping[str, int] = MappingProxyType({}),
) -> Going:
    """Decide over the nodes that are idle for long enough; `taken` is what pending pods are to take of each node, and
    `added` the nodes that are bought by pool."""
    candidates = _candidates(snapshot, config, ledger, now)
    if not candidates:
        return Going()
    keeper = Keeper(snapshot, config, ledger, now, taken, added)
    kept = {
        node.name: why for node, pool in candidates if (why := _held(node, pool, config, ledger, taken, keeper, now))
    }
    open_ones = [(node, pool) for node, pool in candidates if node.name not in kept]
    if not open_ones:
        return Going(kept=kept)
    judge = _Judge(snapshot, config, ledger, [node for node, _ in open_ones], taken, keeper)
    retirements = []
    for node, pool in sorted(open_ones, key=partial(_easiest_first, cutoff=config.priority_cutoff)):
        why, moves = judge.hear(node, pool)
        mode = _mode(pool, config)
        if why:
            kept[node.name] = why
        elif mode is Mode.OBSERVE:
            kept[node.name] = f"Observe: would be retired, {_why(node, pool, config, now)}"
        else:
            retirements.append(Retirement(node.name, pool.name, _why(node, pool, config, now), moves))
    return Going(tuple(retirements), {node.name: kept[node.name] for node, _ in candidates if node.name in kept})


def standing(snapshot: Snapshot, ledger: Ledger) -> dict[str, int]:
    """Nodes by pool that are ready and will stay."""
    numbers: dict[str, int] = {}
    for node in snapshot.nodes:
        if node.ready and node.evicting_at is None and node.name not in ledger.retiring:
            numbers[node.pool] = numbers.get(node.pool, 0) + 1
    return numbers


def _candidates(snapshot: Snapshot, config: Config, ledger: Ledger, now: datetime) -> list[tuple[NodeView, Pool]]:
    idle_after = timedelta(seconds=config.scale_down.idle_after)
    pools = {pool.name: pool for pool in config.pools}
    return [
        (node, pools[node.pool])
        for node in snapshot.nodes
        if node.idle_since is not None
        and now - node.idle_since >= idle_after
        and node.pool in pools
        and node.evicting_at is None
        and node.name not in ledger.retiring
    ]


def _held(
    node: NodeView, pool: Pool, config: Config, ledger: Ledger, taken: Taken, keeper: Keeper, now: datetime
) -> str:
    """What keeps a node by itself, whatever the others do."""
    if node.unschedulable and names.RETIRE_OPERATION_ANNOTATION not in node.annotations:
        return "cordoned by an administrator"
    if closed := _opted_out(node) or _shut(pool, config, ledger, now):
        return closed
    if node.name in taken:
        return "pending pods are planned onto it"
    blocked = next((bound for bound in node.bound if bound.movability is Movability.BLOCKS), None)
    if blocked is not None:
        return f"{blocked.pods[0]}: {blocked.blocked_by}" if blocked.pods else blocked.blocked_by
    stayed = ledger.cooling.get(node.name)
    return f"stayed a short while ago: {stayed}" if stayed else keeper.reserved.get(node.name, "")


def _opted_out(node: NodeView) -> str:
    opt_outs = (f"{key}={value}" for key, value in _OPT_OUTS if node.annotations.get(key) == value)
    return next((f"annotation {opt_out}" for opt_out in opt_outs), "")


def _shut(pool: Pool, config: Config, ledger: Ledger, now: datetime) -> str:
    """Why no node of the pool is taken away: its mode, or somebody else who scales it."""
    mode = _mode(pool, config)
    if mode not in _SHRINKING:
        return f"mode is {mode.value}"
    found = (each for each in ledger.failures if each.code == POOL_UNFIT and each.pool == pool.name)
    return next((f"{POOL_UNFIT}: {each.detail}" for each in found if each.until > now), "")


def _mode(pool: Pool, config: Config) -> Mode:
    """The more careful of the pool's mode and the file's."""
    careful = (Mode.PAUSED, Mode.OBSERVE, Mode.GROW_ONLY, Mode.ACT)
    return min(pool.mode, config.mode, key=careful.index)


def _easiest_first(candidate: tuple[NodeView, Pool], cutoff: int) -> tuple[object, ...]:
    node, pool = candidate
    moving = sum(len(bound.pods) for bound in _moving(node, cutoff))
    return moving, -(known_price(pool) or 0.0), node.idle_since, node.name


def _moving(node: NodeView, cutoff: int = _NOBODY) -> list[BoundPods]:
    """Pods that need another place; those below the priority cut-off need none."""
    return [
        bound
        for bound in node.bound
        if bound.movability is Movability.MOVES and (bound.shape.priority >= cutoff or bound.shape.gang)
    ]


def waits_for_pods(node: NodeView) -> bool:
    """Whether the node has pods that run to their end before it may go."""
    return any(bound.movability is Movability.WAITS for bound in node.bound)


def _why(node: NodeView, pool: Pool, config: Config, now: datetime) -> str:
    return without_devices(node, pool, config.timing, now) or _idle_text(node, now)


def _idle_text(node: NodeView, now: datetime) -> str:
    since = node.idle_since or now
    return f"idle for {int((now - since).total_seconds() // 60)} min"


class _Judge:
    """Hears one candidate after the other; room and budgets that one uses are gone for the next."""

    def __init__(
        self,
        snapshot: Snapshot,
        config: Config,
        ledger: Ledger,
        open_ones: Sequence[NodeView],
        taken: Taken,
        keeper: Keeper,
    ) -> None:
        self._keeper = keeper
        ours = {pool.name for pool in config.pools}
        nodes = [node for node in snapshot.nodes if node.pool in ours]
        self._budget = max(1, int(config.scale_down.max_parallel_fraction * len(nodes)))
        self._waiting = len(ledger.waiting)
        self._in_flight = len(ledger.retiring - ledger.deleting - ledger.waiting) + max(0, self._waiting - self._budget)
        self._standing = standing(snapshot, ledger)
        self._destinations: set[str] = set()
        self._gangs = _Gangs(snapshot, ledger)
        self._movers = _Movers(snapshot, config, ledger, open_ones, taken, keeper.reserved)

    def hear(self, node: NodeView, pool: Pool) -> tuple[str, tuple[Placement, ...]]:
        """Why the node stays, or "" and where its pods would go."""
        if node.name in self._destinations:
            return "pods of a node that goes are planned onto it", ()
        if node.ready and self._standing.get(pool.name, 0) <= pool.minimum:
            return f"PoolMinimum: {pool.name} has {self._standing.get(pool.name, 0)}, its minimum", ()
        if needed := self._gangs.broken_by(node) or self._keeper.refusal(node):
            return needed, ()
        if shut := self._shut(waits=waits_for_pods(node)):
            return shut, ()
        why, moves = self._movers.move(node)
        if why:
            return why, ()
        self._gangs.leave(node)
        self._keeper.goes(node)
        self._in_flight += 1
        self._waiting += waits_for_pods(node)
        if node.ready:
            self._standing[pool.name] -= 1
        self._destinations.update(move.target for move in moves)
        return "", moves

    def _shut(self, *, waits: bool) -> str:
        """Why nobody else may go now, or ""."""
        if self._in_flight >= self._budget:
            return f"DisruptionBudget: {self._in_flight} of {self._budget} retirements are under way"
        if waits and self._waiting >= self._budget:
            return f"DisruptionBudget: {self._waiting} of {self._budget} nodes wait for their pods to end"
        return ""


class _Gangs:
    """Members that run by gang and role: a gang keeps its minimum, or its nodes stay."""

    def __init__(self, snapshot: Snapshot, ledger: Ledger) -> None:
        self._known = {gang.name: gang for gang in snapshot.gangs}
        staying = tuple(node for node in snapshot.nodes if node.name not in ledger.retiring)
        self._running = running(replace(snapshot, nodes=staying))

    def broken_by(self, node: NodeView) -> str:
        """Why the node's members of gangs cannot be moved, or ""."""
        for name, going in _members(node).items():
            gang = self._known.get(name)
            if gang is None or gang.problem:
                return f"Gang: how many pods {title(name)} needs is not known"
            have = self._running.get(name, {})
            left = {role: number - going.get(role, 0) for role, number in have.items()}
            if lacking := shortages(gang, left):
                lack, number = lacking[0], sum(going.values())
                return f"Gang: moving {number} would leave {lack.text(name)}"
        return ""

    def leave(self, node: NodeView) -> None:
        """The node's members are on the move from now on."""
        for name, going in _members(node).items():
            for role, number in going.items():
                self._running[name][role] -= number


def _members(node: NodeView) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for bound in _moving(node):
        if bound.shape.gang:
            roles = found.setdefault(gang_name(bound.shape.gang), {})
            role = role_name(bound.shape.gang)
            roles[role] = roles.get(role, 0) + len(bound.pods)
    return found


class _Movers:
    """The pods of nodes that go, and the room on nodes that stay."""

    def __init__(
        self,
        snapshot: Snapshot,
        config: Config,
        ledger: Ledger,
        open_ones: Sequence[NodeView],
        taken: Taken,
        reserved: Collection[str],
    ) -> None:
        self._cutoff = config.priority_cutoff
        retiring = [node for node in snapshot.nodes if node.name in ledger.retiring]
        moving = [bound for node in (*open_ones, *retiring) for bound in _moving(node, self._cutoff)]
        self._shapes = list(dict.fromkeys(bound.shape for bound in moving))
        self._rows = {shape: row for row, shape in enumerate(self._shapes)}
        staying = (node for node in snapshot.nodes if node.name not in reserved)
        self._nodes = [node for node in staying if _takes_pods(node, ledger)] if moving else []
        rooms = [(_free(node, taken), _ports(node, taken)) for node in self._nodes]
        axes = Axes(self._shapes, rooms)
        self._needs, self._most = axes.needs(self._shapes), axes.most(self._shapes)
        grounds = [(Ground(node.name, node.labels, node.taints),) for node in self._nodes]
        self._matcher = Matcher(grounds, self._shapes)
        idle = np.array([node.idle_since is not None for node in self._nodes], dtype=np.bool_)
        self._stock = Stock(axes.rooms(rooms), np.arange(len(self._nodes)), idle)
        self._place = {node.name: number for number, node in enumerate(self._nodes)}
        self._company = _Company(snapshot, self._shapes, taken) if any(map(has_rules, self._shapes)) else None
        for node in retiring:
            # Their pods are on the move already and will take room that nobody else may count on.
            self._put(node)

    def move(self, node: NodeView) -> tuple[str, tuple[Placement, ...]]:
        """Find room for all the node's pods and use it up, or say why not and leave all as it was."""
        own = self._place.get(node.name)
        if own is None:
            return self._put(node)
        own_room = self._stock.room[own].copy()
        self._stock.room[own] = -1.0
        why, moves = self._put(node)
        if why:
            self._stock.room[own] = own_room
        return why, moves

    def _put(self, node: NodeView) -> tuple[str, tuple[Placement, ...]]:
        placements: list[Placement] = []
        done: list[_Move] = []
        for bound in _moving(node, self._cutoff):
            refs = iter(bound.pods)
            for move in self._moves(bound, node):
                placements.append(Placement(self._nodes[move.place].name, tuple(islice(refs, move.pods))))
                done.append(move)
            homeless = next(refs, None)
            if homeless is not None:
                self._take_back(done, node)
                return self._why(bound, str(homeless)), ()
        return "", tuple(placements)

    def _moves(self, bound: BoundPods, node: NodeView) -> Iterator[_Move]:
        """Take room for the pods: at once, or one by one where rules between pods have to be asked each time."""
        row, mask = self._rows[bound.shape], self._matcher.mask(bound.shape)
        need, most = self._needs[row], int(self._most[row])
        if self._company is None or not has_rules(bound.shape):
            for place, pods in self._stock.place(row, need, len(bound.pods), mask, most=most):
                yield _Move(row, place, pods)
            return
        for _ in bound.pods:
            self._company.leave(bound.shape, node.name)
            open_to = mask & self._company.open_to(bound.shape, [each.name for each in self._nodes])
            for place, pods in self._stock.place(row, need, 1, open_to, most=most):
                self._company.come(bound.shape, self._nodes[place].name)
                yield _Move(row, place, pods)

    def _take_back(self, done: Sequence[_Move], node: NodeView) -> None:
        """Undo these moves off the node."""
        for move in done:
            self._stock.take_back(move.row, self._needs[move.row], move.place, move.pods)
        if self._company is not None:
            self._company.forget(node.name)

    @staticmethod
    def _why(bound: BoundPods, pod: str) -> str:
        if bound.shape.not_modelled:
            return f"{pod}: NotModelled: {', '.join(bound.shape.not_modelled)}"
        if waiting := waiting_claim(bound.shape):
            return f"{pod}: {waiting}"
        return f"{pod}: fits no node that stays"


@dataclass(frozen=True, slots=True)
class _Move:
    """Pods of one shape (a row) to one node."""

    row: int
    place: int
    pods: int


class _Company:
    """What rules between pods say while nodes are emptied. A node that goes still counts, as long as it is there."""

    def __init__(self, snapshot: Snapshot, shapes: Sequence[PodShape], taken: Taken) -> None:
        to_come = [shape for content in taken.values() for shape in content]
        self._number = {node.name: number for number, node in enumerate(snapshot.nodes)}
        self._census = Census([*shapes, *to_come], [_place_of(node) for node in snapshot.nodes])
        for name, content in taken.items():
            if name in self._number:
                for shape, pods in content.items():
                    self._census.add(shape, self._number[name], pods)
        self._since: list[tuple[PodShape, int, int]] = []
        self._going = ""

    def leave(self, shape: PodShape, name: str) -> None:
        """One pod goes; what follows until another node's turn can be forgotten together."""
        if name != self._going:
            self._going, self._since = name, []
        self._change(shape, name, -1)

    def come(self, shape: PodShape, name: str) -> None:
        """One pod comes."""
        self._change(shape, name, 1)

    def forget(self, name: str) -> None:
        """The node's pods stay after all."""
        if name == self._going:
            for shape, place, pods in self._since:
                self._census.add(shape, place, -pods)
            self._since = []

    def open_to(self, shape: PodShape, names: Sequence[str]) -> Mask:
        """Which of the nodes may get one more."""
        allowed = self._census.mask(shape)
        if allowed is None:
            return np.ones(len(names), dtype=np.bool_)
        found: Mask = allowed[[self._number[name] for name in names]]
        return found

    def _change(self, shape: PodShape, name: str, pods: int) -> None:
        place = self._number[name]
        self._census.add(shape, place, pods)
        self._since.append((shape, place, pods))


def _place_of(node: NodeView) -> Place:
    ground = Ground(node.name, node.labels, node.taints, node.unschedulable)
    return Place((ground,), tuple((bound.shape, len(bound.pods)) for bound in node.bound))


def _takes_pods(node: NodeView, ledger: Ledger) -> bool:
    return node.ready and not node.unschedulable and node.evicting_at is None and node.name not in ledger.retiring


def _free(node: NodeView, taken: Taken) -> dict[str, int]:
    free = {name: amount - node.requested.get(name, 0) for name, amount in node.allocatable.items()}
    for shape, pods in taken.get(node.name, {}).items():
        take(free, shape, pods)
    return free


def _ports(node: NodeView, taken: Taken) -> tuple[HostPort, ...]:
    return (*node.host_ports, *(port for shape in taken.get(node.name, {}) for port in shape.host_ports))
