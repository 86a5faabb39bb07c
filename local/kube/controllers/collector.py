"""What goes with its owner, and what goes with its namespace.

Source: pkg/controller/{garbagecollector,namespace} of Kubernetes 1.36. Unlike the real one it lets objects be whose
owner never existed: traces and tests like to name owners that they do not bring along.
"""

from __future__ import annotations

from collections.abc import Callable

from local.kube.controllers.work import WorkQueue
from local.kube.kinds import KINDS, NAMESPACE, Json
from local.kube.registry import Registry
from local.kube.store import DELETED, Change, Stored

_ORPHAN = "orphan"


class Collector:
    """Deletes in the background what a deletion leaves without an owner."""

    def __init__(self, registry: Registry) -> None:
        self._registry, self._store = registry, registry.store
        self._owners: WorkQueue[str] = WorkQueue(registry.timeline, self._collect)
        self._orphans: WorkQueue[str] = WorkQueue(registry.timeline, self._orphan)
        self._spaces: WorkQueue[str] = WorkQueue(registry.timeline, self._empty)
        self._releasing: dict[str, Stored] = {}
        self._closing: set[str] = set()
        self._store.subscribe(self._note)

    def _note(self, change: Change) -> None:
        new = change.new
        if change.type == DELETED:
            if self._store.owned_by(new.uid):
                self._owners.add(new.uid)
            if new.namespace in self._closing:
                self._spaces.add(new.namespace)
        elif new.terminating:
            if _ORPHAN in (new.metadata.get("finalizers") or ()):
                self._releasing[new.uid] = new
                self._orphans.add(new.uid)
            if new.kind is NAMESPACE:
                self._closing.add(new.name)
                self._spaces.add(new.name)

    def _collect(self, owner: str) -> None:
        for dependent in self._store.owned_by(owner):
            others = [one for one in dependent.metadata["ownerReferences"] if one["uid"] != owner]
            if others:
                self._registry.edit_metadata(dependent, _owned_by(others))
            elif not dependent.terminating:
                self._registry.delete(dependent)

    def _orphan(self, owner: str) -> None:
        for dependent in self._store.owned_by(owner):
            others = [one for one in dependent.metadata["ownerReferences"] if one["uid"] != owner]
            self._registry.edit_metadata(dependent, _owned_by(others))
        noted = self._releasing.pop(owner, None)
        current = self._store.get(noted.kind, noted.key) if noted is not None else None
        if current is not None and current.uid == owner:
            finalizers = [one for one in current.metadata.get("finalizers") or () if one != _ORPHAN]
            self._registry.edit_metadata(current, lambda metadata: metadata.update(finalizers=finalizers))

    def _empty(self, name: str) -> None:
        space = self._store.get(NAMESPACE, ("", name))
        if space is None or not space.terminating:
            self._closing.discard(name)
            return
        inside = [one for kind in KINDS if kind.namespaced for one in self._store.all(kind, name)]
        for one in inside:
            if not one.terminating:
                self._registry.delete(one)
        if not inside:
            self._closing.discard(name)
            freed = self._store.replace(space, {**space.body, "spec": {**space.spec, "finalizers": []}})
            self._registry.edit_metadata(freed, lambda _: None)


def _owned_by(owners: list[Json]) -> Callable[[Json], None]:
    def edit(metadata: Json) -> None:
        if owners:
            metadata["ownerReferences"] = owners
        else:
            metadata.pop("ownerReferences", None)

    return edit
