"""The real kube-scheduler agrees with the plan: what is planned can be bound, what is refused is refused.

Each seed makes a small cluster, pods with rules of every kind, and a plan. The plan's nodes are made, each pod is
pinned to its node by name, and the scheduler must bind them all. Then a pod that the plan could not serve is pinned to
one more new node of each pool, and the scheduler must refuse it there.
"""

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from shared import names
from shared.model import Config, Ledger, Plan, Pool, Taint
from shared.planning import plan
from shared.projection import project
from tests.builders import config, pool
from tests.e2e.conftest import Plane
from tests.e2e.control_plane import Api

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

Json = dict[str, Any]
SEEDS = int(os.environ.get("SEEDS", "12"))
"""Clusters in a run, about two seconds each."""

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
NAMESPACES = ("default", "other")
TAINT = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}
WAIT_S = 60.0
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.fixture(scope="module")
def api(plane: Plane) -> Api:
    """The administrator's hands; the second namespace is there, and its service account."""
    api = plane.control_plane.api
    api.post("/api/v1/namespaces", {"metadata": {"name": "other"}})
    eventually("the service account", lambda: api.get("/api/v1/namespaces/other/serviceaccounts/default").ok)
    return api


@pytest.fixture(autouse=True)
def _empty_cluster(api: Api) -> Iterator[None]:
    yield
    for collection in (*(f"/api/v1/namespaces/{space}/pods" for space in NAMESPACES), "/api/v1/nodes"):
        api.delete(f"{collection}?gracePeriodSeconds=0")
        eventually("an empty cluster", lambda path=collection: not api.get(path).json()["items"])


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_is_planned_is_bound_and_what_is_refused_is_refused(api: Api, seed: int) -> None:
    rng = Random(seed)
    case = Case(rng)
    for node in case.nodes:
        create(api, "/api/v1/nodes", node)
    for pod in case.running:
        create(api, pods_path(pod), pod)
    settled(api)
    made = case.plan(api)
    names_of_new = case.make_new_nodes(api, made, rng)
    settled(api)
    pinned = case.pinned(made, names_of_new)
    for pod in pinned:
        create(api, pods_path(pod), pod)
    eventually(f"seed {seed}: all bound", lambda: not unbound(api), lambda: messages(api))
    case.refused_are_refused(api, made, rng, seed)


class Case:
    """A random cluster, and pods that wait."""

    def __init__(self, rng: Random) -> None:
        self.config: Config = config(*(some_pool(rng, number) for number in range(rng.randint(1, 3))))
        self.nodes, self.running = [], []
        for number in range(rng.randint(0, 4)):
            of = rng.choice(self.config.pools)
            self.nodes.append(node_of(of, f"old-{number}", rng, unschedulable=rng.random() < 0.15))
            for one in range(rng.randint(0, 2)):
                pod = some_pod(rng, f"running-{number}-{one}", small=True)
                pod["spec"]["nodeName"] = f"old-{number}"
                pod["spec"].pop("nodeSelector", None)
                (pod["spec"].get("affinity") or {}).pop("nodeAffinity", None)
                self.running.append(pod)
        self.waiting = []
        for number in range(rng.randint(1, 4)):
            template = some_pod(rng, f"wait-{number}")
            for one in range(rng.randint(1, 6)):
                meta = {**template["metadata"], "name": f"wait-{number}-{one}"}
                self.waiting.append({**template, "metadata": meta})

    def plan(self, api: Api) -> Plan:
        """The plan for the cluster as the API server shows it."""
        there = [item for space in NAMESPACES for item in api.get(pods_path_of(space)).json()["items"]]
        snapshot = project(
            cluster="training",
            epoch=1,
            sequence=1,
            now=datetime.now(UTC),
            config=self.config,
            pods=[*there, *self.waiting],
            nodes=api.get("/api/v1/nodes").json()["items"],
        )
        return plan(snapshot, self.config, Ledger(), datetime.now(UTC))

    def make_new_nodes(self, api: Api, made: Plan, rng: Random) -> list[list[str]]:
        """Make the nodes that the plan buys; returns their names by delta."""
        found = []
        for delta in made.deltas:
            of = self.config.pool(delta.pool)
            assert of is not None
            found.append([f"new-{of.name}-{number}" for number in range(delta.add)])
            for name in found[-1]:
                create(api, "/api/v1/nodes", node_of(of, name, rng))
        return found

    def pinned(self, made: Plan, new: list[list[str]]) -> list[Json]:
        """The planned pods, each to its node; those without a spread first, company after those who give it."""
        places = {str(ref): each.target for each in (*made.fits_existing, *made.fits_upcoming) for ref in each.pods}
        for delta, nodes in zip(made.deltas, new, strict=True):
            for name, node in zip(nodes, delta.nodes, strict=True):
                places.update((str(ref), name) for ref in node.pods)
        pods = [pinned(pod, places[key(pod)]) for pod in self.waiting if key(pod) in places]
        return sorted(pods, key=lambda pod: (bool(pod["spec"].get("topologySpreadConstraints")), wants_company(pod)))

    def refused_are_refused(self, api: Api, made: Plan, rng: Random, seed: int) -> None:
        """Pods that no pool serves are refused by a new node of each pool that could still grow."""
        by_key = {key(pod): pod for pod in self.waiting}
        checked: list[tuple[Json, str]] = []
        for group in made.unserved:
            for of in self.config.pools:
                reason = group.reasons[of.name]
                if reason.startswith(("PoolFull", "Waits", "ZoneNotChoosable")):
                    continue
                name = f"probe-{len(checked)}"
                create(api, "/api/v1/nodes", node_of(of, name, rng))
                settled(api)
                pod = pinned(by_key[str(group.pods[0])], name)
                pod["metadata"]["name"] = name
                create(api, pods_path(pod), pod)
                checked.append((pod, reason))
                eventually(f"seed {seed}: {name} judged", lambda pod=pod: judged(api, pod))
                assert not api.get(f"{pods_path(pod)}/{name}").json()["spec"].get("nodeName"), (seed, reason, pod)
                api.delete(f"{pods_path(pod)}/{name}?gracePeriodSeconds=0")
                api.delete(f"/api/v1/nodes/{name}")


def some_pool(rng: Random, number: int) -> Pool:
    zone = rng.choice(["a", "a", "b", "c", ""])
    labels = {**({ZONE: zone} if zone else {}), **({"disk": "ssd"} if rng.random() < 0.4 else {})}
    return pool(
        f"pool-{number}",
        price=rng.choice([0.1, 0.2, 0.3]),
        shape={"cpu": rng.choice([2000, 4000, 6000]), "memory": 2**34, "pods": 8},
        labels=labels,
        taints=(Taint(**TAINT),) if rng.random() < 0.2 else (),
        zones=("1", "2") if not zone and rng.random() < 0.5 else (),
        maximum=rng.choice([1, 4, 12, 12]),
    )


def node_of(of: Pool, name: str, rng: Random, *, unschedulable: bool = False) -> Json:
    """A node of the pool; where Azure would choose the zone, the dice do."""
    labels = {**of.labels, HOST: name, names.POOL_LABEL: of.name}
    if of.zones and ZONE not in labels:
        labels[ZONE] = f"westeurope-{rng.choice(of.zones)}"
    size = {"cpu": f"{of.shape['cpu']}m", "memory": str(of.shape["memory"]), "pods": str(of.shape["pods"])}
    return {
        "metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "spec": {"taints": [TAINT] if of.taints else [], **({"unschedulable": True} if unschedulable else {})},
        "status": {"capacity": size, "allocatable": size},
    }


def some_pod(rng: Random, name: str, *, small: bool = False) -> Json:
    """A pod with rules of a few kinds."""
    container: Json = {"name": "main", "image": "none"}
    container["resources"] = {"requests": {"cpu": "500m" if small else rng.choice(["500m", "1", "1", "2"])}}
    if rng.random() < 0.15:
        container["ports"] = [{"containerPort": 80, "hostPort": 80}]
    affinity: Json = {}
    if rng.random() < 0.35:
        affinity["podAntiAffinity"] = {REQUIRED: [term(rng)]}
    if rng.random() < 0.2:
        affinity["podAffinity"] = {REQUIRED: [term(rng)]}
    if rng.random() < 0.15:
        wanted = {"key": ZONE, "operator": rng.choice(["In", "NotIn"]), "values": ["a", "b"]}
        affinity["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}}
    spec: Json = {"containers": [container], "affinity": affinity}
    if rng.random() < 0.45:
        spec["topologySpreadConstraints"] = [spread(rng) for _ in range(rng.choice([1, 1, 2]))]
        if len({each["topologyKey"] for each in spec["topologySpreadConstraints"]}) < len(
            spec["topologySpreadConstraints"]
        ):
            del spec["topologySpreadConstraints"][1:]
    if rng.random() < 0.15:
        spec["nodeSelector"] = {"disk": "ssd"}
    if rng.random() < 0.5:
        spec["tolerations"] = [{"key": "sku", "operator": "Exists"}]
    labels = {"app": rng.choice("xxyz"), "version": rng.choice("12")}
    return {
        "metadata": {"name": name, "namespace": rng.choice(["default"] * 4 + ["other"]), "labels": labels},
        "spec": spec,
    }


def selection(rng: Random) -> Json:
    """A label selector, now and then by keys of the pod itself."""
    app = rng.choice("xxy")
    selector = rng.choice(
        [
            {"matchLabels": {"app": app}},
            {"matchLabels": {"app": app}},
            {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "y"]}]},
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [app]}]},
        ]
    )
    return {"labelSelector": selector, **({"matchLabelKeys": ["version"]} if rng.random() < 0.2 else {})}


def term(rng: Random) -> Json:
    """A required term of affinity or anti-affinity."""
    found = {"topologyKey": rng.choice([HOST, HOST, ZONE]), **selection(rng)}
    if "matchLabelKeys" not in found and rng.random() < 0.1:
        found["mismatchLabelKeys"] = ["version"]
    scope = rng.random()
    if scope < 0.1:
        found["namespaceSelector"] = {}
    elif scope < 0.2:
        found["namespaces"] = ["other"]
    elif scope < 0.3:
        found["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": "other"}}
    return found


def spread(rng: Random) -> Json:
    """A DoNotSchedule constraint. It ignores node affinity, or being pinned would leave it one node to look at."""
    found = {
        "topologyKey": rng.choice([HOST, HOST, ZONE]),
        "whenUnsatisfiable": "DoNotSchedule",
        "maxSkew": rng.choice([1, 1, 2]),
        "nodeAffinityPolicy": "Ignore",
        "nodeTaintsPolicy": rng.choice(["Ignore", "Honor"]),
        **selection(rng),
    }
    if rng.random() < 0.2:
        found["minDomains"] = rng.choice([2, 3])
    return found


def pinned(pod: Json, node: str) -> Json:
    """The pod, for that node alone."""
    affinity = dict(pod["spec"]["affinity"])
    required = affinity.get("nodeAffinity", {}).get(REQUIRED, {})
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    terms = [{**each, **here} for each in required.get("nodeSelectorTerms", [{}])]
    affinity["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": terms}}
    return {"metadata": dict(pod["metadata"]), "spec": {**pod["spec"], "affinity": affinity}}


def wants_company(pod: Json) -> bool:
    return "podAffinity" in pod["spec"]["affinity"]


def key(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def pods_path_of(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def pods_path(pod: Json) -> str:
    return pods_path_of(pod["metadata"]["namespace"])


def create(api: Api, path: str, body: Json) -> None:
    reply = api.post(path, body)
    assert reply.ok, (reply.body, body)


def settled(api: Api) -> None:
    """All nodes are ready, and no taint of their start is left."""

    def ready() -> bool:
        nodes = api.get("/api/v1/nodes").json()["items"]
        return all(not any("not-ready" in taint["key"] for taint in each["spec"].get("taints", ())) for each in nodes)

    eventually("nodes ready", ready)


def unbound(api: Api) -> list[Json]:
    items = [item for space in NAMESPACES for item in api.get(pods_path_of(space)).json()["items"]]
    return [item for item in items if not item["spec"].get("nodeName")]


def messages(api: Api) -> list[str]:
    return [f"{key(pod)}: {[c.get('message') for c in pod['status'].get('conditions', ())]}" for pod in unbound(api)]


def judged(api: Api, pod: Json) -> bool:
    """Whether the scheduler has bound the pod or said that it can't."""
    found = api.get(f"{pods_path(pod)}/{pod['metadata']['name']}").json()
    conditions = found["status"].get("conditions", ())
    return bool(found["spec"].get("nodeName")) or any(each["type"] == "PodScheduled" for each in conditions)


def eventually(what: str, holds: Any, details: Any = lambda: "") -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {WAIT_S:g} s: {what}; {details()}"
        time.sleep(0.05)
