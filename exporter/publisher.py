"""What waits to be sent: at most one event of each type, so that an outage of the topic costs no memory and no order.

A newer observation supersedes an unsent one of its type (the snapshot in it says everything that the older one said)
and inherits the nodes that the older one named. An attempt that failed is repeated with the very same event, so that a
delivery whose answer was lost is recognised by its id.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from exporter.reflector import next_delay
from shared.adapters.errors import OutsideError, Rejected, RetryLater
from shared.adapters.protocols import EventPublisher, Json
from shared.names import NODE_EVICTING, NODE_IDLE, NODE_JOINED, PODS_UNSCHEDULABLE

ORDER = (NODE_EVICTING, PODS_UNSCHEDULABLE, NODE_IDLE, NODE_JOINED)  # by what waiting costs

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Notice:
    """What detectors saw: a type of `shared.names`, and the nodes that it is about (none for pods)."""

    kind: str
    nodes: tuple[str, ...] = ()


@dataclass(slots=True)
class Counters:
    """Since the start. `superseded` were dropped for a newer one, `rejected` for what the topic said."""

    published: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ORDER, 0))
    superseded: int = 0
    rejected: int = 0
    failures: int = 0


@dataclass(slots=True)
class _Waiting:
    notice: Notice
    since: datetime
    event: Json | None = None


class Outbox:
    """`build` makes the event of a notice, with the newest snapshot; it may raise `OutsideError` (a claim check is
    written first) and is then called again with the next attempt."""

    def __init__(self, publisher: EventPublisher, build: Callable[[Notice, datetime], Json]) -> None:
        self._publisher, self._build = publisher, build
        self._waiting: dict[str, _Waiting] = {}
        self._failures = 0
        self._not_before: datetime | None = None
        self.counters = Counters()
        self.problem = ""

    def offer(self, notice: Notice, now: datetime) -> None:
        """Put it where the next `flush` finds it."""
        older = self._waiting.get(notice.kind)
        if older is None:
            self._waiting[notice.kind] = _Waiting(notice, now)
            return
        self.counters.superseded += 1
        nodes = tuple(dict.fromkeys((*older.notice.nodes, *notice.nodes)))
        self._waiting[notice.kind] = _Waiting(Notice(notice.kind, nodes), older.since)

    def flush(self, now: datetime, *, force: bool = False) -> None:
        """Send what waits, unless the last failure is too recent; `force` tries all the same, for a last time before a
        stop. Never raises for what the outside answers."""
        if self._not_before is not None and now < self._not_before and not force:
            return
        self._not_before = None
        for kind in ORDER:
            if kind in self._waiting and not self._sent(self._waiting[kind], now):
                return

    def clear(self) -> None:
        """Forget what waits: somebody else publishes now, under an epoch of its own."""
        self.counters.superseded += len(self._waiting)
        self._waiting.clear()

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting

    def next_due(self) -> datetime | None:
        """When `flush` should be called; None when nothing waits."""
        if not self._waiting:
            return None
        return self._not_before or min(waiting.since for waiting in self._waiting.values())

    def lag(self, now: datetime) -> float:
        """Seconds that the oldest unsent notice waits; 0 when none does."""
        waiting = list(self._waiting.values())  # a copy: the health endpoint asks from a thread of its own
        return max(((now - one.since).total_seconds() for one in waiting), default=0.0)

    def _sent(self, waiting: _Waiting, now: datetime) -> bool:
        """Whether to go on: False after a failure that concerns the topic and not this event."""
        kind = waiting.notice.kind
        try:
            if waiting.event is None:
                waiting.event = self._build(waiting.notice, now)
            self._publisher.publish([waiting.event])
        except Rejected as error:
            self.counters.rejected += 1
            _log.error("%s was dropped, the topic will never take it: %s", kind, error)
        except OutsideError as error:
            self._failed(kind, error, now)
            return False
        else:
            self.counters.published[kind] += 1
            self._failures, self.problem = 0, ""
        del self._waiting[kind]
        return True

    def _failed(self, kind: str, error: OutsideError, now: datetime) -> None:
        """Anything but a rejection may pass, a missing right too once it was given."""
        self._failures += 1
        self.counters.failures += 1
        asked = error.retry_after if isinstance(error, RetryLater) else None
        self._not_before = now + timedelta(seconds=next_delay(self._failures, asked))
        if str(error) != self.problem:
            _log.warning("%s waits: %s", kind, error)
        self.problem = str(error)
