"""Nodes that Azure takes away: one saga for each, one look at the cluster for many, and what many of them say."""

from __future__ import annotations

from shared.state.growths import remember_failure
from shared.state.ledger import (
    DRAINING,
    EVICTING,
    READY,
    RECALLED,
    WAITING,
    ClusterLedger,
    Json,
    Leaving,
    after,
    passed,
)

EVICTED_CODE = "SpotEvicted"
SEVERAL = 3  # evictions from one kind of Spot within the window: one or two are Azure's everyday
WINDOW = 300.0  # seconds
MEMORY = 900.0  # seconds for which such a kind is taken for sold out; trying again costs a failed growth at most
CLAIM = 60.0  # seconds after which a claim that nobody came back for is void


def adopt(ledger: ClusterLedger, order: Json) -> Json:
    """A node that goes whether we plan it or not: no limit, but only one saga per node. A retirement that still drains
    gives way (its pace is not the eviction's); one that may have asked Azure for the deletion does not.

    `kind` {sku, zone, pool}: what is evicted, to be remembered. With `look`, the answer says whether this saga is to
    look at the cluster for all that come with it.
    """
    present = ledger.retirements.get(order["node"])
    if present is not None and present.op != order["op"] and present.stage not in (DRAINING, WAITING, READY, RECALLED):
        return {"ok": False, "kind": "duplicate", "op": present.op}
    if present is None or present.op != order["op"]:
        _remember(ledger, order)
        ledger.retirements[order["node"]] = Leaving(order["op"], order["pool"], order["now"], EVICTING)
    look = bool(order.get("look")) and claim(ledger, {"key": "look", "now": order["now"]})["granted"]
    return {"ok": True, "look": look}


def claim(ledger: ClusterLedger, order: Json) -> Json:
    """Who comes first does for all that come until it begins (`unclaim`): {"granted"}."""
    until = ledger.claims.get(order["key"])
    if until is not None and not passed(until, order["now"]):
        return {"granted": False}
    ledger.claims = {key: end for key, end in ledger.claims.items() if not passed(end, order["now"])}
    ledger.claims[order["key"]] = after(order["now"], CLAIM)
    return {"granted": True}


def unclaim(ledger: ClusterLedger, order: Json) -> Json:
    """It begins: what comes from now on needs another one. Answers where the newest snapshot stands."""
    ledger.claims = {key: end for key, end in ledger.claims.items() if key != order["key"]}
    return {"ok": True, "epoch": ledger.epoch, "sequence": ledger.sequence}


def _remember(ledger: ClusterLedger, order: Json) -> None:
    """Several evictions of one kind within the window: Azure wants such machines back, and would take the next too."""
    kind = order.get("kind")
    if not kind:
        return
    now, key = order["now"], "|".join((kind["sku"] or kind["pool"], kind["zone"]))
    recent = {name: _recent(times, now) for name, times in ledger.evictions.items()}
    recent[key] = [*recent.get(key, []), now][-SEVERAL:]
    ledger.evictions = {name: times for name, times in recent.items() if times}
    if len(recent[key]) >= SEVERAL:
        entry = {"sku": kind["sku"], "zone": kind["zone"], "priority": "Spot", "code": EVICTED_CODE}
        pool = "" if kind["sku"] else kind["pool"]
        remember_failure(ledger, {"failures": [{**entry, "until": after(now, MEMORY), "pool": pool, "since": now}]})


def _recent(times: list[str], now: str) -> list[str]:
    return [each for each in times if not passed(after(each, WINDOW), now)]
