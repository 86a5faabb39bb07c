"""What `kubectl get` prints: the server's Table, with the columns that people read first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import orjson

from local.kube.kinds import (
    BUDGET,
    DAEMON_SET,
    DEPLOYMENT,
    EVENT,
    JOB,
    NAMESPACE,
    NODE,
    POD,
    REPLICA_SET,
    STATEFUL_SET,
    Kind,
)
from local.kube.objects import condition, is_true
from local.kube.store import Store, Stored
from local.web import Request

Cell = str | int
_WIDE = 1


def wanted(request: Request) -> bool:
    """Whether the client prefers a Table."""
    return "as=Table" in request.headers.get("accept", "")


def rendering(kind: Kind, store: Store) -> Callable[[Stored], bytes]:
    """How a watch shows each object to a client that prefers tables."""
    return lambda stored: table(kind, [stored], store, str(stored.version))


def table(
    kind: Kind, items: list[Stored], store: Store, version: str, metadata: Mapping[str, object] | None = None
) -> bytes:
    """A Table of these objects."""
    columns = _COLUMNS.get(kind, _PLAIN)
    now = store.now_text()
    definitions = [
        {
            "name": name,
            "type": "string",
            "format": "name" if name == "Name" else "",
            "description": "",
            "priority": wide,
        }
        for name, wide, _ in columns
    ]
    rows = [{"cells": [cell(one, now) for _, _, cell in columns], "object": _partial(one)} for one in items]
    answer = {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata or {"resourceVersion": version},
        "columnDefinitions": definitions,
        "rows": rows,
    }
    return orjson.dumps(answer)


def _partial(stored: Stored) -> dict[str, Any]:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": stored.metadata}


def duration(since: str, now: str) -> str:  # noqa: PLR0911 - one return per magnitude
    """As kubectl writes ages: two units where they are small."""
    if not since:
        return "<unknown>"
    moments = [datetime.fromisoformat(text) for text in (since, now)]
    seconds = max(int((moments[1] - moments[0]).total_seconds()), 0)
    if seconds < 120:
        return f"{seconds}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    return f"{days}d"


def _name(stored: Stored, _: str) -> Cell:
    return stored.name


def _age(stored: Stored, now: str) -> Cell:
    return duration(stored.metadata.get("creationTimestamp", ""), now)


def _status(*path: str, default: Cell = 0) -> Callable[[Stored, str], Cell]:
    return lambda stored, _: _at(stored.status, path, default)


def _spec(*path: str, default: Cell = 0) -> Callable[[Stored, str], Cell]:
    return lambda stored, _: _at(stored.spec, path, default)


def _at(value: Any, path: tuple[str, ...], default: Cell) -> Cell:  # noqa: ANN401 - any JSON
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return default if value is None else value


def _pod_ready(pod: Stored, _: str) -> Cell:
    states = pod.status.get("containerStatuses") or ()
    return f"{sum(1 for one in states if one.get('ready'))}/{len(pod.spec.get('containers') or ())}"


def _pod_status(pod: Stored, _: str) -> Cell:
    if pod.terminating:
        return "Terminating"
    phase = str(pod.status.get("phase", ""))
    return {"Succeeded": "Completed", "Failed": str(pod.status.get("reason") or "Error")}.get(phase, phase)


def _node_status(node: Stored, _: str) -> Cell:
    found = condition(node, "Ready")
    states = {"True": "Ready", "False": "NotReady"}
    words = [states.get(found["status"], "NotReady") if found else "Unknown"]
    return ",".join(words + (["SchedulingDisabled"] if node.spec.get("unschedulable") else []))


def _node_roles(node: Stored, _: str) -> Cell:
    prefix = "node-role.kubernetes.io/"
    return ",".join(sorted(one.removeprefix(prefix) for one in node.labels if one.startswith(prefix))) or "<none>"


def _ready_of(wanted_path: str) -> Callable[[Stored, str], Cell]:
    return lambda one, _: f"{one.status.get('readyReplicas', 0)}/{one.spec.get(wanted_path, 0)}"


def _job_status(job: Stored, _: str) -> Cell:
    return "Complete" if is_true(job, "Complete") else "Failed" if is_true(job, "Failed") else "Running"


def _completions(job: Stored, _: str) -> Cell:
    return f"{job.status.get('succeeded', 0)}/{job.spec.get('completions', 1)}"


def _event_object(event: Stored, _: str) -> Cell:
    about = event.body.get("involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _event_seen(event: Stored, now: str) -> Cell:
    return duration(str(event.body.get("lastTimestamp") or event.metadata["creationTimestamp"]), now)


def _top(name: str) -> Callable[[Stored, str], Cell]:
    return lambda stored, _: str(stored.body.get(name, ""))


_Column = tuple[str, int, Callable[[Stored, str], Cell]]
_PLAIN: tuple[_Column, ...] = (("Name", 0, _name), ("Age", 0, _age))
_COLUMNS: Mapping[Kind, tuple[_Column, ...]] = {
    POD: (
        ("Name", 0, _name),
        ("Ready", 0, _pod_ready),
        ("Status", 0, _pod_status),
        ("Restarts", 0, lambda *_: "0"),
        ("Age", 0, _age),
        ("IP", _WIDE, _status("podIP", default="<none>")),
        ("Node", _WIDE, _spec("nodeName", default="<none>")),
    ),
    NODE: (
        ("Name", 0, _name),
        ("Status", 0, _node_status),
        ("Roles", 0, _node_roles),
        ("Age", 0, _age),
        ("Version", 0, _status("nodeInfo", "kubeletVersion", default="")),
    ),
    NAMESPACE: (("Name", 0, _name), ("Status", 0, _status("phase", default="")), ("Age", 0, _age)),
    DEPLOYMENT: (
        ("Name", 0, _name),
        ("Ready", 0, _ready_of("replicas")),
        ("Up-to-date", 0, _status("updatedReplicas")),
        ("Available", 0, _status("availableReplicas")),
        ("Age", 0, _age),
    ),
    REPLICA_SET: (
        ("Name", 0, _name),
        ("Desired", 0, _spec("replicas")),
        ("Current", 0, _status("replicas")),
        ("Ready", 0, _status("readyReplicas")),
        ("Age", 0, _age),
    ),
    STATEFUL_SET: (("Name", 0, _name), ("Ready", 0, _ready_of("replicas")), ("Age", 0, _age)),
    DAEMON_SET: (
        ("Name", 0, _name),
        ("Desired", 0, _status("desiredNumberScheduled")),
        ("Current", 0, _status("currentNumberScheduled")),
        ("Ready", 0, _status("numberReady")),
        ("Age", 0, _age),
    ),
    JOB: (("Name", 0, _name), ("Status", 0, _job_status), ("Completions", 0, _completions), ("Age", 0, _age)),
    BUDGET: (
        ("Name", 0, _name),
        ("Min available", 0, _spec("minAvailable", default="N/A")),
        ("Max unavailable", 0, _spec("maxUnavailable", default="N/A")),
        ("Allowed disruptions", 0, _status("disruptionsAllowed")),
        ("Age", 0, _age),
    ),
    EVENT: (
        ("Last Seen", 0, _event_seen),
        ("Type", 0, _top("type")),
        ("Reason", 0, _top("reason")),
        ("Object", 0, _event_object),
        ("Message", 0, _top("message")),
    ),
}
