"""Six-field NCRONTAB schedules of timer triggers: {second} {minute} {hour} {day} {month} {day of week}, UTC."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

_FIELDS = (("second", 0, 59), ("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_HORIZON = timedelta(days=366 * 8 + 1)  # 29 February is never further away


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a timer is due. Day of month and day of week must both hold, as NCrontab has it."""

    text: str
    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 is Sunday

    def next_after(self, moment: datetime) -> datetime:
        """The first due time later than `moment`. Raises ValueError when there is none (30 February)."""
        day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
        end = day + _HORIZON
        while day <= end:
            if self._on(day) and (found := self._within(day, moment)) is not None:
                return found
            day += timedelta(days=1)
        raise ValueError(f"schedule {self.text!r} never comes: no such day in any month")

    def _on(self, day: datetime) -> bool:
        return day.day in self.days and day.month in self.months and day.isoweekday() % 7 in self.weekdays

    def _within(self, day: datetime, after: datetime) -> datetime | None:
        for hour in self.hours:
            if day.replace(hour=hour, minute=59, second=59) <= after:
                continue
            for minute in self.minutes:
                if day.replace(hour=hour, minute=minute, second=59) <= after:
                    continue
                for second in self.seconds:
                    found = day.replace(hour=hour, minute=minute, second=second)
                    if found > after:
                        return found
        return None


def parse(text: str) -> Schedule:
    """Read a schedule; a five-field one gets second 0. Raises ValueError naming field and value."""
    parts = text.split()
    if len(parts) == 5:
        parts.insert(0, "0")
    if len(parts) != 6:
        raise ValueError(f"schedule {text!r} has {len(parts)} fields; give second minute hour day month weekday")
    values = [_field(part, *field) for part, field in zip(parts, _FIELDS, strict=True)]
    seconds, minutes, hours = (tuple(sorted(value)) for value in values[:3])
    weekdays = frozenset(day % 7 for day in values[5])
    return Schedule(text, seconds, minutes, hours, values[3], values[4], weekdays)


def _field(text: str, name: str, low: int, high: int) -> frozenset[int]:
    found: set[int] = set()
    for part in text.lower().split(","):
        span, _, step = part.partition("/")
        first, last = _span(span, name, low, high, open_end=bool(step))
        if not low <= first <= last <= high or (step and not (step.isdigit() and int(step))):
            raise ValueError(f"schedule field {name} has {part!r}; it takes {low}-{high}, a-b, lists and */step")
        found.update(range(first, last + 1, int(step or 1)))
    return frozenset(found)


def _span(text: str, name: str, low: int, high: int, *, open_end: bool) -> tuple[int, int]:
    if text == "*":
        return low, min(high, 6) if name == "weekday" else high
    first, dash, last = text.partition("-")
    begin = _number(first, name)
    if dash:
        return begin, _number(last, name)
    return begin, high if open_end else begin


def _number(text: str, name: str) -> int:
    if text.isdigit():
        return int(text)
    if name == "month" and text[:3] in _MONTHS:
        return _MONTHS.index(text[:3]) + 1
    if name == "weekday" and text[:3] in _WEEKDAYS:
        return _WEEKDAYS.index(text[:3])
    raise ValueError(f"schedule field {name} has {text!r}, which is no number and no name")
