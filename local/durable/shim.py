"""What the Durable extension makes of an orchestrator's actions: a replay of the history beside the SDK's own.

The algorithm is that of the extension's OutOfProcOrchestrationShim (schema V2 and V3) on top of DTFx's
TaskOrchestrationContext: the actions are walked in order and each is awaited before the next is invoked; ids are
handed out in that order, and an action whose id is in the history must be what the history says. Failures are the
SDK's to see: here a failed task is a finished one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from local.durable import actions, history
from local.durable.history import Event

MESSAGE_LIMIT: Final = 300  # characters of an action shown in a message

_DETAILS: Final = frozenset({"Input", "FireAt"})

REFUSED: Final = {
    actions.CALL_ACTIVITY_WITH_RETRY: "call_activity_with_retry loses step with the extension's task ids; "
    "retry by hand with call_activity and create_timer",
    actions.CALL_SUB_ORCHESTRATOR_WITH_RETRY: "call_sub_orchestrator_with_retry loses step with the extension's task "
    "ids; retry by hand with call_sub_orchestrator and create_timer",
    actions.CALL_HTTP: "call_http is not served by this host; use an activity",
}


class ProtocolError(Exception):
    """The orchestrator cannot go on: it is not deterministic, or asks for what is not served."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Task:
    """Something awaited: done or not, and what happens then."""

    __slots__ = ("done", "then")

    def __init__(self, *, done: bool = False) -> None:
        self.done = done
        self.then: list[Callable[[], None]] = []

    def finish(self) -> None:
        """Once; later calls change nothing."""
        if not self.done:
            self.done = True
            for act in self.then:
                act()


FINISHED: Final = Task(done=True)


class Shim:
    """One replay: after `run`, `scheduled` are the new history events and the rest says how the instance stands.

    `raced`: among the actions is one after which another may still change (a timer that lost a race is cancelled).
    `strict`: inputs and times of what was scheduled must be the same in every replay, too. DTFx goes by kinds and names
    alone; that is enough where another version of the code replays a history.
    """

    def __init__(self, instance_id: str, execution: int, asked: list[dict[str, Any]], *, strict: bool = True) -> None:
        self._instance_id, self._execution, self._actions = instance_id, execution, asked
        self._strict = strict
        self.scheduled: list[Event] = []
        self.requests: dict[int, dict[str, Any]] = {}
        self.cancelled: set[int] = set()
        self.open: dict[int, Task] = {}
        self.continues = False
        self.next_input: str | None = None
        self.idle = False
        self.raced = False
        self._next_id = 0
        self._position = 0
        self._waiting: dict[str, list[Task]] = {}
        self._buffered: dict[str, int] = {}
        self._seen: dict[int, Event] = {}

    def run(self, events: list[Event]) -> None:
        """Replay `events`. Raises ProtocolError where the actions do not follow from them."""
        self._seen = {event["EventId"]: event for event in events if event["EventType"] in history.SCHEDULING}
        for event in events:
            kind = event["EventType"]
            if kind in history.COMPLETING:
                self._complete(event["TimerId"] if kind == history.TIMER_FIRED else event["TaskScheduledId"])
            elif kind == history.EVENT_RAISED:
                self._raise(event["Name"])
            elif kind == history.EXECUTION_STARTED:
                self._walk()
        if self._seen:
            self._refuse_leftover(next(iter(self._seen.values())))

    def resume(self, asked: list[dict[str, Any]], events: list[Event]) -> None:
        """Go on from where `run` or `resume` ended: the actions that are new, and the events that brought them."""
        self.scheduled, self.requests, self.cancelled = [], {}, set()
        self._actions += asked
        for event in events:
            kind = event["EventType"]
            if kind in history.COMPLETING:
                self._complete(event["TimerId"] if kind == history.TIMER_FIRED else event["TaskScheduledId"])
            elif kind == history.EVENT_RAISED:
                self._raise(event["Name"])
        if self.idle and self._position < len(self._actions):
            self.idle = False
            self._walk()

    @property
    def settled(self) -> bool:
        """Nothing is awaited any more and no task is open: the instance may end."""
        return self.idle and not self.open

    def _walk(self) -> None:
        while self._position < len(self._actions):
            task = self._invoke(self._actions[self._position])
            self._position += 1
            if not task.done:
                task.then.append(self._walk)
                return
        self.idle = True

    def _complete(self, task: int) -> None:
        if (waiting := self.open.pop(task, None)) is not None:
            waiting.finish()

    def _raise(self, name: str) -> None:
        if tasks := self._waiting.get(name):
            tasks.pop(0).finish()
        else:
            self._buffered[name] = self._buffered.get(name, 0) + 1

    def _listen(self, name: str) -> Task:
        if self._buffered.get(name):
            self._buffered[name] -= 1
            return FINISHED
        task = Task()
        self._waiting.setdefault(name, []).append(task)
        return task

    def _invoke(self, action: dict[str, Any]) -> Task:  # noqa: PLR0911 - one line per kind of action
        match action["actionType"]:
            case actions.CALL_ACTIVITY:
                return self._activity(action)
            case actions.CALL_ENTITY | actions.SIGNAL_ENTITY as kind:
                return self._entity(action, signal=kind == actions.SIGNAL_ENTITY)
            case actions.CREATE_TIMER:
                return self._timer(action)
            case actions.CALL_SUB_ORCHESTRATOR:
                return self._sub_orchestration(action)
            case actions.WHEN_ANY:
                self.raced = True
                return self._any([self._invoke(child) for child in action["compoundActions"]])
            case actions.WHEN_ALL:
                return self._all([self._invoke(child) for child in action["compoundActions"]])
            case actions.WAIT_FOR_EVENT:
                self.raced = True
                return self._listen(action["externalEventName"])
            case actions.CONTINUE_AS_NEW:
                self._next_id += 1
                self.continues, self.next_input = True, action.get("input")
                return FINISHED
            case kind:
                raise ProtocolError("refused", REFUSED.get(kind, f"action type {kind} is not known to this host"))

    def _activity(self, action: dict[str, Any]) -> Task:
        name = action["functionName"]
        return self._schedule(history.TASK_SCHEDULED, {"Name": name, "Input": action.get("input")}, "Name", "Input")[1]

    def _sub_orchestration(self, action: dict[str, Any]) -> Task:
        child = action.get("instanceId") or f"{self._instance_id}:{self._execution}:{self._next_id}"
        fields = {
            "Name": action["functionName"],
            "Version": action.get("version") or "",
            "Input": action.get("input"),
            "InstanceId": child,
        }
        return self._schedule(history.SUB_CREATED, fields, "Name", "InstanceId", "Input")[1]

    def _timer(self, action: dict[str, Any]) -> Task:
        number, task = self._schedule(history.TIMER_CREATED, {"FireAt": action["fireAt"]}, "FireAt")
        if action["isCanceled"]:
            self.cancelled.add(number)
            self._complete(number)
        return task

    def _entity(self, action: dict[str, Any], *, signal: bool) -> Task:
        number = self._next_id
        request = history.entity_request(self._instance_id, self._execution, number, action, signal=signal)
        fields = {"InstanceId": action["instanceId"], "Name": "op", "Input": history.dumps(request)}
        known = number in self._seen
        self._schedule(history.EVENT_SENT, fields, "InstanceId", "Input")
        del self.open[number]
        if not known:
            self.requests[number] = request
        return FINISHED if signal else self._listen(request["id"])

    def _schedule(self, kind: int, fields: dict[str, Any], *may_match: str) -> tuple[int, Task]:
        must_match = may_match if self._strict else tuple(name for name in may_match if name not in _DETAILS)
        number = self._next_id
        self._next_id += 1
        task = self.open[number] = Task()
        known = self._seen.pop(number, None)
        if known is None:
            self.scheduled.append({"EventType": kind, "EventId": number, **fields})
        elif known["EventType"] != kind or any(known[name] != fields[name] for name in must_match):
            self._refuse_change(known, kind, fields, must_match)
        return number, task

    def _any(self, tasks: list[Task]) -> Task:
        if not tasks or any(task.done for task in tasks):
            return FINISHED
        group = Task()
        for task in tasks:
            task.then.append(group.finish)
        return group

    def _all(self, tasks: list[Task]) -> Task:
        left = [task for task in tasks if not task.done]
        if not left:
            return FINISHED
        group, count = Task(), len(left)

        def one_less() -> None:
            nonlocal count
            count -= 1
            if count == 0:
                group.finish()

        for task in left:
            task.then.append(one_less)
        return group

    def _refuse_change(self, known: Event, kind: int, fields: dict[str, Any], names: tuple[str, ...]) -> None:
        was = f"{history.NAMES[known['EventType']]} {[known.get(name) for name in names]}"[:MESSAGE_LIMIT]
        now = f"{history.NAMES[kind]} {[fields[name] for name in names]}"[:MESSAGE_LIMIT]
        raise ProtocolError(
            "non-deterministic",
            f"Non-Deterministic workflow detected: task {known['EventId']} was {was} before and is {now} in this "
            "replay; an orchestrator must ask for the same things in the same order whenever it is replayed",
        )

    def _refuse_leftover(self, known: Event) -> None:
        raise ProtocolError(
            "non-deterministic",
            f"Non-Deterministic workflow detected: task {known['EventId']}, a {history.NAMES[known['EventType']]}, was "
            "scheduled before and is not asked for in this replay",
        )
