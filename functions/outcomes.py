"""Activities answer with values: an expected failure is data that an orchestrator decides by.

An exception would fail the sibling activities of a fan-out late and lose its type on the way; so what the outside
refuses becomes {"ok": false, "kind": ...}, and only faults of our own still raise.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, runtime_checkable

from shared.adapters import errors

Json = dict[str, Any]
W = TypeVar("W")  # whatever the steps share: this module need not know
LOG = logging.getLogger("sluice")

THROTTLED = "throttled"
LATER = "later"
STALE = "stale"
NOT_FOUND = "not-found"
REFUSED = "refused"
CAPACITY = "capacity"
REJECTED = "rejected"

_KINDS: tuple[tuple[type[errors.OutsideError], str], ...] = (
    (errors.Throttled, THROTTLED),
    (errors.RetryLater, LATER),
    (errors.StaleWrite, STALE),
    (errors.NotFound, NOT_FOUND),
    (errors.Expired, LATER),
    (errors.Refused, REFUSED),
    (errors.CapacityMissing, CAPACITY),
)


def problem(error: errors.OutsideError) -> Json:
    """An error of the outside as a value."""
    kind = next((word for family, word in _KINDS if isinstance(error, family)), REJECTED)
    retry_after = getattr(error, "retry_after", None)
    return no(kind, error.message[:500], code=error.code, retry_after=retry_after)


def no(kind: str, reason: str, **more: object) -> Json:
    """A failure of `kind`, with the reason that a reader of the status page will see."""
    return {"ok": False, "kind": kind, "reason": reason, **more}


class Busy(Exception):
    """Nothing is done: `kind` and `reason` say why."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


@runtime_checkable
class Patient(Protocol):
    """Who remembers that Azure wants to be left alone."""

    def throttled(self, budget: str, now: str, seconds: float) -> None:
        """Requests that are no necessity are not sent to what draws from this budget, for so long."""
        ...


def outcome(world: W, step: Callable[[W, Json], Json]) -> Callable[[Json], Json]:
    """The step as an activity that answers {"ok": true, ...}, or the refusal as a value."""

    def activity(order: Json) -> Json:
        try:
            return {"ok": True, **step(world, order)}
        except Busy as busy:
            answer = no(busy.kind, busy.reason)
        except errors.OutsideError as error:
            answer = problem(error)
            if answer["kind"] == THROTTLED and "budget" in order and isinstance(world, Patient):
                world.throttled(order["budget"], order["now"], answer["retry_after"] or 0.0)
        tell("refused", activity=step.__name__, **_subject(order), **answer)
        return answer

    activity.__name__ = step.__name__
    activity.__doc__ = step.__doc__
    return activity


def tell(event: str, **fields: object) -> None:
    """One structured line: what happened, then field=value pairs, which no secret is ever among."""
    LOG.info("%s %s", event, " ".join(f"{name}={value!r}" for name, value in fields.items()))


def _subject(order: Json) -> Json:
    return {name: order[name] for name in ("cluster", "pool", "node", "op") if name in order}
