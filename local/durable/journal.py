"""What survives the process: every processed message is one transaction, written here before its effects show.

The backend lives in memory; a journal only has to bring it back. `SqliteJournal` writes to one file in WAL mode: after
`kill -9` at any instruction the file holds every transaction that returned from `commit`, and no half of another.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from local.durable import history
from local.durable.history import Event
from local.durable.model import Instance, Kind, Message, Parent, Status


@dataclass(slots=True)
class Changes:
    """One transaction. Instances and entities are written as they stand at the commit."""

    sent: list[Message] = field(default_factory=list)
    taken: list[Message] = field(default_factory=list)
    instances: dict[str, Instance] = field(default_factory=dict)
    appended: list[tuple[Instance, list[Event]]] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)  # instances whose history begins anew
    purged: list[str] = field(default_factory=list)
    entities: dict[str, str | None] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Stored:
    """Everything that a journal holds."""

    instances: list[Instance] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    entities: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


class Journal(Protocol):
    """Where transactions go."""

    def load(self) -> Stored:
        """Everything committed so far; histories only of instances that have not ended."""
        ...

    def commit(self, changes: Changes) -> None:
        """Write one transaction, whole or not at all."""
        ...

    def history(self, instance_id: str) -> list[Event]:
        """The history of an instance's latest execution, as long as it was not purged."""
        ...

    def close(self) -> None:
        """Nothing more will be written."""
        ...


class NullJournal:
    """Forgets everything: for the simulator, whose process is the whole world."""

    def load(self) -> Stored:
        """Nothing."""
        return Stored()

    def commit(self, changes: Changes) -> None:
        """Nothing to do."""

    def history(self, instance_id: str) -> list[Event]:  # noqa: ARG002 - the protocol's signature
        """Nothing."""
        return []

    def close(self) -> None:
        """Nothing to do."""


_SCHEMA = """
CREATE TABLE IF NOT EXISTS instances (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, version TEXT NOT NULL, input TEXT, created TEXT NOT NULL,
    updated TEXT NOT NULL, parent TEXT, parent_execution INTEGER, parent_task INTEGER,
    status TEXT NOT NULL, execution INTEGER NOT NULL,
    output TEXT, custom_status TEXT, longest INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS history (
    number INTEGER PRIMARY KEY, instance TEXT NOT NULL, events TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS history_of ON history (instance, number);
CREATE TABLE IF NOT EXISTS messages (
    number INTEGER PRIMARY KEY, kind TEXT NOT NULL, target TEXT NOT NULL, execution INTEGER NOT NULL, due TEXT NOT NULL,
    payload TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS entities (id TEXT PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notes (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
_PUT_INSTANCE = "INSERT OR REPLACE INTO instances VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)"


class SqliteJournal:
    """One file. `power_loss_safe` decides what a commit waits for.

    False (SQLite's synchronous=NORMAL): the operating system has the transaction, so the death of the process loses
    nothing; a power cut may lose the last few, never the order or the wholeness of what is there, and the five-minute
    maintenance run would find what was forgotten. True (FULL): the disk has it, at some milliseconds for each message.
    """

    def __init__(self, path: Path, *, power_loss_safe: bool = False) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute(f"PRAGMA synchronous={'FULL' if power_loss_safe else 'NORMAL'}")
        self._db.executescript(_SCHEMA)

    def load(self) -> Stored:
        """See `Journal.load`."""
        instances = {row[0]: _instance(row) for row in self._db.execute("SELECT * FROM instances")}
        for identity, text in self._db.execute(
            "SELECT instance, events FROM history JOIN instances ON id = instance "
            "WHERE status NOT IN ('Completed','Failed','Terminated') ORDER BY number"
        ):
            instances[identity].history.extend(history.loads(f"[{text}]"))
        rows = self._db.execute("SELECT * FROM messages ORDER BY number")
        return Stored(
            list(instances.values()),
            [Message(n, Kind(k), t, e, history.moment(d), history.loads(p)) for n, k, t, e, d, p in rows],
            dict(self._db.execute("SELECT id, state FROM entities")),
            dict(self._db.execute("SELECT key, value FROM notes")),
        )

    def commit(self, changes: Changes) -> None:
        """See `Journal.commit`."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._write(changes)
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def history(self, instance_id: str) -> list[Event]:
        """See `Journal.history`."""
        rows = self._db.execute("SELECT events FROM history WHERE instance = ? ORDER BY number", (instance_id,))
        return [event for (text,) in rows for event in history.loads(f"[{text}]")]

    def close(self) -> None:
        """Close the file; the log is folded into it."""
        self._db.close()

    def _write(self, changes: Changes) -> None:
        many = self._db.executemany
        gone = [(identity,) for identity in changes.purged]
        many("DELETE FROM messages WHERE number = ?", [(message.number,) for message in changes.taken])
        many("DELETE FROM history WHERE instance = ?", [(identity,) for identity in changes.forgotten] + gone)
        many("DELETE FROM instances WHERE id = ?", gone)
        many(_PUT_INSTANCE, [_row(instance) for instance in changes.instances.values()])
        texts = [(instance.id, history.played(events)) for instance, events in changes.appended]
        many("INSERT INTO history (instance, events) VALUES (?,?)", texts)
        many("INSERT INTO messages VALUES (?,?,?,?,?,?)", [_message_row(message) for message in changes.sent])
        states = changes.entities.items()
        many("DELETE FROM entities WHERE id = ?", [(identity,) for identity, state in states if state is None])
        many("INSERT OR REPLACE INTO entities VALUES (?,?)", [pair for pair in states if pair[1] is not None])
        many("INSERT OR REPLACE INTO notes VALUES (?,?)", list(changes.notes.items()))


def _row(instance: Instance) -> tuple[object, ...]:
    parent = instance.parent
    return (
        instance.id,
        instance.name,
        instance.version,
        instance.input,
        history.stamp(instance.created),
        history.stamp(instance.updated),
        parent and parent.instance_id,
        parent and parent.execution,
        parent and parent.task,
        instance.status,
        instance.execution,
        instance.output,
        instance.custom_status,
        instance.longest,
    )


def _instance(row: tuple[str, ...]) -> Instance:
    identity, name, version, text, created, updated, parent, parent_execution, parent_task, status = row[:10]
    return Instance(
        identity,
        name,
        version,
        text,
        history.moment(created),
        history.moment(updated),
        Parent(parent, int(parent_execution), int(parent_task)) if parent is not None else None,
        Status(status),
        int(row[10]),
        row[11],
        row[12],
        longest=int(row[13]),
    )


def _message_row(message: Message) -> tuple[object, ...]:
    return (
        message.number,
        message.kind,
        message.target,
        message.execution,
        history.stamp(message.due),
        history.dumps(message.payload),
    )
