"""Nodes asked for, from the wish to instances that are nodes, and what Azure refused on the way."""

from __future__ import annotations

from dataclasses import replace

from shared.state.ledger import (
    ARRIVING,
    ASKED,
    FAILURE_LIMIT,
    GROWTH_FIRST,
    GROWTH_LIMIT,
    INTENDED,
    SPENT_LIMIT,
    SPENT_LIMIT_BUSY,
    ClusterLedger,
    Growth,
    Json,
    after,
    moment,
    passed,
)


def drop_arrived(ledger: ClusterLedger) -> None:
    """A growth with nothing left to come leaves."""
    ledger.growths = {op: g for op, g in ledger.growths.items() if g.stage != ARRIVING or g.claimed}


def begin_growth(ledger: ClusterLedger, wish: Json, order: Json) -> bool:
    """Note the wish; False when there are as many growths under way as may be."""
    if wish["op"] not in ledger.growths:
        if len(ledger.growths) >= GROWTH_LIMIT:
            return False
        deadline = after(order["now"], order["join_timeout"])
        classes = tuple(wish.get("classes", ()))
        zones = tuple(wish.get("zones", ())) if wish.get("kind") == "vm" else ()
        ledger.growths[wish["op"]] = Growth(
            wish["pool"], wish["add"], INTENDED, order["now"], deadline, classes=classes, zones=zones
        )
    return True


def conclude_growth(ledger: ClusterLedger, order: Json) -> Json:
    """Azure is through with a growth. `candidates`: instances that may be its own, likeliest first; it claims as many
    as it asked for among those that no other growth has. What was not delivered is no supply any more."""
    remember_failure(ledger, order)
    growth = ledger.growths.get(order["op"])
    if growth is None:
        return {"ok": True, "claimed": []}
    if growth.stage == ARRIVING:
        return {"ok": True, "claimed": list(growth.claimed)}
    taken = {f"{g.pool}/{name}" for g in ledger.growths.values() for name in g.claimed} | set(ledger.spent)
    free = [name for name in order["candidates"] if f"{growth.pool}/{name}" not in taken]
    claimed = tuple(free[: growth.add])
    deadline = after(order["now"], order["join_timeout"])
    if growth.stage == ASKED and others_asked(ledger, growth.pool, order["op"]):
        missing = growth.add - len(claimed)
        ledger.phantoms[growth.pool] = ledger.phantoms.get(growth.pool, 0) + missing
    ledger.growths[order["op"]] = replace(growth, stage=ARRIVING, claimed=claimed, deadline=deadline)
    limit = SPENT_LIMIT_BUSY if any(g.stage != ARRIVING for g in ledger.growths.values()) else SPENT_LIMIT
    ledger.spent = [*ledger.spent, *(f"{growth.pool}/{name}" for name in claimed)][-limit:]
    drop_arrived(ledger)
    return {"ok": True, "claimed": list(claimed)}


def others_asked(ledger: ClusterLedger, pool: str, op: str) -> int:
    """How many growths of the pool Azure may be busy with, besides that one."""
    return sum(g.pool == pool and g.stage == ASKED and other != op for other, g in ledger.growths.items())


def drop_growth(ledger: ClusterLedger, order: Json) -> Json:
    """A growth that Azure was never asked for is none any more: {"dropped"}."""
    growth = ledger.growths.get(order["op"])
    if growth is None or growth.stage != INTENDED:
        return {"ok": True, "dropped": False}
    del ledger.growths[order["op"]]
    return {"ok": True, "dropped": True}


def remember_failure(ledger: ClusterLedger, order: Json) -> Json:
    """Azure's refusals, one entry per scope: the longer memory stays."""
    for entry in order.get("failures", ()):
        same = [known for known in ledger.failures if _scope(known) == _scope(entry)]
        if not entry.get("quota") and any(moment(known["until"]) >= moment(entry["until"]) for known in same):
            continue  # of a quota the newer numbers count
        ledger.failures = [known for known in ledger.failures if _scope(known) != _scope(entry)]
        ledger.failures = [*ledger.failures, entry][-FAILURE_LIMIT:]
    return {"ok": True}


def _scope(entry: Json) -> tuple[str, ...]:
    place = (entry.get(name, "") for name in ("pool", "subscription", "location", "quota"))
    return entry["sku"], entry["zone"], entry["priority"], *place


def growth_waits(ledger: ClusterLedger, pool: str, now: str) -> bool:
    """Whether a growth has yet to write; one that has not come to it for long may never do."""
    waiting = [growth for growth in ledger.growths.values() if growth.pool == pool and growth.stage == INTENDED]
    return any(not passed(after(growth.asked, GROWTH_FIRST), now) for growth in waiting)
