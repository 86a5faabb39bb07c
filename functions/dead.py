"""Nodes whose kubelet has been silent for too long: nothing on them can be evicted in the usual way any more.

Their VM is deleted without waiting for its guest. That is not done lightly:

- only after `scale_down.dead_after`, by when Kubernetes has long given up their pods (five minutes, by its default);
- never when more than a fifth of the nodes are silent, since then it is likelier that the network or the control plane
  is what is broken (Karpenter's node repair stops there too);
- never against an opt-out: the containers of a silent kubelet may well be running.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from functions import nodes, trail
from functions.deletion import refuse_doomed_disks
from functions.outcomes import Busy, Json, tell
from functions.rechecks import instance_of, refuse_lost, refuse_unfit, shrinking
from functions.world import World, budget_key, may_retire
from shared.adapters.protocols import ClusterApi
from shared.model import Config, Pool
from shared.provider_id import pool_of
from shared.reading.drain import why_moves
from shared.state.ledger import moment

MOST_SILENT = 0.2  # of the cluster's nodes; one always may


def dead_nodes(config: Config, seen: Iterable[Json], now: datetime) -> Iterator[Json]:
    """The nodes that may be given up, without those that somebody else holds; none when too many are silent."""
    ours = [node for node in seen if pool_of(node, config)]
    if too_many_silent(ours):
        return
    for node in ours:
        pool = config.pool(pool_of(node, config))
        if pool is None or not may_retire(pool) or nodes.is_cordoned(node):
            continue
        since = nodes.silent_since(node)
        if since is not None and now - since >= timedelta(seconds=config.scale_down.dead_after):
            yield node


def too_many_silent(ours: list[Json]) -> bool:
    """Whether so many are not Ready that the fault may lie elsewhere."""
    silent = [node for node in ours if nodes.silent_since(node) is not None]
    too_many = len(silent) > max(1, int(MOST_SILENT * len(ours)))
    if too_many:
        tell("too many nodes are silent to give any up", silent=len(silent), nodes=len(ours))
    return too_many


def order_of(config: Config, pool: Pool, node: Json, op: str, number: int) -> Json:
    """What the saga of a dead node starts with; `number` of nodes are in pools of ours."""
    settings = config.scale_down
    return {
        "cluster": config.cluster,
        "op": op,
        "node": node["metadata"]["name"],
        "uid": node["metadata"].get("uid", ""),
        "pool": pool.name,
        "budget": budget_key(pool),
        "reason": f"not Ready since {nodes.silent_since(node)}",
        "drain_timeout": settings.drain_timeout,
        "limit": max(1, int(number * settings.max_parallel_fraction)),
        "dead": True,
    }


def cordon_dead(world: World, order: Json) -> Json:
    """Check that the node still is dead, and cordon it: the same answer as of `cordon_node`."""
    pool = shrinking(world, order)
    refuse_unfit(world, pool)
    api = world.api(order["cluster"])
    config = world.config(order["cluster"])
    ours, _ = api.list("/api/v1/nodes")
    if too_many_silent([node for node in ours if pool_of(node, config)]):
        raise Busy("unsure", "too many nodes are not Ready: the fault may lie elsewhere")
    node = nodes.read_node(api, order)
    refuse_alive(world, order, node)
    refuse_doomed_disks(instance_of(world, pool, node))
    load = _load(api, pool, order)
    nodes.cordon(api, order, lambda fresh: nodes.refuse_foreign(fresh, order["op"]))
    rule = f"scale_down: dead_after {config.scale_down.dead_after:g} s"
    trail.note_node(world, order, trail.DEAD, order["reason"], rule=rule)
    trail.note_node(world, order, trail.CORDONED, order["reason"], rule=rule)
    return {"remaining": len(load.moving), "waiting": 0, "volumes": 0, "expected": []}


def dead_pass(world: World, order: Json) -> Json:
    """Ask the Eviction API for pods that nobody has given up yet: {"remaining", ...} as of `drain_pass`.

    Who is ending will not end before the node is gone, for want of a kubelet: they are not waited for.
    """
    pool = shrinking(world, order)
    api = world.api(order["cluster"])
    node = nodes.read_node(api, order)
    refuse_lost(node, order)
    refuse_alive(world, order, node)
    load = _load(api, pool, order)
    asked = nodes.evict_all(api, load.moving, None)
    for pod in asked.evicted:
        trail.note_node(world, order, trail.EVICTED, order["reason"], rule=why_moves(pod), pods=[pod])
    held = f"a PodDisruptionBudget holds {nodes.name_of(asked.held[0])}" if asked.held else ""
    left = {"remaining": len(asked.held), "held": len(asked.held), "waiting": 0, "volumes": 0}
    return {**left, "ends_at": "", "waiting_for": held}


def refuse_alive(world: World, order: Json, node: Json) -> None:
    """The node still is dead, and nothing of its own keeps it."""
    nodes.refuse_opted_out(node)
    since = nodes.silent_since(node)
    patience = timedelta(seconds=world.config(order["cluster"]).scale_down.dead_after)
    if since is None or moment(order["now"]) - since < patience:
        raise Busy("alive", f"node {order['node']} speaks again")


def refuse_held(api: ClusterApi, pool: Pool, order: Json) -> None:
    """Nobody on the dead node is still counted on."""
    load = _load(api, pool, order)
    if load.moving:
        raise Busy("busy", f"{nodes.name_of(load.moving[0])} has not been given up")


def _load(api: ClusterApi, pool: Pool, order: Json) -> nodes.Load:
    """What is on the node; nothing whose owner has opted out, or that must run to its end."""
    load = nodes.load_of(api, order["node"], pool.drain)
    if load.blocked:
        raise Busy("blocked", load.blocked)
    if load.waiting:
        raise Busy("blocked", f"{nodes.name_of(load.waiting[0])} must run to its end, and may be running")
    return load
