"""Who plans: news are recorded, one leader plans for them, begins what it decided, and gives the lead back."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import replace

import orjson

from shared.state.growths import begin_growth, conclude_growth, drop_arrived, remember_failure
from shared.state.instances import key_of
from shared.state.leavings import recall, retirement_problem
from shared.state.ledger import (
    GANG_LIMIT,
    LEARNT_ROOM,
    SEEN_LIMIT,
    ClusterLedger,
    Json,
    Lead,
    Leaving,
    after,
    moment,
    passed,
)
from shared.state.locks import lock_pool
from shared.state.purchases import keep_judgement, with_arrivals


def _digest(event: str) -> str:
    """Enough of an id to recognise it by."""
    return hashlib.sha256(event.encode()).hexdigest()[:12]


def record(ledger: ClusterLedger, order: Json) -> Json:
    """Somebody has news: answer lead, follow or seen. News that are older than what is known are seen as well, unless
    `force`d: then another look is due (a replan brings no news of its own, a sweep those of what it began with), but
    still at the newest that is known. An older picture would lack nodes that the ledger has settled, and buy them
    again."""
    event, holder, now = _digest(order["event"]), order["holder"], order["now"]
    lead = ledger.lead
    if event in ledger.seen:
        mine = lead is not None and lead.holder == holder
        return {"role": "lead" if mine else "seen", "view": ledger.answer()} if mine else {"role": "seen"}
    ledger.seen = [*ledger.seen, event][-SEEN_LIMIT:]
    news = (order.get("epoch", 0), order.get("sequence", 0))
    known = (ledger.epoch, ledger.sequence)
    newer = bool(order.get("snapshot")) and (news > known or (news == known and bool(order.get("force"))))
    if newer:
        (ledger.epoch, ledger.sequence), ledger.snapshot = news, order["snapshot"]
    if not newer and not order.get("force"):
        return {"role": "seen"}
    ledger.generation += 1
    if lead is not None and not passed(lead.deadline, now) and lead.holder != holder:
        return {"role": "follow"}
    ledger.lead = Lead(holder, ledger.generation, after(now, order["lease"]))
    return {"role": "lead", "view": ledger.answer()}


def release(ledger: ClusterLedger, order: Json) -> Json:
    """The leader has planned for `generation`: done, again (something newer came in), or lost (taken over). What it
    found on the way is kept in any case: nodes that have appeared, `learnt` {pool: what its nodes are like}, and what
    was `judged` of nodes that came, of `gangs` and of `returning`."""
    settle(ledger, order)
    _learn(ledger, order.get("learnt") or {})
    remember_failure(ledger, order)
    if order.get("judged"):
        keep_judgement(ledger, order["judged"], order["now"])
    _hold(ledger, order.get("gangs") or {})
    ledger.returning = _changed(ledger.returning, order.get("returning") or {})
    lead = ledger.lead
    if lead is None or lead.holder != order["holder"]:
        return {"state": "lost"}
    ledger.served = max(ledger.served, order["generation"])
    ledger.idle_waiting = bool(order.get("idle_waiting"))
    if ledger.generation > order["generation"]:
        ledger.lead = Lead(lead.holder, ledger.generation, after(order["now"], order["lease"]))
        return {"state": "again", "view": ledger.answer()}
    ledger.lead = None
    return {"state": "done"}


def settle(ledger: ClusterLedger, order: Json) -> Json:
    """`settled` {growth: [instances]}: they are nodes now. A growth with nothing left to come leaves."""
    for op, arrived in (order.get("settled") or {}).items():
        growth = ledger.growths.get(op)
        if growth is None:
            continue
        claimed = tuple(instance for instance in growth.claimed if instance not in arrived)
        if growth.classes:
            came = [key_of(growth.pool, instance) for instance in growth.claimed if instance in arrived]
            ledger.bought = with_arrivals(ledger.bought, came, growth.classes, order["now"])
        ledger.growths[op] = replace(growth, claimed=claimed)
    drop_arrived(ledger)
    return {"ok": True}


def _hold(ledger: ClusterLedger, changes: dict[str, Json | None]) -> None:
    """What the plan found out about gangs; those asked for last stay."""
    ledger.gangs = dict(list(_changed(ledger.gangs, changes).items())[-GANG_LIMIT:])


def _changed(known: dict[str, Json], changes: dict[str, Json | None]) -> dict[str, Json]:
    """With the changes in it; None stands for what needs no more attention."""
    return {key: entry for key, entry in {**known, **changes}.items() if entry is not None}


def _learn(ledger: ClusterLedger, lessons: dict[str, Json]) -> None:
    """Keep what is not older than what is known, for as many pools as there is room for."""
    for pool, entry in lessons.items():
        known = ledger.learnt.get(pool)
        if known and known["declared"] == entry["declared"] and moment(known["newest"]) > moment(entry["newest"]):
            continue
        ledger.learnt.pop(pool, None)
        ledger.learnt[pool] = entry
    while ledger.learnt and len(zlib.compress(orjson.dumps(ledger.learnt))) > LEARNT_ROOM:
        del ledger.learnt[next(iter(ledger.learnt))]


def begin(ledger: ClusterLedger, order: Json) -> Json:
    """The leader starts what it has planned. A leader that lost its lease is refused everything: another one plans now,
    and both would buy."""
    if ledger.lead is None or ledger.lead.holder != order["holder"]:
        return {"growths": [], "retirements": [], "recalls": [], "refused": {"*": "the lead was taken over"}}
    refused: dict[str, str] = {}
    growths, locks = _begun(ledger, order)
    retirements = []
    for wish in order.get("retirements", ()):
        problem = retirement_problem(ledger, wish, order)
        if problem:
            refused[wish["node"]] = problem
            continue
        ledger.retirements.setdefault(wish["node"], Leaving(wish["op"], wish["pool"], order["now"]))
        retirements.append(wish["op"])
    recalls = [
        {"node": node, "op": ledger.retirements[node].op, "pool": ledger.retirements[node].pool}
        for node in order.get("recalls", ())
        if recall(ledger, node)
    ]
    return {"growths": growths, "locks": locks, "retirements": retirements, "recalls": recalls, "refused": refused}


def _begun(ledger: ClusterLedger, order: Json) -> tuple[list[str], dict[str, Json]]:
    """The growths that may begin; those that are new have their pool's lock at once, where it is free and
    `lock_seconds` says for how long."""
    growths, locks = [], {}
    for wish in order.get("growths", ()):
        fresh = wish["op"] not in ledger.growths
        if not begin_growth(ledger, wish, order):
            continue
        growths.append(wish["op"])
        seconds = order.get("lock_seconds")
        if fresh and seconds and wish.get("kind") != "aks":  # whose writes are led, not locked
            answer = lock_pool(ledger, {**wish, "holder": wish["op"], "now": order["now"], "seconds": seconds})
            if answer["granted"]:
                told = {name: answer[name] for name in ("others", "phantom")}
                locks[wish["op"]] = {**told, "until": after(order["now"], seconds)}
    return growths, locks


def conclude(ledger: ClusterLedger, order: Json) -> Json:
    """`conclude_growth`; with `news` {event, holder, lease, force} and less than `add` delivered, `admission` is the
    answer to `record` of these: who has to plan anew begins at once."""
    answer = conclude_growth(ledger, order)
    if order.get("news") and len(answer["claimed"]) < order["add"]:
        answer["admission"] = record(ledger, {**order["news"], "now": order["now"]})
    return answer
