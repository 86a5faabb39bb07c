"""One run of an orchestrator over a history, and a checker that replays it at every prefix of that history."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import orjson

from local.durable import history
from local.durable.history import Event
from local.durable.model import Instance
from local.durable.shim import ProtocolError

ERROR_LABEL = "\n\n$OutOfProcData$:"
_ANSWERED = history.COMPLETING | {history.EXECUTION_STARTED, history.EVENT_RAISED}
Run = Callable[[str], str]


def context_of(instance: Instance, events: str, *, replaying: bool) -> str:
    """What the extension hands to the SDK's handler; `events` is the inside of a JSON array."""
    parent = instance.parent.instance_id if instance.parent else None
    return (
        f'{{"history":[{events}],"input":{history.dumps(instance.input)},"instanceId":{history.dumps(instance.id)},'
        f'"isReplaying":{"true" if replaying else "false"},"parentInstanceId":{history.dumps(parent)},'
        '"upperSchemaVersion":1,"upperSchemaVersionNew":2,"maximumShortTimerDuration":"6.00:00:00",'
        '"longRunningTimerIntervalDuration":"3.00:00:00","defaultHttpAsyncRequestSleepTimeMillseconds":30000}'
    )


def run_orchestrator(run: Run, context: str) -> dict[str, Any]:
    """The state that the SDK's handler answers to a context.

    A failure of the user's code is a state with "error". Raises ProtocolError when the SDK itself failed.
    """
    try:
        return _state(run(context))
    except Exception as error:
        _, label, text = str(error).partition(ERROR_LABEL)
        if not label:
            raise ProtocolError("sdk-failure", f"the SDK could not replay: {type(error).__name__}: {error}") from error
        return _state(text)


def _state(text: str) -> dict[str, Any]:
    try:
        state: dict[str, Any] = orjson.loads(text)
    except orjson.JSONDecodeError:  # NaN and the like, which Python's own writer lets through
        state = json.loads(text)
    return state


class ReplayMismatch(AssertionError):
    """An orchestrator asked for something else when it was replayed."""


class Backend(Protocol):
    """Where the histories are."""

    @property
    def instances(self) -> Mapping[str, Instance]:
        """By id."""
        ...

    def history_of(self, instance: Instance) -> list[Event]:
        """The events of its latest execution."""
        ...


class Host(Protocol):
    """What the checker needs of a `FunctionsHost`."""

    @property
    def engine(self) -> Backend:
        """The Durable backend."""
        ...

    @property
    def orchestrators(self) -> Mapping[str, Run]:
        """The app's orchestrators by name."""
        ...


def replay_prefixes(host: Host, instance_id: str) -> int:
    """Replay an instance after every event that its code could see, and compare what it asks for.

    Every shorter history must lead to the first of the actions of the whole one (a timer may be cancelled later), and
    the same history must lead to the same state twice. Covers the latest execution. Returns how many prefixes were
    replayed; raises ReplayMismatch at the first difference, ValueError when the history was not kept.
    """
    instance = host.engine.instances[instance_id]
    events = host.engine.history_of(instance)
    if not events:
        raise ValueError(f"instance {instance_id!r} has no history: run the host with keep_histories")
    run = host.orchestrators[instance.name]
    whole = _answer(run, instance, events)
    if whole != (again := _answer(run, instance, events)):
        raise ReplayMismatch(f"{instance.name}: the same history gave {whole} and then {again}")
    cuts = [position + 1 for position, event in enumerate(events) if event["EventType"] in _ANSWERED]
    for cut in cuts:
        _compare(instance.name, cut, _answer(run, instance, events[:cut])["actions"][0], whole["actions"][0])
    return len(cuts)


def _answer(run: Run, instance: Instance, events: list[Event]) -> dict[str, Any]:
    last = max(position for position, event in enumerate(events) if event["EventType"] == history.ORCHESTRATOR_STARTED)
    marked = [{**event, "IsPlayed": position < last} for position, event in enumerate(events)]
    return run_orchestrator(run, context_of(instance, history.encode(marked), replaying=last > 0))


def _compare(name: str, cut: int, part: list[Event], whole: list[Event]) -> None:
    if len(part) > len(whole):
        raise ReplayMismatch(f"{name}: {len(part)} actions after {cut} events, but {len(whole)} after all of them")
    for number, (now, later) in enumerate(zip(part, whole, strict=False)):
        if _lasting(now) != _lasting(later):
            raise ReplayMismatch(f"{name}: action {number} is {now} after {cut} events, but {later} after all of them")


def _lasting(action: Event) -> Event:
    kept = {name: value for name, value in action.items() if name != "isCanceled"}
    if "compoundActions" in kept:
        kept["compoundActions"] = [_lasting(child) for child in kept["compoundActions"]]
    return kept
