"""Nodes with a saga in flight: which may begin, which are called back, and what became of them."""

from __future__ import annotations

from dataclasses import replace

from shared.state.ledger import (
    COOLING_LIMIT,
    DELETING,
    DRAINING,
    GONE,
    GONE_LIMIT,
    PAUSED,
    READY,
    REASON_LENGTH,
    RECALL_REASON,
    RECALLED,
    WAITING,
    ClusterLedger,
    Cooling,
    Json,
    Leaving,
    after,
    passed,
)


def recall(ledger: ClusterLedger, node: str) -> bool:
    """Tell a saga that its node stays, if it has not gone too far: the removal that took it may have asked Azure."""
    leaving = ledger.retirements.get(node)
    if leaving is None or leaving.stage not in (DRAINING, WAITING, READY, RECALLED):
        return False
    ledger.retirements[node] = replace(leaving, stage=RECALLED)
    return True


def retirement_problem(ledger: ClusterLedger, wish: Json, order: Json) -> str:
    """Why this retirement must not start, or "". `limit`: how many nodes may drain at once; `spare` {pool: nodes above
    its minimum}. Nodes that only wait for their VM to go do not use up the limit: one that hangs must block nobody.
    Those that wait for pods to run to their end have a limit of their own, since that may take a day; whoever turns out
    to wait beyond it keeps his place among the others."""
    present = ledger.retirements.get(wish["node"])
    if present is not None:
        return "" if present.op == wish["op"] else "a retirement of this node is under way"
    cooling, known = ledger.cooling.get(wish["node"]), (ledger.epoch, ledger.sequence)
    if cooling is not None and not passed(cooling.until, order["now"]) and not cooling.lifted(known):
        return f"stayed a short while ago: {cooling.reason}"
    stages = [leaving.stage for leaving in ledger.retirements.values()]
    waiting_on = max(0, stages.count(WAITING) - order["limit"])
    if waiting_on + sum(stage not in (DELETING, GONE, RECALLED, WAITING) for stage in stages) >= order["limit"]:
        return f"{order['limit']} retirements are under way, which is as many as may be"
    if wish.get("waits") and stages.count(WAITING) >= order["limit"]:
        return f"{order['limit']} nodes wait for their pods to end, which is as many as may"
    leaving_pool = sum(leaving.pool == wish["pool"] for leaving in ledger.retirements.values())
    if leaving_pool >= order["spare"].get(wish["pool"], 0):
        return f"pool {wish['pool']} would fall below its minimum"
    return ""


def end_retirement(ledger: ClusterLedger, order: Json) -> Json:
    """A saga is over. With `kept` (why the node stays) it is left alone for `cooldown` seconds, with `stale` only until
    there are news; with `gone` (its uid) no older snapshot may bring it back. `again`: there is room now for idle nodes
    that had to wait."""
    leaving = ledger.retirements.get(order["node"])
    recalled = False
    if leaving is not None and leaving.op == order["op"]:
        del ledger.retirements[order["node"]]
        recalled = leaving.stage == RECALLED
    if order.get("kept"):
        until = after(order["now"], order["cooldown"])
        seen = (ledger.epoch, ledger.sequence) if order.get("stale") and not recalled else None
        reason = RECALL_REASON if recalled else order["kept"][:REASON_LENGTH]
        ledger.cooling[order["node"]] = Cooling(until, reason, seen)
        ledger.cooling = dict(list(ledger.cooling.items())[-COOLING_LIMIT:])
    if order.get("gone"):
        ledger.gone = dict([*ledger.gone.items(), (order["node"], order["gone"])][-GONE_LIMIT:])
    again, ledger.idle_waiting = ledger.idle_waiting, False
    return {"ok": True, "again": again}


def note_waiting(ledger: ClusterLedger, order: Json) -> Json:
    """The node of saga `op` waits for pods to run to their end, or no longer (`over`)."""
    leaving = ledger.retirements.get(order["node"])
    before, after_ = (WAITING, DRAINING) if order.get("over") else (DRAINING, WAITING)
    if leaving is not None and leaving.op == order["op"] and leaving.stage == before:
        ledger.retirements[order["node"]] = replace(leaving, stage=after_)
    return {"ok": True}


def note_pause(ledger: ClusterLedger, order: Json) -> Json:
    """Saga `op` does nothing to its node for now, and `why`; with `over` it goes on."""
    leaving = ledger.retirements.get(order["node"])
    if leaving is not None and leaving.op == order["op"] and leaving.stage in (DRAINING, WAITING):
        kind, why = ("", "") if order.get("over") else (PAUSED, order["why"][:REASON_LENGTH])
        ledger.retirements[order["node"]] = replace(leaving, kind=kind, why=why)
    return {"ok": True}


def give_up(ledger: ClusterLedger, order: Json) -> Json:
    """A dead node is to go, within the same `limit` as all others; its pool's minimum does not keep it, since it serves
    nobody. Answers why not, if so."""
    problem = retirement_problem(ledger, order, {**order, "spare": {order["pool"]: len(ledger.retirements) + 1}})
    if problem:
        return {"ok": False, "kind": "refused", "reason": problem}
    ledger.retirements.setdefault(order["node"], Leaving(order["op"], order["pool"], order["now"], dead=True))
    return {"ok": True}
