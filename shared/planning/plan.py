"""The decision: from what the cluster looks like to what should be done about it. Pure: equal input, equal plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain, islice
from operator import attrgetter

from shared.model import (
    Config,
    Delta,
    Ledger,
    Mode,
    NewNode,
    Placement,
    Plan,
    PodClass,
    PodRef,
    PodShape,
    Snapshot,
    Unserved,
)
from shared.nodes.learning import drift, lessons
from shared.nodes.nominations import Held, settle
from shared.nodes.supply import Site, bystanders, late_resources, present, sites_of
from shared.nodes.template_node import template_of
from shared.packing.allocation import Allocation, Effort, Question
from shared.packing.allowance import JointLimit
from shared.packing.census import has_rules
from shared.packing.placing import allocate
from shared.packing.pool_choice import PoolState, known_price, pool_states, reasons
from shared.packing.preferring import prefer
from shared.planning import gangs, retirement
from shared.planning.bounds import Bounds, bounds_now
from shared.planning.devices import device_failures, with_useless_idle
from shared.planning.evicted import without_withdrawn
from shared.planning.expendable import last_the_expendable, nothing_bought, with_expendable
from shared.planning.in_vain import judge
from shared.planning.mix import within
from shared.planning.recalling import as_called_back, reserve, with_least
from shared.planning.topping import top_up
from shared.planning.zonal import by_zone

_MOST_LATE = 20  # nodes named one by one


def plan(snapshot: Snapshot, config: Config, ledger: Ledger, now: datetime, effort: Effort = Effort.IMPROVED) -> Plan:
    """What to add, what can go, and for all pods that nothing is done for: why, pool by pool.

    Pools that only observe are planned like the others; whether to act is for those who carry the plan out.
    """
    return by_zone(snapshot, config, ledger, now, partial(_plan, effort=effort))


def _plan(snapshot: Snapshot, config: Config, ledger: Ledger, now: datetime, effort: Effort) -> Plan:
    snapshot = as_called_back(without_withdrawn(_in_order(snapshot), now), ledger)
    states = pools_now(snapshot, config, ledger, now)
    templates = {state.pool.name: state.template for state in states}
    learnt = {state.pool.name: lesson for state in states if (lesson := state.template.learnt)}
    sites = sites_of(snapshot, config, ledger, templates, now)
    snapshot, sites, held = settle(snapshot, sites)
    wanting = demand(snapshot)
    in_vain, judged = judge(snapshot, wanting, config, ledger, now)
    classes, expendable = last_the_expendable(wanting, config, in_vain)
    bounds = bounds_now(snapshot, config, ledger, now, states)
    served, sites = _served(snapshot, classes, sites, bounds, reserve(snapshot, config, ledger), effort)
    allocation = _preferred(served.allocation, classes, sites, bounds)
    if expendable:
        allocation = with_expendable(allocation, classes, expendable, sites, states, bystanders(snapshot, sites))
    most_wanted, classes = classes, [*classes, *expendable]
    refs = [_Queue(each.pods) for each in classes]
    fits_existing, fits_upcoming, reuse = _placements(allocation, sites, classes, refs)
    ledger = replace(ledger, retiring=ledger.retiring - {placed.target for placed in reuse})
    deltas = _deltas(allocation, states, refs)
    added = {delta.pool: delta.add for delta in deltas}
    more = top_up(snapshot, config, ledger, bounds, sites, most_wanted, allocation)
    snapshot = with_useless_idle(snapshot, config, now)
    idle = any(node.idle_since is not None for node in snapshot.nodes)
    taken = _taken(allocation, sites, classes, held) if idle else {}  # nobody else may go, so nobody asks
    bought = Counter(added) + Counter(more.nodes)
    going = retirement.plan(snapshot, config, ledger, now, taken, bought)
    return Plan(
        deltas=deltas,
        fits_existing=fits_existing,
        fits_upcoming=fits_upcoming,
        reuse=reuse,
        unserved=tuple(_unserved(served, allocation, classes, refs, bounds, config, in_vain)),
        retirements=going.retirements,
        kept=going.kept,
        top_up=more.nodes,
        cost_per_hour=_cost(config, added),
        notes=(
            *_notes(config, added, states, more.nodes),
            *more.notes,
            *(line for pool in config.pools if pool.name in learnt for line in drift(pool, learnt[pool.name])),
            *islice(late_resources(snapshot, config, now), _MOST_LATE),
        ),
        learnt=learnt,
        headroom=more.headroom,
        judged=judged,
    )


def _served(
    snapshot: Snapshot,
    classes: Sequence[PodClass],
    sites: Sequence[Site],
    bounds: Bounds,
    back: list[Site],
    effort: Effort,
) -> tuple[gangs.Served, list[Site]]:
    """Who is served where, and the sites: among them those of the nodes `back` that are better called back."""

    def attempt(more: Sequence[Site]) -> tuple[Mapping[int, object], tuple[int, float]]:
        allocation = _attempt(snapshot, classes, [*sites, *more], bounds, Effort.FIRST).allocation
        price = Question(classes, [*sites, *more], bounds.states).price(allocation) if allocation.bought else 0.0
        return allocation.on_sites, (sum(allocation.left), price)

    places = [*sites, *(with_least(back, len(sites), attempt) if back and classes else ())]
    return _attempt(snapshot, classes, places, bounds, effort), places


def _attempt(
    snapshot: Snapshot,
    classes: Sequence[PodClass],
    sites: Sequence[Site],
    bounds: Bounds,
    effort: Effort,
) -> gangs.Served:
    around = bystanders(snapshot, sites) if any(has_rules(each.shape) for each in classes) else []
    states, prices = bounds.states, [known_price(state.pool) or 0.0 for state in bounds.states]

    def serve(limits: Sequence[JointLimit]) -> gangs.Served:
        joint = (*bounds.joint, *limits)
        return gangs.serve(
            classes,
            snapshot,
            bounds,
            lambda some: Question(some, sites, states, joint),
            lambda some, much: allocate(some, sites, states, around, joint, much) if some else Allocation({}, [], []),
            effort,
        )

    return within(
        bounds.mixes,
        serve,
        lambda answer: bounds.nodes(answer.allocation.bought),
        lambda answer: (sum(answer.allocation.left), sum(prices[pool] for pool, _ in answer.allocation.bought)),
    )


def _preferred(
    allocation: Allocation, classes: Sequence[PodClass], sites: Sequence[Site], bounds: Bounds
) -> Allocation:
    """With ties broken by preferences, where no mix of Spot and on-demand forbids it."""
    preferred = prefer(allocation, classes, sites, bounds.states, bounds.joint)
    nodes = bounds.nodes(preferred.bought)
    return preferred if all(mix.holds(nodes) for mix in bounds.mixes) else allocation


def pools_now(snapshot: Snapshot, config: Config, ledger: Ledger, now: datetime) -> list[PoolState]:
    """Every pool in the order of the file: what a new node of it is like, and how many it may get."""
    learnt = lessons(snapshot, config, ledger, now)
    ledger = replace(ledger, failures=(*ledger.failures, *device_failures(snapshot, config, now)))
    templates = {pool.name: template_of(pool, snapshot.daemons, learnt.get(pool.name)) for pool in config.pools}
    return pool_states(config, templates, present(snapshot, ledger, now), ledger, now)


def _in_order(snapshot: Snapshot) -> Snapshot:
    """Nodes by name: a watch and a fresh list may name them in different orders, which must decide nothing."""
    return replace(snapshot, nodes=tuple(sorted(snapshot.nodes, key=attrgetter("name"))))


def demand(snapshot: Snapshot) -> list[PodClass]:
    """Pods that need a place, by shape: the pending ones, and those on nodes that Azure is about to take away.

    The order does not depend on the order of the snapshot, save among pods that it lists together.
    """
    groups: dict[PodShape, list[tuple[PodRef, ...]]] = {}
    for pending in snapshot.pending:
        groups.setdefault(pending.shape, []).append(pending.pods)
    for node in snapshot.nodes:
        if node.evicting_at is not None:
            for bound in node.bound:
                if bound.comes_again:
                    groups.setdefault(bound.shape, []).append(bound.pods)
    classes = [PodClass(shape, _joined(pods)) for shape, pods in groups.items() if any(pods)]
    return sorted(classes, key=_order)


def _joined(groups: Sequence[tuple[PodRef, ...]]) -> tuple[PodRef, ...]:
    if len(groups) == 1:
        return groups[0]
    ordered = sorted((pods for pods in groups if pods), key=lambda pods: (pods[0].namespace, pods[0].name))
    return tuple(chain.from_iterable(ordered))


def _order(each: PodClass) -> tuple[object, ...]:
    first = each.pods[0]
    return -each.shape.priority, each.shape.requests, each.shape.node_selector, first.namespace, first.name


def _taken(
    allocation: Allocation, sites: Sequence[Site], classes: Sequence[PodClass], held: Held
) -> dict[str, dict[PodShape, int]]:
    """By node: the pods that will come, being nominated or planned for."""
    taken = {target: dict(pods) for target, pods in held.items() if pods}
    for number, content in allocation.on_sites.items():
        pods = taken.setdefault(sites[number].target, {})
        for row, count in content.items():
            pods[classes[row].shape] = pods.get(classes[row].shape, 0) + count
    return taken


class _Queue:
    """The pods of a class, given out in their order."""

    __slots__ = ("_given", "_pods")

    def __init__(self, pods: tuple[PodRef, ...]) -> None:
        self._pods, self._given = pods, 0

    def draw(self, number: int) -> tuple[PodRef, ...]:
        """The next so many."""
        start = self._given
        self._given = end = start + number
        return self._pods[start:end]


def _drawn(refs: Sequence[_Queue], content: Mapping[int, int]) -> tuple[PodRef, ...]:
    """The next pods of each class in there, class by class."""
    if len(content) == 1:
        ((row, count),) = content.items()
        return refs[row].draw(count)
    return tuple(chain.from_iterable([refs[row].draw(count) for row, count in sorted(content.items())]))


def _placements(
    allocation: Allocation, sites: Sequence[Site], classes: Sequence[PodClass], refs: Sequence[_Queue]
) -> tuple[tuple[Placement, ...], tuple[Placement, ...], tuple[Placement, ...]]:
    """Who goes to nodes that are there; who waits for those that are coming, or for something on them; for whom nodes
    are called back."""
    there: dict[str, list[PodRef]] = {}
    coming: dict[str, list[PodRef]] = {}
    back: dict[str, list[PodRef]] = {}
    for number, content in sorted(allocation.on_sites.items()):
        site = sites[number]
        for row, count in sorted(content.items()):
            waits = site.coming or any(name in site.lacks for name, _ in classes[row].shape.requests)
            kind = back if site.recalled else coming if waits else there
            kind.setdefault(site.target, []).extend(refs[row].draw(count))
    return _placed(there), _placed(coming), _placed(back)


def _placed(pods: Mapping[str, Sequence[PodRef]]) -> tuple[Placement, ...]:
    return tuple(Placement(target, tuple(found)) for target, found in pods.items())


def _deltas(allocation: Allocation, states: Sequence[PoolState], refs: Sequence[_Queue]) -> tuple[Delta, ...]:
    nodes: dict[int, list[NewNode]] = {}
    for pool, content in allocation.bought:
        nodes.setdefault(pool, []).append(NewNode(_drawn(refs, content)))
    return tuple(Delta(states[pool].pool.name, tuple(nodes[pool])) for pool in sorted(nodes))


def _unserved(
    served: gangs.Served,
    allocation: Allocation,
    classes: Sequence[PodClass],
    refs: Sequence[_Queue],
    bounds: Bounds,
    config: Config,
    in_vain: Mapping[PodShape, str],
) -> Iterator[Unserved]:
    closed = bounds.all_closed(allocation.bought)
    wanted = len(served.allocation.left)
    for row, count in enumerate(allocation.left):
        if count:
            shape, refusals = classes[row].shape, allocation.refusals.get(row, {})
            shut = closed if row < wanted else [nothing_bought(config, in_vain, shape)] * len(closed)
            why = served.told.get(row) or reasons(shape, bounds.states, shut, refusals)
            if shape in in_vain:  # what nodes have taught meanwhile is the same difference, seen from the other side
                taught = {state.pool.name for state in bounds.states if state.template.learnt is not None}
                why = {pool: in_vain[shape] if pool in taught else reason for pool, reason in why.items()}
            yield Unserved(refs[row].draw(count), why)


def _cost(config: Config, added: Mapping[str, int]) -> float:
    return round(sum((known_price(pool) or 0.0) * added.get(pool.name, 0) for pool in config.pools), 6)


def _notes(
    config: Config, added: Mapping[str, int], states: Sequence[PoolState], top_up: Mapping[str, int]
) -> Iterator[str]:
    for pool in config.pools:
        if known_price(pool) is None and (pool.name in added or pool.name in top_up):
            yield f"pool {pool.name}: price unknown, so it is used last and missing from the cost"
    for state in states:
        lacking = state.pool.minimum > state.present + top_up.get(state.pool.name, 0)
        if state.barred and lacking and state.pool.mode is not Mode.PAUSED:
            yield f"pool {state.pool.name}: below its minimum of {state.pool.minimum} ({state.barred})"
