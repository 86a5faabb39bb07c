"""Looks on while a test runs: every change of pods and nodes, in order, from the API server's own watches."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from shared.adapters.errors import OutsideError
from shared.adapters.protocols import ClusterApi

Json = dict[str, Any]
PODS, NODES = "/api/v1/pods", "/api/v1/nodes"
WATCH_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Change:
    """`type` is ADDED, MODIFIED or DELETED; `at` is when it was heard of."""

    at: datetime
    type: str
    object: Json


class Witness:
    """A context manager; what it saw stays readable afterwards."""

    def __init__(self, api: ClusterApi) -> None:
        self._api = api
        self._closing = False
        self.seen: dict[str, list[Change]] = {PODS: [], NODES: []}

    def __enter__(self) -> Witness:
        for path in self.seen:
            items, version = self._api.list(path)
            self.seen[path] += [Change(datetime.now(UTC), "ADDED", item) for item in items]
            threading.Thread(target=self._follow, args=(path, version), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True  # the threads end with their watches, or with the API server

    def _follow(self, path: str, version: str) -> None:
        """The server ends a watch that cannot keep up with a burst; the next one goes on behind it."""
        try:
            while not self._closing:
                for event in self._api.watch(path, version, timeout_seconds=WATCH_SECONDS):
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self.seen[path].append(Change(datetime.now(UTC), event["type"], event["object"]))
        except OutsideError:
            if not self._closing:
                raise

    def node(self, name: str) -> list[Change]:
        """One node's life."""
        return [change for change in list(self.seen[NODES]) if change.object["metadata"]["name"] == name]

    def fewest_ready(self, app: str, since: datetime) -> int:
        """The smallest number of ready pods that a workload ever had from `since` on."""
        counts = list(self._ready_over_time(app))
        before = [count for at, count in counts if at < since][-1:]
        return min([*before, *(count for at, count in counts if at >= since)])

    def _ready_over_time(self, app: str) -> Iterator[tuple[datetime, int]]:
        ready: set[str] = set()
        for change in list(self.seen[PODS]):
            meta = change.object["metadata"]
            if meta.get("labels", {}).get("app") != app:
                continue
            if change.type != "DELETED" and is_ready(change.object) and "deletionTimestamp" not in meta:
                ready.add(meta["uid"])
            else:
                ready.discard(meta["uid"])
            yield change.at, len(ready)


def is_ready(item: Json) -> bool:
    """For pods and nodes."""
    conditions = item.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def is_cordoned(node: Json) -> bool:
    """Whether the scheduler passes it by."""
    return bool(node["spec"].get("unschedulable"))
