"""Misfortune by chance: draws by name, each from a stream of its own, counted when they come true.

A stand-in asks for each kind of trouble by its name; the counts are the probes that show which rare cases a run really
reached. From the moment that `end` is called nothing strikes any more, and what was held back is let go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from random import Random
from typing import TypeVar

from local.randomness import stream
from local.timeline import Action, Due, Timeline

_T = TypeVar("_T")
Span = tuple[float, float]
RELEASED_WITHIN = 5.0  # seconds from the end of all trouble until what hung goes on


class Chances:
    """`counts` says how often each kind struck, `last` when one did last. Needs the timeline's lock."""

    def __init__(self, timeline: Timeline, seed: int, *names: str) -> None:
        self._timeline, self._seed, self._names = timeline, seed, names
        self._streams: dict[str, Random] = {}
        self._held: list[tuple[Due, Action]] = []
        self.counts: Counter[str] = Counter()
        self.last: datetime | None = None
        self.ended = False
        self._listeners: list[Callable[[str, str], None]] = []

    def subscribe(self, listener: Callable[[str, str], None]) -> None:
        """Call `listener(kind, whom)` whenever something strikes."""
        self._listeners.append(listener)

    def strikes(self, kind: str, rate: float, whom: str = "") -> bool:
        """Whether it happens this time; a rate of 0 draws nothing, so that no other draw is shifted."""
        if rate <= 0 or self.ended or self._stream(kind).random() >= rate:
            return False
        self.note(kind, whom)
        return True

    def note(self, kind: str, whom: str = "") -> None:
        """Count something that was ordered, not drawn."""
        self.counts[kind] += 1
        self.last = self._timeline.now()
        for listener in self._listeners:
            listener(kind, whom)

    def between(self, kind: str, span: Span) -> float:
        """A number out of the span, evenly."""
        return self._stream(kind).uniform(*span)

    def one_of(self, kind: str, choices: Sequence[_T]) -> _T:
        """Any of them."""
        return self._stream(kind).choice(choices)

    def hold(self, seconds: float, action: Action) -> None:
        """Do it in `seconds`, or a little after the end of all trouble if that comes first."""
        entry: list[tuple[Due, Action]] = []

        def going() -> None:
            self._held.remove(entry[0])
            action()

        entry.append((self._timeline.call_later(seconds, going), action))
        self._held.append(entry[0])

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Inside, nothing strikes and nothing is drawn."""
        before, self.ended = self.ended, True
        try:
            yield
        finally:
            self.ended = before

    def end(self) -> None:
        """No more trouble from now on."""
        self.ended = True
        held, self._held = self._held, []
        seconds = self.between("released", (0.0, RELEASED_WITHIN))  # one for all: what hung in order goes on in order
        for due, action in held:
            due.cancel()
            self._timeline.call_later(seconds, action)

    def _stream(self, kind: str) -> Random:
        found = self._streams.get(kind)
        if found is None:
            found = self._streams[kind] = stream(self._seed, *self._names, kind)
        return found
