"""One writer per pool, for the write, not the wait."""

from __future__ import annotations

from dataclasses import asdict, replace

from shared.state.growths import growth_waits, others_asked, remember_failure
from shared.state.ledger import ASKED, INTENDED, ClusterLedger, Json, Lock, after, passed


def lock_pool(ledger: ClusterLedger, order: Json) -> Json:
    """The pool's write lock. `others`: growths of the pool that another saga may have asked Azure for and not seen end;
    while there are any, capacity without an instance may still be theirs, save for the `phantom` part. Growths go
    first: pods wait for them, and the removals of a busy evening would take the lock from one another for minutes."""
    pool, holder, now = order["pool"], order["holder"], order["now"]
    lock = ledger.locks.get(pool)
    if lock is not None and lock.holder != holder and not passed(lock.deadline, now):
        return {"granted": False}
    if holder not in ledger.growths and growth_waits(ledger, pool, now):
        return {"granted": False}
    growth = ledger.growths.get(holder)
    others = others_asked(ledger, pool, holder)
    ledger.locks[pool] = Lock(holder, after(now, order["seconds"]))
    phantom = ledger.phantoms.get(pool, 0)
    return {"granted": True, "others": others, "phantom": phantom, "growth": asdict(growth) if growth else None}


def unlock_pool(ledger: ClusterLedger, order: Json) -> Json:
    """Give the lock back, and note in the same breath what the write came to: `target` of the growth `holder`, of
    which only `add` nodes (in `zones`) could be asked for because of `failures`; or that capacity was `lowered`.
    Neither leaves phantoms."""
    lock = ledger.locks.get(order["pool"])
    if lock is not None and lock.holder == order["holder"]:
        del ledger.locks[order["pool"]]
    if order.get("target") is not None or order.get("lowered"):
        ledger.phantoms.pop(order["pool"], None)
    growth = ledger.growths.get(order["holder"])
    if growth is not None and order.get("target") is not None and growth.stage == INTENDED:
        add = order.get("add", growth.add)
        ledger.growths[order["holder"]] = replace(growth, target=order["target"], stage=ASKED, add=add)
        if order.get("zones"):
            ledger.growths[order["holder"]] = replace(ledger.growths[order["holder"]], zones=tuple(order["zones"]))
        remember_failure(ledger, order)
    return {"ok": True}
