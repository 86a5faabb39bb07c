"""What the watches have said so far: objects by kind, indexed for projection, with a note of what changed since.

Watch threads write, the main loop reads; both hold `ClusterCache.lock`. Objects are the API server's own JSON, less
`managedFields`, which nobody here reads and which is a third of a pod. Never modify one: the next event replaces it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from shared.adapters.protocols import Json
from shared.reading.gang_members import PATHS
from shared.reading.storage import Kind, Stored, named, read_one

PODS_PATH = "/api/v1/pods"
NODES_PATH = "/api/v1/nodes"
DAEMON_SETS_PATH = "/apis/apps/v1/daemonsets"

_log = logging.getLogger(__name__)

_TERMINAL = ("Succeeded", "Failed")


class Table(Protocol):
    """Where a reflector puts what it hears. Both calls return whether anything is different now."""

    def replace(self, items: Iterable[Json]) -> bool:
        """Take a whole list: what is not in it is gone."""
        ...

    def apply(self, kind: str, item: Json) -> bool:
        """Take one watch event, ADDED, MODIFIED or DELETED; repeated and overtaken ones change nothing."""
        ...


class OptionalTable(Table, Protocol):
    """The same for what can be done without."""

    def lose(self) -> bool:
        """It is not served, or may not be read (any more)."""
        ...


class ObjectTable:
    """Objects of one kind by namespace/name. `changed` collects the keys that differ from when it was last cleared."""

    def __init__(self, notify: Callable[[], None], lock: threading.RLock) -> None:
        self._notify, self._lock = notify, lock
        self.objects: dict[str, Json] = {}
        self.changed: set[str] = set()

    def replace(self, items: Iterable[Json]) -> bool:
        """See `Table.replace`."""
        with self._lock:
            fresh = {_key(item): item for item in items}
            gone = [key for key in self.objects if key not in fresh]
            for key in gone:
                self._drop(key)
            puts = [key for key, item in fresh.items() if not _same(self.objects.get(key), item)]
            for key in puts:
                self._put(key, _slim(fresh[key]))
        return self._announce(bool(gone or puts))

    def apply(self, kind: str, item: Json) -> bool:
        """See `Table.apply`."""
        key = _key(item)
        with self._lock:
            held = self.objects.get(key)
            if _overtaken(held, item, kind) or (held is None and kind == "DELETED"):
                return False
            if kind == "DELETED":
                self._drop(key)
            else:
                self._put(key, _slim(item))
        return self._announce(True)

    def lose(self) -> bool:
        """See `OptionalTable.lose`."""
        return self.replace(())

    def _announce(self, changed: bool) -> bool:
        if changed:
            self._notify()
        return changed

    def _put(self, key: str, item: Json) -> None:
        self.objects[key] = item
        self.changed.add(key)

    def _drop(self, key: str) -> None:
        del self.objects[key]
        self.changed.add(key)


class PodTable(ObjectTable):
    """Pods, also by the node that they are bound to; finished ones hold nothing and are left out of the index."""

    def __init__(self, notify: Callable[[], None], lock: threading.RLock) -> None:
        super().__init__(notify, lock)
        self._by_node: dict[str, dict[str, Json]] = {}
        self.changed_nodes: set[str] = set()

    def on_node(self, node: str) -> list[Json]:
        """The unfinished pods bound to a node, in the order of their names."""
        held = self._by_node.get(node, {})
        return [held[key] for key in sorted(held)]

    def _put(self, key: str, item: Json) -> None:
        self._unindex(key)
        node = item["spec"].get("nodeName")
        if node and not finished(item):
            self._by_node.setdefault(node, {})[key] = item
            self.changed_nodes.add(node)
        super()._put(key, item)

    def _drop(self, key: str) -> None:
        self._unindex(key)
        super()._drop(key)

    def _unindex(self, key: str) -> None:
        node = self.objects.get(key, {}).get("spec", {}).get("nodeName")
        if node and self._by_node.get(node, {}).pop(key, None) is not None:
            self.changed_nodes.add(node)
            if not self._by_node[node]:
                del self._by_node[node]


class StorageTable:
    """What tells of volumes, reduced when it comes in to what scheduling reads: claims are many, and large as JSON.

    `changed` collects the names of those that matter otherwise now. `unread` says why the kind can't be read.
    """

    def __init__(self, kind: Kind, notify: Callable[[], None], lock: threading.RLock) -> None:
        self._kind, self._notify, self._lock = kind, notify, lock
        self._versions: dict[str, str] = {}
        self.values: dict[str, Stored] = {}
        self.changed: set[str] = set()
        self.unread = ""

    def replace(self, items: Iterable[Json]) -> bool:
        """See `Table.replace`."""
        with self._lock:
            fresh = {named(self._kind, item): item for item in items}
            gone = [name for name in self._versions if name not in fresh]
            moved = [self._drop(name) for name in gone]
            moved += [self._put(name, item) for name, item in fresh.items()]
            changed = any(moved) or bool(self.unread)
            self.unread = ""
        return self._announce(changed)

    def apply(self, kind: str, item: Json) -> bool:
        """See `Table.apply`."""
        name = named(self._kind, item)
        with self._lock:
            held = self._versions.get(name)
            if (held is None and kind == "DELETED") or _older(held, _version(item), kind):
                return False
            changed = self._drop(name) if kind == "DELETED" else self._put(name, item)
        return self._announce(changed)

    def lose(self) -> bool:
        """See `OptionalTable.lose`."""
        with self._lock:
            changed = not self.unread
            self.unread = f"no right to list {self._kind.value}"
            for name in list(self._versions):
                self._drop(name)
        return self._announce(changed)

    def _put(self, name: str, item: Json) -> bool:
        self._versions[name] = _version(item)
        try:
            value = read_one(self._kind, item)
        except ValueError as error:
            _log.error("%s; it is left out", error)
            return self._forget(name)
        if self.values.get(name) == value:
            return False
        self.values[name] = value
        self.changed.add(name)
        return True

    def _drop(self, name: str) -> bool:
        del self._versions[name]
        return self._forget(name)

    def _forget(self, name: str) -> bool:
        if self.values.pop(name, None) is None:
            return False
        self.changed.add(name)
        return True

    def _announce(self, changed: bool) -> bool:
        if changed:
            self._notify()
        return changed


class ClusterCache:
    """The kinds that a snapshot is made of. `on_change` is called, outside the lock, after every change.

    `pod_groups` are kept by API group; nobody serves them all.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.on_change: Callable[[], None] = lambda: None
        self.dirty = True
        self.pods = PodTable(self._changed, self.lock)
        self.nodes = ObjectTable(self._changed, self.lock)
        self.daemon_sets = ObjectTable(self._changed, self.lock)
        self.pod_groups = {group: ObjectTable(self._changed, self.lock) for group in PATHS}
        self.storage = {kind: StorageTable(kind, self._changed, self.lock) for kind in Kind}

    def tables(self) -> Mapping[str, Table]:
        """What a reflector of each path fills."""
        return {PODS_PATH: self.pods, NODES_PATH: self.nodes, DAEMON_SETS_PATH: self.daemon_sets}

    def optional_tables(self) -> Mapping[str, OptionalTable]:
        """The same for kinds that a cluster may not have, or does not let us read: then nothing that hangs on them is
        planned for."""
        groups = {PATHS[group]: table for group, table in self.pod_groups.items()}
        return {**groups, **{kind.path: table for kind, table in self.storage.items()}}

    def unread(self) -> dict[Kind, str]:
        """Why kinds that tell of volumes can't be read."""
        return {kind: table.unread for kind, table in self.storage.items() if table.unread}

    def _changed(self) -> None:
        self.dirty = True
        self.on_change()


def finished(pod: Json) -> bool:
    """True for a pod that ran to its end: it holds nothing on its node any more."""
    return pod.get("status", {}).get("phase") in _TERMINAL


def _key(item: Json) -> str:
    metadata = item["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def _slim(item: Json) -> Json:
    metadata = item["metadata"]
    if "managedFields" not in metadata:
        return item
    return {**item, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def _version(item: Json) -> str:
    return str(item["metadata"].get("resourceVersion", ""))


def _same(held: Json | None, item: Json) -> bool:
    return held is not None and _version(held) == _version(item) != ""


def _overtaken(held: Json | None, item: Json, kind: str) -> bool:
    """True for an event that says no more than what is held. Versions of one resource compare as numbers (KEP-5504);
    one that is not a number is taken at its word, and so is a deletion at the version held."""
    return held is not None and _older(_version(held), _version(item), kind)


def _older(mine: str | None, other: str, kind: str) -> bool:
    if mine is None:
        return False
    if not (mine.isdigit() and other.isdigit()):
        return False
    return int(other) < int(mine) or (int(other) == int(mine) and kind != "DELETED")
