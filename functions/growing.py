"""Growing a pool: one orchestration per decision, from the write to instances known by name, or to a fallback."""

from __future__ import annotations

from datetime import timedelta

from functions.admission import FIRST_LEASE, replan
from functions.durable import Json, Orchestration, Steps
from functions.outcomes import CAPACITY, LATER, STALE, THROTTLED, no
from functions.preparing import GROWTH_REQUESTS
from functions.waiting import LOCK_SECONDS, attempt, clock, draw, finished, ledger, lock, once, pause, unlock, until
from shared.state.ledger import INTENDED, stamp

ROUNDS = 8  # readings with a write each
ROUNDS_PER_HISTORY = 2
LOOKS = 6
LOOKS_PER_HISTORY = 6
LOOK_PAUSE = 10.0
BLIND = timedelta(minutes=30)  # how long a growth waits for Azure to list its instances
AGAIN = (STALE, LATER, THROTTLED)
_PREPARED = ("written", "locked", "drawn")
UNDO_TRIES = 12  # while others are at work on the pool; then the sweep has to do it
UNDO_PAUSES = (30.0, 60.0, 120.0)  # seconds; the last one repeats
_SENT = ("target", "granted", "short")  # of a write whose answer may have been lost


def grow_pool(context: Orchestration) -> Steps[Json]:
    """{cluster, pool, op, add, kind, budget, join_timeout}: ask Azure, wait, count, and plan again if it fell short.

    While nobody can say what it came to, a growth stays what the ledger has it for, until its deadline: given up, its
    nodes would be bought once more.
    """
    order = context.get_input()
    if "operation" not in order:
        begun = order.get("written", {}).get("at") or stamp(context.current_utc_datetime)
        order = {**order, "asked": begun}
        operation = yield from _asked(context, order)
        if operation is None:
            return no("obsolete", "the growth is over already, or its pool stayed locked")
        known = {"asked": operation.get("since", order["asked"]), "add": operation.get("granted", order["add"])}
        context.continue_as_new({**_bare(order), **known, "operation": operation})
        return {}
    operation = order["operation"]
    seen: Json | None = operation.pop("seen", None)
    if seen is None or not _is_seen(operation, seen, 1):
        seen = yield context.call_sub_orchestrator("look_at_growth", order)
    if not seen["ok"] and seen["kind"] in AGAIN:
        return seen
    return (yield from _concluded(context, order, seen))


def _asked(context: Orchestration, order: Json) -> Steps[Json | None]:
    """How Azure's operation ended; None when there was nothing (more) to ask for.

    What cannot be asked for at all (a quota, a maximum, a zone that refuses) is planned elsewhere at once: the nodes
    that can be had may take minutes.
    """
    if order["kind"] == "aks":
        yield from _paid(context, order)
        ended: Json | None = yield context.call_sub_orchestrator("ask_agent_pool", _bare(order))
        return ended
    early = order.get("written")
    if early is not None and (early["ok"] or early["kind"] not in AGAIN):
        asked = _told(early, order)
    else:
        if early is not None:
            yield from pause(context, max(1.0, early.get("retry_after") or 0.0))
        locked = yield from _entered(context, order)
        if not locked["granted"]:
            yield from ledger(context, order, "drop_growth", op=order["op"])
            yield from once(context, "start_sagas", {"starts": [_replan(order, "locked")]})
            return None
        if not _is_open(locked):
            yield from unlock(context, order)
            return None
        asked = yield context.call_sub_orchestrator("ask_azure", _wish(order, locked, early))
    granted = asked.get("granted", order["add"]) if asked["ok"] else order["add"]
    if granted < order["add"]:
        fewer = {"add": granted, "failures": asked["short"], "zones": asked.get("zones", ())}
        yield from unlock(context, order, target=asked["target"], **fewer)
        yield from once(context, "start_sagas", {"starts": [_replan(order, "short")]})
    else:
        yield from unlock(context, order, target=asked.get("target"))
    operation = yield from _awaited(context, {**order, "add": granted}, asked)
    return {**operation, "granted": granted}


def _told(early: Json, order: Json) -> Json:
    """What became of the write that was made when the growth was begun."""
    if early["ok"]:
        sent = {"target": early["target"], "granted": order["add"], "short": []}
        return {"ok": True, "tokens": [early["token"]], "hurry": early["hurry"], **sent}
    return {name: value for name, value in early.items() if name not in ("target", "at")}


def _wish(order: Json, locked: Json, early: Json | None) -> Json:
    """For `ask_azure`; an early write whose answer was none may have gone through."""
    wish = {**_bare(order), "phantom": locked.get("phantom", 0)}
    if early is None:
        return wish
    return {**wish, "rounds": 1, "target": early["target"], "granted": order["add"], "short": []}


def _replan(order: Json, why: str) -> Json:
    """Another look, beside the one that the growth's end may ask for."""
    return replan({**order, "op": f"{order['op']}.{why}"})


def _entered(context: Orchestration, order: Json) -> Steps[Json]:
    """The pool's lock, once the request budget allows a write. Whoever began the growth has seen to both already
    (`drawn`: how long to wait, `locked`: the ledger's answer), see `functions.preparing`."""
    given = order.get("locked")
    if given and order["drawn"]:
        yield from unlock(context, order)
        given = None
    yield from _paid(context, order)
    if given and until(context, given["until"]) > LOCK_SECONDS / 2:
        told = {name: given.get(name, 0) for name in ("others", "phantom")}
        return {"granted": True, **told, "growth": {"stage": INTENDED}}
    return (yield from lock(context, order))


def _paid(context: Orchestration, order: Json) -> Steps[None]:
    if "drawn" not in order:
        yield from draw(context, order, GROWTH_REQUESTS)
    elif order["drawn"]:
        yield from pause(context, order["drawn"])


def _bare(order: Json) -> Json:
    """Without what was prepared for the first write: by now it is out of date."""
    return {name: order[name] for name in order if name not in _PREPARED}


def _is_open(locked: Json) -> bool:
    return locked["growth"] is not None and locked["growth"]["stage"] == INTENDED


def ask_azure(context: Orchestration) -> Steps[Json]:
    """Under the pool's lock: create VMs, or write the capacity; {"ok", "target", "tokens"}.

    VMs are named after the operation, so asking twice makes one of each. A capacity is absolute, and fixed at the first
    reading: after a write that failed or whose answer was lost, one that has reached it is taken for ours.
    """
    order = context.get_input()
    if order["kind"] == "vm":
        return (yield from attempt(context, "create_vms", order))
    for _ in range(ROUNDS_PER_HISTORY):
        answer = yield from _round(context, order)
        if answer["ok"] or answer["kind"] not in AGAIN:
            return answer
        rounds = order.get("rounds", 0) + 1
        sent = {name: answer[name] for name in _SENT if name in answer}
        order = {**order, "rounds": rounds, **sent}
        if rounds >= ROUNDS:
            return answer
        yield from pause(context, max(1.0, answer.get("retry_after") or 0.0))
    context.continue_as_new(order)
    return {}


def _round(context: Orchestration, order: Json) -> Steps[Json]:
    """Read and write once. A refusal carries the target, once there was one: Azure may have taken it all the same.

    While Azure is at work, capacity without an instance may belong to another growth, or to an administrator's. When it
    is not, it belongs to nobody: asked for again with what is wanted now, it would be bought by mistake.
    """
    target = order.get("target")
    sent = {name: order[name] for name in _SENT if name in order}
    room = yield from once(context, "read_pool", order)
    if room["ok"] and target is None and room["capacity"] > room["present"] and not room["busy"]:
        yield from _lowered(context, order)
        room = yield from once(context, "read_pool", order)
    if not room["ok"]:
        return {**room, **sent}
    if target is not None and _is_reached(target, room["capacity"], order):
        return {"ok": True, "tokens": [], **sent}
    wanted = room["size"] + room["may_add"]
    if not room["may_add"]:
        return no("short", room["message"], code=room["code"], **sent)
    if target is None:
        sent = {"target": wanted, "granted": room["may_add"], "short": room["short"]}
    else:
        wanted = min(target, wanted)
    written = yield from once(context, "write_capacity", order, target=wanted, etag=room["etag"])
    if written["ok"]:
        return {"ok": True, "tokens": [written["token"]], "hurry": written["hurry"], **sent}
    return {**written, **sent} if target is not None or written["kind"] in AGAIN else written


def _is_reached(target: int, capacity: int, order: Json) -> bool:
    """Whether the earlier write went through; where capacity was asked for in vain it stood above the target before."""
    return capacity == target if order.get("phantom") else capacity >= target


def _awaited(context: Orchestration, order: Json, asked: Json) -> Steps[Json]:
    """How what was asked for ended: {"ok", "asked", "code", "message"}; the first failure speaks for the others."""
    waits = {name: order[name] for name in ("cluster", "pool", "budget")} | {"hurry": asked.get("hurry", False)}
    tokens = [token for token in asked.get("tokens", ()) if token]
    if len(tokens) == 1:
        waits["growth"] = {name: order[name] for name in ("cluster", "pool", "op", "add", "kind", "asked")}
    tasks = [context.call_sub_orchestrator("await_operation", {**waits, "token": token}) for token in tokens]
    ends = (yield context.task_all(tasks)) if tasks else []
    failed = next((end for end in ends if not end["ok"]), None)
    if failed is not None:
        seen = {"seen": failed["seen"]} if "seen" in failed else {}
        return {"ok": False, "asked": True, "code": failed["code"], "message": failed["message"], **seen}
    if not asked["ok"]:
        code, sent = asked.get("code") or asked["kind"], bool(tokens) or asked.get("target") is not None
        return {"ok": False, "asked": sent, "code": code, "message": asked["reason"], "zone": asked.get("zone", "")}
    return {"ok": True, "asked": True, "code": "", "message": ""}


def look_at_growth(context: Orchestration) -> Steps[Json]:
    """What there is to show for it: a growth is judged by its instances, whatever the operation says.

    An operation that another one preempted has not failed; its instances may still be on their way.
    """
    order = context.get_input()
    operation, looks = order["operation"], order.get("looks", 0)
    patience = order.get("patience") or stamp(context.current_utc_datetime + BLIND)
    fields = {"code": operation["code"], "message": operation["message"], "asked_azure": operation["asked"]}
    fields["zone"] = operation.get("zone", "")
    for _ in range(LOOKS_PER_HISTORY):
        seen = yield from once(context, "inspect_growth", order, **fields)
        looks += 1
        if _is_seen(operation, seen, looks) or until(context, patience) <= 0:
            return seen if seen["ok"] else {**seen, "candidates": [], "failed": [], "failures": [], "again": False}
        yield from pause(context, max(LOOK_PAUSE, seen.get("retry_after") or 0.0))
    context.continue_as_new({**order, "looks": looks, "patience": patience})
    return {}


def _is_seen(operation: Json, seen: Json, looks: int) -> bool:
    if not seen["ok"]:
        return seen["kind"] not in AGAIN
    return operation["ok"] or not operation["asked"] or not seen["creating"] or looks >= LOOKS


def _concluded(context: Orchestration, order: Json, seen: Json) -> Steps[Json]:
    """Tell the ledger; where less came than was asked for, let another plan be made at once, then clear up.

    The new plan comes first because pods wait for it. It can do no harm: what failed is remembered, and a growth of the
    same pool finds capacity without an instance under the lock, and gives it back before it asks for more.
    """
    fields = {"candidates": seen["candidates"], "failures": seen["failures"], "join_timeout": order["join_timeout"]}
    look = replan(order)
    if seen["again"]:
        fields["news"] = {"event": look["id"], "holder": look["id"], "lease": FIRST_LEASE, "force": True}
    concluded = yield from ledger(context, order, "conclude_growth", op=order["op"], add=order["add"], **fields)
    delivered = len(concluded["claimed"])
    if delivered >= order["add"]:
        yield from once(context, "state_growth", order, instances=concluded["claimed"])
        return {"ok": True, "delivered": delivered}
    admission, tasks = concluded.get("admission", {}), []
    if admission.get("role") == "lead":
        leading = {**look["input"], "view": admission["view"]}
        tasks.append(context.call_sub_orchestrator(look["name"], leading, look["id"]))
    if delivered:
        told = {**order, "now": clock(context), "instances": concluded["claimed"]}
        tasks.append(context.call_activity("state_growth", told))
    tasks.append(context.call_sub_orchestrator("undo_growth", {**order, "failed": seen["failed"]}))
    yield context.task_all(tasks)
    return {
        "ok": False,
        "kind": CAPACITY,
        "delivered": delivered,
        "codes": [entry["code"] for entry in seen["failures"]],
    }


def undo_growth(context: Orchestration) -> Steps[Json]:
    """{cluster, pool, op, kind, budget, failed}: delete what failed, by id; give back capacity without an instance."""
    order = context.get_input()
    if order["kind"] == "aks":
        operation = order.get("operation", {})
        nothing = operation.get("carried") or not operation.get("asked", True)  # who asked for it clears up
        return {"ok": True} if nothing else (yield context.call_sub_orchestrator("clear_agent_pool", order))
    if order["failed"]:
        locked = yield from lock(context, order)
        if not locked["granted"]:
            return no("locked", f"pool {order['pool']} stayed locked")
        deleted = yield from attempt(context, "delete_instances", order)
        yield from unlock(context, order)
        if deleted["ok"]:
            yield from finished(context, order, deleted["token"])
        context.continue_as_new({**order, "failed": []})
        return {}
    return {"ok": True} if order["kind"] == "vm" else (yield from _given_back(context, order))


def _given_back(context: Orchestration, order: Json) -> Steps[Json]:
    """Capacity without an instance, as soon as nobody can be waiting for it any more."""
    locked = yield from lock(context, order)
    if not locked["granted"]:
        return no("locked", f"pool {order['pool']} stayed locked")
    lowered = yield from _lowered(context, order)
    yield from unlock(context, order, lowered=lowered["ok"] and not lowered.get("busy"))
    tries = order.get("tries", 0) + 1
    if lowered.get("busy") and tries < UNDO_TRIES:
        yield from pause(context, UNDO_PAUSES[min(tries, len(UNDO_PAUSES)) - 1])
        context.continue_as_new({**order, "tries": tries})
    return {"ok": True}


def _lowered(context: Orchestration, order: Json) -> Steps[Json]:
    """Under the lock: capacity down to the instances there are, if it stands above them and Azure is done with it."""
    lowered = yield from attempt(context, "lower_capacity", order)
    if lowered["ok"]:
        yield from finished(context, order, lowered["token"])
    return lowered
