"""One saga per node: cordon, drain, delete, verify; whatever speaks against it puts the node back to work."""

from __future__ import annotations

from datetime import timedelta

from functions.admission import replan
from functions.drains import OUTDATED
from functions.durable import Json, Orchestration, Steps
from functions.outcomes import LATER, THROTTLED, no
from functions.removals import UNDELETED, UNSEEN
from functions.waiting import BACKOFF, attempt, clock, ledger, once, pause, until
from shared.state.ledger import moment, stamp

COOLDOWN = 600.0  # seconds before a node that stayed is tried again: its reason seldom goes sooner
STALE_KINDS = frozenset({"blocked", "busy", OUTDATED})  # the cluster has changed since the snapshot: the next shows it
TAKEN = "taken"  # Azure takes the node away, and an eviction's saga goes on from here
DEFAULT_DRAIN = 900.0
DEFAULT_COMPLETION = 86_400.0
COMPLETION_PAUSE = 60.0  # what runs for hours is not looked at every few seconds
PASSES_PER_HISTORY = 8
DRAIN_PAUSE = 5.0
GRACE_MARGIN = 30.0  # seconds for a kubelet to end what has had its time; cluster-autoscaler's headroom
HELD_PAUSE = 10.0  # a disruption budget recovers when a pod elsewhere has become ready, which takes a while
REMOVALS = 5  # tries after the first one, each with a history of its own
MOST_PAUSED = timedelta(hours=12)  # by then the sweep, which takes cordons off, is the better one to go on
_DEADLINES = ("deadline", "completion_deadline")


def retire_node(context: Orchestration) -> Steps[Json]:
    """{cluster, op, node, uid, pool, plan, budget, drain_timeout}: take the node away, or leave it, and say why.

    With `dead` its kubelet has been silent for too long, and no plan has begun this. While the cluster cannot be seen
    it pauses: nothing is evicted or deleted, and the time does not count.
    """
    order = context.get_input()
    if "tries" not in order:
        return (yield from _emptied(context, order))
    result: Json = yield context.call_sub_orchestrator("leave_pool", order)
    order = {**order, "going": order.get("going") or result.get("going", False)}
    order["force"] = result.get("kind") == UNDELETED
    if result.get("kind") == UNSEEN and not _is_paused_for_long(context, order):
        context.continue_as_new((yield from _paused(context, order)))
        return {}
    order = _without_pause(order)
    if not result.get("again") or order["tries"] >= REMOVALS:
        return (yield from ended(context, order, result))
    yield from pause(context, HELD_PAUSE)
    context.continue_as_new({**order, "tries": order["tries"] + 1})
    return {}


def _emptied(context: Orchestration, order: Json) -> Steps[Json]:
    """The saga's first half, up to a node that nothing is on; then, or after a pause, it goes on with a new history."""
    if order.get("dead") and "paused" not in order:
        begun = yield from ledger(context, order, "give_up", **{name: order[name] for name in _GIVEN_UP})
        if not begun["ok"]:
            return begun
    drained = yield from _drained(context, order)
    if _is_unseen(drained) and not _is_paused_for_long(context, order):
        context.continue_as_new((yield from _paused(context, order, drained)))
        return {}
    if not drained["ok"]:
        return (yield from ended(context, order, drained))
    context.continue_as_new({**_without_pause(order), "tries": 0})
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
    order = yield from _resumed(context, order)
    drained: Json = yield context.call_sub_orchestrator("drain_node", {**order, **limits})
    return {**drained, "drained": True}


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
        if not seen["ok"] and not order.get("grace_until"):
            if _is_paused_for_long(context, order):
                return seen
            order = yield from _paused(context, order, seen)
            continue
        order = yield from _resumed(context, order)
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


def _paused(context: Orchestration, order: Json, seen: Json | None = None) -> Steps[Json]:
    """Wait a while, longer each time. The ledger is told what `seen` gives for a reason, unless it was before."""
    if seen is not None and "paused" not in order:
        yield from ledger(context, order, "note_pause", node=order["node"], op=order["op"], why=seen["reason"])
    pauses, began = order.get("pauses", 0), order.get("paused") or clock(context)
    wait = BACKOFF[min(pauses, len(BACKOFF) - 1)]
    yield from pause(context, max(wait, (seen or {}).get("retry_after") or 0.0))
    return {**order, "paused": began, "pauses": pauses + 1}


def _resumed(context: Orchestration, order: Json) -> Steps[Json]:
    """The order after a pause: its deadlines lie as far ahead as they did when it began."""
    if "paused" not in order:
        return order
    yield from ledger(context, order, "note_pause", node=order["node"], op=order["op"], over=True)
    lost = context.current_utc_datetime - moment(order["paused"])
    later = {name: stamp(moment(order[name]) + lost) for name in _DEADLINES if name in order}
    return {**_without_pause(order), **later}


def _is_unseen(load: Json) -> bool:
    """Whether the cordon came to nothing for want of an answer; a drain that gave up has paused long enough."""
    return not load["ok"] and load["kind"] in (LATER, THROTTLED) and "drained" not in load


def _without_pause(order: Json) -> Json:
    return {name: order[name] for name in order if name not in ("paused", "pauses")}


def _is_paused_for_long(context: Orchestration, order: Json) -> bool:
    return "paused" in order and context.current_utc_datetime - moment(order["paused"]) >= MOST_PAUSED


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
