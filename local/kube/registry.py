"""Creating, changing and deleting objects by the API server's rules, for its clients and for its controllers alike.

Sources: k8s.io/apiserver/pkg/registry/{generic/registry,rest} and pkg/registry/core/pod/strategy.go of Kubernetes 1.36.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from local.kube.admission import admit
from local.kube.kinds import NAMESPACE, NODE, POD, Json, Kind
from local.kube.objects import is_finished
from local.kube.problems import (
    FieldProblem,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    modified,
    not_found,
    wrong_uid,
)
from local.kube.store import Store, Stored
from local.kube.validation import validate, validate_update
from local.timeline import Timeline

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SYSTEM_METADATA = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_ORPHAN = "orphan"


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete. `grace`: seconds, None = the pod's own. Empty `uid` and `version` guard nothing."""

    grace: int | None = None
    uid: str = ""
    version: str = ""
    propagation: str = ""


class Registry:
    """The rules over a `Store`. Every method needs the timeline's lock, and raises `ApiProblem`."""

    def __init__(self, store: Store, timeline: Timeline, draws: random.Random) -> None:
        self.store, self.timeline, self._draws = store, timeline, draws

    def find(self, kind: Kind, namespace: str, name: str) -> Stored:
        """The object, or 404."""
        found = self.store.get(kind, (namespace, name))
        if found is None:
            raise not_found(kind, name)
        return found

    def prepare(self, kind: Kind, namespace: str, body: Json) -> tuple[str, str]:
        """Name, default, admit and validate a new object in place; nothing is stored. Returns its key."""
        metadata = body.get("metadata")
        if not isinstance(metadata, dict):
            metadata = body["metadata"] = {}
        for name in ("kind", "apiVersion"):
            body.pop(name, None)
        self._name_and_place(kind, namespace, metadata)
        admit(self.store, kind, body)
        validate(kind, body)
        key = (namespace, metadata["name"])
        if self.store.get(kind, key) is not None:
            raise already_exists(kind, metadata["name"])
        if kind.generation:
            metadata["generation"] = 1
        return key

    def create(self, kind: Kind, namespace: str, body: Json) -> Stored:
        """Store a new object; the body is the registry's from now on."""
        return self.store.insert(kind, self.prepare(kind, namespace, body), body)

    def update(self, old: Stored, body: Json, *, status: bool = False, dry_run: bool = False) -> Stored:
        """Store a changed object: with `status` its status only, else everything but that."""
        kind = old.kind
        metadata = body.get("metadata") or {}
        if metadata.get("resourceVersion") not in {None, "", str(old.version)}:
            raise modified(kind, old.name)
        if metadata.get("uid") not in {None, "", old.uid}:
            raise wrong_uid(kind, old.name, metadata["uid"], old.uid)
        new = self._status_update(old, body) if status else self._main_update(old, body, metadata)
        if dry_run:
            return Stored(kind, old.key, new, old.version)
        return self._gone_if_released(self.store.replace(old, new))

    def set_status(self, old: Stored, status: Json) -> Stored:
        """A controller's write of a status, in place of `old`, which must be current."""
        return self.store.replace(old, {**old.body, "status": status})

    def edit_metadata(self, old: Stored, change: Callable[[Json], None]) -> Stored:
        """A controller's write of labels, finalizers and the like; `change` works on a copy of the metadata."""
        metadata = {**old.metadata}
        change(metadata)
        return self._gone_if_released(self.store.replace(old, {**old.body, "metadata": metadata}))

    def check(self, old: Stored, options: DeleteOptions) -> None:
        """Raise 409 when the preconditions of a deletion do not hold."""
        if options.uid and options.uid != old.uid:
            raise wrong_uid(old.kind, old.name, options.uid, old.uid)
        if options.version and options.version != str(old.version):
            why = (
                f"the ResourceVersion in the precondition ({options.version}) does not match the ResourceVersion in "
                f"record ({old.version}). The object might have been modified"
            )
            raise conflict(old.kind, old.name, why)

    def delete(self, old: Stored, options: DeleteOptions = DeleteOptions()) -> tuple[Stored, bool]:
        """Delete, or begin to. Returns the object's last known state, and whether it is gone."""
        self.check(old, options)
        grace = self._grace(old, options)
        finalizers = list(old.metadata.get("finalizers") or ())
        if options.propagation.lower() == _ORPHAN and _ORPHAN not in finalizers:
            finalizers.append(_ORPHAN)
        if grace == 0 and not finalizers and not _held(old):
            return self.store.remove(old), True
        return self._begin_deletion(old, grace, finalizers), False

    def _begin_deletion(self, old: Stored, grace: int, finalizers: list[str]) -> Stored:
        metadata = {**old.metadata}
        if finalizers:
            metadata["finalizers"] = finalizers
        if not old.terminating or grace < metadata.get("deletionGracePeriodSeconds", 0):
            ends = self.timeline.now() + timedelta(seconds=grace)
            metadata["deletionTimestamp"] = ends.strftime("%Y-%m-%dT%H:%M:%SZ")
            metadata["deletionGracePeriodSeconds"] = grace
        body = {**old.body, "metadata": metadata}
        if old.kind is NAMESPACE:
            body["status"] = {**old.status, "phase": "Terminating"}
        if old.kind.generation and not old.terminating:
            metadata["generation"] = metadata.get("generation", 1) + 1
        return self.store.replace(old, body)

    def _grace(self, old: Stored, options: DeleteOptions) -> int:
        if old.kind is not POD or not old.spec.get("nodeName") or is_finished(old):
            return 0
        if options.grace is not None:
            return max(options.grace, 0)
        return max(int(old.spec.get("terminationGracePeriodSeconds", 30)), 0)

    def _name_and_place(self, kind: Kind, namespace: str, metadata: Json) -> None:
        if not metadata.get("name") and metadata.get("generateName"):
            suffix = "".join(self._draws.choice(_SUFFIX_LETTERS) for _ in range(5))
            metadata["name"] = metadata["generateName"] + suffix
        if not metadata.get("name"):
            problem = FieldProblem("metadata.name", "Required value: name or generateName is required")
            raise invalid(kind, "", [problem])
        if metadata.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        for name in (*_SYSTEM_METADATA, "resourceVersion", "managedFields", "selfLink"):
            metadata.pop(name, None)
        if not kind.namespaced:
            metadata.pop("namespace", None)
            return
        if metadata.setdefault("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        space = self.find(NAMESPACE, "", namespace)
        if space.terminating:
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise forbidden(kind, metadata["name"], why)

    def _main_update(self, old: Stored, body: Json, metadata: Json) -> Json:
        if metadata.get("name", old.name) != old.name:
            message = "the name of the object ({}) does not match the name on the URL ({})"
            raise bad_request(message.format(metadata["name"], old.name))
        new = {name: value for name, value in body.items() if name not in {"kind", "apiVersion", "metadata"}}
        if old.kind.status:
            new.pop("status", None)
            if "status" in old.body:
                new["status"] = old.body["status"]
        kept = {name: old.metadata[name] for name in _SYSTEM_METADATA if name in old.metadata}
        dropped = {"managedFields", "selfLink", *_SYSTEM_METADATA}
        new["metadata"] = {name: value for name, value in metadata.items() if name not in dropped} | kept
        new["metadata"]["name"] = old.name
        if old.namespace:
            new["metadata"]["namespace"] = old.namespace
        validate_update(old.kind, old, new)
        if old.kind.generation and new.get("spec") != old.body.get("spec"):
            new["metadata"]["generation"] = old.metadata.get("generation", 1) + 1
        return new

    def _status_update(self, old: Stored, body: Json) -> Json:
        new = {**old.body}
        if "status" in body:
            new["status"] = body["status"]
        if old.kind in {POD, NODE}:  # their status strategies let labels and annotations through
            given = body.get("metadata") or {}
            parts = {name: given[name] for name in ("labels", "annotations") if name in given}
            new["metadata"] = {**old.metadata, **parts}
        return new

    def _gone_if_released(self, stored: Stored) -> Stored:
        """A terminating object leaves with its last finalizer, a pod also not before its grace period is zero."""
        if not stored.terminating or stored.metadata.get("finalizers") or _held(stored):
            return stored
        if stored.kind is POD and stored.metadata.get("deletionGracePeriodSeconds", 0) > 0:
            return stored
        return self.store.remove(stored)


def _held(stored: Stored) -> bool:
    """A namespace stays until its content is gone, which its controller says by taking the finalizer away."""
    return stored.kind is NAMESPACE and bool(stored.spec.get("finalizers"))
