"""One saga per node: cordon, drain, delete, verify; whatever speaks against it puts the node back to work."""

from __future__ import annotations

from datetime import timedelta

from functions.admission import replan
from functions.durable import Json, Orchestration, Steps
from functions.outcomes import LATER, THROTTLED, no
from functions.removals import UNDELETED
from functions.waiting import attempt, clock, ledger, once, pause, until
from shared.state.ledger import stamp

COOLDOWN = 600.0  # seconds before a node that stayed is tried again: its reason seldom goes sooner
STALE_KINDS = frozenset({"blocked", "busy"})  # a pod has come since the snapshot: the next one shows it
TAKEN = "taken"  # Azure takes the node away, and an eviction's saga goes on from here
DEFAULT_DRAIN = 900.0
DEFAULT_COMPLETION = 86_400.0
COMPLETION_PAUSE = 60.0  # what runs for hours is not looked at every few seconds
PASSES_PER_HISTORY = 8
DRAIN_PAUSE = 5.0
GRACE_MARGIN = 30.0  # seconds for a kubelet to end what has had its time; cluster-autoscaler's headroom
HELD_PAUSE = 10.0  # a disruption budget recovers when a pod elsewhere has become ready, which takes a while
REMOVALS = 5  # tries after the first one, each with a history of its own


def retire_node(context: Orchestration) -> Steps[Json]:
    """{cluster, op, node, uid, pool, plan, budget, drain_timeout}: take the node away, or leave it, and say why.

    With `dead` its kubelet has been silent for too long, and no plan has begun this.
    """
    order = context.get_input()
    if "tries" not in order:
        if order.get("dead"):
            begun = yield from ledger(context, order, "give_up", **{name: order[name] for name in _GIVEN_UP})
            if not begun["ok"]:
                return begun
        drained = yield from _drained(context, order)
        if not drained["ok"]:
            return (yield from ended(context, order, drained))
        context.continue_as_new({**order, "tries": 0})
        return {}
    result: Json = yield context.call_sub_orchestrator("leave_pool", order)
    order = {**order, "going": order.get("going") or result.get("going", False)}
    order["force"] = result.get("kind") == UNDELETED
    if not result.get("again") or order["tries"] >= REMOVALS:
        return (yield from ended(context, order, result))
    yield from pause(context, HELD_PAUSE)
    context.continue_as_new({**order, "tries": order["tries"] + 1})
    return {}


_GIVEN_UP = ("node", "op", "pool", "limit")


def ended(context: Orchestration, order: Json, result: Json) -> Steps[Json]:
    """Close the saga in the ledger; a node that stays is uncordoned first, and left alone for a while; where the
    snapshot did not show yet what holds it, for no longer than until the next one.

    Where idle nodes had to wait for this one, another plan is made: the next event that names them may be far off.
    """
    kept = "" if result["ok"] or result["kind"] in ("not-found", TAKEN) else result["reason"]
    if kept:
        yield from attempt(context, "keep_node", order, why=kept, kind=result["kind"])
    gone = "" if kept or (not result["ok"] and result["kind"] == TAKEN) else order["uid"]
    fields: Json = {"node": order["node"], "op": order["op"], "kept": kept, "cooldown": COOLDOWN, "gone": gone}
    fields["stale"] = bool(kept) and result["kind"] in STALE_KINDS
    answer = yield from ledger(context, order, "end_retirement", **fields)
    if answer["again"]:
        yield from once(context, "start_sagas", {"starts": [replan(order)]})
    return result


def _drained(context: Orchestration, order: Json) -> Steps[Json]:
    load = yield from attempt(context, "cordon_node", order)
    if not load["ok"]:
        return load
    if not load["remaining"] and not load["waiting"] and not load["volumes"]:
        return {"ok": True}
    patience = timedelta(seconds=order.get("drain_timeout", DEFAULT_DRAIN))
    limits = {"deadline": stamp(context.current_utc_datetime + patience), "expected": load["expected"]}
    drained: Json = yield context.call_sub_orchestrator("drain_node", {**order, **limits})
    return drained


def _is_late(context: Orchestration, order: Json, seen: Json) -> bool:
    """Whether the drain has had its time. Who was evicted before that may use all of their own time to end, and so may
    those whose turn comes only then: an eviction can't be taken back."""
    if until(context, order["deadline"]) > 0:
        return False
    ends_at = seen["ends_at"] if seen["ok"] and not order.get("grace_until") else ""
    return not ends_at or until(context, ends_at) + GRACE_MARGIN <= 0


def drain_node(context: Orchestration) -> Steps[Json]:
    """Evict again and again until nothing is left that moves, or the deadline has passed; {"ok"} or why not.

    Pods that run to their end are waited for, with a deadline of their own, once all others are gone.
    """
    order = context.get_input()
    for _ in range(PASSES_PER_HISTORY):
        seen = yield from once(context, "drain_pass", order)
        if not seen["ok"] and seen["kind"] not in (LATER, THROTTLED):
            return seen
        if seen["ok"] and not seen["remaining"] and not seen["waiting"] and not seen["volumes"]:
            return {"ok": True}
        order = yield from _waiting(context, order, seen)
        if _is_late(context, order, seen):
            waiting_for = seen["waiting_for"] if seen["ok"] else seen["reason"]
            what = "pods had all the time that they may have" if order.get("waiting") else "drain timed out"
            return no("drain-timeout", f"{what} at {clock(context)}: {waiting_for}")
        yield from pause(context, _wait(context, order, seen))
    context.continue_as_new(order)
    return {}


def _waiting(context: Orchestration, order: Json, seen: Json) -> Steps[Json]:
    """The order, with the deadline of what is waited for from now on; the ledger is told of every change."""
    if order.get("grace_until") or not seen["ok"]:
        return order
    waits = bool(seen["waiting"] and not seen["remaining"])
    if waits == bool(order.get("waiting")):
        return order
    yield from ledger(context, order, "note_waiting", node=order["node"], op=order["op"], over=not waits)
    seconds = (
        order.get("completion_timeout", DEFAULT_COMPLETION) if waits else order.get("drain_timeout", DEFAULT_DRAIN)
    )
    deadline = order.get("completion_deadline") if waits else None
    deadline = deadline or stamp(context.current_utc_datetime + timedelta(seconds=seconds))
    kept = {"completion_deadline": deadline} if waits else {}
    return {**order, **kept, "waiting": waits, "deadline": deadline}


def _wait(context: Orchestration, order: Json, seen: Json) -> float:
    if order.get("waiting"):
        return min(COMPLETION_PAUSE, max(1.0, until(context, order["deadline"])))
    wait = HELD_PAUSE if seen["ok"] and seen["held"] else max(DRAIN_PAUSE, seen.get("retry_after") or 0.0)
    left = until(context, order["deadline"])
    return min(wait, max(1.0, left)) if left > 0 else wait
