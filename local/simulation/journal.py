"""A journal in memory: what a Functions host of the simulation leaves behind when it crashes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from local.durable import history
from local.durable.history import Event
from local.durable.journal import Changes, Stored
from local.durable.model import FINISHED, Instance, Message

Row = tuple[Any, ...]


class MemoryJournal:
    """Holds every transaction that returned from `commit`, and no half of another, like `SqliteJournal`.

    `before` and `after` are called around each commit: a crash there is one between two transactions.
    """

    def __init__(self, before: Callable[[], None], after: Callable[[], None]) -> None:
        self._before, self._after = before, after
        self._instances: dict[str, Row] = {}
        self._histories: dict[str, list[Event]] = {}
        self._messages: dict[int, Message] = {}
        self._entities: dict[str, str] = {}
        self._notes: dict[str, str] = {}

    def load(self) -> Stored:
        """See `Journal.load`. Everything is a copy: nothing that the dead host held is shared with the next one."""
        instances = [_instance(row) for row in self._instances.values()]
        for instance in instances:
            if instance.status not in FINISHED:
                instance.history = history.loads(f"[{history.encode(self._histories.get(instance.id, []))}]")
        messages = [
            Message(m.number, m.kind, m.target, m.execution, m.due, history.loads(history.dumps(m.payload)))
            for _, m in sorted(self._messages.items())
        ]
        return Stored(instances, messages, dict(self._entities), dict(self._notes))

    def commit(self, changes: Changes) -> None:
        """See `Journal.commit`."""
        self._before()
        for message in changes.taken:
            self._messages.pop(message.number, None)
        for identity in changes.forgotten:
            self._histories.pop(identity, None)
        for identity in changes.purged:
            self._histories.pop(identity, None)
            self._instances.pop(identity, None)
        for instance in changes.instances.values():
            self._instances[instance.id] = _row(instance)
        for instance, events in changes.appended:
            self._histories.setdefault(instance.id, []).extend(events)
        for message in changes.sent:
            self._messages[message.number] = message
        for identity, state in changes.entities.items():
            if state is None:
                self._entities.pop(identity, None)
            else:
                self._entities[identity] = state
        self._notes.update(changes.notes)
        self._after()

    def history(self, instance_id: str) -> list[Event]:
        """See `Journal.history`."""
        return list(self._histories.get(instance_id, ()))

    def close(self) -> None:
        """Nothing to close."""


def _row(one: Instance) -> Row:
    return (
        one.id,
        one.name,
        one.version,
        one.input,
        one.created,
        one.updated,
        one.parent,
        one.status,
        one.execution,
        one.output,
        one.custom_status,
        one.longest,
    )


def _instance(row: Row) -> Instance:
    instance = Instance(*row[:-1])
    instance.longest = row[-1]
    return instance
