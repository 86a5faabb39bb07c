"""Events, as `kubectl describe` shows them; equal ones are counted, and all are forgotten after an hour."""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta

from local.kube.kinds import EVENT, Key
from local.kube.registry import Registry
from local.kube.store import ADDED, Change, Stored


class Recorder:
    """Writes Events for the controllers, and lets old ones go, whoever wrote them."""

    def __init__(self, registry: Registry, life_seconds: float) -> None:
        self._registry, self._life = registry, timedelta(seconds=life_seconds)
        self._seen: dict[tuple[str, str, str], Key] = {}
        self._old: deque[tuple[datetime, Key]] = deque()
        registry.store.subscribe(self._note)

    def record(self, about: Stored, reason: str, message: str, *, component: str, warning: bool = False) -> None:
        """One more Event about this object."""
        store, now = self._registry.store, self._registry.store.now_text()
        self._forget()
        namespace = about.namespace or "default"
        same = (about.uid, reason, message)
        old = store.get(EVENT, self._seen[same]) if same in self._seen else None
        if old is not None:
            store.replace(old, {**old.body, "count": old.body["count"] + 1, "lastTimestamp": now})
            return
        involved = {
            "kind": about.kind.kind,
            "apiVersion": about.kind.api_version,
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
            "resourceVersion": str(about.version),
        }
        body = {
            "metadata": {"name": f"{about.name}.{store.version:x}", "namespace": namespace},
            "involvedObject": involved,
            "reason": reason,
            "message": message,
            "type": "Warning" if warning else "Normal",
            "source": {"component": component},
            "reportingComponent": component,
            "reportingInstance": "",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self._seen[same] = store.insert(EVENT, (namespace, body["metadata"]["name"]), body).key  # type: ignore[index]

    def _note(self, change: Change) -> None:
        if change.new.kind is EVENT and change.type == ADDED:
            self._old.append((self._registry.timeline.now() + self._life, change.new.key))

    def _forget(self) -> None:
        now, store = self._registry.timeline.now(), self._registry.store
        while self._old and self._old[0][0] <= now:
            _, key = self._old.popleft()
            if (old := store.get(EVENT, key)) is not None:
                about = old.body.get("involvedObject") or {}
                self._seen.pop((about.get("uid", ""), old.body.get("reason", ""), old.body.get("message", "")), None)
                store.remove(old)
