"""From "look now" to work under way: one leader per cluster plans, and what it decides goes on without it."""

from __future__ import annotations

from collections import Counter

from functions.durable import (
    Json,
    Orchestration,
    Registry,
    Starter,
    Steps,
    budget_entity,
    cluster_entity,
    start_once,
)
from functions.outcomes import LATER, THROTTLED
from functions.waiting import LOCK_SECONDS, attempt, clock, ledger, once, report_throttling

ROUNDS = 5  # plans per history
_BEGUN = ("growths", "retirements", "recalls", "limit", "spare", "join_timeout")
# By a planner to the ledger, when it gives the lead back.
_TOLD = ("settled", "learnt", "judged", "failures", "gangs", "lease", "idle_waiting")
GROWTH_REQUESTS = 20  # two readings, a write, ten polls, and room for a second try
MOST_ROOMS = 4  # pools that are read while their growths are begun; others are read by their growths
FIRST_LEASE = 180.0  # seconds; what a leader gets before it has read the pools file


def admit(context: Orchestration) -> Steps[Json]:
    """{cluster, event, epoch, sequence, snapshot, force}: lead, and plan until nothing newer is known; or follow."""
    order = context.get_input()
    view = order.get("view")
    if view is None:
        news = {name: order[name] for name in ("event", "epoch", "sequence", "snapshot", "force") if name in order}
        answer = yield from ledger(context, order, "record", holder=context.instance_id, lease=FIRST_LEASE, **news)
        if answer["role"] != "lead":
            return {"role": answer["role"]}
        view = answer["view"]
    for _ in range(ROUNDS):
        generation = view["lead"]["generation"]
        decision = {"cluster": order["cluster"], "holder": context.instance_id, "generation": generation, "view": view}
        made = yield context.call_sub_orchestrator("plan_capacity", decision)
        released = yield from ledger(
            context,
            order,
            "release",
            holder=context.instance_id,
            generation=generation,
            lease=made.get("lease", FIRST_LEASE),
            settled=made.get("settled", {}),
            learnt=made.get("learnt", {}),
            judged=made.get("judged", {}),
            failures=made.get("failures", []),
            gangs=made.get("gangs", {}),
            idle_waiting=made.get("idle_waiting", False),
        )
        if released["state"] != "again":
            return {"role": "lead", "state": released["state"], "plan": made}
        view = released["view"]
    context.continue_as_new({**order, "view": view})
    return {}


def plan_capacity(context: Orchestration) -> Steps[Json]:
    """Plan, record, start; never waits for Azure. {"ok", "settled", "growths", "retirements"}."""
    order = context.get_input()
    made = yield from attempt(context, "make_plan", order)
    if not made["ok"] and made["kind"] in (LATER, THROTTLED):
        made = yield from once(context, "make_plan", {**order, "blind": True})
    if not made["ok"]:
        return made
    begun = yield from _begun(context, order, made)
    if made.get("openings"):
        yield from attempt(context, "open_nodes", {"cluster": order["cluster"], "plan": made["plan"]})
    for budget, seconds in made.get("throttled", {}).items():
        yield from report_throttling(context, budget, seconds)
    told: Json = {name: made[name] for name in _TOLD if name in made}
    return {"ok": True, **told, **begun}


def _begun(context: Orchestration, order: Json, made: Json) -> Steps[Json]:
    if not made["growths"] and not made["retirements"] and not made.get("recalls"):
        return {"growths": 0, "retirements": 0}
    begun, prepared = yield from _prepared(context, order, made)
    starts = [
        *(
            _start(order, "grow_pool", {**growth, **prepared[growth["op"]]}, made)
            for growth in made["growths"]
            if growth["op"] in begun["growths"]
        ),
        *(
            _start(order, "retire_node", going, made)
            for going in made["retirements"]
            if going["op"] in begun["retirements"]
        ),
    ]
    if len(begun["recalls"]) < len(made["recalls"]) and "*" not in begun["refused"]:
        starts.append(replan({**order, "op": _name(made["plan"])}))  # gone too far: others must be bought
    if starts:
        yield from once(context, "start_sagas", {"starts": starts})
    if begun["recalls"]:
        yield from attempt(context, "recall_nodes", {"cluster": order["cluster"], "nodes": begun["recalls"]})
    return {"growths": len(begun["growths"]), "retirements": len(begun["retirements"]), "refused": begun["refused"]}


def _prepared(context: Orchestration, order: Json, made: Json) -> Steps[tuple[Json, dict[str, Json]]]:
    """The ledger's word on what may be begun, and by growth what it needs for its write, all asked for at once:
    requests drawn from the budget, the pool's lock where it was free, the pool's size. A pool is read before its lock
    is certain: who writes by such a reading does so under If-Match."""
    now = clock(context)
    fields = {"now": now, "holder": order["holder"], "lock_seconds": LOCK_SECONDS}
    fields |= {name: made[name] for name in _BEGUN}
    budgets = Counter(growth["budget"] for growth in made["growths"])
    first = {growth["pool"]: growth for growth in reversed(made["growths"]) if growth["kind"] == "vmss"}
    read = {
        pool: {**first[pool], "cluster": order["cluster"], "now": now, "ahead": True}
        for pool in list(first)[:MOST_ROOMS]
    }
    beginning = context.call_entity(cluster_entity(order["cluster"]), "begin", fields)
    if not made["growths"]:
        begun = yield beginning
        return begun, {}
    tasks = [beginning]
    for budget, growths in budgets.items():
        message = {"now": now, "amount": growths * GROWTH_REQUESTS, "urgent": True}
        tasks.append(context.call_entity(budget_entity(budget), "draw", message))
    tasks += [context.call_activity("read_pool", wish) for wish in read.values()]
    begun, *answers = yield context.task_all(tasks)
    waits = dict(zip(budgets, answers, strict=False))
    rooms = dict(zip(read, answers[len(budgets) :], strict=True))
    prepared: dict[str, Json] = {}
    for growth in made["growths"]:
        op, room = growth["op"], rooms.get(growth["pool"], {})
        locked = begun.get("locks", {}).get(op)
        prepared[op] = {"drawn": waits[growth["budget"]]["wait"], "locked": locked}
        prepared[op] |= {"room": room} if locked and room.get("ok") else {}
    for pool, room in rooms.items():
        if not room["ok"] and room["kind"] == THROTTLED:
            yield from report_throttling(context, read[pool]["budget"], room.get("retry_after"))
    return begun, prepared


def _start(order: Json, saga: str, wish: Json, made: Json) -> Json:
    prefix = {"grow_pool": "grow", "retire_node": "retire"}[saga]
    given = {**wish, "cluster": order["cluster"], "join_timeout": made["join_timeout"]}
    return {"name": saga, "id": f"{prefix}:{wish['op']}", "input": given}


def _name(plan: str) -> str:
    """A plan by its blob's name, without folder and ending: instance ids take no slashes."""
    return plan.rpartition("/")[2].removesuffix(".json")


def replan(order: Json) -> Json:
    """The start of another look, on the newest snapshot there is; `op` says what asked for it."""
    event = f"replan:{order['op']}"
    return {"name": "admit", "id": event, "input": {"cluster": order["cluster"], "event": event, "force": True}}


async def start_sagas(order: Json, client: Starter) -> Json:
    """Start each {name, id, input} that was never started: the ids are deterministic, so twice is once."""
    started = [await start_once(client, saga["name"], saga["id"], saga["input"]) for saga in order["starts"]]
    return {"ok": True, "started": sum(started)}


def registry() -> Registry:
    """Admission and planning, and the activity that starts what was decided."""

    async def starting(order: Json, client: Starter) -> Json:
        return await start_sagas(order, client)

    starting.__name__ = "start_sagas"
    made = Registry()
    made.orchestrator(admit, plan_capacity)
    made.client_activity(starting)
    return made
