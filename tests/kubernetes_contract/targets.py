"""The two clusters that the contract is asked of, and how a test waits in each."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import yaml

from local.kube.rest_transport import make_api
from local.kube.stand_in import KubernetesStandIn
from local.timeline import Timeline, VirtualTimeline, WallTimeline
from shared.adapters.errors import OutsideError
from shared.adapters.kubernetes import KubernetesClusterApi
from shared.adapters.protocols import Json

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
DAEMON_SETS = "/apis/apps/v1/namespaces/default/daemonsets"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SETTLE_SECONDS = 30.0


class Target(Protocol):
    """A cluster under contract."""

    api: KubernetesClusterApi
    timeline: Timeline

    def stranger(self) -> KubernetesClusterApi:
        """A client with a token that nobody gave out."""
        ...

    def until(self, met: Callable[[], Any], seconds: float = SETTLE_SECONDS) -> Any:
        """Let time pass until `met` returns something true, and return that."""
        ...

    def close(self) -> None:
        """Leave it as it was found."""
        ...


class StandInTarget:
    """The stand-in, on virtual time."""

    def __init__(self) -> None:
        self.timeline = VirtualTimeline()
        self.stand_in = KubernetesStandIn(self.timeline, seed=7, token="secret")
        self.api = make_api(self.stand_in, "secret")

    def stranger(self) -> KubernetesClusterApi:
        return make_api(self.stand_in, "wrong")

    def until(self, met: Callable[[], Any], seconds: float = SETTLE_SECONDS) -> Any:
        deadline = self.timeline.now() + timedelta(seconds=seconds)
        while not (found := met()):
            assert self.timeline.now() < deadline, "it never came about"
            self.timeline.run(self.timeline.now() + timedelta(seconds=0.25))
        return found

    def close(self) -> None:
        return


class RealTarget:
    """A real control plane, on the wall clock; shared by all tests, so each leaves it empty."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self.timeline = WallTimeline()
        self.api = KubernetesClusterApi.from_kubeconfig(str(kubeconfig))

    def stranger(self) -> KubernetesClusterApi:
        document = yaml.safe_load(self._kubeconfig.read_text())
        for user in document["users"]:
            user["user"] = {"token": "wrong"}
        return KubernetesClusterApi.from_kubeconfig(yaml.safe_dump(document))

    def until(self, met: Callable[[], Any], seconds: float = SETTLE_SECONDS) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := met()):
            assert time.monotonic() < deadline, "it never came about"
            time.sleep(0.1)
        return found

    def close(self) -> None:
        self.timeline.close()
        for path in (DEPLOYMENTS, DAEMON_SETS, JOBS, BUDGETS, CONFIG_MAPS, PODS, NODES):
            self.until(lambda path=path: self._emptied(path))

    def _emptied(self, path: str) -> bool:
        items = [one for one in self.api.list(path)[0] if one["metadata"]["name"] != "kube-root-ca.crt"]
        for one in items:
            try:
                if one["metadata"].get("finalizers"):
                    self.api.patch(f"{path}/{one['metadata']['name']}", {"metadata": {"finalizers": None}})
                self.api.delete(f"{path}/{one['metadata']['name']}", grace_seconds=0)
            except OutsideError:
                continue
        return not items


def pod(name: str, cpu: str = "1", **more: Any) -> Json:
    """A pod of one container; `more` goes into its spec, but for labels and annotations."""
    metadata = {"name": name, **{part: more.pop(part) for part in ("labels", "annotations") if part in more}}
    container = {"name": "main", "image": "example.invalid/app:1", "resources": {"requests": {"cpu": cpu}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **more}}


def node(name: str, cpu: str = "4", labels: Json | None = None, **spec: Any) -> Json:
    """A Node that a kubelet stands behind."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "spec": spec,
        "status": {"capacity": {"cpu": cpu, "memory": "16Gi", "pods": "110"}},
    }


def budget(name: str, labels: Json, **spec: Any) -> Json:
    """A PodDisruptionBudget over these labels."""
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, **spec}}


def template(labels: Json, cpu: str = "100m", **spec: Any) -> Json:
    """A pod template."""
    return {"metadata": {"labels": labels}, "spec": {**pod("unused", cpu)["spec"], **spec}}


def deployment(name: str, replicas: int, **spec: Any) -> Json:
    """A Deployment whose pods are labelled app=<name>."""
    labels = {"app": name}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template(labels, **spec)},
    }


def condition(found: Json, type_: str) -> Json:
    """The condition of that type; empty when there is none."""
    return next((one for one in found.get("status", {}).get("conditions") or () if one["type"] == type_), {})


def is_ready(found: Json) -> bool:
    """For pods and nodes."""
    return condition(found, "Ready").get("status") == "True"
