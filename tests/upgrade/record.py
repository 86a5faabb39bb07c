"""`python -m tests.upgrade.record`: what the present version leaves behind, for those that come after it.

Run it when a version is released (docs/day-two.md): `make golden`. It plays broken worlds, and keeps of every
orchestrator the histories that differ in what was asked for, the storage at the moment when most kinds of
orchestrations were under way, and one event of each type that the exporter sent.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
from typing import Any

import orjson

from local.durable.journal import Changes
from local.durable.versions import of_tree
from local.simulation.driver import Run
from local.simulation.worlds import World, draw_world
from local.system.virtual import VirtualSystem
from local.web import Handler, Request, Response
from tests.upgrade import golden
from tests.upgrade.golden import Case

MOST = 8  # histories of one orchestrator
LONGEST = 60  # events: longer ones repeat themselves


class Keeper:
    """What is worth keeping of all the worlds that were played."""

    def __init__(self) -> None:
        self.cases: dict[str, dict[tuple[tuple[int, str], ...], Case]] = {}
        self.storage, self._kinds = b"", 0
        self.events: dict[str, Any] = {}

    def note_history(self, case: Case) -> None:
        if 2 < len(case.events) <= LONGEST:
            self.cases.setdefault(case.name, {}).setdefault(case.shape, case)

    def note_storage(self, system: VirtualSystem, journal: golden.MemoryJournal) -> None:
        under_way = {one.name for one in system.host.engine.instances.values() if not one.finished}
        if len(under_way) > self._kinds:
            self._kinds = len(under_way)
            self.storage = golden.dumped(journal.load(), system.stand_ins.blobs.containers, system.timeline.now())

    def note_event(self, event: Any) -> None:
        known = self.events.setdefault(event["type"], event)
        if len(orjson.dumps(event)) < len(orjson.dumps(known)):
            self.events[event["type"]] = event


class Recording(Run):
    """A world of which things are kept."""

    def __init__(self, world: World, keeper: Keeper) -> None:
        self._keeper = keeper
        super().__init__(world)
        self._journal: golden.MemoryJournal = self.system._journal  # type: ignore[assignment]
        self._commit = self._journal.commit
        self._journal.commit = self._noted_commit  # type: ignore[method-assign]

    def _noted_commit(self, changes: Changes) -> None:
        for identity in changes.forgotten:
            if identity in changes.instances:
                self._keep(identity)
        self._commit(changes)
        for identity, instance in changes.instances.items():
            if instance.finished:
                self._keep(identity)
        self._keeper.note_storage(self.system, self._journal)

    def _keep(self, identity: str) -> None:
        events = self._journal.history(identity)
        row = self._journal._instances.get(identity)
        if events and row is not None:
            name, version, parent, execution = row[1], row[2], row[6], row[8]
            case = Case(name, version, identity, execution, parent.instance_id if parent else "", events)
            self._keeper.note_history(case)

    def _guarded(self, door: str, inner: Handler) -> Handler:
        handler = super()._guarded(door, inner)
        return Listening(handler, self._keeper) if door == "exporter topic" else handler


class Listening:
    """Notes what is published through it."""

    def __init__(self, inner: Handler, keeper: Keeper) -> None:
        self._inner, self._keeper = inner, keeper

    def handle(self, request: Request) -> Response:
        for event in orjson.loads(request.body):
            self._keeper.note_event(event)
        return self._inner.handle(request)


def write(keeper: Keeper, version: str) -> int:
    """Write what was kept; how many histories that are."""
    folder = golden.FOLDER / version
    shutil.rmtree(folder, ignore_errors=True)
    (folder / golden.HISTORIES).mkdir(parents=True)
    written = 0
    for name, shapes in sorted(keeper.cases.items()):
        chosen = sorted(shapes.values(), key=lambda case: (len(case.events), case.shape))
        step = max(1, len(chosen) // MOST)
        lines = [case.line() for case in chosen[::step][:MOST]]
        (folder / golden.HISTORIES / f"{name}.jsonl").write_bytes(b"\n".join(lines) + b"\n")
        written += len(lines)
    (folder / golden.STORAGE).write_bytes(keeper.storage)
    events = [event for _, event in sorted(keeper.events.items())]
    (folder / golden.EVENTS).write_bytes(orjson.dumps(events, option=orjson.OPT_INDENT_2) + b"\n")
    return written


def main() -> int:
    """Play, keep, write; the last line is the figure."""
    parser = argparse.ArgumentParser(prog="python -m tests.upgrade.record", description=__doc__)
    parser.add_argument("--seeds", type=int, default=40, help="how many worlds; default 40")
    seeds = parser.parse_args().seeds
    logging.disable()
    keeper, version = Keeper(), of_tree()
    for seed in range(seeds):
        Recording(draw_world(seed), keeper).play()
    written = write(keeper, version)
    sys.stdout.write(f"{written} histories of {len(keeper.cases)} orchestrators, version {version}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
