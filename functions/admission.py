"""From "look now" to work under way: one leader per cluster plans, and what it decides goes on without it."""

from __future__ import annotations

from functions.durable import Json, Orchestration, Registry, Starter, Steps, start_once
from functions.outcomes import LATER, THROTTLED
from functions.preparing import prepare
from functions.waiting import attempt, ledger, once, report_throttling

ROUNDS = 3  # plans per history
_BEGUN = ("growths", "retirements", "recalls", "limit", "spare", "join_timeout")
# By a planner to the ledger, when it gives the lead back.
_TOLD = ("settled", "learnt", "judged", "failures", "gangs", "returning", "lease", "idle_waiting")
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
    for number in range(ROUNDS):
        generation = view["lead"]["generation"]
        decision = {"cluster": order["cluster"], "holder": context.instance_id, "generation": generation, "view": view}
        if number == 0:  # a hop less; what comes later is kept out of this history
            made = yield from _planned(context, decision)
        else:
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
            returning=made.get("returning", {}),
            idle_waiting=made.get("idle_waiting", False),
        )
        if released["state"] != "again":
            return {"role": "lead", "state": released["state"], "plan": made}
        view = released["view"]
    context.continue_as_new({**order, "view": view})
    return {}


def plan_capacity(context: Orchestration) -> Steps[Json]:
    """{cluster, holder, generation, view}: plan, record, start; never waits for Azure. {"ok", "settled", "growths",
    "retirements"}."""
    return (yield from _planned(context, context.get_input()))


def _planned(context: Orchestration, order: Json) -> Steps[Json]:
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
    fields = {"holder": order["holder"], **{name: made[name] for name in _BEGUN}}
    begun, prepared = yield from prepare(context, order["cluster"], made["growths"], fields)
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
