"""What people do in a world, as data: pods and their owners come, grow, shrink and go, nodes are cordoned or kept."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

Json = dict[str, Any]
Doing = Literal[
    "create", "delete", "patch", "preempt", "cordon", "keep", "quota", "stock", "throttle", "mode", "upgrade"
]
KEEPING = ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"), ("karpenter.sh/do-not-disrupt", "true")
WAITING = (
    ("sluice.io/wait-for-completion", "true"),
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", "on-completion"),
)
FINALIZER = "example.com/hold"
SPOT = {"key": "kubernetes.azure.com/scalesetpriority", "operator": "Equal", "value": "spot", "effect": "NoSchedule"}
RUN, STOP = "sluice.io/run-seconds", "sluice.io/stop-seconds"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
DAEMON_SETS = "/apis/apps/v1/namespaces/default/daemonsets"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PRIORITIES = {"urgent": 1000, "modest": -5}
RARE, MISTAKEN = "rare", "mistaken"  # pools for one kind of pod alone
SHORT_GANG = "short"


@dataclass(frozen=True, slots=True)
class Deed:
    """Somebody does something at `at` seconds: `path` and `body` for the API server, `number` and `name` for Azure.

    `lasting`: what it makes is taken away only when the world has settled once.
    """

    at: float
    doing: Doing
    path: str = ""
    body: Json | None = None
    name: str = ""
    number: float = 0.0


def draw_work(draw: Random, busy: float, volumes: int, *, gpus: bool, spot_taint: bool = False) -> tuple[Deed, ...]:
    """Waves of work in the first part of the `busy` seconds: some forty pods in the median world. With `spot_taint`
    most people know that Spot nodes are tainted, as AKS does it."""
    return tuple(Work(draw, busy, volumes, gpus=gpus, spot_taint=spot_taint).drawn())


def mistaken_pod(draw: Random, busy: float) -> tuple[Deed, ...]:
    """Somebody asks for what no node of its pool gives, whatever the pools file says, and gives up after a while."""
    at = draw.uniform(5.0, busy / 4)
    requests = {"cpu": "1500m", "memory": "1Gi"}
    spec = {
        "restartPolicy": "Never",
        "nodeSelector": {MISTAKEN: "true"},
        "tolerations": [_tolerated(MISTAKEN)],
        "containers": [{"name": "main", "image": "work:1", "resources": {"requests": requests}}],
    }
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": MISTAKEN, "labels": {"app": MISTAKEN}},
        "spec": spec,
    }
    return Deed(at, "create", PODS, body), Deed(at + 650.0, "delete", f"{PODS}/{MISTAKEN}")


def taint_of(pool: str) -> str:
    """By which a pool keeps off all but its own pods, as a pools file has it."""
    return f"sku={pool}:NoSchedule"


def _tolerated(pool: str) -> Json:
    return {"key": "sku", "operator": "Equal", "value": pool, "effect": "NoSchedule"}


def short_gang(draw: Random, busy: float) -> tuple[Deed, ...]:
    """Three that must start together, each for a node of its own of a size that Azure has not so many of."""
    name = SHORT_GANG
    annotations = {"sluice.io/gang": name, "sluice.io/gang-min-member": "3", RUN: "9000"}
    requests = {"cpu": "1500m", "memory": "1Gi"}
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 5,
        "nodeSelector": {RARE: "true"},
        "tolerations": [_tolerated(RARE)],
        "containers": [{"name": "main", "image": "work:1", "resources": {"requests": requests}}],
    }
    template = {"metadata": {"labels": {"app": name}, "annotations": annotations}, "spec": spec}
    body = {"metadata": {"name": name}, "spec": {"parallelism": 3, "completions": 3, "template": template}}
    return (Deed(draw.uniform(5.0, busy / 2), "create", JOBS, body),)


def placed_by_hand(name: str, node: str) -> Json:
    """A pod of somebody who asks no scheduler, and who minds no taint."""
    spec = {
        "nodeName": node,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 5,
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "main", "image": "work:1", "resources": {"requests": {"cpu": "10m"}}}],
    }
    metadata = {"name": name, "labels": {"app": "by-hand"}, "annotations": {RUN: "90"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


class Work:
    """Draws the people of one world."""

    def __init__(self, draw: Random, busy: float, volumes: int, *, gpus: bool, spot_taint: bool) -> None:
        self._draw, self._busy, self._volumes, self._gpus = draw, busy, volumes, gpus
        self._spot_taint = spot_taint
        self._numbers = itertools.count(1)

    def drawn(self) -> Iterator[Deed]:
        """Every deed, in no order."""
        for name, value in PRIORITIES.items():
            body = {"metadata": {"name": name}, "value": value}
            yield Deed(0.0, "create", CLASSES, body)
        if self._draw.random() < 0.5:
            yield Deed(0.0, "create", DAEMON_SETS, _owned("DaemonSet", "agent", self._template("agent", "100m")))
        for number in range(self._volumes):
            yield from self._with_volume(number)
        for _ in range(self._draw.choice((1, 2, 2, 2))):
            yield from self._wave(self._draw.uniform(5.0, self._busy * 0.75))

    def _wave(self, begin: float) -> Iterator[Deed]:
        kinds = [self._batch, self._batch, self._web, self._web, self._job, self._gang, self._stubborn]
        kinds += [self._gpu_tasks] if self._gpus else []
        for make in self._draw.sample(kinds, k=self._draw.choice((3, 4, 4))):
            yield from make(begin + self._draw.uniform(0.0, 8.0))
        if self._draw.random() < 0.05:
            yield Deed(begin, "create", PODS, self._pod(self._name("giant"), "200", 600.0))

    def _batch(self, at: float) -> Iterator[Deed]:
        """Tasks of one kind, some of which must not be moved."""
        name, cpu, seconds = self._name("task"), self._cpu(), self._draw.uniform(40.0, 500.0)
        kept, waits = self._draw.random() < 0.4, self._draw.random() < 0.4
        pods = self._draw.randint(6, 14)
        for number in range(pods):
            annotations = dict([self._draw.choice(WAITING if waits else KEEPING)]) if kept else {}
            body = self._pod(f"{name}-{number}", cpu, seconds, annotations=annotations)
            if self._draw.random() < 0.15:
                body["spec"]["priorityClassName"] = self._draw.choice(tuple(PRIORITIES))
            yield Deed(at + self._draw.uniform(0.0, 4.0), "create", PODS, body)

    def _web(self, at: float) -> Iterator[Deed]:
        """A deployment that grows and shrinks; it stays until the world has settled, or goes before."""
        name, replicas = self._name("web"), self._draw.randint(1, 5)
        template = self._template(name, self._cpu())
        if self._draw.random() < 0.2:
            key, value = self._draw.choice(KEEPING)
            template["metadata"]["annotations"][key] = value
        template["spec"]["terminationGracePeriodSeconds"] = self._draw.choice((1, 10, 30))
        yield Deed(at, "create", DEPLOYMENTS, _owned("Deployment", name, template, replicas=replicas))
        if self._draw.random() < 0.5:
            yield from self._budget(at, name, replicas)
        moment = at
        for _ in range(self._draw.randint(0, 3)):
            moment += self._draw.uniform(60.0, 500.0)
            body = {"spec": {"replicas": self._draw.randint(0, 6)}}
            yield Deed(min(moment, self._busy), "patch", f"{DEPLOYMENTS}/{name}", body)
        if self._draw.random() < 0.3:
            yield Deed(min(moment + self._draw.uniform(60.0, 400.0), self._busy), "delete", f"{DEPLOYMENTS}/{name}")

    def _budget(self, at: float, name: str, replicas: int) -> Iterator[Deed]:
        strict = self._draw.random() < 0.3
        limit: Json = {"minAvailable": replicas} if strict else {"maxUnavailable": 1}
        spec = {"selector": {"matchLabels": {"app": name}}, **limit}
        yield Deed(at, "create", BUDGETS, {"metadata": {"name": name}, "spec": spec})
        if strict:  # nobody may go while it stands
            yield Deed(min(at + self._draw.uniform(300.0, 1500.0), self._busy), "delete", f"{BUDGETS}/{name}")

    def _job(self, at: float) -> Iterator[Deed]:
        name, pods = self._name("job"), self._draw.randint(2, 6)
        annotations = {RUN: f"{self._draw.uniform(30.0, 400.0):.0f}"}
        if self._draw.random() < 0.4:
            annotations |= dict([KEEPING[0]])
        template = self._template(name, self._cpu(), annotations)
        template["spec"]["restartPolicy"] = "Never"
        spec = {"parallelism": pods, "completions": pods, "template": template, "ttlSecondsAfterFinished": 60}
        yield Deed(at, "create", JOBS, {"metadata": {"name": name}, "spec": spec})

    def _gang(self, at: float) -> Iterator[Deed]:
        name, pods = self._name("gang"), self._draw.randint(2, 4)
        cpu, seconds = self._cpu(), self._draw.uniform(100.0, 500.0)
        annotations = {"sluice.io/gang": name, "sluice.io/gang-min-member": str(pods)}
        if self._draw.random() < 0.5:  # a Job makes its members anew, so that what it has can be given back
            template = self._template(name, cpu, annotations | {RUN: f"{seconds:.0f}"})
            template["spec"]["restartPolicy"] = "Never"
            spec = {"parallelism": pods, "completions": pods, "template": template, "ttlSecondsAfterFinished": 60}
            yield Deed(at, "create", JOBS, {"metadata": {"name": name}, "spec": spec})
            return
        for number in range(pods):
            yield Deed(at, "create", PODS, self._pod(f"{name}-{number}", cpu, seconds, annotations=annotations))

    def _gpu_tasks(self, at: float) -> Iterator[Deed]:
        name, seconds = self._name("learn"), self._draw.uniform(100.0, 600.0)
        for number in range(self._draw.randint(1, 3)):
            body = self._pod(f"{name}-{number}", "1", seconds, annotations=dict([KEEPING[0]]))
            body["spec"]["tolerations"] = [
                *body["spec"].get("tolerations", ()),
                {"key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"},
            ]
            body["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "1"}
            yield Deed(at, "create", PODS, body)

    def _stubborn(self, at: float) -> Iterator[Deed]:
        """Pods that take their time to go: by a finalizer, or deaf to being told."""
        name = self._name("slow")
        template = self._template(name, self._cpu())
        template["spec"]["terminationGracePeriodSeconds"] = 600
        template["metadata"]["annotations"][STOP] = f"{self._draw.choice((45, 200, 600))}"
        yield Deed(at, "create", DEPLOYMENTS, _owned("Deployment", name, template, replicas=self._draw.randint(1, 2)))
        if self._draw.random() < 0.5:
            held = self._name("held")
            body = self._pod(held, self._cpu(), self._draw.uniform(30.0, 200.0))
            body["metadata"]["finalizers"] = [FINALIZER]
            yield Deed(at, "create", PODS, body)

    def _with_volume(self, number: int) -> Iterator[Deed]:
        """Somebody's data on a disk: its pod moves, and the disk with it."""
        name = f"data-{number}"
        template = self._template(name, self._cpu())
        claim = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
        template["spec"]["volumes"] = [claim]
        template["spec"]["terminationGracePeriodSeconds"] = self._draw.choice((1, 30))
        at = self._draw.uniform(1.0, 600.0)
        yield Deed(at, "create", DEPLOYMENTS, _owned("Deployment", name, template, replicas=1))
        for _ in range(self._draw.randint(0, 2)):  # it is restarted by hand now and then
            at += self._draw.uniform(200.0, 900.0)
            yield Deed(min(at, self._busy), "patch", f"{DEPLOYMENTS}/{name}", {"spec": {"replicas": 0}})
            yield Deed(min(at + 120.0, self._busy), "patch", f"{DEPLOYMENTS}/{name}", {"spec": {"replicas": 1}})

    def _name(self, what: str) -> str:
        return f"{what}-{next(self._numbers)}"

    def _cpu(self) -> str:
        return f"{self._draw.choice((400, 500, 800, 1200, 1600, 1800, 2600))}m"

    def _pod(self, name: str, cpu: str, seconds: float, *, annotations: Json | None = None) -> Json:
        template = self._template(name, cpu, {RUN: f"{seconds:.0f}", **(annotations or {})})
        template["metadata"]["name"] = name
        template["spec"]["restartPolicy"] = "Never"
        return {"apiVersion": "v1", "kind": "Pod", **template}

    def _template(self, app: str, cpu: str, annotations: Json | None = None) -> Json:
        requests = {"cpu": cpu, "memory": self._draw.choice(("256Mi", "1Gi", "4Gi"))}
        tolerant = self._spot_taint and self._draw.random() < 0.85
        return {
            "metadata": {"labels": {"app": app}, "annotations": dict(annotations or {})},
            "spec": {
                **({"tolerations": [SPOT]} if tolerant else {}),
                "terminationGracePeriodSeconds": 5,
                "containers": [{"name": "main", "image": "work:1", "resources": {"requests": requests}}],
            },
        }


def _owned(kind: str, name: str, template: Json, **spec: object) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template, **spec},
    }
