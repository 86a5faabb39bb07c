"""A node that Azure takes away: its pods leave while there is time, their new home is planned meanwhile."""

from __future__ import annotations

from functions.durable import Json, Orchestration, Steps
from functions.outcomes import LATER, THROTTLED, no
from functions.retiring import ended
from functions.waiting import attempt, ledger, once, pause, until

AFTERMATH = 60  # looks after the deadline: with their pauses ten minutes, then the notice is taken for withdrawn
LOOKS_PER_HISTORY = 8
LOOK_PAUSE = 10.0


def replace_evicted(context: Orchestration) -> Steps[Json]:
    """{cluster, op, node, uid, pool, instance, deadline, budget}: adopt, cordon, evict against the clock, clear up.

    The replacement is planned beside this, by the snapshot that shows the node as evicting.
    """
    order = context.get_input()
    if "looks" in order:
        return (yield from _cleared(context, order))
    adopted = yield from ledger(context, order, "adopt", node=order["node"], op=order["op"], pool=order["pool"])
    if not adopted["ok"]:
        return adopted
    cordoned = yield from attempt(context, "cordon_evicting", order)
    if not cordoned["ok"] and cordoned["kind"] != "not-found":
        return (yield from ended(context, order, cordoned))
    if cordoned["ok"] and cordoned["remaining"]:
        limits = {"deadline": order["deadline"], "grace_until": order["deadline"]}
        yield context.call_sub_orchestrator("drain_node", {**order, **limits})
    yield from pause(context, max(0.0, until(context, order["deadline"])))
    context.continue_as_new({**order, "looks": 0})
    return {}


def _cleared(context: Orchestration, order: Json) -> Steps[Json]:
    """Wait for the VM to be gone, then remove what it leaves. One that stays was not evicted after all."""
    looks = order["looks"]
    for _ in range(LOOKS_PER_HISTORY):
        seen = yield from once(context, "finish_eviction", order)
        if seen["ok"] and seen["gone"]:
            return (yield from ended(context, order, {"ok": True}))
        if not seen["ok"] and seen["kind"] not in (LATER, THROTTLED):
            return (yield from ended(context, order, seen))
        looks += 1
        if looks >= AFTERMATH:
            reason = "Azure announced an eviction, and the VM is still there"
            return (yield from ended(context, order, no("withdrawn", reason)))
        yield from pause(context, max(LOOK_PAUSE, seen.get("retry_after") or 0.0))
    context.continue_as_new({**order, "looks": looks})
    return {}
