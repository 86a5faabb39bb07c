"""History events as azure-functions-durable reads them: plain dictionaries with the extension's names and numbers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import orjson

Event = dict[str, Any]

EXECUTION_STARTED: Final = 0
TASK_SCHEDULED: Final = 4
TASK_COMPLETED: Final = 5
TASK_FAILED: Final = 6
SUB_CREATED: Final = 7
SUB_COMPLETED: Final = 8
SUB_FAILED: Final = 9
TIMER_CREATED: Final = 10
TIMER_FIRED: Final = 11
ORCHESTRATOR_STARTED: Final = 12
ORCHESTRATOR_COMPLETED: Final = 13
EVENT_SENT: Final = 14
EVENT_RAISED: Final = 15
SUSPENDED: Final = 19
RESUMED: Final = 20

SCHEDULING: Final = frozenset({TASK_SCHEDULED, SUB_CREATED, TIMER_CREATED, EVENT_SENT})
COMPLETING: Final = frozenset({TASK_COMPLETED, TASK_FAILED, SUB_COMPLETED, SUB_FAILED, TIMER_FIRED})

NAMES: Final = {
    EXECUTION_STARTED: "ExecutionStarted",
    TASK_SCHEDULED: "TaskScheduled",
    TASK_COMPLETED: "TaskCompleted",
    TASK_FAILED: "TaskFailed",
    SUB_CREATED: "SubOrchestrationInstanceCreated",
    SUB_COMPLETED: "SubOrchestrationInstanceCompleted",
    SUB_FAILED: "SubOrchestrationInstanceFailed",
    TIMER_CREATED: "TimerCreated",
    TIMER_FIRED: "TimerFired",
    ORCHESTRATOR_STARTED: "OrchestratorStarted",
    ORCHESTRATOR_COMPLETED: "OrchestratorCompleted",
    EVENT_SENT: "EventSent",
    EVENT_RAISED: "EventRaised",
    SUSPENDED: "ExecutionSuspended",
    RESUMED: "ExecutionResumed",
}


def stamp(moment: datetime) -> str:
    """A time as the extension writes it: UTC, six digits, a literal Z."""
    text = moment.astimezone(UTC).isoformat(timespec="microseconds")
    return text[:-6] + "Z"


def moment(text: str) -> datetime:
    """The inverse of `stamp`; more than six digits of a second are cut."""
    return datetime.fromisoformat(text)


def encode(events: list[Event]) -> str:
    """The events as the inside of a JSON array, without its brackets."""
    return orjson.dumps(events)[1:-1].decode()


def played(events: list[Event]) -> str:
    """The same, marked as seen by an earlier episode."""
    return orjson.dumps([{**event, "IsPlayed": True} for event in events])[1:-1].decode()


def loads(text: str) -> Any:  # noqa: ANN401 - JSON
    """JSON text to a value; None for None's sake."""
    return orjson.loads(text)


def dumps(value: object) -> str:
    """A value to compact JSON text."""
    return orjson.dumps(value).decode()


def execution_started(name: str, version: str, text: str | None) -> Event:
    """The event that begins an execution; the SDK needs `Version` to be there."""
    return {"EventType": EXECUTION_STARTED, "EventId": -1, "Name": name, "Version": version, "Input": text}


def task_completed(task: int, result: str | None) -> Event:
    """An activity's result, as JSON text."""
    return {"EventType": TASK_COMPLETED, "EventId": -1, "TaskScheduledId": task, "Result": result}


def task_failed(task: int, reason: str, details: str = "") -> Event:
    """An activity's failure; `reason` is what the orchestrator's exception says first."""
    return {"EventType": TASK_FAILED, "EventId": -1, "TaskScheduledId": task, "Reason": reason, "Details": details}


def sub_completed(task: int, result: str | None) -> Event:
    """A sub-orchestration's result, as JSON text."""
    return {"EventType": SUB_COMPLETED, "EventId": -1, "TaskScheduledId": task, "Result": result}


def sub_failed(task: int, reason: str, details: str = "") -> Event:
    """A sub-orchestration's failure."""
    return {"EventType": SUB_FAILED, "EventId": -1, "TaskScheduledId": task, "Reason": reason, "Details": details}


def timer_fired(task: int, fire_at: str) -> Event:
    """A timer is due."""
    return {"EventType": TIMER_FIRED, "EventId": -1, "TimerId": task, "FireAt": fire_at}


def event_raised(name: str, text: str | None) -> Event:
    """An external event, or an entity's answer (whose name is the request's id); `text` is JSON."""
    return {"EventType": EVENT_RAISED, "EventId": -1, "Name": name, "Input": text}


def entity_request(sender: str, execution: int, task: int, action: Event, *, signal: bool) -> Event:
    """What an orchestrator sends to an entity; its id is unique and the same in every replay."""
    return {
        "id": f"{sender}:{execution}:{task}",
        "op": action["operation"],
        "input": action.get("input"),
        "signal": signal,
        "parent": None if signal else sender,
        "execution": execution,
    }
