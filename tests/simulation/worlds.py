"""Small worlds on virtual time: a pools file of a few lines, and the pods that people submit to it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from local.arm.settings import ArmLatencies, Quirks
from local.durable.journal import Journal
from local.machines import BootTimes
from local.system.stand_ins import Behaviour
from local.system.virtual import VirtualSystem

HOUR = timedelta(hours=1)
QUICK = Behaviour(
    arm=ArmLatencies(create=(2.0, 4.0), delete=(1.0, 3.0), failure=(1.0, 2.0), retry_after=1),
    quirks=Quirks(),
    boot=BootTimes(boot=(3.0, 6.0)),
)
ONE_POOL = """
cluster: small
mode: act
azure: {subscription: 00000000-0000-4000-8000-000000000001, resource_group: sluice, location: westeurope}
scale_down: {idle_after: 60s}
pools:
  - {name: general, sku: Standard_D4s_v5, shape: {cpu: 4, memory: 16Gi}, price: 0.2, max: 10}
"""
SPOT_FIRST = """
cluster: small
mode: act
azure: {subscription: 00000000-0000-4000-8000-000000000001, resource_group: sluice, location: westeurope}
scale_down: {idle_after: 60s}
pools:
  - {name: spot, sku: Standard_D4s_v5, shape: {cpu: 4, memory: 16Gi}, priority: Spot, price: 0.05, max: 10,
     fallback: [regular]}
  - {name: regular, sku: Standard_D4s_v5, shape: {cpu: 4, memory: 16Gi}, price: 0.2, max: 10}
"""


def world(
    text: str = ONE_POOL, *, seed: int = 1, behaviour: Behaviour = QUICK, journal: Journal | None = None
) -> VirtualSystem:
    return VirtualSystem(text, seed=seed, behaviour=behaviour, journal=journal)


def task(name: str, *, cpu: str = "1500m", seconds: float | None = 60.0, **annotations: str) -> dict[str, Any]:
    """A pod that runs to its end by itself; with `seconds` None it runs until somebody deletes it."""
    if seconds is not None:
        annotations["sluice.io/run-seconds"] = f"{seconds:g}"
    requests = {"cpu": cpu, "memory": "1Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "task", "image": "task", "resources": {"requests": requests}}],
        },
    }


def deployment(name: str, replicas: int, *, cpu: str = "1500m") -> dict[str, Any]:
    labels = {"app": name}
    requests = {"cpu": cpu, "memory": "1Gi"}
    container = {"name": "web", "image": "web", "resources": {"requests": requests}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def submit(system: VirtualSystem, *bodies: dict[str, Any]) -> None:
    paths = {"Pod": "/api/v1/namespaces/default/pods", "Deployment": "/apis/apps/v1/namespaces/default/deployments"}
    paths["PodDisruptionBudget"] = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    for body in bodies:
        system.users.create(paths[body["kind"]], body)


def bound(system: VirtualSystem) -> dict[str, str]:
    """Every pod that is there and on a node: its name and the node's."""
    pods = system.stand_ins.cluster.truth.pods.values()
    return {pod.name: pod.node for pod in pods if pod.node and pod.deleted is None}


def running(system: VirtualSystem) -> int:
    pods = system.stand_ins.cluster.truth.pods.values()
    return sum(pod.phase == "Running" and pod.deleted is None for pod in pods)


def writes(system: VirtualSystem) -> dict[str, int]:
    """What the functions wrote to Azure and to the cluster."""
    return {kind: count for kind, count in system.chronicle.counts.items() if kind.startswith("functions ")}
