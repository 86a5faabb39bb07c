"""What a version left behind, as files: histories of its orchestrations, a whole storage in mid-work, its events."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from local.blob_storage import StoredBlob
from local.durable import history, sdk
from local.durable.history import Event
from local.durable.journal import Changes, Stored
from local.durable.model import Instance, Kind, Message, Parent, Status
from local.durable.replay import context_of, run_orchestrator
from local.durable.shim import Shim
from local.simulation.journal import MemoryJournal

Json = dict[str, Any]
FOLDER = Path(__file__).parent / "golden"
HISTORIES, STORAGE, EVENTS = "histories", "storage.json.gz", "events.json"


@dataclass(frozen=True)
class Case:
    """One execution of one orchestration, as far as it was recorded."""

    name: str
    version: str
    id: str
    execution: int
    parent: str
    events: list[Event]

    @property
    def shape(self) -> tuple[tuple[int, str], ...]:
        """What it asked for, in order."""
        asked = (event for event in self.events if event["EventType"] in history.SCHEDULING)
        return tuple((event["EventType"], event.get("Name") or "") for event in asked)

    def line(self) -> bytes:
        return orjson.dumps(vars(self) | {"events": [_without(event, "IsPlayed") for event in self.events]})


def versions() -> list[str]:
    return sorted(
        (folder.name for folder in FOLDER.iterdir()), key=lambda name: [int(part) for part in name.split(".")]
    )


def cases(version: str) -> Iterator[Case]:
    for path in sorted((FOLDER / version / HISTORIES).iterdir()):
        for line in path.read_bytes().splitlines():
            yield Case(**orjson.loads(line))


def replay(run: Callable[[str], str], case: Case) -> None:
    """Hold the present code against a history, by the rules that DTFx has: kinds and names, in order.

    Raises ProtocolError, with what was asked for then and what is now.
    """
    sdk.prepare()
    moment = history.moment(case.events[0]["Timestamp"])
    parent = Parent(case.parent, 0, 0) if case.parent else None
    begun = next(event for event in case.events if event["EventType"] == history.EXECUTION_STARTED)
    instance = Instance(case.id, case.name, case.version, begun["Input"], moment, moment, parent)
    last = max(n for n, event in enumerate(case.events) if event["EventType"] == history.ORCHESTRATOR_STARTED)
    marked = [{**event, "IsPlayed": n < last} for n, event in enumerate(case.events)]
    state = run_orchestrator(run, context_of(instance, history.encode(marked), replaying=last > 0))
    Shim(case.id, case.execution, state["actions"][0], strict=False).run(case.events)


def asked_for(case: Case) -> set[tuple[int, str]]:
    """Names that the app must still know, since what was scheduled may not have run yet."""
    return {(kind, name) for kind, name in case.shape if kind in (history.TASK_SCHEDULED, history.SUB_CREATED)}


# A storage


def dumped(stored: Stored, blobs: dict[str, dict[str, StoredBlob]], now: datetime) -> bytes:
    instances = [
        [
            *(one.id, one.name, one.version, one.input, history.stamp(one.created), history.stamp(one.updated)),
            None if one.parent is None else [one.parent.instance_id, one.parent.execution, one.parent.task],
            *(one.status, one.execution, one.output, one.custom_status, one.longest, one.history),
        ]
        for one in stored.instances
    ]
    messages = [[m.number, m.kind, m.target, m.execution, history.stamp(m.due), m.payload] for m in stored.messages]
    texts = {
        container: {name: base64.b85encode(blob.data).decode() for name, blob in found.items()}
        for container, found in blobs.items()
    }
    whole = {"now": history.stamp(now), "instances": instances, "messages": messages, "notes": stored.notes}
    return gzip.compress(orjson.dumps({**whole, "entities": stored.entities, "blobs": texts}), mtime=0)


@dataclass(frozen=True)
class Storage:
    """A version's storage as it stood at `now`."""

    now: datetime
    journal: MemoryJournal
    blobs: dict[str, dict[str, StoredBlob]]
    under_way: list[str]


def storage(version: str) -> Storage:
    found = orjson.loads(gzip.decompress((FOLDER / version / STORAGE).read_bytes()))
    now = history.moment(found["now"])
    journal = MemoryJournal(lambda: None, lambda: None)
    changes = Changes(entities=found["entities"], notes=found["notes"])
    for row in found["instances"]:
        created, updated = history.moment(row[4]), history.moment(row[5])
        parent = Parent(*row[6]) if row[6] else None
        instance = Instance(*row[:4], created, updated, parent, Status(row[7]), *row[8:11], longest=row[11])
        changes.instances[instance.id] = instance
        changes.appended.append((instance, row[12]))
    for number, kind, target, execution, due, payload in found["messages"]:
        changes.sent.append(Message(number, Kind(kind), target, execution, history.moment(due), payload))
    journal.commit(changes)
    blobs = {
        container: {
            name: StoredBlob(base64.b85decode(text), f'"{number}"', now, "application/octet-stream")
            for number, (name, text) in enumerate(names.items())
        }
        for container, names in found["blobs"].items()
    }
    return Storage(now, journal, blobs, [one.name for one in changes.instances.values() if not one.finished])


def _without(event: Event, name: str) -> Event:
    return {key: value for key, value in event.items() if key != name}
