"""The stand-in's etcd: objects with resource versions, a bounded history per kind, and indexes for the controllers.

Bodies are never changed in place: a write hands in a new one. So histories, pages and watchers share what they hold,
and an object's JSON is made once however many read it.
"""

from __future__ import annotations

import random
import uuid
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TypeVar

import orjson

from local.kube.kinds import KINDS, NODE, OPENINGS, POD, Json, Key, Kind
from local.kube.problems import too_old
from local.timeline import Timeline

HISTORY = 4096
"""Changes kept per kind, like the API server's watch cache: a watch that is further behind gets 410."""

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"

_T = TypeVar("_T")


class Stored:
    """One version of an object; `body` is without kind and apiVersion, as in a list."""

    __slots__ = ("_raw", "body", "key", "kind", "version")

    def __init__(self, kind: Kind, key: Key, body: Json, version: int) -> None:
        self.kind, self.key, self.body, self.version = kind, key, body, version
        self._raw: bytes | None = None

    @property
    def namespace(self) -> str:
        """Empty for cluster-wide objects."""
        return self.key[0]

    @property
    def name(self) -> str:
        """Unique in its namespace."""
        return self.key[1]

    @property
    def uid(self) -> str:
        """Unique for ever."""
        uid: str = self.body["metadata"]["uid"]
        return uid

    @property
    def metadata(self) -> Json:
        """To be read only."""
        metadata: Json = self.body["metadata"]
        return metadata

    @property
    def spec(self) -> Json:
        """To be read only; empty where there is none."""
        return self.body.get("spec") or {}

    @property
    def status(self) -> Json:
        """To be read only; empty where there is none."""
        return self.body.get("status") or {}

    @property
    def labels(self) -> Mapping[str, str]:
        """To be read only."""
        return self.body["metadata"].get("labels") or {}

    @property
    def annotations(self) -> Mapping[str, str]:
        """To be read only."""
        return self.body["metadata"].get("annotations") or {}

    @property
    def terminating(self) -> bool:
        """Deleted, but not gone yet."""
        return "deletionTimestamp" in self.body["metadata"]

    @property
    def raw(self) -> bytes:
        """The JSON of a list's item."""
        if self._raw is None:
            self._raw = orjson.dumps(self.body)
        return self._raw

    @property
    def document(self) -> bytes:
        """The JSON of the object by itself."""
        return OPENINGS[self.kind] + self.raw[1:]


class Change:
    """A write: `old` is None for ADDED; for DELETED, `new` is the last state under the deletion's own version."""

    __slots__ = ("new", "old", "type", "version")

    def __init__(self, type_: str, old: Stored | None, new: Stored) -> None:
        self.type, self.old, self.new, self.version = type_, old, new, new.version


Listener = Callable[[Change], None]


class Store:
    """All objects. Every method needs the timeline's lock."""

    def __init__(self, timeline: Timeline, draws: random.Random, history: int = HISTORY) -> None:
        self.version = 1
        self._timeline, self._draws, self._history_size = timeline, draws, history
        self._objects: dict[Kind, dict[Key, Stored]] = {kind: {} for kind in KINDS}
        self._ordered: dict[Kind, list[Stored] | None] = dict.fromkeys(KINDS)
        self._history: dict[Kind, deque[Change]] = {kind: deque() for kind in KINDS}
        self._forgotten: dict[Kind, int] = dict.fromkeys(KINDS, 0)
        self._by_node: dict[str, dict[Key, None]] = {}
        self._by_owner: dict[str, dict[tuple[Kind, Key], None]] = {}
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` after every write, inside it; it must be brief and write nothing. Returns the way out."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def now_text(self) -> str:
        """The present, as Kubernetes writes times."""
        return self._timeline.now().strftime("%Y-%m-%dT%H:%M:%SZ")

    def get(self, kind: Kind, key: Key) -> Stored | None:
        """None when it is not there."""
        return self._objects[kind].get(key)

    def count(self, kind: Kind) -> int:
        """How many objects there are."""
        return len(self._objects[kind])

    def all(self, kind: Kind, namespace: str = "") -> list[Stored]:
        """In etcd's order; of one namespace when given."""
        ordered = self._ordered[kind]
        if ordered is None:
            objects = self._objects[kind]
            ordered = self._ordered[kind] = [objects[key] for key in sorted(objects)]
        return [one for one in ordered if one.key[0] == namespace] if namespace else ordered

    def pods_on(self, node: str) -> list[Stored]:
        """Pods bound to the node, finished ones too."""
        pods = self._objects[POD]
        return [pods[key] for key in self._by_node.get(node, ())]

    def owned_by(self, uid: str) -> list[Stored]:
        """Everything that names this uid among its owners."""
        return [self._objects[kind][key] for kind, key in self._by_owner.get(uid, ())]

    def node(self, name: str) -> Stored | None:
        """The Node of that name."""
        return self._objects[NODE].get(("", name))

    def insert(self, kind: Kind, key: Key, body: Json) -> Stored:
        """Store a new object; its metadata gets uid and creationTimestamp. The caller gives the body away."""
        metadata = body["metadata"]
        metadata["uid"] = str(uuid.UUID(int=self._draws.getrandbits(128), version=4))
        metadata["creationTimestamp"] = self.now_text()
        new = self._next(kind, key, body)
        self._objects[kind][key] = new
        self._commit(Change(ADDED, None, new))
        return new

    def replace(self, old: Stored, body: Json) -> Stored:
        """Store a new body, which may share parts with the old one but not be it. An equal one is no write."""
        if {**body, "metadata": {**body["metadata"], "resourceVersion": str(old.version)}} == old.body:
            return old
        new = self._next(old.kind, old.key, body)
        self._objects[old.kind][old.key] = new
        self._commit(Change(MODIFIED, old, new))
        return new

    def remove(self, old: Stored) -> Stored:
        """Forget the object; watchers see its last state."""
        last = self._next(old.kind, old.key, {**old.body})
        del self._objects[old.kind][old.key]
        self._commit(Change(DELETED, old, last))
        return last

    def since(self, kind: Kind, version: int) -> list[Change]:
        """Changes after `version`. Raises the API's 410 when some of them are forgotten."""
        if version < self._forgotten[kind]:
            raise too_old(version, self._forgotten[kind])
        history = self._history[kind]
        if not history or history[-1].version <= version:
            return []
        changes = list(history)
        return changes[bisect_right(changes, version, key=attrgetter("version")) :]

    def compact(self) -> None:
        """Forget all history, as etcd does every five minutes: a watch from before now gets 410."""
        for kind in KINDS:
            self._history[kind].clear()
            self._forgotten[kind] = self.version

    def _next(self, kind: Kind, key: Key, body: Json) -> Stored:
        self.version += 1
        body["metadata"] = {**body["metadata"], "resourceVersion": str(self.version)}
        return Stored(kind, key, body, self.version)

    def _commit(self, change: Change) -> None:
        kind = change.new.kind
        history = self._history[kind]
        history.append(change)
        if len(history) > self._history_size:
            self._forgotten[kind] = history.popleft().version
        self._order(kind, change)
        self._index(change)
        for listener in tuple(self._listeners):
            listener(change)

    def _order(self, kind: Kind, change: Change) -> None:
        ordered = self._ordered[kind]
        if ordered is None:
            return
        if change.type != MODIFIED:
            self._ordered[kind] = None
            return
        place = bisect_right(ordered, change.new.key, key=attrgetter("key")) - 1
        ordered[place] = change.new

    def _index(self, change: Change) -> None:
        old = change.old
        new = change.new if change.type != DELETED else None
        where = change.new.kind, change.new.key
        before, after = _owners(old), _owners(new)
        if before != after:
            _move(self._by_owner, before, after, where)
        if change.new.kind is POD:
            _move(self._by_node, _node(old), _node(new), change.new.key)


def _owners(stored: Stored | None) -> list[str]:
    if stored is None:
        return []
    return [owner["uid"] for owner in stored.body["metadata"].get("ownerReferences") or ()]


def _node(stored: Stored | None) -> list[str]:
    name = stored.spec.get("nodeName") if stored is not None else None
    return [name] if name else []


def _move(index: dict[str, dict[_T, None]], before: list[str], after: list[str], entry: _T) -> None:
    for name in before:
        if name not in after:
            index[name].pop(entry, None)
            if not index[name]:
                del index[name]
    for name in after:
        index.setdefault(name, {})[entry] = None
