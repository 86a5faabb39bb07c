"""Time and what is due when: the one thing that differs between the simulator and the wall clock.

Stand-ins never sleep and never read a clock; they ask the timeline for `now` and put what comes later on it. A
`VirtualTimeline` jumps from one due action to the next, a `WallTimeline` waits for them on a thread of its own.
Both run actions one at a time, under `lock`, and so do request handlers: a stand-in is a sequential state machine.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

Action = Callable[[], None]
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Due:
    """An action on the timeline; `cancel` makes it nothing."""

    __slots__ = ("action", "cancelled", "order", "when")

    def __init__(self, when: datetime, order: int, action: Action) -> None:
        self.when, self.order, self.action, self.cancelled = when, order, action, False

    def cancel(self) -> None:
        """Idempotent, and harmless after the action ran."""
        self.cancelled = True

    def __lt__(self, other: Due) -> bool:
        return (self.when, self.order) < (other.when, other.order)


class Timeline(Protocol):
    """What stand-ins and the durable backend need of time."""

    lock: threading.RLock

    def now(self) -> datetime:
        """Timezone-aware UTC."""
        ...

    def call_at(self, when: datetime, action: Action) -> Due:
        """Run `action` at `when`, or as soon as possible when that has passed; equal times keep their order."""
        ...

    def call_later(self, seconds: float, action: Action) -> Due:
        """Run `action` in `seconds`."""
        ...


class VirtualTimeline:
    """Deterministic: time moves only inside `run`, from one due action to the next."""

    def __init__(self, start: datetime = EPOCH) -> None:
        self.lock = threading.RLock()
        self._now = start
        self._due: list[Due] = []
        self._order = itertools.count()

    def now(self) -> datetime:
        """The present moment of the simulation."""
        return self._now

    def call_at(self, when: datetime, action: Action) -> Due:
        """See `Timeline.call_at`."""
        due = Due(max(when, self._now), next(self._order), action)
        heapq.heappush(self._due, due)
        return due

    def call_later(self, seconds: float, action: Action) -> Due:
        """See `Timeline.call_later`."""
        return self.call_at(self._now + timedelta(seconds=seconds), action)

    def next_due(self) -> datetime | None:
        """When the next action is due, or None when nothing is."""
        while self._due and self._due[0].cancelled:
            heapq.heappop(self._due)
        return self._due[0].when if self._due else None

    def step(self) -> bool:
        """Run the next action; False when there was none."""
        if self.next_due() is None:
            return False
        due = heapq.heappop(self._due)
        self._now = max(self._now, due.when)
        due.action()
        return True

    def run(self, until: datetime) -> None:
        """Run everything due up to and including `until`, and stand at `until` afterwards."""
        while (due := self.next_due()) is not None and due <= until:
            self.step()
        self._now = max(self._now, until)


class WallTimeline:
    """The same on the wall clock: one daemon thread runs what is due, under `lock`."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._due: list[Due] = []
        self._order = itertools.count()
        self._wake = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="timeline", daemon=True)
        self._thread.start()

    def now(self) -> datetime:
        """The wall clock, UTC."""
        return datetime.now(UTC)

    def call_at(self, when: datetime, action: Action) -> Due:
        """See `Timeline.call_at`."""
        with self._wake:
            due = Due(when, next(self._order), action)
            heapq.heappush(self._due, due)
            self._wake.notify()
            return due

    def call_later(self, seconds: float, action: Action) -> Due:
        """See `Timeline.call_later`."""
        return self.call_at(self.now() + timedelta(seconds=seconds), action)

    def close(self) -> None:
        """Stop: what is still due never runs."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._thread.join(timeout=5)

    def _next(self) -> Due | None:
        with self._wake:
            while not self._closed:
                wait = (self._due[0].when - self.now()).total_seconds() if self._due else None
                if wait is not None and wait <= 0:
                    return heapq.heappop(self._due)
                self._wake.wait(wait)
            return None

    def _serve(self) -> None:
        while (due := self._next()) is not None:
            with self.lock:
                if not due.cancelled:
                    due.action()
