"""Watches: what happened since a version, and, on the wall clock, what happens from now on."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator

import orjson

from local.kube.kinds import Kind
from local.kube.problems import ApiProblem
from local.kube.selectors import Selection
from local.kube.store import ADDED, DELETED, Change, Store, Stored
from local.timeline import Due, Timeline

BOOKMARK_SECONDS = 60.0
"""How often an idle stream carries a bookmark, as the API server does about once a minute."""

Render = Callable[[Stored], bytes]


def event(type_: str, document: bytes) -> bytes:
    """One line of a watch's answer."""
    return b'{"type":"' + type_.encode() + b'","object":' + document + b"}\n"


def bookmark(kind: Kind, version: int, *, initial_end: bool = False) -> bytes:
    """The version that the watcher has seen everything up to."""
    metadata: dict[str, object] = {"resourceVersion": str(version), "creationTimestamp": None}
    if initial_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return event("BOOKMARK", orjson.dumps({"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}))


def seen_by(change: Change, selection: Selection, render: Render) -> bytes | None:
    """The change as this selection sees it: an object that begins to match is added, one that ceases to is deleted."""
    before = selection.matches(change.old)
    after = change.type != DELETED and selection.matches(change.new)
    if not before and not after:
        return None
    type_ = ("MODIFIED" if before else ADDED) if after else DELETED
    return event(type_, render(change.new))


class Watch:
    """One watch request. Made and asked for `now` under the lock; `stream` is read outside it."""

    def __init__(self, store: Store, timeline: Timeline, kind: Kind, selection: Selection, render: Render) -> None:
        self._store, self._timeline, self._kind = store, timeline, kind
        self._selection, self._render = selection, render
        self._pieces: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._unsubscribe: Callable[[], None] | None = None
        self._due: list[Due] = []
        self.bookmarks = False

    def now(self, version: str, *, initial: bool) -> list[bytes]:
        """What there is to say at once. Raises 410 for a version that is too old."""
        if version in {"", "0"} or initial:
            stored = self._store.all(self._kind)
            pieces = [event(ADDED, self._render(one)) for one in stored if self._selection.matches(one)]
            return [*pieces, bookmark(self._kind, self._store.version, initial_end=True)] if initial else pieces
        changes = self._store.since(self._kind, int(version))
        return [piece for change in changes if (piece := seen_by(change, self._selection, self._render))]

    def stream(self, pieces: list[bytes], seconds: float) -> Iterator[bytes]:
        """Those pieces, and then what happens during `seconds`. Called under the lock; subscribes at once."""
        self._unsubscribe = self._store.subscribe(self._note)
        self._due = [self._timeline.call_later(seconds, self._end)]
        if self.bookmarks:
            self._due.append(self._timeline.call_later(BOOKMARK_SECONDS, self._mark))
        return self._chunks(b"".join(pieces))

    def _chunks(self, first: bytes) -> Iterator[bytes]:
        try:
            if first:
                yield first
            while (piece := self._pieces.get()) is not None:
                yield piece
        finally:
            with self._timeline.lock:
                self._close()

    def _note(self, change: Change) -> None:
        if change.new.kind is self._kind and (piece := seen_by(change, self._selection, self._render)):
            self._pieces.put(piece)

    def _mark(self) -> None:
        self._pieces.put(bookmark(self._kind, self._store.version))
        self._due.append(self._timeline.call_later(BOOKMARK_SECONDS, self._mark))

    def _end(self) -> None:
        if self.bookmarks:
            self._pieces.put(bookmark(self._kind, self._store.version))
        self._pieces.put(None)
        self._close()

    def _close(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        for due in self._due:
            due.cancel()


def refusal(problem: ApiProblem) -> bytes:
    """An error within a stream that has begun."""
    return event("ERROR", orjson.dumps(problem.status))
