"""One writer per pool, for the write, not the wait."""

from __future__ import annotations

from dataclasses import asdict, replace

from shared.state.growths import growth_waits
from shared.state.ledger import ASKED, INTENDED, ClusterLedger, Json, Lock, after, passed


def lock_pool(ledger: ClusterLedger, order: Json) -> Json:
    """The pool's write lock. `others`: growths of the pool that another saga may have asked Azure for and not seen end;
    while there are any, capacity without an instance may still be theirs. Growths go first: pods wait for them, and the
    removals of a busy evening would take the lock from one another for minutes."""
    pool, holder, now = order["pool"], order["holder"], order["now"]
    lock = ledger.locks.get(pool)
    if lock is not None and lock.holder != holder and not passed(lock.deadline, now):
        return {"granted": False}
    if holder not in ledger.growths and growth_waits(ledger, pool, now):
        return {"granted": False}
    growth = ledger.growths.get(holder)
    others = sum(g.pool == pool and g.stage == ASKED and op != holder for op, g in ledger.growths.items())
    ledger.locks[pool] = Lock(holder, after(now, order["seconds"]))
    return {"granted": True, "others": others, "growth": asdict(growth) if growth else None}


def unlock_pool(ledger: ClusterLedger, order: Json) -> Json:
    """Give the lock back, and note in the same breath what the write came to: `target` of the growth `holder`."""
    lock = ledger.locks.get(order["pool"])
    if lock is not None and lock.holder == order["holder"]:
        del ledger.locks[order["pool"]]
    growth = ledger.growths.get(order["holder"])
    if growth is not None and order.get("target") is not None and growth.stage == INTENDED:
        ledger.growths[order["holder"]] = replace(growth, target=order["target"], stage=ASKED)
    return {"ok": True}
