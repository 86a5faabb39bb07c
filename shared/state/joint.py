"""Growths of one agent pool that are asked for together.

AKS takes one operation of a pool at a time, so growths that have to wait become one. The first to get the pool's lock
asks for all that were intended by then (`lead_growth`); the others are noted as carried by it (`note_joint`), and read
from here how the operation ended (`end_joint`). Each then looks for its own instances, as every growth does.
"""

from __future__ import annotations

from dataclasses import replace

from shared.state.ledger import ARRIVING, ASKED, INTENDED, ClusterLedger, Growth, Json, after
from shared.state.locks import lock_pool


def lead_growth(ledger: ClusterLedger, order: Json) -> Json:
    """How the growth `op` stands: {"state", "asked"}. "lead": it has the lock, `add` nodes are to be asked for, and
    `company` are the growths that come along; "carried": `operation` is how the operation ended that took it along, or
    None; "wait"; "sent": it was asked for by itself, and not seen to end; "over".

    Whoever asks still waits: its nodes are counted on for another `join_timeout`, however long AKS is busy. Otherwise
    they would be bought once more.
    """
    op, pool = order["op"], order["pool"]
    growth = ledger.growths.get(op)
    if growth is None or growth.stage == ARRIVING:
        return {"state": "over"}
    if growth.carrier:
        return {"state": "carried", "asked": growth.asked, "operation": growth.operation}
    if growth.stage == ASKED:
        return {"state": "sent", "asked": growth.asked}
    if "join_timeout" in order:
        ledger.growths[op] = replace(growth, deadline=after(order["now"], order["join_timeout"]))
    locked = lock_pool(ledger, {**order, "holder": op})
    if not locked["granted"]:
        return {"state": "wait", "asked": growth.asked}
    company = {other: one for other, one in ledger.growths.items() if _may_come_along(one, pool) and other != op}
    add = growth.add + sum(one.add for one in company.values())
    return {"state": "lead", "asked": growth.asked, "add": add, "company": list(company)}


def note_joint(ledger: ClusterLedger, order: Json) -> Json:
    """AKS is about to be asked for the growth `op` and its `company`: nobody else asks for them from now on. Their time
    begins anew, since they may have waited for long."""
    deadline = after(order["now"], order["join_timeout"])
    for op in (order["op"], *order["company"]):
        growth = ledger.growths.get(op)
        if growth is not None and _may_come_along(growth, order["pool"]):
            carrier = "" if op == order["op"] else order["op"]
            ledger.growths[op] = replace(growth, stage=ASKED, carrier=carrier, deadline=deadline)
    return {"ok": True}


def end_joint(ledger: ClusterLedger, order: Json) -> Json:
    """How the operation of the growth `op` ended, for those that it carried."""
    for other, growth in ledger.growths.items():
        if growth.carrier == order["op"]:
            ledger.growths[other] = replace(growth, operation=order["ended"])
    return {"ok": True}


def _may_come_along(growth: Growth, pool: str) -> bool:
    return growth.pool == pool and growth.stage == INTENDED
