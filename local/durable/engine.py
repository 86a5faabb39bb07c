"""The Durable backend: instances, entities and messages, one step of one of them at a time.

Everything lives in memory. A step takes a message, runs one episode of an orchestrator or one operation of an entity,
and ends in one transaction: what was taken, what changed, what was sent. Only after the transaction is what was sent
put on the timeline. An activity's message is taken when its result is noted, so an activity may run twice, as in Azure.
"""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol

from local.durable import history, sdk, versions
from local.durable.entities import EntityFailure, operate
from local.durable.history import Event
from local.durable.journal import Changes, Journal, NullJournal
from local.durable.model import (
    ANY_EXECUTION,
    Draws,
    Instance,
    Kind,
    Limits,
    Message,
    Parent,
    Status,
    Violation,
)
from local.durable.replay import context_of, run_orchestrator
from local.durable.sessions import Session, can_stay
from local.durable.shim import ProtocolError, Shim
from local.timeline import Timeline

Done = Callable[[str | None, str | None], None]


class Functions(Protocol):
    """The app's own functions, as the backend sees them."""

    @property
    def orchestrators(self) -> Mapping[str, Callable[[str], str]]:
        """By name: context JSON to state JSON; raises, with the state in the message, when the code failed."""
        ...

    @property
    def entities(self) -> Mapping[str, Callable[[str], str]]:
        """By lower-case name: batch JSON to result JSON."""
        ...

    def run_activity(self, name: str, text: str | None, done: Done) -> None:
        """Run it, now or on another thread, and call `done(result JSON, None)` or `done(None, failure)`."""
        ...


class StartRefused(Exception):
    """No instance was started; `status` is what the extension's endpoint would answer."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the host wants to hear of."""

    on_violation: Callable[[Violation], None] = lambda _: None
    on_instance_end: Callable[[Instance], None] = lambda _: None


class Engine:
    """See the module. All methods are called under the timeline's lock."""

    def __init__(  # noqa: PLR0913 - all but the first three by keyword
        self,
        functions: Functions,
        timeline: Timeline,
        draws: Draws,
        *,
        journal: Journal | None = None,
        limits: Limits | None = None,
        hooks: Hooks | None = None,
        keep_histories: bool = True,
        extended_sessions: float = 0.0,
        version: str = "",
        strict: bool = True,
    ) -> None:
        """`extended_sessions`: the share of the instances that stay in memory between episodes. `version`: host.json's
        `defaultVersion`; instances of a later one are left to whoever knows it (`versionMatchStrategy` CurrentOrOlder,
        `versionFailureStrategy` Reject). `strict`: see `Shim`."""
        sdk.prepare()
        self._functions, self._timeline, self._draws = functions, timeline, draws
        self._journal: Journal = journal or NullJournal()
        self._limits, self._hooks = limits or Limits(), hooks or Hooks()
        self._keep_histories, self._extended_sessions = keep_histories, extended_sessions
        self._version, self._strict = version, strict
        self._sessions: dict[str, Session] = {}
        self._numbers = itertools.count(1)
        self._changes = Changes()
        self._stopped = False
        self.instances: dict[str, Instance] = {}
        self.entities: dict[str, str] = {}
        self.notes: dict[str, str] = {}
        self.violations: list[Violation] = []
        self.activities_running = 0

    # Life of the backend

    def load(self) -> None:
        """Bring back what the journal holds, and go on with it."""
        stored = self._journal.load()
        self.instances = {instance.id: instance for instance in stored.instances}
        self.entities, self.notes = stored.entities, stored.notes
        last = max([0, *(m.number for m in stored.messages), *(i.execution for i in stored.instances)])
        self._numbers = itertools.count(last + 1)
        for message in stored.messages:
            self._remember_timer(message)
            self._put_on_timeline(message)

    def stop(self) -> None:
        """Deliver nothing more; what is due stays in the journal. Results of running activities are still noted."""
        self._stopped = True

    def note(self, key: str, value: str) -> None:
        """Keep a small fact over restarts."""
        self.notes[key] = self._changes.notes[key] = value
        self._commit()

    # What clients may ask

    def start(self, name: str, text: str | None, instance_id: str, version: str = "") -> Instance:
        """Begin an orchestration. Raises StartRefused for an unknown function or a running instance of that id."""
        if name not in self._functions.orchestrators:
            raise StartRefused(
                f"The function '{name}' doesn't exist, is disabled, or is not an orchestrator function. "
                f"The following are the known orchestrator functions: {sorted(self._functions.orchestrators)}",
                400,
            )
        if (existing := self.instances.get(instance_id)) is not None and not existing.finished:
            raise StartRefused(f"An Orchestration instance with the status {existing.status} already exists.", 500)
        instance = self._create(name, text, instance_id, version, None)
        self._commit()
        return instance

    def raise_event(self, instance: Instance, name: str, text: str) -> None:
        """Send an external event; it is buffered until somebody waits for it."""
        event = history.event_raised(name, text)
        self._send(Kind.EVENT, instance.id, ANY_EXECUTION, event, self._draws.event(instance.id))
        self._commit()

    def signal(self, entity_id: str, operation: str, text: str | None) -> None:
        """Send an operation to an entity; nobody hears the result."""
        number = next(self._numbers)
        request = {"id": f"signal:{number}", "op": operation, "input": text, "signal": True, "parent": None}
        self._send(Kind.ENTITY, entity_id, ANY_EXECUTION, request, self._draws.signal(entity_id))
        self._commit()

    def terminate(self, instance: Instance, reason: str) -> None:
        """End it now; its sub-orchestrations go on, as in Azure."""
        self._end(instance, Status.TERMINATED, json.dumps(reason), f"Orchestration was terminated: {reason}")
        self._commit()
        self._tell_if_ended(instance)

    def suspend(self, instance: Instance, reason: str) -> None:
        """Take no step until resumed; what arrives is kept."""
        if instance.status is not Status.SUSPENDED:
            self._mark(instance, Status.SUSPENDED, {"EventType": history.SUSPENDED, "EventId": -1, "Reason": reason})

    def resume(self, instance: Instance, reason: str) -> None:
        """Go on after `suspend`."""
        if instance.status is Status.SUSPENDED:
            status = Status.RUNNING if instance.history else Status.PENDING
            self._mark(instance, status, {"EventType": history.RESUMED, "EventId": -1, "Reason": reason})
            if instance.inbox:
                self._wake(instance)

    def purge(self, instance: Instance) -> None:
        """Forget a finished instance."""
        del self.instances[instance.id]
        self._changes.purged.append(instance.id)
        self._commit()

    def history_of(self, instance: Instance) -> list[Event]:
        """The events of its latest execution, as far as they were kept."""
        return instance.history or self._journal.history(instance.id)

    # Messages

    def _send(self, kind: Kind, target: str, execution: int, payload: dict[str, Any], seconds: float) -> Message:
        now = self._timeline.now()
        return self._post(kind, target, execution, payload, now + timedelta(seconds=seconds) if seconds else now)

    def _post(self, kind: Kind, target: str, execution: int, payload: dict[str, Any], due: datetime) -> Message:
        message = Message(next(self._numbers), kind, target, execution, due, payload)
        self._changes.sent.append(message)
        return message

    def _commit(self) -> None:
        changes, self._changes = self._changes, Changes()
        self._journal.commit(changes)
        for message in changes.sent:
            self._put_on_timeline(message)

    def _put_on_timeline(self, message: Message) -> None:
        message.scheduled = self._timeline.call_at(message.due, partial(self._deliver, message))

    def _deliver(self, message: Message) -> None:
        if self._stopped:
            return
        match message.kind:
            case Kind.EVENT:
                self._deliver_event(message)
            case Kind.ACTIVITY:
                self.activities_running += 1
                payload = message.payload
                self._functions.run_activity(payload["name"], payload["input"], partial(self._activity_done, message))
            case Kind.ENTITY:
                self._operate(message)

    def _deliver_event(self, message: Message) -> None:
        instance = self.instances.get(message.target)
        if instance is None or instance.finished or message.execution not in (ANY_EXECUTION, instance.execution):
            self._changes.taken.append(message)
            self._commit()
            return
        instance.inbox.append(message)
        kind = message.payload["EventType"]
        if kind == history.TIMER_FIRED:
            instance.timers.pop(message.payload["TimerId"], None)
        if instance.history or kind == history.EXECUTION_STARTED:
            self._wake(instance)

    def _wake(self, instance: Instance) -> None:
        if not instance.awake and instance.status is not Status.SUSPENDED:
            instance.awake = True
            self._timeline.call_at(self._timeline.now(), partial(self._step, instance))

    def _activity_done(self, message: Message, result: str | None, failure: str | None) -> None:
        with self._timeline.lock:
            self.activities_running -= 1
            task = message.payload["task"]
            event = history.task_completed(task, result) if failure is None else history.task_failed(task, failure)
            self._changes.taken.append(message)
            seconds = self._draws.completion(message.target)
            self._send(Kind.EVENT, message.target, message.execution, event, seconds)
            self._commit()

    # Orchestrations

    def _create(self, name: str, text: str | None, identity: str, version: str, parent: Parent | None) -> Instance:
        now = self._timeline.now()
        version = version or self._version
        instance = Instance(identity, name, version, text, now, now, parent, execution=next(self._numbers))
        if identity in self.instances:
            self._changes.forgotten.append(identity)
        self.instances[identity] = instance
        self._check_size(identity, "input", text)
        self._begin(instance, self._draws.start(identity))
        return instance

    def _begin(self, instance: Instance, seconds: float) -> None:
        event = history.execution_started(instance.name, instance.version, instance.input)
        self._send(Kind.EVENT, instance.id, instance.execution, event, seconds)
        self._changes.instances[instance.id] = instance

    def _step(self, instance: Instance) -> None:
        instance.awake = False
        if self._stopped or instance.finished or instance.status is Status.SUSPENDED or not instance.inbox:
            return
        if self._version and versions.is_later(instance.version, self._version):
            return
        messages, instance.inbox = instance.inbox, []
        if not instance.history:
            messages.sort(key=lambda message: message.payload["EventType"] != history.EXECUTION_STARTED)
        self._changes.taken.extend(messages)
        self._changes.instances[instance.id] = instance
        now = self._timeline.now()
        self._episode(instance, [message.payload for message in messages], now)
        instance.updated = now
        self._commit()
        self._tell_if_ended(instance)

    def _tell_if_ended(self, instance: Instance) -> None:
        if instance.finished:
            self._hooks.on_instance_end(instance)

    def _episode(self, instance: Instance, arrived: list[Event], now: datetime) -> None:
        stamp = {"IsPlayed": False, "Timestamp": history.stamp(now)}
        new = [{"EventType": history.ORCHESTRATOR_STARTED, "EventId": -1, **stamp}]
        new += [{**event, **stamp} for event in arrived]
        instance.history += new
        instance.status = Status.RUNNING
        try:
            state, shim = self._run(instance, new)
        except ProtocolError as error:
            self._sessions.pop(instance.id, None)
            self._append(instance, new, [])
            self._violate(error.kind, instance.id, str(error))
            self._fail(instance, str(error))
            return
        instance.custom_status = json.dumps(state["customStatus"]) if "customStatus" in state else None
        completed = {"EventType": history.ORCHESTRATOR_COMPLETED, "EventId": -1, **stamp}
        self._append(instance, new, [*({**event, **stamp} for event in shim.scheduled), completed])
        self._carry_out(instance, shim)
        if shim.settled and (state["isDone"] or "error" in state):
            self._conclude(instance, state, shim)

    def _append(self, instance: Instance, arrived: list[Event], scheduled: list[Event]) -> None:
        instance.history += scheduled
        self._changes.appended.append((instance, arrived + scheduled))

    def _run(self, instance: Instance, new: list[Event]) -> tuple[dict[str, Any], Shim]:
        """What the code says to the history with its `new` end, and what the extension makes of it."""
        if (session := self._sessions.pop(instance.id, None)) is not None:
            state = session.resume(instance.history)
            return state, self._kept(instance, session)
        if (run := self._functions.orchestrators.get(instance.name)) is None:
            raise ProtocolError("unknown-function", f"this app has no orchestrator {instance.name!r} any more")
        old = instance.history[: -len(new)]
        events = f"{history.played(old)},{history.encode(new)}" if old else history.encode(new)
        context = context_of(instance, events, replaying=bool(old))
        if self._stays(instance) and can_stay(run):
            session = Session(run, context, strict=self._strict)
            state = session.begin(instance.id, instance.execution, instance.history)
            return state, self._kept(instance, session)
        state = run_orchestrator(run, context)
        shim = Shim(instance.id, instance.execution, state["actions"][0], strict=self._strict)
        shim.run(instance.history)
        return state, shim

    def _stays(self, instance: Instance) -> bool:
        """Drawn from the id alone: it changes nothing else that is drawn."""
        return zlib.crc32(instance.id.encode()) < self._extended_sessions * 2**32

    def _kept(self, instance: Instance, session: Session) -> Shim:
        shim = session.shim
        assert shim is not None  # noqa: S101 - it has begun
        if not shim.raced:
            self._sessions[instance.id] = session
        return shim

    def _carry_out(self, instance: Instance, shim: Shim) -> None:
        for number in shim.cancelled:
            if (timer := instance.timers.pop(number, None)) is not None:
                self._withdraw(timer)
        for event in shim.scheduled:
            number = event["EventId"]
            match event["EventType"]:
                case history.TASK_SCHEDULED:
                    payload = {"name": event["Name"], "input": event["Input"], "task": number}
                    seconds = self._draws.activity(event["Name"])
                    self._send(Kind.ACTIVITY, instance.id, instance.execution, payload, seconds)
                case history.TIMER_CREATED if number not in shim.cancelled:
                    self._set_timer(instance, event)
                case history.SUB_CREATED:
                    self._start_sub(instance, event)
                case history.EVENT_SENT:
                    self._send_to_entity(instance, event["InstanceId"], shim.requests[number])

    def _set_timer(self, instance: Instance, event: Event) -> None:
        number, due = event["EventId"], history.moment(event["FireAt"])
        due += timedelta(seconds=self._draws.timer(instance.id, due))
        fired = history.timer_fired(number, event["FireAt"])
        instance.timers[number] = self._post(Kind.EVENT, instance.id, instance.execution, fired, due)

    def _send_to_entity(self, instance: Instance, entity_id: str, request: dict[str, Any]) -> None:
        seconds = self._draws.signal(entity_id) if request["signal"] else self._draws.entity(entity_id)
        due = self._timeline.now() + timedelta(seconds=seconds)
        due = instance.order[entity_id] = max(due, instance.order.get(entity_id, due))
        self._post(Kind.ENTITY, entity_id, ANY_EXECUTION, request, due)

    def _start_sub(self, instance: Instance, event: Event) -> None:
        identity, name = event["InstanceId"], event["Name"]
        parent = Parent(instance.id, instance.execution, event["EventId"])
        existing = self.instances.get(identity)
        if name not in self._functions.orchestrators:
            self._refuse_sub(parent, "unknown-function", f"there is no orchestrator {name!r}")
        elif existing is not None and not existing.finished:
            self._refuse_sub(parent, "sub-orchestration-id", f"an instance with the id {identity!r} is running already")
        else:
            self._create(name, event["Input"], identity, event["Version"], parent)

    def _refuse_sub(self, parent: Parent, kind: str, message: str) -> None:
        self._violate(kind, parent.instance_id, message)
        event = history.sub_failed(parent.task, message)
        self._send(Kind.EVENT, parent.instance_id, parent.execution, event, 0.0)

    def _conclude(self, instance: Instance, state: dict[str, Any], shim: Shim) -> None:
        if "error" in state:
            self._fail(instance, f"Orchestrator function '{instance.name}' failed: {state['error']}")
        elif shim.continues:
            self._continue_as_new(instance, shim.next_input)
        else:
            output = state.get("output")
            self._end(instance, Status.COMPLETED, None if output is None else json.dumps(output))

    def _continue_as_new(self, instance: Instance, text: str | None) -> None:
        self._measure(instance)
        self._drop_timers(instance)
        self._sessions.pop(instance.id, None)
        instance.history, instance.input = [], text
        instance.order.clear()
        instance.execution = next(self._numbers)
        self._check_size(instance.id, "input", text)
        self._changes.forgotten.append(instance.id)
        self._changes.appended.clear()
        self._begin(instance, 0.0)

    def _fail(self, instance: Instance, message: str) -> None:
        self._end(instance, Status.FAILED, json.dumps(message), message)

    def _end(self, instance: Instance, status: Status, output: str | None, reason: str = "") -> None:
        instance.status, instance.output, instance.updated = status, output, self._timeline.now()
        self._check_size(instance.id, "output", output)
        self._measure(instance)
        self._drop_timers(instance)
        self._changes.taken.extend(instance.inbox)
        instance.inbox = []
        self._sessions.pop(instance.id, None)
        instance.order.clear()
        if not self._keep_histories:
            instance.history = []
        self._changes.instances[instance.id] = instance
        if (parent := instance.parent) is not None:
            done = history.sub_completed(parent.task, output)
            event = done if status is Status.COMPLETED else history.sub_failed(parent.task, reason)
            seconds = self._draws.completion(parent.instance_id)
            self._send(Kind.EVENT, parent.instance_id, parent.execution, event, seconds)

    def _mark(self, instance: Instance, status: Status, event: Event) -> None:
        instance.status, instance.updated = status, self._timeline.now()
        if instance.history:
            self._append(instance, [], [{**event, "IsPlayed": False, "Timestamp": history.stamp(instance.updated)}])
        self._changes.instances[instance.id] = instance
        self._commit()

    def _withdraw(self, timer: Message) -> None:
        if timer.scheduled is not None:
            timer.scheduled.cancel()
        self._changes.taken.append(timer)

    def _drop_timers(self, instance: Instance) -> None:
        for timer in instance.timers.values():
            self._withdraw(timer)
        instance.timers.clear()

    def _remember_timer(self, message: Message) -> None:
        if message.kind is Kind.EVENT and message.payload["EventType"] == history.TIMER_FIRED:
            instance = self.instances.get(message.target)
            if instance is not None and instance.execution == message.execution:
                instance.timers[message.payload["TimerId"]] = message

    # Entities

    def _operate(self, message: Message) -> None:
        request, identity = message.payload, message.target
        before = self.entities.get(identity)
        try:
            result, state = operate(self._functions.entities, identity, before, request)
        except EntityFailure as failure:
            self._violate("entity-failure", identity, str(failure))
            result, state = failure.answer, before
        if state != before:
            self._check_size(identity, "state", state)
            self._changes.entities[identity] = state
            if state is None:
                self.entities.pop(identity, None)
            else:
                self.entities[identity] = state
        self._changes.taken.append(message)
        if request["parent"] is not None:
            event = history.event_raised(request["id"], history.dumps(result))
            seconds = self._draws.completion(request["parent"])
            self._send(Kind.EVENT, request["parent"], request["execution"], event, seconds)
        self._commit()

    # Rules

    def _measure(self, instance: Instance) -> None:
        instance.longest = max(instance.longest, len(instance.history))
        if len(instance.history) >= self._limits.history_events:
            self._violate(
                "history-length",
                instance.id,
                f"{instance.name} ended with {len(instance.history)} history events, the limit is "
                f"{self._limits.history_events}: continue as new more often",
            )

    def _check_size(self, identity: str, what: str, text: str | None) -> None:
        if text is not None and len(text) > self._limits.payload_bytes:
            self._violate(
                "payload-size",
                identity,
                f"{what} has {len(text)} bytes, the limit is {self._limits.payload_bytes}: keep it in a blob",
            )

    def _violate(self, kind: str, identity: str, message: str) -> None:
        violation = Violation(kind, identity, message)
        self.violations.append(violation)
        self._hooks.on_violation(violation)
