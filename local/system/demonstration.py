"""The workload of `sluice run`: what people and Azure do to the cluster, step by step, on the wall clock.

Each step says what it does, does it, and waits until what it expects is there; a step that waits in vain fails the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from local.errors import VIOLATIONS, UserError
from local.system.embedded import Embedded
from shared.adapters.errors import NotFound

Json = dict[str, Any]
Say = Callable[[str], None]

WEB, WEB_REPLICAS = "web", 8
LEARN, LEARN_PODS = "learn", 4
BURST, BURST_PODS = "burst", 16
NOTICE = 3.0  # seconds of warning before the eviction: Azure gives up to 30, often less than 10
STEP_SECONDS = 45.0
_POLL = 0.25


def play(system: Embedded, say: Say) -> None:
    """The whole scenario. Raises UserError when a step does not come to its end."""
    Scenario(system, say).play()


class Scenario:
    """Steps over one system; `say` gets every line, also what the stand-ins saw meanwhile."""

    def __init__(self, system: Embedded, say: Say) -> None:
        self._system, self._say = system, say
        self._heard = 0

    def play(self) -> None:
        """From nothing to nothing again."""
        self._serve_and_learn()
        self._burst()
        self._evict()
        self._go_home()

    def _serve_and_learn(self) -> None:
        self._say(f"> {WEB_REPLICAS} web pods and {LEARN_PODS} GPU pods arrive; Azure will have no Spot GPUs")
        fault = {"operation": "scale_set.update", "resource": "gpu-spot", "code": "AllocationFailed", "stage": "async"}
        self._system.control("POST", "/faults", fault)
        self._create("/apis/apps/v1/namespaces/default/deployments", deployment(WEB, WEB_REPLICAS, {"cpu": "900m"}))
        gpu = {"cpu": "2", "nvidia.com/gpu": "1"}
        self._create("/apis/batch/v1/namespaces/default/jobs", job(LEARN, LEARN_PODS, gpu, 12.0))
        self._wait("all of them run", lambda: self._running(WEB) == WEB_REPLICAS and self._started(LEARN) == LEARN_PODS)

    def _burst(self) -> None:
        self._say(f"> a burst of {BURST_PODS} pods that run for 8 seconds each")
        self._create("/apis/batch/v1/namespaces/default/jobs", job(BURST, BURST_PODS, {"cpu": "1800m"}, 8.0))
        self._wait("all of the burst has run", lambda: self._ended(BURST) == BURST_PODS)

    def _evict(self) -> None:
        node = next(pod["spec"]["nodeName"] for pod in self._pods(WEB) if pod["spec"].get("nodeName"))
        self._say(f"> Azure takes the Spot node {node} away")
        if not self._system.control("POST", "/preempt", {"node": node, "notice": NOTICE})["found"]:
            raise UserError(
                f"the node {node} is no Spot VM of the stand-in: use a pools file whose web pods run on Spot"
            )
        self._wait("the web pods run elsewhere", lambda: self._running(WEB, not_on=node) == WEB_REPLICAS)

    def _go_home(self) -> None:
        self._say("> everybody goes home")
        self._system.api.delete(f"/apis/apps/v1/namespaces/default/deployments/{WEB}")
        for name in (LEARN, BURST):
            self._system.api.delete(f"/apis/batch/v1/namespaces/default/jobs/{name}")
        self._wait("every VM and every node is gone", self._empty)

    def _empty(self) -> bool:
        overview = self._system.control("GET", "/overview")
        return not overview["nodes"] and not sum(overview["machines"].values())

    def _wait(self, what: str, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + STEP_SECONDS
        while not done():
            self.listen()
            if time.monotonic() > deadline:
                raise UserError(
                    f"not within {STEP_SECONDS:g} s: {what}; see {self._system.state} for the logs", VIOLATIONS
                )
            time.sleep(_POLL)
        self.listen()
        self._say(f"  {what}")

    def listen(self) -> None:
        """Say what the stand-ins saw since the last time."""
        self._system.check()
        for happening in self._system.control("GET", f"/happenings?since={self._heard}"):
            self._heard = happening["number"]
            self._say(f"  {happening['at']:6.1f} s  {happening['text']}")

    def _create(self, path: str, body: Json) -> None:
        self._system.api.create(path, body)

    def _pods(self, app: str) -> list[Json]:
        try:
            return self._system.api.list("/api/v1/namespaces/default/pods", label_selector=f"app={app}")[0]
        except NotFound:
            return []

    def _running(self, app: str, not_on: str = "") -> int:
        return sum(
            pod["status"].get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
            and pod["spec"].get("nodeName") != not_on
            for pod in self._pods(app)
        )

    def _started(self, app: str) -> int:
        return sum(pod["status"].get("phase") in {"Running", "Succeeded"} for pod in self._pods(app))

    def _ended(self, app: str) -> int:
        return sum(pod["status"].get("phase") == "Succeeded" for pod in self._pods(app))


def _template(app: str, requests: dict[str, str], annotations: dict[str, str], restart: str) -> Json:
    limits = {name: amount for name, amount in requests.items() if "/" in name}
    return {
        "metadata": {"labels": {"app": app}, "annotations": annotations},
        "spec": {
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": 1,
            "tolerations": [{"key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}]
            if limits
            else [],
            "containers": [{"name": app, "image": app, "resources": {"requests": requests, "limits": limits}}],
        },
    }


def deployment(app: str, replicas: int, requests: dict[str, str]) -> Json:
    """A Deployment whose pods run until it is deleted."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": app}},
            "template": _template(app, requests, {}, "Always"),
        },
    }


def job(app: str, pods: int, requests: dict[str, str], seconds: float) -> Json:
    """A Job of `pods` pods at once, each of which runs for `seconds` and must not be moved."""
    annotations = {
        "sluice.io/run-seconds": f"{seconds:g}",
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": _template(app, requests, annotations, "Never"),
        },
    }
