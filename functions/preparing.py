"""Growths are begun, and their first writes made, without a detour: on the way from pods that wait to Azure, everything
that is asked after something else costs them time.

What a write needs is asked for all at once: the ledger's word, requests from the budget, the pool's lock and size.
Where all of it is to hand, the capacity is written at once, and the growth's own orchestration starts with the answer;
everything else is left to that.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from functions.durable import Json, Orchestration, Steps, budget_entity, cluster_entity
from functions.outcomes import THROTTLED
from functions.waiting import LOCK_SECONDS, clock, report_throttling
from shared.state.ledger import stamp

GROWTH_REQUESTS = 20  # two readings, a write, ten polls, and room for a second try
MOST_READ = 4  # pools that are read while their growths are begun; others are read by their growths


def prepare(
    context: Orchestration, cluster: str, growths: list[Json], fields: Json
) -> Steps[tuple[Json, dict[str, Json]]]:
    """The ledger's answer to `begin` with `fields`, and by growth {"drawn", "locked", "written"}: how long the request
    budget wants it to wait, the pool's lock where it was free, and what became of a first write.

    A pool is read before its lock is certain: the write is made under If-Match.
    """
    now = clock(context)
    message = {"now": now, "lock_seconds": LOCK_SECONDS, **fields}
    beginning = context.call_entity(cluster_entity(cluster), "begin", message)
    if not growths:
        begun = yield beginning
        return begun, {}
    budgets = Counter(growth["budget"] for growth in growths)
    first = {growth["pool"]: growth for growth in reversed(growths) if growth["kind"] == "vmss"}
    read = {pool: {**first[pool], "cluster": cluster, "now": now, "ahead": True} for pool in list(first)[:MOST_READ]}
    draws = [{"now": now, "amount": number * GROWTH_REQUESTS, "urgent": True} for number in budgets.values()]
    answers: list[Json] = yield context.task_all(
        [
            beginning,
            *(context.call_entity(budget_entity(key), "draw", draw) for key, draw in zip(budgets, draws, strict=True)),
            *(context.call_activity("read_pool", order) for order in read.values()),
        ]
    )
    begun, waits, found = answers[0], answers[1 : 1 + len(draws)], answers[1 + len(draws) :]
    yield from _report(context, list(read.values()), found)
    rooms = {pool: room for pool, room in zip(read, found, strict=True) if room["ok"]}
    drawn = {key: answer["wait"] for key, answer in zip(budgets, waits, strict=True)}
    locks = begun.get("locks", {})
    prepared = {each["op"]: {"drawn": drawn[each["budget"]], "locked": locks.get(each["op"])} for each in growths}
    for op, written in (yield from _written(context, cluster, growths, prepared, rooms)).items():
        prepared[op]["written"] = written
    return begun, prepared


def _written(
    context: Orchestration, cluster: str, growths: list[Json], prepared: dict[str, Json], rooms: dict[str, Json]
) -> Steps[dict[str, Json]]:
    """By growth the answer of `write_capacity`, with the target and when it was asked for; only where nothing is left
    to be cleared up or waited for first."""
    now, writes = clock(context), {}
    for growth in growths:
        target = _target(growth, prepared[growth["op"]], rooms.get(growth["pool"]))
        if target is not None:
            etag = rooms[growth["pool"]]["etag"]
            writes[growth["op"]] = {**growth, "cluster": cluster, "now": now, "target": target, "etag": etag}
    if not writes:
        return {}
    answers: list[Json] = yield context.task_all(
        [context.call_activity("write_capacity", order) for order in writes.values()]
    )
    yield from _report(context, list(writes.values()), answers)
    asked = stamp(datetime.fromisoformat(now))
    return {
        op: {**answer, "target": order["target"], "at": asked}
        for (op, order), answer in zip(writes.items(), answers, strict=True)
    }


def _target(growth: Json, prepared: Json, room: Json | None) -> int | None:
    """What the capacity may be set to at once; None where that takes more thought."""
    locked = prepared["locked"]
    if prepared["drawn"] or not locked or locked["others"] or locked.get("phantom") or room is None:
        return None
    if room["capacity"] > room["present"] or room["may_add"] < growth["add"]:
        return None
    target: int = room["size"] + growth["add"]
    return target


def _report(context: Orchestration, readings: list[Json], found: list[Json]) -> Steps[None]:
    for order, answer in zip(readings, found, strict=True):
        if not answer["ok"] and answer["kind"] == THROTTLED:
            yield from report_throttling(context, order["budget"], answer.get("retry_after"))
