"""Emptying a node: the cordon, and one pass after another until nothing is left that moves."""

from __future__ import annotations

from datetime import datetime, timedelta

from functions import dead, nodes, trail
from functions.deletion import refuse_doomed_disks
from functions.durable import Registry
from functions.outcomes import Busy, Json
from functions.rechecks import instance_of, refuse_busy, refuse_lost, refuse_recalled, shrinking
from functions.world import World, may_grow
from shared.adapters.errors import RetryLater
from shared.adapters.protocols import ClusterApi
from shared.model import Config, Pool
from shared.reading.drain import grace_of, why_moves
from shared.state.ledger import moment, stamp

EVICTION_MARGIN = 2  # seconds of the notice that are left to the kubelet
OUTDATED = "outdated"
STILL_TRUE = timedelta(minutes=15)  # a plan after that long a pause: others may have taken the room it gave to the pods
MOST_EXPECTED = 500  # pods of one node, by uid, in an order that has 32 kB; the kubelet's limit is 250


def cordon_node(world: World, order: Json) -> Json:
    """Check that the node still may go, cordon it, and check again what came in between.

    {"remaining", "waiting", "volumes", "expected": the uids of those that may go}.
    """
    if order.get("dead"):
        return dead.cordon_dead(world, order)
    pool = shrinking(world, order)
    config, api = world.config(order["cluster"]), world.api(order["cluster"])
    node = nodes.read_node(api, order)
    _refuse_outdated(order)
    nodes.refuse_foreign(node, order["op"])
    refuse_recalled(world, order)
    expected = _planned(world, order)
    refuse_busy(api, pool, order["node"], expected, config.priority_cutoff)
    refuse_doomed_disks(instance_of(world, pool, node))
    nodes.cordon(api, order, lambda fresh: nodes.refuse_foreign(fresh, order["op"]))
    trail.note_node(world, order, trail.CORDONED, order.get("reason") or "it is not needed", rule=_idle_rule(config))
    refuse_recalled(world, order)
    load = refuse_busy(api, pool, order["node"], expected, config.priority_cutoff)
    uids = [pod["metadata"].get("uid", "") for pod in load.moving]
    volumes = len(nodes.attached_volumes(api, order["node"]))
    return {
        "remaining": load.remaining,
        "waiting": len(load.waiting),
        "volumes": volumes,
        "expected": uids[:MOST_EXPECTED],
    }


def _refuse_outdated(order: Json) -> None:
    """What was decided before a long pause is decided anew, by what the cluster looks like now."""
    lost = moment(order["now"]) - moment(order["paused"]) if "paused" in order else timedelta()
    if lost >= STILL_TRUE:
        raise Busy(OUTDATED, f"its plan is out of date: the API server did not answer for {lost.seconds // 60} min")


def _planned(world: World, order: Json) -> frozenset[str]:
    """The uids of the pods that the plan has found another place for; no other pod may be on the node."""
    if not order.get("plan"):
        return frozenset()
    document = world.document(order["cluster"], order["plan"])
    planned = [going for going in document["retirements"] if going["node"] == order["node"]]
    return frozenset(pod["uid"] for going in planned for move in going["moves"] for pod in move["pods"])


def _idle_rule(config: Config) -> str:
    settings = config.scale_down
    return f"scale_down: idle_after {settings.idle_after:g} s, utilization_below {settings.utilization_below:g}"


def drain_pass(world: World, order: Json) -> Json:
    """One pass of `_passed`; where the cluster could not be asked, that is stated, and the saga pauses."""
    try:
        return _passed(world, order)
    except RetryLater as error:
        trail.note_node(world, order, trail.PAUSED, error.message)
        raise


def _passed(world: World, order: Json) -> Json:
    """Evict what is left and has its turn, once each: {"remaining", "waiting", "held", "volumes", "waiting_for",
    "ends_at"}. `waiting` are pods that run to their end, and are let.

    `ends_at`: when the time is over that those have who are ending; "" where nobody is, or a budget holds somebody.
    """
    if order.get("grace_until"):
        return _forced_pass(world, order)
    if order.get("dead"):
        return dead.dead_pass(world, order)
    pool = shrinking(world, order)
    refuse_recalled(world, order)
    api = world.api(order["cluster"])
    node = nodes.read_node(api, order)
    _refuse_outdated(order)
    refuse_lost(node, order)
    nodes.refuse_opted_out(node)
    load = _load(world, api, pool, order)
    asked = nodes.evict_all(api, load.next_tier(), None)
    _state(world, order, load, asked)
    return _progress(order, load, asked, nodes.attached_volumes(api, order["node"]))


def _load(world: World, api: ClusterApi, pool: Pool, order: Json) -> nodes.Load:
    """What is on the node; nothing that came after the plan, and nothing whose owner has opted out since."""
    load = nodes.load_of(api, order["node"], pool.drain)
    if load.blocked:
        trail.note_node(world, order, trail.BLOCKED, load.blocked, rule=load.blocked, pods=load.blocking)
        raise Busy("blocked", load.blocked)
    if "expected" in order:
        cutoff = world.config(order["cluster"]).priority_cutoff
        refuse_busy(api, pool, order["node"], frozenset(order["expected"]), cutoff)
    return load


def _forced_pass(world: World, order: Json) -> Json:
    """A pass against the clock: the VM goes at the deadline whatever a pod would rather have. Who would run to the end
    can't, and is told, so that it may save what it has."""
    pool = world.pool_to_finish(order["cluster"], order["pool"])
    if not may_grow(pool):
        raise Busy("mode", f"pool {pool.name} is in mode {pool.mode.value}: nothing is written")
    api = world.api(order["cluster"])
    refuse_lost(nodes.read_node(api, order), order)
    load = nodes.load_of(api, order["node"])
    left = (moment(order["grace_until"]) - moment(order["now"])).total_seconds() - EVICTION_MARGIN
    load.moving += load.waiting
    load.waiting = []
    asked = nodes.evict_all(api, load.moving, max(1, int(left)))
    _state(world, order, load, asked)
    return _progress(order, load, asked, [])


def _state(world: World, order: Json, load: nodes.Load, asked: nodes.Evictions) -> None:
    """For the record: who was evicted and by which rule, who was held."""
    forced = f"Azure takes the VM at {order['grace_until']}" if order.get("grace_until") else ""
    by_rule: dict[str, list[Json]] = {}
    for pod in asked.evicted:
        by_rule.setdefault(forced or why_moves(pod), []).append(pod)
    why = order.get("reason") or forced or "its node goes"
    for rule, pods in by_rule.items():
        trail.note_node(world, order, trail.EVICTED, why, rule=rule, pods=pods)
    if load.ending:
        trail.note_node(world, order, trail.ENDING, why, pods=load.ending)
    if asked.held:
        trail.note_node(world, order, trail.HELD, "not now", rule="PodDisruptionBudget", pods=asked.held)


def _progress(order: Json, load: nodes.Load, asked: nodes.Evictions, volumes: list[str]) -> Json:
    now = moment(order["now"])
    ends = [_ends_at(pod) for pod in load.ending]
    ends += [now + timedelta(seconds=grace_of(pod)) for pod in asked.evicted]
    left = {"remaining": load.remaining, "waiting": len(load.waiting), "volumes": len(volumes)}
    last = stamp(max(ends)) if ends and not asked.held else ""
    why = _waiting_for(now, load, asked, volumes)
    return {**left, "held": len(asked.held), "ends_at": last, "waiting_for": why}


def _ends_at(pod: Json) -> datetime:
    """When the kubelet kills what still runs of an ending pod: its deletionTimestamp lies a grace period ahead."""
    return moment(pod["metadata"]["deletionTimestamp"])


def _waiting_for(now: datetime, load: nodes.Load, asked: nodes.Evictions, volumes: list[str]) -> str:
    if asked.held:
        return f"a PodDisruptionBudget holds {nodes.name_of(asked.held[0])}"
    late = sorted(load.ending, key=_ends_at)
    if late and _ends_at(late[0]) < now:
        return _why_late(late[0], now - _ends_at(late[0]))
    waiting = [*load.moving, *late]
    if waiting:
        return f"{nodes.name_of(waiting[0])} is still ending, for which it may take {grace_of(waiting[0]):g} s"
    if load.waiting:
        return f"{nodes.name_of(load.waiting[0])} has not run to its end"
    return f"volumes are still attached: {', '.join(volumes[:3])}" if volumes else ""


def _why_late(pod: Json, late: timedelta) -> str:
    """What holds a pod that should have ended."""
    finalizers = pod["metadata"].get("finalizers") or []
    if finalizers:
        return f"{nodes.name_of(pod)} has ended, and its finalizers hold it: {', '.join(finalizers[:3])}"
    return f"{nodes.name_of(pod)} should have ended {int(late.total_seconds())} s ago, and its kubelet has not ended it"


def registry(world: World) -> Registry:
    """The activities of `drain_node`."""

    made = Registry()
    made.activity(world, cordon_node, drain_pass)
    return made
