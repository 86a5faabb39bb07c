"""Small scripted doubles of the protocols that the exporter talks to."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from shared.adapters.errors import Expired, NotFound, StaleWrite
from shared.adapters.protocols import Blob, Json

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


class FakeCluster:
    """An API server in miniature: a log of versions per collection, from which lists and watches are answered.

    `fail` holds errors that the next requests raise, in order; `compacted` expires every watch from before it.
    """

    def __init__(self) -> None:
        self._versions = itertools.count(1)
        self._log: list[tuple[int, str, Json]] = []
        self._objects: dict[str, Json] = {}
        self.version = 0
        self.compacted = 0
        self.fail: list[Exception] = []
        self.break_stream_after: int | None = None
        self.requests: list[str] = []

    def put(self, path: str, item: Json) -> Json:
        """Create or change the object at `path`."""
        kind = "MODIFIED" if path in self._objects else "ADDED"
        return self._write(kind, path, item)

    def remove(self, path: str) -> None:
        self._write("DELETED", path, self._objects.pop(path))

    def list(self, path: str, **_selectors: str) -> tuple[list[Json], str]:
        self._asked("list", path)
        return [item for key, item in self._objects.items() if _below(path, key)], str(self.version)

    def watch(self, path: str, resource_version: str, *, timeout_seconds: int) -> Iterator[Json]:
        self._asked("watch", path)
        since = int(resource_version)
        if since < self.compacted:
            raise Expired("too old resource version")
        for count, (version, key, event) in enumerate(self._log):
            if count == self.break_stream_after:
                raise self.fail.pop(0)
            if version > since and _below(path, key):
                yield event
        yield {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self.version)}}}

    def get(self, path: str) -> Json:
        self._asked("get", path)
        if path not in self._objects:
            raise NotFound(path)
        return self._objects[path]

    def create(self, path: str, body: Json) -> Json:
        self._asked("create", path)
        key = f"{path}/{body['metadata']['name']}"
        if key in self._objects:
            raise StaleWrite(key)
        return self.put(key, body)

    def replace(self, path: str, body: Json) -> Json:
        self._asked("replace", path)
        version = body["metadata"].get("resourceVersion")
        if version and version != self._objects[path]["metadata"]["resourceVersion"]:
            raise StaleWrite(path)
        return self.put(path, body)

    def patch(self, path: str, body: Json) -> Json:
        raise AssertionError("the exporter changes nothing but its lease")

    def delete(self, path: str, **_options: Any) -> None:
        raise AssertionError("the exporter deletes nothing")

    def evict(self, namespace: str, name: str, uid: str, **_options: Any) -> None:
        raise AssertionError("the exporter evicts nothing")

    def _asked(self, verb: str, path: str) -> None:
        self.requests.append(f"{verb} {path}")
        if self.fail and self.break_stream_after is None:
            raise self.fail.pop(0)

    def _write(self, kind: str, path: str, item: Json) -> Json:
        self.version = next(self._versions)
        stamped = {**item, "metadata": {**item["metadata"], "resourceVersion": str(self.version)}}
        if kind != "DELETED":
            self._objects[path] = stamped
        self._log.append((self.version, path, {"type": kind, "object": stamped}))
        return stamped


def _below(collection: str, key: str) -> bool:
    prefix, _, kind = collection.rpartition("/")
    return key.startswith(f"{prefix}/") and f"/{kind}/" in key


class FakeTopic:
    """Keeps what is published; `fail` holds errors for the next calls, in order."""

    def __init__(self) -> None:
        self.batches: list[list[Json]] = []
        self.fail: list[Exception] = []
        self.calls = 0

    def publish(self, events: Sequence[Json]) -> None:
        self.calls += 1
        if self.fail:
            raise self.fail.pop(0)
        self.batches.append(list(events))

    @property
    def events(self) -> list[Json]:
        return [event for batch in self.batches for event in batch]

    def of(self, kind: str) -> list[Json]:
        return [event for event in self.events if event["type"] == kind]


class FakeStore:
    """Blobs in a dictionary; `fail` as above."""

    def __init__(self) -> None:
        self.blobs: dict[tuple[str, str], Blob] = {}
        self.fail: list[Exception] = []
        self._etags = itertools.count(1)

    def get(self, container: str, name: str) -> Blob:
        if (container, name) not in self.blobs:
            raise NotFound(f"{container}/{name}")
        return self.blobs[container, name]

    def get_if_changed(self, container: str, name: str, etag: str) -> Blob | None:
        if self.fail:
            raise self.fail.pop(0)
        blob = self.get(container, name)
        return None if blob.etag == etag else blob

    def put(self, container: str, name: str, data: bytes, **_guards: Any) -> str:
        if self.fail:
            raise self.fail.pop(0)
        etag = f"e{next(self._etags)}"
        self.blobs[container, name] = Blob(data, etag)
        return etag

    def delete(self, container: str, name: str) -> None:
        self.blobs.pop((container, name), None)

    def list(self, container: str, prefix: str = "") -> list[str]:
        return sorted(name for held, name in self.blobs if held == container and name.startswith(prefix))


def pod(name: str, *, node: str = "", cpu: str = "1", unschedulable: bool = True, phase: str = "", **meta: Any) -> Json:
    """A ReplicaSet's pod in namespace `work`; unbound ones are reported Unschedulable unless told otherwise."""
    spec: Json = {
        "containers": [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}]
    }
    status: Json = {"phase": phase or ("Running" if node else "Pending")}
    if node:
        spec["nodeName"] = node
    elif unschedulable:
        status["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "app", "uid": "rs-1", "controller": True}
    metadata = {"name": name, "namespace": "work", "uid": f"uid-{name}", "ownerReferences": [owner], **meta}
    return {"metadata": metadata, "spec": spec, "status": status}


def pod_path(name: str) -> str:
    return f"/api/v1/namespaces/work/pods/{name}"


def node(name: str, *, ready: bool = True, created: datetime = START, pool: str = "cpu", **spec: Any) -> Json:
    """A node of four cores, labelled into `pool`."""
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "30"}
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "labels": {"sluice.io/pool": pool, "kubernetes.io/hostname": name},
            "creationTimestamp": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        },
        "spec": spec,
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def node_path(name: str) -> str:
    return f"/api/v1/nodes/{name}"
