"""One saga per node: cordon, drain, delete, verify; whatever speaks against it puts the node back to work."""

from __future__ import annotations

from datetime import timedelta

from functions.admission import replan
from functions.durable import Json, Orchestration, Steps
from functions.outcomes import LATER, THROTTLED, no
from functions.waiting import attempt, clock, draw, finished, ledger, lock, once, pause, unlock, until
from shared.ledger import stamp

RETIREMENT_REQUESTS = 15
COOLDOWN = 600.0  # seconds before a node that stayed is tried again: its reason seldom goes sooner
DEFAULT_DRAIN = 900.0
PASSES_PER_HISTORY = 8
DRAIN_PAUSE = 5.0
HELD_PAUSE = 10.0  # a disruption budget recovers when a pod elsewhere has become ready, which takes a while
DELETIONS = 2
DELETION_TRIES = 5
LOOK_PAUSES = (5.0, 10.0, 20.0, 30.0)  # between looks at what a deletion left


def retire_node(context: Orchestration) -> Steps[Json]:
    """{cluster, op, node, uid, pool, plan, budget, drain_timeout}: take the node away, or leave it, and say why."""
    order = context.get_input()
    patience = timedelta(seconds=order.get("drain_timeout", DEFAULT_DRAIN))
    order = {**order, "deadline": stamp(context.current_utc_datetime + patience)}
    result = yield from _retired(context, order)
    return (yield from ended(context, order, result))


def ended(context: Orchestration, order: Json, result: Json) -> Steps[Json]:
    """Close the saga in the ledger; a node that stays is uncordoned first, and left alone for a while.

    Where idle nodes had to wait for this one, another plan is made: the next event that names them may be far off.
    """
    kept = "" if result["ok"] or result["kind"] == "not-found" else result["reason"]
    if kept:
        yield from attempt(context, "keep_node", order, why=kept)
    gone = "" if kept else order["uid"]
    fields = {"node": order["node"], "op": order["op"], "kept": kept, "cooldown": COOLDOWN, "gone": gone}
    answer = yield from ledger(context, order, "end_retirement", **fields)
    if answer["again"]:
        yield from once(context, "start_sagas", {"starts": [replan(order)]})
    return result


def _retired(context: Orchestration, order: Json) -> Steps[Json]:
    load = yield from attempt(context, "cordon_node", order)
    if not load["ok"]:
        return load
    if load["remaining"] or load["volumes"]:
        drained: Json = yield context.call_sub_orchestrator("drain_node", order)
        if not drained["ok"]:
            return drained
    yield from draw(context, order, RETIREMENT_REQUESTS)
    return (yield from removed(context, order))


def removed(context: Orchestration, order: Json) -> Steps[Json]:
    """Delete a drained node's VM and see it gone, twice if need be: Azure may accept a deletion and fail it."""
    result: Json = no("undeleted", "Azure did not delete the VM")
    for _ in range(DELETIONS):
        deleted = yield from _deleted(context, order)
        if not deleted["ok"]:
            return deleted
        status = yield from finished(context, order, deleted["token"])
        gone = yield from _seen_gone(context, order, deleted["vm"])
        if gone["ok"]:
            return gone
        result = no("undeleted", f"Azure did not delete the VM: {status['code'] or gone['reason']}")
    return result


def _deleted(context: Orchestration, order: Json) -> Steps[Json]:
    """Under the pool's lock; volumes that are still attached are waited for, the lock is not held meanwhile."""
    for _ in range(DELETION_TRIES):
        locked = yield from lock(context, order)
        if not locked["granted"]:
            return no("locked", f"pool {order['pool']} stayed locked")
        deleted: Json = yield from once(context, "delete_node_vm", order)
        noted = {"deleting": order["node"]} if deleted["ok"] else {}
        yield from unlock(context, order, **noted)
        if deleted["ok"] or deleted["kind"] not in ("volumes", LATER, THROTTLED):
            return deleted
        yield from pause(context, max(HELD_PAUSE, deleted.get("retry_after") or 0.0))
    return deleted


def _seen_gone(context: Orchestration, order: Json, vm: Json) -> Steps[Json]:
    reason = "its VM"
    for wait in LOOK_PAUSES:
        seen = yield from attempt(context, "finish_retirement", order, vm=vm)
        if not seen["ok"]:
            return seen
        if seen["gone"]:
            return {"ok": True}
        reason = seen["waiting_for"]
        yield from pause(context, wait)
    return no("present", f"{reason} is still there")


def drain_node(context: Orchestration) -> Steps[Json]:
    """Evict again and again until nothing is left that moves, or the deadline has passed; {"ok"} or why not."""
    order = context.get_input()
    for _ in range(PASSES_PER_HISTORY):
        seen = yield from attempt(context, "drain_pass", order)
        if not seen["ok"]:
            return seen
        if not seen["remaining"] and not seen["volumes"]:
            return {"ok": True}
        if until(context, order["deadline"]) <= 0:
            return no("drain-timeout", f"drain timed out at {clock(context)}: {seen['waiting_for']}")
        wait = HELD_PAUSE if seen["held"] else DRAIN_PAUSE
        yield from pause(context, min(wait, max(1.0, until(context, order["deadline"]))))
    context.continue_as_new(order)
    return {}
