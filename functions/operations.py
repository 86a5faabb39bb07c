"""Waiting for what is not ours to hurry: an Azure operation, and the write lock of a pool."""

from __future__ import annotations

from datetime import timedelta

from functions.durable import Json, Orchestration, Registry, Steps
from functions.outcomes import LATER, THROTTLED, no
from functions.pools import inspect_growth
from functions.waiting import clock, draw, ledger, once, pause, until
from functions.world import World
from shared.adapters.errors import OutsideError
from shared.adapters.operation_tokens import first_wait
from shared.state.ledger import moment, stamp

LADDER = (2.0, 3.0, 5.0, 10.0)  # seconds between polls; the last one repeats
# While pods wait for Spot VMs, Azure's no is to be heard within a second or two: it mostly comes in the first half
# minute. 36 polls in 52 s stay below the 45 a minute that one operation may be asked, where ARM names no time.
IN_HURRY = (*(1.0,) * 20, *(2.0,) * 16, 5.0, 10.0)
QUICK = 2.0  # seconds; more frequent polls than that draw less from the budget, whose bucket is that of writes:
QUICK_SHARE = 0.4  # that of reads fills two and a half times as fast
POLLS_PER_HISTORY = 10  # replaying is quadratic in the history's length
POLL_FAILURES = 6  # in a row; then the instances have to tell
PATIENCE = timedelta(minutes=60)  # Azure gives up sooner itself; a lost operation must not be asked after for ever
LOCK_PAUSES = (3.0, 3.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)  # a write takes seconds; what takes longer, takes minutes
LOCK_PATIENCE = timedelta(minutes=10)


def await_operation(context: Orchestration) -> Steps[Json]:
    """Poll {cluster, pool, budget, token, hurry?, growth?} until it is over: {"ok", "done", "code", "message"}, and
    `seen`, what a `growth` that failed has come to by its instances."""
    order = context.get_input()
    polls = order.get("polls", 0)
    ladder = IN_HURRY if order.get("hurry") else LADDER
    deadline = order.get("deadline") or stamp(context.current_utc_datetime + PATIENCE)
    effort = 0
    if polls:
        quick = ladder[min(polls, len(ladder) - 1)] <= QUICK and ladder is IN_HURRY
        effort = yield from draw(context, order, round(POLLS_PER_HISTORY * (QUICK_SHARE if quick else 1.0)))
    failures = order.get("failures", 0)
    wait = max(ladder[min(polls, len(ladder) - 1)], order.get("wait") or first_wait(order["token"]))
    while effort < POLLS_PER_HISTORY:
        if wait > 0:
            yield from pause(context, wait)
        asked_at = context.current_utc_datetime
        status = yield from once(context, "poll_operation", order)
        effort += 1 if status["ok"] else 2  # a refusal may be told to the request budget as well
        failures = 0 if status["ok"] else failures + 1
        if _is_last(status, failures):
            return _over(status)
        polls += 1
        asked_for = status["status"]["retry_after"] if status["ok"] else status.get("retry_after")
        spent = (context.current_utc_datetime - asked_at).total_seconds() if ladder is IN_HURRY else 0.0
        wait = max(ladder[min(polls, len(ladder) - 1)] - spent, asked_for or 0.0)
    if until(context, deadline) <= 0:
        return no("unfinished", "Azure has not ended the operation", done=False, code="OperationTimedOut", message="")
    context.continue_as_new({**order, "polls": polls, "deadline": deadline, "failures": failures, "wait": wait})
    return {}


def _is_last(status: Json, failures: int) -> bool:
    if status["ok"]:
        return bool(status["status"]["done"])
    return status["kind"] not in (LATER, THROTTLED) or failures >= POLL_FAILURES


def _over(status: Json) -> Json:
    """A poll that could not be made leaves the operation open: its instances will tell."""
    if not status["ok"]:
        return {**status, "done": False, "message": status["reason"]}
    told = status["status"]
    return {name: told[name] for name in ("ok", "done", "code", "message", "seen") if name in told}


def take_pool(context: Orchestration) -> Steps[Json]:
    """Wait for a pool's lock, in turns: the ledger's answer, or {"granted": false} after ten minutes."""
    order = context.get_input()
    deadline = order.get("deadline") or stamp(context.current_utc_datetime + LOCK_PATIENCE)
    wanted = {name: order[name] for name in ("pool", "holder", "seconds")}
    for wait in LOCK_PAUSES if "deadline" not in order else LOCK_PAUSES[-1:] * len(LOCK_PAUSES):
        yield from pause(context, wait)
        answer = yield from ledger(context, order, "lock_pool", **wanted)
        if answer["granted"]:
            return answer
    if moment(deadline) <= moment(clock(context)):
        return {"granted": False}
    context.continue_as_new({**order, "deadline": deadline})
    return {}


def poll_operation(world: World, order: Json) -> Json:
    """Ask once how the operation behind {token} stands."""
    pool = world.pool_as_known(order["cluster"], order["pool"])
    status = world.compute_of(pool).poll(order["token"])
    answer = {
        "ok": status.ok,
        "done": status.done,
        "code": status.code,
        "message": status.message[:500],
        "retry_after": status.retry_after,
    }
    if status.done and not status.ok and order.get("growth"):
        answer |= _looked_at(world, order, answer)
    return {"status": answer}


def _looked_at(world: World, order: Json, answer: Json) -> Json:
    """Every hop counts now: what the growth came to is looked at in the same breath."""
    failure = {"code": answer["code"], "message": answer["message"], "zone": "", "asked_azure": True}
    try:
        seen = inspect_growth(world, {**order["growth"], **failure, "now": order["now"]})
    except OutsideError:
        return {}  # a look of its own follows
    return {"seen": {"ok": True, **seen}}


def registry(world: World) -> Registry:
    """The two waits, and the poll."""

    made = Registry()
    made.orchestrator(await_operation, take_pool)
    made.activity(world, poll_operation)
    return made
