"""A node that Azure takes away: its pods leave while there is time, their new home is planned meanwhile."""

from __future__ import annotations

from datetime import timedelta

from functions.durable import Json, Orchestration, Steps
from functions.outcomes import LATER, THROTTLED, no
from functions.retiring import ended
from functions.waiting import attempt, clock, draw, ledger, once, pause, until
from shared.state.ledger import moment, stamp

PATIENCE = timedelta(minutes=10)  # after its hour; a VM that still runs then was not evicted after all
GOING_PATIENCE = timedelta(hours=1)  # for one that Azure is deleting, or that somebody has to delete
LOOK_PAUSES = (10.0, 10.0, 10.0, 20.0, 20.0, 30.0, 30.0, 60.0)  # between looks after the hour, in each history
HEAD_START = 2.0  # seconds for the look: pods that end are no demand, and some have no successor before they ended
ENOUGH = 10.0  # seconds before the hour; with fewer there is no time to wait
CLEAR_PAUSE = 5.0  # the VMs of a pool are deallocated together, and deleted by one request


def replace_evicted(context: Orchestration) -> Steps[Json]:
    """{cluster, op, node, deadline, look, uid?}: cordon, adopt, evict against the clock, clear up.

    The cordon comes before all else, since every second counts; who else is at work on the node is settled after it.
    The replacement is planned beside this, by a snapshot that shows the node as evicting; with `look` nobody has made
    one yet.
    """
    order = context.get_input()
    if "patience" in order:
        return (yield from _cleared(context, order))
    cordoned = yield from attempt(context, "cordon_evicting", order)
    if not cordoned["ok"]:
        return cordoned
    order = {**order, **cordoned["node"]}
    adopted = yield from ledger(
        context, order, "adopt", op=order["op"], look=order["look"], **{name: order[name] for name in _ADOPTED}
    )
    if not adopted["ok"]:
        return adopted
    if cordoned["held"]:
        cordoned = yield from attempt(context, "cordon_evicting", order, take=True)
        if not cordoned["ok"]:
            return (yield from ended(context, order, cordoned))
    vm = yield from _emptied(context, order, remaining=cordoned["remaining"], look=adopted["look"])
    yield from pause(context, max(0.0, until(context, order["deadline"])))
    patience = stamp(max(moment(order["deadline"]), context.current_utc_datetime) + PATIENCE)
    context.continue_as_new({**order, "vm": vm, "patience": patience})
    return {}


_ADOPTED = ("node", "pool", "kind")


def _emptied(context: Orchestration, order: Json, *, remaining: int, look: bool) -> Steps[Json]:
    """Until the hour: a look at the cluster is begun, while its pods still show, then they go; meanwhile what hangs on
    the VM is noted."""
    if look:
        start = {"name": "look_again", "id": f"look:{order['op']}", "input": _about(order, event=order["op"])}
        yield from once(context, "start_sagas", {"starts": [start]})
    if order["look"] and remaining and until(context, order["deadline"]) > ENOUGH:
        yield from pause(context, HEAD_START)
    tasks = [context.call_activity("note_machine", {**order, "now": clock(context)})]
    if remaining:
        limits = {"deadline": order["deadline"], "grace_until": order["deadline"]}
        tasks.append(context.call_sub_orchestrator("drain_node", {**order, **limits}))
    ends: list[Json] = yield context.task_all(tasks)
    vm: Json = ends[0].get("vm") or {"instance_id": order["instance"], "nics": [], "os_disk": ""}
    return vm


def _cleared(context: Orchestration, order: Json) -> Steps[Json]:
    """Wait for the VM to be gone, then remove what it leaves. One that runs on was not evicted after all; one that is
    only deallocated is deleted, with others of its pool."""
    yield from draw(context, order, len(LOOK_PAUSES), urgent=False)
    asked = False
    for wait in LOOK_PAUSES:
        seen = yield from once(context, "finish_eviction", order)
        if seen["ok"] and seen["gone"]:
            return (yield from ended(context, order, {"ok": True}))
        if not seen["ok"] and seen["kind"] not in (LATER, THROTTLED):
            return (yield from ended(context, order, seen))
        order = {**order, "last": seen["waiting_for"] if seen["ok"] else order.get("last", "")}
        if seen["ok"] and seen["state"] == "deallocated" and not asked:
            yield from _clear_pool(context, order)
            asked = True
        if _out_of_patience(context, order, seen):
            return (yield from ended(context, {**order, "going": True}, no("withdrawn", order["last"])))
        yield from pause(context, max(wait, seen.get("retry_after") or 0.0))
    context.continue_as_new(order)
    return {}


def _out_of_patience(context: Orchestration, order: Json, seen: Json) -> bool:
    left = until(context, order["patience"])
    if seen["ok"] and seen["state"] == "running":
        return left <= 0
    return left + GOING_PATIENCE.total_seconds() <= 0


def _clear_pool(context: Orchestration, order: Json) -> Steps[None]:
    """Let the pool's deallocated VMs be deleted, unless that is about to be done."""
    claimed = yield from ledger(context, order, "claim", key=f"clear:{order['pool']}")
    if claimed["granted"]:
        what = {name: order[name] for name in ("pool", "budget", "pool_kind")}
        op = f"{order['op']}-{int(moment(clock(context)).timestamp())}"
        start = {"name": "clear_deallocated", "id": f"clear:{op}", "input": _about(order, op=op, **what)}
        yield from once(context, "start_sagas", {"starts": [start]})


def _about(order: Json, **more: object) -> Json:
    return {"cluster": order["cluster"], **more}


def clear_deallocated(context: Orchestration) -> Steps[Json]:
    """{cluster, pool, op, budget, pool_kind}: delete all VMs of the pool that were evicted and only deallocated."""
    order = context.get_input()
    yield from pause(context, CLEAR_PAUSE)
    yield from ledger(context, order, "unclaim", key=f"clear:{order['pool']}")
    found = yield from attempt(context, "list_deallocated", order)
    if not found["ok"] or not found["failed"]:
        return found
    undo = {**order, "kind": order["pool_kind"], "failed": found["failed"]}
    cleared: Json = yield context.call_sub_orchestrator("undo_growth", undo)
    return cleared
