"""What must still hold before a step that destroys: each check reads anew, and raises Busy where it does not."""

from __future__ import annotations

from functions import nodes
from functions.outcomes import Busy, Json
from functions.world import World, may_retire
from shared.adapters.errors import NotFound
from shared.adapters.protocols import ClusterApi, Instance
from shared.model import Pool, PoolKind
from shared.provider_id import parse
from shared.state.ledger import RECALL_REASON

GOING = "Deleting"


def shrinking(world: World, order: Json) -> Pool:
    """The order's pool, where nodes may be taken away."""
    pool = world.pool(order["cluster"], order["pool"])
    if not may_retire(pool):
        raise Busy("mode", f"pool {pool.name} is in mode {pool.mode.value}: no node is taken away")
    return pool


def refuse_unfit(world: World, pool: Pool) -> None:
    """The pool is nobody else's to scale; raises Busy when it is."""
    if pool.kind is not PoolKind.VM and (unfit := world.compute_of(pool).scale_set(pool).unfit):
        raise Busy("unfit", unfit)


def refuse_busy(
    api: ClusterApi, pool: Pool, node: str, expected: frozenset[str], cutoff: int | None = None
) -> nodes.Load:
    """The node's pods; none that blocks, and none whose uid is not `expected`. Those below the priority `cutoff` hold
    no node, and no plan has looked for a place for them."""
    load = nodes.load_of(api, node, pool.drain)
    if load.blocked:
        raise Busy("blocked", load.blocked)
    strangers = (pod for pod in load.moving if pod["metadata"].get("uid", "") not in expected)
    newcomer = next((pod for pod in strangers if cutoff is None or _priority(pod) >= cutoff), None)
    if newcomer is not None:
        raise Busy("busy", f"busy again: {nodes.name_of(newcomer)} has come")
    return load


def _priority(pod: Json) -> int:
    return int(pod.get("spec", {}).get("priority") or 0)


def verdict_document(node: str) -> str:
    """Where the last word about a node that was to go is kept."""
    return f"nodes/{node}.json"


def refuse_recalled(world: World, order: Json) -> None:
    """The node has not been called back."""
    verdict = world.document_or(order["cluster"], verdict_document(order["node"]), {})
    if verdict.get("recalled") and verdict["op"] == order["op"]:
        raise Busy("recalled", RECALL_REASON)


def refuse_lost(node: Json, order: Json) -> None:
    """The node still bears this operation's cordon."""
    holder = nodes.holder_of(node)
    if holder and holder != order["op"] and nodes.is_cordoned(node):
        raise Busy("taken", f"operation {holder} goes on with node {order['node']}, which Azure takes away")
    if not holder or not nodes.is_cordoned(node):
        raise Busy("lost", "somebody took our cordon off the node")


def machine(node: Json) -> str:
    """What a deletion of the node's VM would name."""
    parsed = parse(node.get("spec", {}).get("providerID", ""))
    return parsed.deletion_id if parsed is not None else str(node["metadata"]["name"])


def of_node(instances: list[Instance], node: Json) -> Instance | None:
    """The one among them that is the node's VM."""
    provider_id = nodes.provider_id(node)
    return next((each for each in instances if each.provider_id.casefold() == provider_id), None)


def instance_of(world: World, pool: Pool, node: Json) -> Instance | None:
    """The VM of a node, or None when it is gone or the node does not say which it is."""
    try:
        instance = world.compute_of(pool).instance(pool, machine(node))
    except NotFound:
        return None
    return instance if of_node([instance], node) else None
