"""How many requests a subscription may still send to one region: a token bucket that knows Retry-After.

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
    """`draw` {now, amount} answers {"wait": seconds}, 0 = taken; `throttled` {now, retry_after} shuts the bucket."""
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
    return {**bucket, "tokens": 0.0, "shut_until": shut_until.isoformat()}, {"ok": True}


def _draw(bucket: Json, order: Json) -> tuple[Json, Json]:
    shut = (datetime.fromisoformat(bucket["shut_until"]) - datetime.fromisoformat(order["now"])).total_seconds()
    missing = min(order["amount"], CAPACITY) - bucket["tokens"]
    wait = max(shut, missing / REFILL_PER_SECOND, 0.0)
    if wait > 0:
        return bucket, {"wait": wait}
    return {**bucket, "tokens": bucket["tokens"] - order["amount"]}, {"wait": 0.0}
