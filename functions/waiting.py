"""How orchestrators wait and ask: generators to `yield from`, all of them short.

Retries are written out by hand with durable timers. The SDK's own retry tasks lose their place in the history when
they are raced or fail beside siblings, and know neither a predicate nor Retry-After.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from functions.durable import Json, Orchestration, Steps, budget_entity, cluster_entity
from functions.outcomes import LATER, THROTTLED

BACKOFF = (2.0, 5.0, 10.0, 30.0, 60.0)  # seconds before the next try of a short call
TRIES = 4
# What speaks to Resource Manager alone: a 429 from the API server says nothing about a subscription.
ARM_ONLY = frozenset(
    {
        "read_pool",
        "read_agent_pool",
        "write_capacity",
        "lower_capacity",
        "create_vms",
        "inspect_growth",
        "poll_operation",
    }
)
DRAWS = 3  # a budget that is shut again and again lets the caller through: ARM has the last word
LOCK_SECONDS = 120.0  # a write and its readings take seconds; a dead writer must not stop a pool for long


def clock(context: Orchestration) -> str:
    """The orchestration's own time, as orders carry it."""
    return context.current_utc_datetime.isoformat()


def pause(context: Orchestration, seconds: float) -> Steps[None]:
    """Sleep without being there."""
    yield context.create_timer(context.current_utc_datetime + timedelta(seconds=seconds))


def until(context: Orchestration, deadline: str) -> float:
    """Seconds left, negative when it has passed."""
    return (datetime.fromisoformat(deadline) - context.current_utc_datetime).total_seconds()


def ledger(context: Orchestration, order: Json, operation: str, **fields: object) -> Steps[Json]:
    """Ask the ledger of the order's cluster."""
    message = {"now": clock(context), **fields}
    answer: Json = yield context.call_entity(cluster_entity(order["cluster"]), operation, message)
    return answer


def once(context: Orchestration, activity: str, order: Json, **fields: object) -> Steps[Json]:
    """Call an activity a single time, with the present moment in its order."""
    answer: Json = yield context.call_activity(activity, {**order, "now": clock(context), **fields})
    if not answer["ok"] and answer["kind"] == THROTTLED and activity in ARM_ONLY and order.get("budget"):
        yield from report_throttling(context, order["budget"], answer.get("retry_after"))
    return answer


def attempt(context: Orchestration, activity: str, order: Json, **fields: object) -> Steps[Json]:
    """Call an activity until it answers something else than "later", a few times at most; Retry-After is heeded."""
    for number in range(TRIES):
        answer: Json = yield from once(context, activity, order, **fields)
        if answer["ok"] or answer["kind"] not in (LATER, THROTTLED) or number + 1 == TRIES:
            break
        yield from pause(context, max(BACKOFF[number], answer.get("retry_after") or 0.0))
    return answer


def report_throttling(context: Orchestration, budget: str, retry_after: float | None) -> Steps[None]:
    """All clusters of a subscription share its limits, so one refusal speaks to all of them."""
    message = {"now": clock(context), "retry_after": retry_after}
    yield context.call_entity(budget_entity(budget), "throttled", message)


def draw(context: Orchestration, order: Json, amount: int, *, urgent: bool = True) -> Steps[int]:
    """Take `amount` requests out of the subscription's budget, and wait until they may be used; answers how often it
    had to wait.

    What pods or Azure wait for is `urgent`: only Retry-After holds it up. The rest queues, and may be told to wait anew
    when the budget was shut in the meantime.
    """
    for number in range(DRAWS):
        message = {"now": clock(context), "amount": 0 if number else amount, "urgent": urgent}
        answer: Json = yield context.call_entity(budget_entity(order["budget"]), "draw", message)
        if not answer["wait"]:
            return number
        yield from pause(context, answer["wait"])
    return DRAWS


def lock(context: Orchestration, order: Json) -> Steps[Json]:
    """The write lock of the order's pool, held for the order's `op`."""
    fields = {"pool": order["pool"], "holder": order["op"], "seconds": LOCK_SECONDS}
    answer: Json = yield from ledger(context, order, "lock_pool", **fields)
    if answer["granted"]:
        return answer
    waited: Json = yield context.call_sub_orchestrator("take_pool", {"cluster": order["cluster"], **fields})
    return waited


def unlock(context: Orchestration, order: Json, **noted: object) -> Steps[Json]:
    """Give the lock back; `noted` goes into the ledger with it."""
    answer: Json = yield from ledger(context, order, "unlock_pool", pool=order["pool"], holder=order["op"], **noted)
    return answer


def finished(context: Orchestration, order: Json, token: str) -> Steps[Json]:
    """Wait for an Azure operation in an orchestration of its own; no token = it needs no waiting."""
    if not token:
        return {"ok": True, "done": True, "code": "", "message": ""}
    waiting = {name: order[name] for name in ("cluster", "pool", "budget")}
    status: Json = yield context.call_sub_orchestrator("await_operation", {**waiting, "token": token})
    return status
