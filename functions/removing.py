"""Removals: the drained nodes of a pool are deleted together, however many sagas wait for it.

For whoever takes nodes away (of any pool kind): a saga whose node is drained calls `leave_pool` as a sub-orchestration,
{cluster, op, node, pool, budget, tries, force?}, and gets {"ok": true} once VM, NICs, OS disk and Node object are gone,
or why not; `again` where another try may help, `going` where the VM may be on its way out. Its node must stand in the
ledger under its op (`begin` or `adopt`), cordoned in that op's name.

The sagas queue in the ledger. The first one of a pool starts a removal, which waits for the pool's lock, takes all that
are ready by then, has one activity look at each of them again and ask Azure once for those that may go, gives the lock
back, and then watches them: each saga is told of its own node as soon as that is gone, so one that hangs holds up
nobody. A pool that is busy (an agent pool takes one operation at a time) is asked again, together with whoever has
become ready meanwhile: the longer it is busy, the fewer calls there are.
"""

from __future__ import annotations

from datetime import timedelta

from functions.durable import Json, Orchestration, Steps
from functions.outcomes import LATER, STALE, THROTTLED, no
from functions.removals import ENDING, UNDELETED, UNSEEN
from functions.waiting import draw, ledger, lock, once, pause, unlock, until
from shared.state.ledger import DELETING, GONE, KEPT, READY, RECALL_REASON, stamp

PASSING = (STALE, LATER, THROTTLED, UNSEEN, "volumes", "locked", ENDING, UNDELETED)  # another try may go through
GATHER_PAUSE = 3.0  # seconds for other nodes of the pool to become ready, where some are about to
MOST_AT_ONCE = 100  # nodes per call: their re-checks must fit into the time of a lock, their names into 32 kB
REMOVAL_REQUESTS = 4
LOOK_REQUESTS = 15
ASK_PATIENCE = timedelta(minutes=30)  # for a pool that is busy
ASK_PAUSES = (10.0, 15.0, 30.0, 60.0)  # between rounds while the pool is busy; the last one repeats
HANGING = timedelta(minutes=15)  # a deletion takes a minute; one that takes this long may take for ever
LOOK_PAUSES = (10.0, 10.0, 10.0, 15.0, 20.0, 30.0)  # between looks at what is being deleted; the last one repeats
LOOKS_PER_HISTORY = 6
MOST_STALLED = 4  # looks at a VM that Azure says it is through with
WAIT_PAUSES = (5.0, 5.0, 10.0, 10.0, 15.0, 20.0, 30.0)
WAITS_PER_HISTORY = 7
WAIT_PATIENCE = timedelta(minutes=90)  # longer than any removal takes: then this one is lost


def leave_pool(context: Orchestration) -> Steps[Json]:
    """Queue a drained node for the next removal of its pool, and wait for what becomes of it."""
    order = context.get_input()
    turns = order.get("turns", 0)
    patience = order.get("removed_by") or stamp(context.current_utc_datetime + WAIT_PATIENCE)
    mine = {"node": order["node"], "op": order["op"]}
    for _ in range(WAITS_PER_HISTORY):
        fields = mine if turns else {**mine, "ready": True, "force": order.get("force", False)}
        answer = yield from ledger(context, order, "depart", **fields)
        if answer["state"] == "lead":
            yield from once(context, "start_sagas", {"starts": [_removal(order, answer)]})
        elif answer["state"] != "wait":
            return _verdict(answer)
        yield from pause(context, WAIT_PAUSES[min(turns, len(WAIT_PAUSES) - 1)])
        turns += 1
    if until(context, patience) <= 0:
        return no("lost-removal", "nobody has told what became of its removal", again=True, going=True)
    context.continue_as_new({**order, "turns": turns, "removed_by": patience})
    return {}


def _removal(order: Json, lead: Json) -> Json:
    given = {name: order[name] for name in ("cluster", "pool", "budget")}
    order = {**given, "op": lead["removal"], "company": lead["company"]}
    return {"name": "remove_nodes", "id": f"remove:{lead['removal']}", "input": order}


def _verdict(answer: Json) -> Json:
    if answer["state"] == "gone":
        return {"ok": True}
    if answer["state"] == "recalled":
        return no("recalled", RECALL_REASON)
    if answer["state"] == "unknown":
        return no("forgotten", "the ledger knows of no retirement of this node")
    kind = answer["kind"]
    return no(kind, answer["why"], again=kind in PASSING, going=kind == UNDELETED)


def remove_nodes(context: Orchestration) -> Steps[Json]:
    """{cluster, pool, op, budget, company}: delete the pool's drained nodes in one call, and see them gone."""
    order = context.get_input()
    if "left" in order:
        return (yield from _watched(context, order))
    if "patience" not in order:
        order = {**order, "patience": stamp(context.current_utc_datetime + ASK_PATIENCE)}
        if order["company"]:
            yield from pause(context, GATHER_PAUSE)
    yield from draw(context, order, REMOVAL_REQUESTS, urgent=False)
    asked = yield from _asked(context, order)
    if "wait" in asked:
        rounds = order.get("rounds", 0)
        yield from pause(context, max(ASK_PAUSES[min(rounds, len(ASK_PAUSES) - 1)], asked["wait"]))
        context.continue_as_new({**order, "rounds": rounds + 1})
    elif asked["left"]:
        deadline = stamp(context.current_utc_datetime + HANGING)
        context.continue_as_new({**order, "left": asked["left"], "deadline": deadline})
    return {"ok": True}


def _asked(context: Orchestration, order: Json) -> Steps[Json]:
    """Under the pool's lock: {"left": the nodes whose VMs Azure deletes}, or {"wait": seconds} at least before
    another round."""
    locked = yield from lock(context, order)
    taken = yield from ledger(context, order, "take_departing", pool=order["pool"], op=order["op"], most=MOST_AT_ONCE)
    nodes = [each["node"] for each in taken["nodes"]]
    if not locked["granted"]:
        yield from _note(context, order, kept=_all(nodes, "locked", f"pool {order['pool']} stayed locked"))
        return {"left": []}
    if not nodes:
        yield from unlock(context, order)
        return {"left": []}
    answer = yield from once(context, "delete_node_vms", order, nodes=taken["nodes"])
    refused = answer["refused"] if answer["ok"] else answer["kind"]
    others = [node for node in nodes if node not in answer.get("kept", {})]
    kept = answer.get("kept", {})
    if refused in (STALE, LATER, THROTTLED) and until(context, order["patience"]) > 0:
        sure = answer["ok"] and not answer["asked"]
        noted = yield from _note(context, order, kept=kept, ready=others if sure else [])
        yield from unlock(context, order)
        if sure and not noted.get("gathers", True):  # nothing in histories of earlier releases
            return {"left": []}
        return {"left": [], "wait": answer.get("retry_after") or 0.0}
    if refused:
        kept = {**kept, **_all(others, refused, answer["reason"])}
    yield from _note(context, order, kept=kept, deleting=answer.get("deleting", []))
    yield from unlock(context, order)
    return {"left": answer.get("deleting", [])}


def _watched(context: Orchestration, order: Json) -> Steps[Json]:
    """Look until all are gone, or those that are left have had their time."""
    left, looks, stalls = order["left"], order.get("looks", 0), order.get("stalls", 0)
    yield from draw(context, order, LOOK_REQUESTS)
    wait = LOOK_PAUSES[min(looks, len(LOOK_PAUSES) - 1)]
    for _ in range(LOOKS_PER_HISTORY):
        yield from pause(context, wait)
        seen = yield from once(context, "look_at_removal", order, left=left)
        looks += 1
        stalls += bool(seen["ok"] and seen["stalled"])
        kept = _given_up(context, order, left, seen, stalls)
        gone = seen["gone"] if seen["ok"] else []
        if gone or kept:
            yield from _note(context, order, gone=gone, kept=kept)
        left = [node for node in left if node not in gone and node not in kept]
        if not left:
            return {"ok": True}
        wait = max(LOOK_PAUSES[min(looks, len(LOOK_PAUSES) - 1)], seen.get("retry_after") or 0.0)
    context.continue_as_new({**order, "left": left, "looks": looks, "stalls": stalls})
    return {}


def _given_up(context: Orchestration, order: Json, left: list[str], seen: Json, stalls: int) -> dict[str, list[str]]:
    """Nodes that are not waited for any longer, and why."""
    if not seen["ok"]:
        final = seen["kind"] not in (STALE, LATER, THROTTLED)
        return _all(left, UNDELETED, seen["reason"]) if final or until(context, order["deadline"]) <= 0 else {}
    refused = f"Azure did not delete the VM: {seen['why']}" if seen["why"] else "its VM is still there"
    stalled = _all(seen["stalled"], UNDELETED, refused) if seen["why"] or stalls >= MOST_STALLED else {}
    if until(context, order["deadline"]) > 0:
        return stalled
    late = {node: [UNDELETED, f"{what} is still there"] for node, what in seen["waiting"].items()}
    return late | stalled


def _note(context: Orchestration, order: Json, **noted: object) -> Steps[Json]:
    named = {"gone": GONE, "ready": READY, "kept": KEPT, "deleting": DELETING}
    fields = {named[name]: value for name, value in noted.items() if value}
    answer = yield from ledger(context, order, "note_departures", op=order["op"], **fields)
    return answer


def _all(nodes: list[str], kind: str, why: str) -> dict[str, list[str]]:
    return {node: [kind, why] for node in nodes}
