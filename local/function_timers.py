"""Timer triggers: when they are due, and what they are told about it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, Protocol

from azure.functions import meta
from azure.functions.timer import TimerRequestConverter

from local.durable import history
from local.function_index import Timer
from local.ncrontab import Schedule, parse
from local.timeline import Timeline

Fire = Callable[[Timer, Any, Callable[[], None]], None]


class Notes(Protocol):
    """Where the next due time of a timer is kept over restarts."""

    notes: dict[str, str]

    def note(self, key: str, value: str) -> None:
        """Keep it."""
        ...


class Timers:
    """Fires each timer at its times, one call at a time; a time missed (host down, last call too long) is past due
    and fires once."""

    def __init__(self, timers: dict[str, Timer], timeline: Timeline, notes: Notes, fire: Fire) -> None:
        self._timeline, self._notes, self._fire = timeline, notes, fire
        for name, timer in timers.items():
            self._set_up(name, timer)

    def _set_up(self, name: str, timer: Timer) -> None:
        schedule = parse(timer.schedule)
        now = self._timeline.now()
        kept = self._notes.notes.get(f"timer:{name}") if timer.use_monitor else None
        due = history.moment(kept) if kept else schedule.next_after(now)
        if timer.run_on_startup and due > now:
            due = now
        self._set(timer, schedule, due)

    def _set(self, timer: Timer, schedule: Schedule, due: datetime) -> None:
        if timer.use_monitor:
            self._notes.note(f"timer:{timer.indexed.name}", history.stamp(due))
        self._timeline.call_at(due, partial(self._ring, timer, schedule, due))

    def _ring(self, timer: Timer, schedule: Schedule, due: datetime) -> None:
        now = self._timeline.now()
        late = (now - due).total_seconds() > 1
        following = schedule.next_after(due)
        request = timer_request(due, following, late=late)
        self._fire(timer, request, partial(self._go_on, timer, schedule, due))

    def _go_on(self, timer: Timer, schedule: Schedule, due: datetime) -> None:
        with self._timeline.lock:
            following, now = schedule.next_after(due), self._timeline.now()
            self._set(timer, schedule, following if following >= now else schedule.next_after(now))


def timer_request(last: datetime, following: datetime, *, late: bool) -> Any:  # noqa: ANN401 - func.TimerRequest
    """A TimerRequest as the converter makes it from what the host sends."""
    status = {"Last": history.stamp(last), "Next": history.stamp(following), "LastUpdated": history.stamp(last)}
    body = {"IsPastDue": late, "Schedule": {"AdjustForDST": True}, "ScheduleStatus": status}
    return TimerRequestConverter.decode(meta.Datum(type="json", value=history.dumps(body)), trigger_metadata=None)
