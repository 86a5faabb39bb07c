"""Before the doors of the Functions host: it dies before or after a write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from local.simulation.trouble import Crash
from local.system.lifetime import HostCrash
from local.timeline import Timeline
from local.web import Handler, Request, Response

_READS = frozenset({"GET", "HEAD", "OPTIONS"})


class Crashes:
    """When the host dies next. Asked around every write that it makes."""

    def __init__(self, timeline: Timeline, crashes: Sequence[Crash], probes: Counter[str]) -> None:
        self._timeline, self._probes = timeline, probes
        self._begun = timeline.now()
        self._due = sorted(crashes, key=lambda crash: crash.at, reverse=True)
        self._skipped = 0

    def end(self) -> None:
        """No more of them."""
        self._due.clear()

    def pass_by(self, place: str, *, before: bool) -> None:
        """Raises HostCrash when this is where the next one is due."""
        if not self._due:
            return
        crash = self._due[-1]
        if crash.place != place or crash.before != before:
            return
        if (self._timeline.now() - self._begun).total_seconds() < crash.at:
            return
        if self._skipped < crash.skip:
            self._skipped += 1
            return
        self._skipped = 0
        self._due.pop()
        where = f"{'before' if before else 'after'} {place}"
        self._probes[f"crash {where}"] += 1
        raise HostCrash(where, crash.down_for)


_NODES = "/api/v1/nodes/"


class PassBy(Protocol):
    """Asked around every write of the host's; raises HostCrash."""

    def __call__(self, place: str, *, before: bool) -> None: ...  # noqa: D102 - see above


class MortalDoor:
    """Writes through it may be the last thing that the host does."""

    def __init__(self, inner: Handler, place: str, pass_by: PassBy) -> None:
        self._inner, self._place, self._pass_by = inner, place, pass_by

    def handle(self, request: Request) -> Response:
        """See `Handler.handle`. Raises HostCrash."""
        if request.method in _READS:
            return self._inner.handle(request)
        self._pass_by(self._place, before=True)
        response = self._inner.handle(request)
        if response.status < 400:
            self._pass_by(self._place, before=False)
        return response


class HastyDoor:
    """Somebody may be at work on the very node that Sluice is about to cordon: `just_then` hears its name."""

    def __init__(self, inner: Handler, just_then: Callable[[str], None]) -> None:
        self._inner, self._just_then = inner, just_then

    def handle(self, request: Request) -> Response:
        """See `Handler.handle`."""
        node = request.path.removeprefix(_NODES)
        if request.method == "PATCH" and "/" not in node and b'"unschedulable":true' in request.body.replace(b" ", b""):
            self._just_then(node)
        return self._inner.handle(request)


def guarded(door: str, inner: Handler, pass_by: PassBy) -> Handler:
    """See `local.system.virtual.Guard`: only the Functions host is mortal."""
    who, _, place = door.partition(" ")
    return MortalDoor(inner, place, pass_by) if who == "functions" else inner
