"""The scale subresource of what has replicas: `kubectl scale` works through it."""

from __future__ import annotations

from local.kube.kinds import Json
from local.kube.problems import FieldProblem, invalid
from local.kube.registry import Registry
from local.kube.store import Stored


def scale_of(stored: Stored) -> Json:
    """The Scale object of a workload."""
    metadata = {name: stored.metadata[name] for name in ("name", "namespace", "uid", "creationTimestamp")}
    selector = (stored.spec.get("selector") or {}).get("matchLabels") or {}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {**metadata, "resourceVersion": str(stored.version)},
        "spec": {"replicas": int(stored.spec.get("replicas", 1))},
        "status": {
            "replicas": int(stored.status.get("replicas", 0)),
            "selector": ",".join(f"{name}={value}" for name, value in sorted(selector.items())),
        },
    }


def set_scale(registry: Registry, stored: Stored, scale: Json, *, dry_run: bool = False) -> Stored:
    """Take a Scale object's replicas over, guarded by its resourceVersion when it has one."""
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        message = f"Invalid value: {replicas}: must be greater than or equal to 0"
        raise invalid(stored.kind, stored.name, [FieldProblem("spec.replicas", message)])
    version = (scale.get("metadata") or {}).get("resourceVersion")
    metadata = {**stored.metadata, "resourceVersion": version or str(stored.version)}
    body = {**stored.body, "metadata": metadata, "spec": {**stored.spec, "replicas": replicas}}
    return registry.update(stored, body, dry_run=dry_run)
