"""The steps around a node that goes: of an eviction, and of one that stays after all."""

from __future__ import annotations

from datetime import timedelta

from functions import nodes, trail
from functions.durable import Registry
from functions.outcomes import LOG, Busy, Json, tell
from functions.rechecks import GOING, instance_of, machine, verdict_document
from functions.removals import clear_leftovers, delete_node_object
from functions.world import World, budget_key, may_grow, may_retire
from shared.adapters.errors import NotFound, StaleWrite
from shared.model import Pool
from shared.names import EVICTING_AT_ANNOTATION
from shared.provider_id import parse, pool_of
from shared.reading.projection import evicting_at
from shared.state.ledger import RECALL_REASON, moment

LATE = timedelta(seconds=5)  # news on the way for longer than that past their hour are looked into
BELIEVED = timedelta(minutes=2)  # after the hour that a node names itself; evictions are not late by more
MOST_DEALLOCATED = 500  # VMs in one order


def cordon_evicting(world: World, order: Json) -> Json:
    """Cordon a node that Azure takes away, whoever is on it, and note when: {"node", "remaining", "held"}.

    One that another saga of ours holds is left as it is (`held`), unless this one was told to `take` it. News whose
    hour has passed are believed only if the node or its VM say the same now: an eviction may have been withdrawn.
    """
    cordoned = cordon_at_once(world, order)
    facts = cordoned["node"]
    if not cordoned["held"]:
        told = {**order, "uid": facts["uid"], "pool": facts["pool"]}
        why = f"Azure takes the VM at {order['deadline']}"
        trail.note_node(world, told, trail.NOTICED, why, instance=facts["instance"])
    return {**cordoned, "remaining": nodes.load_of(world.api(order["cluster"]), order["node"]).whole}


def cordon_at_once(world: World, order: Json) -> Json:
    """The cordon of `cordon_evicting`, and nothing else: no pod comes to the node from now on. Twice is once."""
    api = world.api(order["cluster"])
    node = nodes.read_node(api, order)
    config = world.config(order["cluster"])
    pool = config.pool(pool_of(node, config))
    if pool is None:
        raise Busy("foreign", f"node {order['node']} belongs to no pool of the file")
    if not may_grow(pool):
        raise Busy("mode", f"pool {pool.name} is in mode {pool.mode.value}: nothing is written")
    _refuse_old_news(world, pool, node, order)
    facts = _facts(pool, node)
    held = nodes.holder_of(node) not in ("", order["op"]) and not order.get("take")
    if not held:
        nodes.cordon(api, {**order, "uid": facts["uid"]}, **{EVICTING_AT_ANNOTATION: order["deadline"]})
        tell("evicting", cluster=order["cluster"], node=order["node"], deadline=order["deadline"])
    return {"node": facts, "held": held}


def _facts(pool: Pool, node: Json) -> Json:
    """What the rest of the saga needs to know of the node."""
    kind = {"sku": pool.sku, "zone": _zone_of(node, pool), "pool": pool.name}
    ids = {"uid": node["metadata"].get("uid", ""), "instance": machine(node)}
    return {**ids, "pool": pool.name, "pool_kind": pool.kind.value, "budget": budget_key(pool), "kind": kind}


def _zone_of(node: Json, pool: Pool) -> str:
    """The zone as pools name it; "" where the pool has none."""
    label = str((node["metadata"].get("labels") or {}).get("topology.kubernetes.io/zone", ""))
    return next((zone for zone in pool.zones if label == zone or label.endswith(f"-{zone}")), "")


def _refuse_old_news(world: World, pool: Pool, node: Json, order: Json) -> None:
    """Raises Busy for an hour that has passed, where nothing says that the VM goes."""
    now = moment(order["now"])
    if now - moment(order["deadline"]) < LATE or nodes.holder_of(node) == order["op"]:
        return
    told = evicting_at(node)
    if told is not None and now - told < BELIEVED:
        return
    instance = instance_of(world, pool, node)
    if instance is not None and not instance.deallocated and instance.provisioning_state != GOING:
        raise Busy("withdrawn", f"the notice is old, and the VM of node {order['node']} runs")


def note_machine(world: World, order: Json) -> Json:
    """{"vm"}: what hangs on the VM, as long as it can be asked."""
    pool = world.pool(order["cluster"], order["pool"])
    mine = world.compute_of(pool).instance(pool, order["instance"])
    return {"vm": {"instance_id": order["instance"], "nics": list(mine.nics), "os_disk": mine.os_disk}}


def finish_eviction(world: World, order: Json) -> Json:
    """{"gone"}: whether Azure has taken the VM, and nothing of it is left; {"state", "waiting_for"} if not.

    What is left is deleted on the way, the Node object too, where nodes may go at all.
    """
    pool = world.pool_to_finish(order["cluster"], order["pool"])
    compute = world.compute_of(pool)
    try:
        mine = compute.instance(pool, order["instance"])
    except NotFound:
        mine = None
    if mine is not None:
        going = "going" if mine.provisioning_state == GOING else "running"
        state = "deallocated" if mine.deallocated else going
        return {"gone": False, "state": state, "waiting_for": _STILL[state]}
    if may_retire(pool):
        if attached := clear_leftovers(compute, compute.leftovers([pool]), order["vm"]):
            return {"gone": False, "state": "going", "waiting_for": f"{attached} is still there"}
        delete_node_object(world.api(order["cluster"]), order["node"], order["uid"])
    tell("evicted", cluster=order["cluster"], node=order["node"], pool=pool.name)
    trail.note_node(world, order, trail.GONE, "Azure has taken the VM", instance=order["instance"])
    return {"gone": True}


_STILL = {
    "running": "Azure announced an eviction, and the VM is still there",
    "going": "Azure has not ended the VM's deletion",
    "deallocated": "the evicted VM is only deallocated, and could not be deleted",
}


def list_deallocated(world: World, order: Json) -> Json:
    """{"failed"}: the pool's VMs that were evicted and only deallocated, as many as one order can name."""
    pool = world.pool(order["cluster"], order["pool"])
    found = [each.instance_id for each in world.compute_of(pool).instances(pool) if each.deallocated]
    return {"failed": found[:MOST_DEALLOCATED]}


def recall_nodes(world: World, order: Json) -> Json:
    """{cluster, nodes: [{node, op}]}: what the ledger has called back goes back to work; {"opened"}.

    The verdict is stored first: a saga that has yet to cordon its node finds it before and after it does. One that is
    past that finds its cordon gone. A node that can't be written to now is opened by its own saga.
    """
    api, opened = world.api(order["cluster"]), 0
    for each in order["nodes"]:
        verdict = {"node": each["node"], "pool": each["pool"], "op": each["op"], "at": order["now"]}
        world.put_document(
            order["cluster"], verdict_document(each["node"]), {**verdict, "kept": RECALL_REASON, "recalled": True}
        )
        try:
            opened += nodes.uncordon(api, each["node"], each["op"])
        except StaleWrite as error:
            LOG.warning("node %s is called back, but not opened yet: %s", each["node"], error.message)
        trail.note_node(world, {**order, **each}, trail.RECALLED, RECALL_REASON)
        tell("node called back", cluster=order["cluster"], node=each["node"], op=each["op"])
    return {"opened": opened}


def keep_node(world: World, order: Json) -> Json:
    """Undo our cordon, and keep the reason where `status` finds it. Undoing is done in every mode: it takes back.

    With `going` the VM may be on its way out, and no pod may come to a node whose VM is; the sweep looks again.
    """
    world.put_document(
        order["cluster"],
        verdict_document(order["node"]),
        {"node": order["node"], "pool": order["pool"], "op": order["op"], "at": order["now"], "kept": order["why"]},
    )
    if order.get("going"):
        _refuse_going(world, order)
    lost = order.get("kind") == "lost"
    undone = nodes.uncordon(world.api(order["cluster"]), order["node"], order["op"], lost=lost)
    trail.note_node(world, order, trail.KEPT, order["why"], uncordoned=undone)
    tell("node stays", cluster=order["cluster"], node=order["node"], op=order["op"], why=order["why"])
    return {"uncordoned": undone}


def _refuse_going(world: World, order: Json) -> None:
    """Raises Busy while Azure deletes the node's VM, or has deleted it."""
    pool = world.config(order["cluster"]).pool(order["pool"])
    if pool is None:
        return
    try:
        node = world.api(order["cluster"]).get(nodes.path_of(order["node"]))
    except NotFound:
        return
    if parse(node.get("spec", {}).get("providerID", "")) is None:
        return
    instance = instance_of(world, pool, node)
    if instance is None or instance.deallocated or instance.provisioning_state == GOING:
        raise Busy("going", f"the VM of node {order['node']} is being deleted: it stays cordoned")


def registry(world: World) -> Registry:
    """The activities of `replace_evicted`, and what uncordons."""

    made = Registry()
    made.activity(
        world,
        cordon_evicting,
        note_machine,
        finish_eviction,
        list_deallocated,
        keep_node,
        recall_nodes,
    )
    return made
