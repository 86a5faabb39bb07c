"""What all controllers share: a queue that is worked off at the present moment, but after the write that filled it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import orjson

from local.kube.kinds import Json
from local.kube.problems import ApiProblem
from local.kube.store import Stored
from local.timeline import Timeline

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """Keys to look at, each once however often it was named. A key whose work is refused is tried again a second later,
    as controllers do: somebody else may have been in the way."""

    def __init__(self, timeline: Timeline, work: Callable[[K], None], *, retry_seconds: float = 1.0) -> None:
        self._timeline, self._work, self._retry = timeline, work, retry_seconds
        self._keys: dict[K, None] = {}
        self._due = False

    def add(self, key: K) -> None:
        """Look at this soon."""
        self._keys[key] = None
        if not self._due:
            self._due = True
            self._timeline.call_later(0.0, self._run)

    def _run(self) -> None:
        self._due = False
        keys, self._keys = list(self._keys), {}
        for key in keys:
            try:
                self._work(key)
            except ApiProblem:
                self._timeline.call_later(self._retry, lambda key=key: self.add(key))  # type: ignore[misc]


def owner_reference(owner: Stored) -> Json:
    """A controller's reference to itself."""
    return {
        "apiVersion": owner.kind.api_version,
        "kind": owner.kind.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def copy(value: Json) -> Json:
    """A deep copy: what is handed to the registry is filled in by it."""
    made: Json = orjson.loads(orjson.dumps(value))
    return made


def pod_from(owner: Stored, template: Json, *, name: str = "") -> Json:
    """A new pod as this controller makes them."""
    pod = copy(template)
    metadata = pod.setdefault("metadata", {})
    if name:
        metadata["name"] = name
    else:
        metadata["generateName"] = f"{owner.name}-"
    metadata["ownerReferences"] = [owner_reference(owner)]
    return {"metadata": metadata, "spec": pod["spec"]}
