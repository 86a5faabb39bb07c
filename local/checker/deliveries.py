"""Every event is handled, once in effect, or a dead letter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from local.checker.notebook import Notebook
from local.event_grid import Outcome

ADMISSION = "admit"
"""The orchestration that an event becomes, under the event's own id."""
EVICTING = "sluice.node.evicting"
"""Events of this type start a saga for each node; an admission follows only where their snapshot shows the nodes."""


class Deliveries:
    """Follows events from the topic to the orchestrations that they start."""

    def __init__(self, book: Notebook) -> None:
        self._book = book
        self._taken: dict[str, str] = {}  # ids of events that were delivered, and their types
        self._ended: set[str] = set()
        self._led: set[str] = set()

    def note(self, outcome: Outcome, event: dict[str, Any]) -> None:
        """See `local.event_grid.EventGridTopic.on_outcome`."""
        if outcome == "delivered":
            self._taken[str(event["id"])] = str(event["type"])

    def note_end(self, name: str, identity: str, output: str) -> None:
        """An orchestration has ended."""
        if name != ADMISSION:
            return
        self._ended.add(identity)
        if _led(output):
            if identity in self._led:
                self._book.note("handled-twice", f"event {identity} was planned for a second time")
            self._led.add(identity)

    def at_the_end(self, accounted: str) -> Iterator[str]:
        """What has not been handled; `accounted`: a text that names dead letters and what still runs."""
        for identity, kind in self._taken.items():
            if kind != EVICTING and identity not in self._ended and identity not in accounted:
                yield f"event-lost: {identity} was delivered, and nothing came of it"


def _led(output: str) -> bool:
    try:
        found = orjson.loads(output)
    except orjson.JSONDecodeError:
        return False
    return isinstance(found, dict) and found.get("role") == "lead"
