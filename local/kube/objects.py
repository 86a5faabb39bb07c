"""Small questions about pods, nodes and their conditions, answered without changing anything."""

from __future__ import annotations

from local.kube.kinds import Json
from local.kube.store import Stored

FINISHED = frozenset({"Succeeded", "Failed"})


def condition(stored: Stored, type_: str) -> Json | None:
    """The condition of that type, or None."""
    return next((one for one in stored.status.get("conditions") or () if one["type"] == type_), None)


def is_true(stored: Stored, type_: str) -> bool:
    """Whether the condition is there and True."""
    found = condition(stored, type_)
    return found is not None and found["status"] == "True"


def with_condition(status: Json, new: Json, now: str) -> Json:
    """The status with this condition in place of the one of its type; its transition time moves with its status."""
    conditions = list(status.get("conditions") or ())
    place = next((at for at, one in enumerate(conditions) if one["type"] == new["type"]), None)
    old = conditions[place] if place is not None else {}
    moved = old.get("lastTransitionTime", now) if old.get("status") == new["status"] else now
    made = {**new, "lastTransitionTime": moved}
    if place is None:
        conditions.append(made)
    else:
        conditions[place] = made
    return {**status, "conditions": conditions}


def is_ready(pod: Stored) -> bool:
    """Whether the pod counts as healthy for a budget or a service."""
    return is_true(pod, "Ready")


def is_finished(pod: Stored) -> bool:
    """Whether all its containers have ended for good."""
    return pod.status.get("phase") in FINISHED


def controller_of(stored: Stored) -> Json | None:
    """The owner reference that manages the object, or None."""
    return next((one for one in stored.metadata.get("ownerReferences") or () if one.get("controller")), None)
