"""One hash over everything that happened, in order: two runs of one seed must end with the same.

Taken at the wire and at the truth's own hooks, never from Sluice's books. What differs by nature between two processes
(object addresses, wall-clock times, client request ids in headers) never enters.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from datetime import datetime

from local.kube.kinds import NODE
from local.kube.stand_in import KubernetesStandIn
from local.kube.store import MODIFIED, Change
from local.kube.truth import BindingRecord, EvictionRecord
from local.timeline import Timeline
from local.web import Handler, Request, Response

_READS = frozenset({"GET", "HEAD", "OPTIONS"})


class Chronicle:
    """Grows by every note. `counts` says how many there were of each kind."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._begun = timeline.now()
        self._hash = hashlib.sha256()
        self.counts: Counter[str] = Counter()
        self.listener: Callable[[float, str, tuple[str | bytes, ...]], None] | None = None

    def note(self, kind: str, *facts: str | bytes) -> None:
        """Remember that this happened now; the facts must be equal in every process."""
        self.counts[kind] += 1
        if self.listener is not None:
            self.listener(self.seconds(self._timeline.now()), kind, facts)
        self._hash.update(f"{self.seconds(self._timeline.now()):.6f} {kind}".encode())
        for fact in facts:
            data = fact.encode() if isinstance(fact, str) else fact
            self._hash.update(b"%d:" % len(data))
            self._hash.update(data)

    def seconds(self, moment: datetime) -> float:
        """Seconds since the chronicle began."""
        return (moment - self._begun).total_seconds()

    def follow_cluster(self, cluster: KubernetesStandIn) -> None:
        """Note every node that comes or goes, every binding, and every call of the eviction API."""
        cluster.truth.on_record(self._note_record)
        cluster.store.subscribe(self._note_change)

    def _note_change(self, change: Change) -> None:
        if change.new.kind is NODE and change.type != MODIFIED:
            self.note(f"node {change.type.lower()}", change.new.name, change.new.uid)

    def _note_record(self, record: object) -> None:
        match record:
            case BindingRecord():
                self.note("bound", "/".join(record.pod), record.uid, record.node)
            case EvictionRecord():
                self.note("evicted", record.namespace, record.name, record.uid, record.node, record.refusal)

    @property
    def digest(self) -> str:
        """The hash so far, in hex."""
        return self._hash.hexdigest()


class Recorded:
    """A handler whose accepted writes are noted, under the name of who sends them."""

    def __init__(self, inner: Handler, chronicle: Chronicle, who: str) -> None:
        self._inner, self._chronicle, self._who = inner, chronicle, who

    def handle(self, request: Request) -> Response:
        """See `Handler.handle`."""
        if request.method in _READS:
            return self._inner.handle(request)
        response = self._inner.handle(request)
        if response.status < 400:
            self._chronicle.note(f"{self._who} {request.method}", request.path, request.body)
        return response
