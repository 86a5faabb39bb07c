"""What the backend keeps: instances, entities, and the messages between them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from local.durable.history import Event
from local.timeline import Due

ANY_EXECUTION: Final = -1


class Status(StrEnum):
    """`runtimeStatus` as the extension writes it."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    COMPLETED = "Completed"
    FAILED = "Failed"
    TERMINATED = "Terminated"


FINISHED: Final = frozenset({Status.COMPLETED, Status.FAILED, Status.TERMINATED})


class Kind(StrEnum):
    """What a message is for."""

    EVENT = "event"  # a history event for an instance
    ACTIVITY = "activity"  # an activity to run
    ENTITY = "entity"  # an operation on an entity


@dataclass(slots=True, eq=False)
class Message:
    """Something due: delivered at least once, and gone in the transaction that takes note of its effect.

    `execution` is the generation of the instance that it belongs to (an instance that continued as new takes no
    message of its former self), or ANY_EXECUTION.
    """

    number: int
    kind: Kind
    target: str
    execution: int
    due: datetime
    payload: dict[str, Any]
    scheduled: Due | None = None


@dataclass(frozen=True, slots=True)
class Parent:
    """Who waits for a sub-orchestration."""

    instance_id: str
    execution: int
    task: int


@dataclass(slots=True, eq=False)
class Instance:
    """One orchestration. `input` and `output` are JSON text; `history` is emptied where it is not kept after the end.

    `longest` counts the history events of its longest execution.
    """

    id: str
    name: str
    version: str
    input: str | None
    created: datetime
    updated: datetime
    parent: Parent | None = None
    status: Status = Status.PENDING
    execution: int = 0
    output: str | None = None
    custom_status: str | None = None
    history: list[Event] = field(default_factory=list)
    longest: int = 0
    inbox: list[Message] = field(default_factory=list)
    awake: bool = False  # an episode is on the timeline
    timers: dict[int, Message] = field(default_factory=dict)
    order: dict[str, datetime] = field(default_factory=dict)  # by entity: nothing sent later arrives before this

    @property
    def finished(self) -> bool:
        """Nothing more will happen to it."""
        return self.status in FINISHED


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule of the project, or of Durable Functions, that an instance broke."""

    kind: str
    instance_id: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.instance_id}: {self.message}"


@dataclass(frozen=True, slots=True)
class Limits:
    """What the host asserts; a payload is counted in characters of its JSON text (ASCII, hence bytes)."""

    payload_bytes: int = 32_768
    """Input, output and entity state: storage moves larger ones to blobs, and every replay pays for them again."""
    history_events: int = 100
    """Replay is quadratic in the history; longer work continues as new."""


@dataclass(frozen=True, slots=True)
class Faults:
    """What Durable Functions may do to an app now and then, each by its rate (0 to 1) and drawn by seed."""

    twin_start_rate: float = 0.0
    """Share of the starts of an id that began within the last two seconds which report success, as two concurrent
    starts may in Azure; still one instance runs."""
    rerun_activity_rate: float = 0.0
    """Share of the activities that run twice, the first result being lost with the worker that had it. Virtual clock
    only: on the wall clock, killing the process does the same."""


@dataclass(frozen=True, slots=True)
class Latencies:
    """Seconds that each hop takes, drawn evenly between the two; `none()` for the wall clock, which has its own.

    The defaults are those of a storage queue that is polled often: tens to hundreds of milliseconds.
    """

    start: tuple[float, float] = (0.05, 0.4)
    activity: tuple[float, float] = (0.02, 0.15)
    completion: tuple[float, float] = (0.02, 0.15)
    entity: tuple[float, float] = (0.02, 0.15)
    event: tuple[float, float] = (0.02, 0.2)
    timer: tuple[float, float] = (0.0, 0.5)
    signal: tuple[float, float] = (0.02, 0.3)
    late_signal_rate: float = 0.05
    """Share of the signals that are seen much later than what was started after them."""
    late_signal: tuple[float, float] = (1.0, 15.0)

    @classmethod
    def none(cls) -> Latencies:
        """Everything at once."""
        zero = (0.0, 0.0)
        return cls(zero, zero, zero, zero, zero, zero, zero, 0.0, zero)


class Draws:
    """How long each message takes, drawn from a stream of their own. Whoever knows better overrides a method: each is
    told for whom the message is. All answer seconds."""

    def __init__(self, latencies: Latencies, source: random.Random) -> None:
        self.latencies, self._source = latencies, source

    def start(self, instance_id: str) -> float:  # noqa: ARG002 - for those who know of queues
        """From the wish to start an orchestration to its first episode."""
        return self._seconds(self.latencies.start)

    def activity(self, name: str) -> float:  # noqa: ARG002
        """From an orchestrator to an activity."""
        return self._seconds(self.latencies.activity)

    def completion(self, instance_id: str) -> float:  # noqa: ARG002
        """From the end of an activity, a sub-orchestration or an entity's operation to who waits for it."""
        return self._seconds(self.latencies.completion)

    def entity(self, entity_id: str) -> float:  # noqa: ARG002
        """From an orchestrator to an entity that is called."""
        return self._seconds(self.latencies.entity)

    def event(self, instance_id: str) -> float:  # noqa: ARG002
        """From a client to an orchestration that waits for an event."""
        return self._seconds(self.latencies.event)

    def timer(self, instance_id: str, due: datetime) -> float:  # noqa: ARG002
        """From the moment for which a timer was set."""
        return self._seconds(self.latencies.timer)

    def signal(self, entity_id: str) -> float:  # noqa: ARG002
        """From a signal to its entity, now and then very long."""
        seconds = self._seconds(self.latencies.signal)
        if self.latencies.late_signal_rate and self._source.random() < self.latencies.late_signal_rate:
            seconds += self._seconds(self.latencies.late_signal)
        return seconds

    def _seconds(self, span: tuple[float, float]) -> float:
        """Between the two numbers; nothing is drawn for an empty span."""
        low, high = span
        return low if high <= low else low + (high - low) * self._source.random()
