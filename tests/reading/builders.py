"""Pods and nodes as the API server writes them, with every part optional."""

from __future__ import annotations

from typing import Any

from shared.model import Config
from shared.settings.config import parse_config

Json = dict[str, Any]

CONFIG: Config = parse_config(
    """
cluster: test
pools:
  - {name: cpu, max: 9, shape: {cpu: 4, memory: 16Gi}}
  - {name: gpu, max: 9, shape: {cpu: 4, memory: 16Gi, nvidia.com/gpu: 1}, taints: ["sku=gpu:NoSchedule"]}
"""
)


def container(name: str = "c", requests: Json | None = None, limits: Json | None = None, **more: Any) -> Json:
    resources = {}
    if requests is not None:
        resources["requests"] = requests
    if limits is not None:
        resources["limits"] = limits
    return {"name": name, "resources": resources, **more}


def pod(
    name: str = "p", namespace: str = "default", *, meta: Json | None = None, status: Json | None = None, **spec: Any
) -> Json:
    spec.setdefault("containers", [container(requests={"cpu": "1", "memory": "1Gi"})])
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}", **(meta or {})},
        "spec": spec,
        "status": status or {},
    }


def owned(kind: str = "ReplicaSet") -> Json:
    return {"ownerReferences": [{"kind": kind, "name": "owner", "controller": True}]}


def node(name: str = "n", *, status: Json | None = None, meta: Json | None = None, **spec: Any) -> Json:
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z", **(meta or {})},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
            **(status or {}),
        },
    }
