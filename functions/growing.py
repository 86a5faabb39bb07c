"""Growing a pool: one orchestration per decision, from the write to instances known by name, or to a fallback."""

from __future__ import annotations

from functions.admission import replan
from functions.durable import Json, Orchestration, Steps
from functions.outcomes import CAPACITY, LATER, STALE, no
from functions.waiting import attempt, draw, finished, ledger, lock, once, pause, unlock

GROWTH_REQUESTS = 20  # two readings, a write, ten polls, and room for a second try
WRITES = 6
LOOKS = 6
LOOK_PAUSE = 10.0


def grow_pool(context: Orchestration) -> Steps[Json]:
    """{cluster, pool, op, add, kind, budget, join_timeout}: ask Azure, wait, count, and plan again if it fell short."""
    order = context.get_input()
    order = {**order, "asked": context.current_utc_datetime.isoformat()}
    yield from draw(context, order, GROWTH_REQUESTS)
    locked = yield from lock(context, order)
    if not locked["granted"] or not _is_open(locked):
        yield from unlock(context, order)
        return no("obsolete", "the growth is over already, or its pool stayed locked")
    ask = _create if order["kind"] == "vm" else _raise_capacity
    asked = yield from ask(context, order, locked)
    yield from unlock(context, order, target=asked.get("target"))
    operation = yield from _awaited(context, order, asked)
    seen = yield from _instances(context, order, operation)
    return (yield from _concluded(context, order, seen))


def _is_open(locked: Json) -> bool:
    return locked["growth"] is not None and locked["growth"]["stage"] == "intended"


def _raise_capacity(context: Orchestration, order: Json, locked: Json) -> Steps[Json]:
    """Write the absolute target under If-Match; {"ok", "target", "tokens"}.

    The target is fixed at the first reading. After a write that failed or whose answer was lost, a capacity that has
    reached the target is taken for ours.
    """
    target = None
    for _ in range(WRITES):
        room = yield from attempt(context, "read_pool", order)
        if not room["ok"]:
            return room
        if target is not None and room["capacity"] >= target:
            return {"ok": True, "target": target, "tokens": []}
        if target is None and room["capacity"] > room["present"] and not locked["others"]:
            yield from _lowered(context, order)
            continue
        target = min(target or room["size"] + order["add"], room["maximum"])
        if target <= room["size"]:
            return no("full", f"pool {order['pool']} is at its maximum of {room['maximum']}")
        written = yield from once(context, "write_capacity", order, target=target, etag=room["etag"])
        if written["ok"]:
            return {"ok": True, "target": target, "tokens": [written["token"]]}
        if written["kind"] not in (STALE, LATER, "throttled"):
            return written
        yield from pause(context, max(1.0, written.get("retry_after") or 0.0))
    return no(STALE, f"the size of pool {order['pool']} was changed by others each time it was to be written")


def _create(context: Orchestration, order: Json, _locked: Json) -> Steps[Json]:
    """Create stand-alone VMs, named after the operation: asking twice makes one of each."""
    asked = yield from attempt(context, "create_vms", order)
    return asked


def _awaited(context: Orchestration, order: Json, asked: Json) -> Steps[Json]:
    """How what was asked for ended: {"ok", "code", "message"}; the first failure speaks for the others."""
    if not asked["ok"] and not asked.get("tokens"):
        return {"ok": False, "asked": False, "code": asked.get("code") or asked["kind"], "message": asked["reason"]}
    waits = {name: order[name] for name in ("cluster", "pool", "budget")}
    tokens = [token for token in asked["tokens"] if token]
    tasks = [context.call_sub_orchestrator("await_operation", {**waits, "token": token}) for token in tokens]
    ends = (yield context.task_all(tasks)) if tasks else []
    failed = next((end for end in ends if not end["ok"]), None)
    if failed is not None:
        return {"ok": False, "asked": True, "code": failed["code"], "message": failed["message"]}
    if not asked["ok"]:
        return {"ok": False, "asked": True, "code": asked.get("code") or asked["kind"], "message": asked["reason"]}
    return {"ok": True, "asked": True, "code": "", "message": ""}


def _instances(context: Orchestration, order: Json, operation: Json) -> Steps[Json]:
    """What there is to show for it: a growth is judged by its instances, whatever the operation says.

    An operation that another one preempted has not failed; its instances may still be on their way.
    """
    fields = {"code": operation["code"], "message": operation["message"], "asked_azure": operation["asked"]}
    for _ in range(LOOKS):
        seen = yield from attempt(context, "inspect_growth", order, **fields)
        if not seen["ok"]:
            return {**seen, "candidates": [], "failed": [], "failures": [], "again": False}
        if operation["ok"] or not seen["creating"] or not operation["asked"]:
            break
        yield from pause(context, LOOK_PAUSE)
    return seen


def _concluded(context: Orchestration, order: Json, seen: Json) -> Steps[Json]:
    """Tell the ledger; where less came than was asked for, let another plan be made at once, then clear up.

    The new plan comes first because pods wait for it. It can do no harm: what failed is remembered, and a growth of the
    same pool finds capacity without an instance under the lock, and gives it back before it asks for more.
    """
    fields = {"candidates": seen["candidates"], "failures": seen["failures"], "join_timeout": order["join_timeout"]}
    concluded = yield from ledger(context, order, "conclude_growth", op=order["op"], **fields)
    delivered = len(concluded["claimed"])
    if delivered >= order["add"]:
        return {"ok": True, "delivered": delivered}
    if seen["again"]:
        yield from once(context, "start_sagas", {"starts": [replan(order)]})
    yield context.call_sub_orchestrator("undo_growth", {**order, "failed": seen["failed"]})
    return {
        "ok": False,
        "kind": CAPACITY,
        "delivered": delivered,
        "codes": [entry["code"] for entry in seen["failures"]],
    }


def undo_growth(context: Orchestration) -> Steps[Json]:
    """{cluster, pool, op, kind, budget, failed}: delete what failed, by id; give back capacity without an instance."""
    order = context.get_input()
    if order["failed"]:
        locked = yield from lock(context, order)
        if not locked["granted"]:
            return no("locked", f"pool {order['pool']} stayed locked")
        deleted = yield from attempt(context, "delete_instances", order)
        yield from unlock(context, order)
        if deleted["ok"]:
            yield from finished(context, order, deleted["token"])
    if order["kind"] == "vm":
        return {"ok": True}
    locked = yield from lock(context, order)
    if not locked["granted"]:
        return no("locked", f"pool {order['pool']} stayed locked")
    if not locked["others"]:
        yield from _lowered(context, order)
    yield from unlock(context, order)
    return {"ok": True}


def _lowered(context: Orchestration, order: Json) -> Steps[Json]:
    """Under the lock: capacity down to the instances there are, if it stands above them."""
    lowered = yield from attempt(context, "lower_capacity", order)
    if lowered["ok"]:
        yield from finished(context, order, lowered["token"])
    return lowered
