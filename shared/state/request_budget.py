"""How many requests a subscription may still send to one region: a token bucket that knows Retry-After.

Whoever draws more than there is goes into debt and is told how long to wait: one answer, however many draw at once.
Refused instead, all would come back at the same moment, again and again, and one of them be served each time.

Sizes are Azure Resource Manager's own for writes (bucket 200, refilled by 10 a second, per subscription, region and
principal: "Understand how Azure Resource Manager throttles requests"); reads have more, and are counted as writes here,
so the bucket errs on the patient side.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

Json = dict[str, Any]

CAPACITY = 200.0
REFILL_PER_SECOND = 10.0
RETRY_AFTER_CAP = (
    300.0  # Azure has been seen to say 1200 s with quota left; asking once after five minutes costs little
)


def apply(state: Json | None, operation: str, order: Json) -> tuple[Json, Json]:
    """`draw` {now, amount, urgent?} answers {"wait": seconds}: taken, and may be used after them; `throttled` {now,
    retry_after} shuts the bucket."""
    bucket = _refilled(state, order["now"])
    if operation == "throttled":
        return _shut(bucket, order)
    if operation == "draw":
        return _draw(bucket, order)
    raise ValueError(f"operation {operation!r} is unknown to the request budget")


def _refilled(state: Json | None, now: str) -> Json:
    if state is None:
        return {"tokens": CAPACITY, "at": now, "shut_until": now}
    passed = max(0.0, (datetime.fromisoformat(now) - datetime.fromisoformat(state["at"])).total_seconds())
    return {**state, "tokens": min(CAPACITY, state["tokens"] + passed * REFILL_PER_SECOND), "at": now}


def _shut(bucket: Json, order: Json) -> tuple[Json, Json]:
    seconds = min(RETRY_AFTER_CAP, max(1.0, order.get("retry_after") or 10.0))
    until = datetime.fromisoformat(order["now"]) + timedelta(seconds=seconds)
    shut_until = max(until, datetime.fromisoformat(bucket["shut_until"]))
    return {**bucket, "tokens": min(0.0, bucket["tokens"]), "shut_until": shut_until.isoformat()}, {"ok": True}


def _draw(bucket: Json, order: Json) -> tuple[Json, Json]:
    """What is drawn is gone. `urgent` draws do not wait for the debt of others, only while the bucket is shut."""
    shut = (datetime.fromisoformat(bucket["shut_until"]) - datetime.fromisoformat(order["now"])).total_seconds()
    amount = min(order["amount"], CAPACITY)
    queue = 0.0 if order.get("urgent") or not amount else (amount - bucket["tokens"]) / REFILL_PER_SECOND
    return {**bucket, "tokens": bucket["tokens"] - amount}, {"wait": max(shut, queue, 0.0)}
