"""Random clusters: pools, nodes with pods on them, and pods that wait, with rules of every kind that is modelled."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any

from shared import names
from shared.model import Config, Ledger, Plan, Pool, Snapshot
from shared.planning.plan import plan
from shared.reading.projection import project, storage_seen
from shared.reading.storage import Kind
from shared.settings.config import parse_config

Json = dict[str, Any]

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
NAMESPACES = ("default", "other")
AGENTS = "agents"
"""The namespace of DaemonSets, as kube-system is: pods' rules are about pods of their own kind."""
TAINTS = (
    {"key": "sku", "value": "gpu", "effect": "NoSchedule"},
    {"key": "team", "value": "red", "effect": "NoExecute"},
    {"key": "old", "value": "", "effect": "PreferNoSchedule"},
)
SHARE_WITH_VOLUME = 0.08
"""Of the kinds of pods."""
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HUGE = "hugepages-2Mi"
DEVICE = "example.com/device"
HIGH = "high"
"""A priority class that goes first and takes nothing away."""

GIB, MIB = 2**30, 2**20


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large a cluster may be: upper bounds, but for `least_pods`, of each kind of pod that waits."""

    kinds: int = 4
    least_pods: int = 1
    pods: int = 6
    maximums: tuple[int, ...] = (1, 4, 12, 12)
    pinned: bool = True


SMALL = Sizes()
"""Pools are short, so that plans have reasons to give."""
ROOMY = Sizes(kinds=5, least_pods=4, pods=20, maximums=(60,), pinned=False)
"""No maximum binds: what a scheduler spreads can always be made up for."""
CLUSTER = "drawn"
AZURE = {"subscription": "00000000-0000-0000-0000-000000000000", "resource_group": "sluice", "location": "westeurope"}


@dataclass(frozen=True, slots=True)
class Seen:
    """Lists of what is there."""

    pods: list[Json]
    nodes: list[Json]
    daemon_sets: list[Json]
    storage: Mapping[Kind, list[Json]]


@dataclass
class Case:
    """A cluster, and pods that wait. Everything is drawn from the seed; nothing is in the API server yet."""

    seed: int
    pools_file: str
    nodes: list[Json] = field(default_factory=list)
    running: list[Json] = field(default_factory=list)
    waiting: list[Json] = field(default_factory=list)
    daemon_sets: list[Json] = field(default_factory=list)
    volumes: list[Json] = field(default_factory=list)
    claims: list[Json] = field(default_factory=list)
    config: Config = field(init=False)

    def __post_init__(self) -> None:
        self.config = parse_config(self.pools_file, to_act=True)

    def snapshot(self, seen: Seen) -> Snapshot:
        """The cluster, as the API server shows it."""
        return project(
            cluster=CLUSTER,
            epoch=1,
            sequence=1,
            now=datetime.now(UTC),
            config=self.config,
            pods=seen.pods,
            nodes=seen.nodes,
            daemon_sets=seen.daemon_sets,
            storage=storage_seen(seen.pods, seen.storage),
        )

    def plan(self, seen: Seen) -> Plan:
        """What Sluice would do about it."""
        return plan(self.snapshot(seen), self.config, Ledger(), datetime.now(UTC))


def draw(seed: int, sizes: Sizes = SMALL) -> Case:
    """The cluster of a seed."""
    rng = Random(seed)
    written = [some_pool(rng, number, sizes) for number in range(rng.randint(1, 3))]
    case = Case(seed, json.dumps({"cluster": CLUSTER, "mode": "act", "azure": AZURE, "pools": written}))
    pools = case.config.pools
    for number in range(rng.randint(0, 4)):
        name = f"old-{seed}-{number}"
        case.nodes.append(node_of(rng.choice(pools), name, rng, unschedulable=rng.random() < 0.15))
        for one in range(rng.randint(0, 2)):
            case.running.append(_placed(some_pod(rng, f"running-{number}-{one}", sizes, small=True), name))
    for number in range(rng.randint(1, sizes.kinds)):
        template = some_pod(rng, f"wait-{number}", sizes)
        for one in range(rng.randint(sizes.least_pods, sizes.pods)):
            case.waiting.append({**template, "metadata": {**template["metadata"], "name": f"wait-{number}-{one}"}})
    if rng.random() < 0.25:
        case.daemon_sets.append(some_daemon_set(rng))
    _claim(case, Random(seed + 3_000_000))
    return case


def _claim(case: Case, rng: Random) -> None:
    """Now and then a kind of pods shares a volume, which can be reached from one zone."""
    kinds = sorted({pod["metadata"]["name"].rpartition("-")[0] for pod in case.waiting})
    for kind in kinds:
        if rng.random() > SHARE_WITH_VOLUME:
            continue
        name = f"volume-{case.seed}-{kind}"
        uses = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        pods = [pod for pod in case.waiting if pod["metadata"]["name"].startswith(f"{kind}-")]
        for pod in pods:
            pod["spec"] = {**pod["spec"], "volumes": uses}
        case.volumes.append(_volume(name, rng.choice(["a", "b", "westeurope-1"])))
        case.claims.append(_claim_on(name, pods[0]["metadata"]["namespace"]))


def _volume(name: str, zone: str) -> Json:
    here = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "hostPath": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
        },
    }


def _claim_on(name: str, namespace: str) -> Json:
    spec = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "volumeName": name,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def some_pool(rng: Random, number: int, sizes: Sizes) -> Json:
    """A pool of small nodes, as a pools file has it."""
    zone = rng.choice(["a", "a", "b", "c", ""])
    labels = {**({ZONE: zone} if zone else {}), **({"disk": "ssd"} if rng.random() < 0.4 else {})}
    if rng.random() < 0.3:
        labels["generation"] = str(rng.randint(3, 6))
    cpu = rng.choice([2, 4, 6, 16])
    shape = {"cpu": cpu, "memory": "16Gi", "pods": rng.choice([8, 8, 30]), "ephemeral-storage": "20Gi"}
    if rng.random() < 0.2:
        shape[HUGE] = "512Mi"
    if rng.random() < 0.2:
        shape[DEVICE] = rng.choice([1, 4])
    taints = [f"{each['key']}={each['value']}:{each['effect']}" for each in TAINTS if rng.random() < 0.12]
    return {
        "name": f"pool-{number}",
        "sku": f"Standard_X{number}",
        "shape": shape,
        "reserved": {},
        "price": round(cpu * rng.choice([0.05, 0.06, 0.1]), 4),
        "labels": labels,
        "taints": taints,
        "zones": ["1", "2"] if not zone and rng.random() < 0.5 else [],
        "max": rng.choice(sizes.maximums),
    }


def node_of(of: Pool, name: str, rng: Random, *, unschedulable: bool = False, starting: bool = False) -> Json:
    """A node of the pool, ready from the start; where Azure would choose the zone, the dice do.

    `starting`: its kubelet registers with the taint that Sluice lifts.
    """
    labels = {**of.labels, HOST: name, names.POOL_LABEL: of.name}
    if of.zones and ZONE not in labels:
        labels[ZONE] = f"westeurope-{rng.choice(of.zones)}"
    size = {each: f"{amount}m" if each == "cpu" else str(amount) for each, amount in of.allocatable.items()}
    taints = [{"key": each.key, "value": each.value, "effect": each.effect} for each in of.taints]
    taints += [{"key": names.STARTING_TAINT, "effect": "NoSchedule"}] if starting else []
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints, **({"unschedulable": True} if unschedulable else {})},
        "status": {"capacity": size, "allocatable": size, "conditions": [ready]},
    }


def some_pod(rng: Random, name: str, sizes: Sizes, *, small: bool = False) -> Json:
    """A pod with rules of a few kinds."""
    spec: Json = {"containers": [_container(rng, small=small)], "affinity": _affinity(rng)}
    if rng.random() < 0.12:
        spec["initContainers"] = _init_containers(rng, small=small)
    if rng.random() < 0.45:
        spec["topologySpreadConstraints"] = _spreads(rng, sizes)
    if rng.random() < 0.15:
        spec["nodeSelector"] = {"disk": "ssd"}
    spec["tolerations"] = _tolerations(rng)
    if rng.random() < 0.15:
        spec["priorityClassName"] = HIGH
    labels = {"app": rng.choice("xxyz"), "version": rng.choice("12")}
    namespace = rng.choice(["default"] * 4 + ["other"])
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec}


def some_daemon_set(rng: Random) -> Json:
    """An agent that runs on all nodes, or on some."""
    labels = {"app": "agent"}
    resources = {"requests": {"cpu": rng.choice(["50m", "200m"]), "memory": "100Mi"}}
    spec: Json = {"containers": [{"name": "agent", "image": "none", "resources": resources}]}
    if rng.random() < 0.3:
        spec["nodeSelector"] = {"disk": "ssd"}
    if rng.random() < 0.5:
        spec["tolerations"] = [{"operator": "Exists"}]
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "metadata": {"name": "agent", "namespace": AGENTS},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def takes_agent(daemon_set: Json, node: Json) -> bool:
    """Whether its controller makes a pod of it for the node, whatever room there is."""
    spec = daemon_set["spec"]["template"]["spec"]
    labels = node["metadata"]["labels"]
    if any(labels.get(name) != value for name, value in spec.get("nodeSelector", {}).items()):
        return False
    own = {taint["key"] for taint in TAINTS if taint["effect"] != "PreferNoSchedule"}
    return bool(spec.get("tolerations")) or not any(each["key"] in own for each in node["spec"].get("taints") or ())


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


def pinned(pod: Json, node: str) -> Json:
    """The pod, for that node alone."""
    affinity = dict(pod["spec"]["affinity"])
    required = affinity.get("nodeAffinity", {}).get(REQUIRED, {})
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    terms = [{**each, **here} for each in required.get("nodeSelectorTerms", [{}])]
    affinity["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": terms}}
    return {"metadata": dict(pod["metadata"]), "spec": {**pod["spec"], "affinity": affinity}}


def key(pod: Json) -> str:
    """As plans name pods."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _placed(pod: Json, node: str) -> Json:
    """A pod that runs on that node, whatever a scheduler would have said to it."""
    spec = {name: value for name, value in pod["spec"].items() if name not in ("nodeSelector", "tolerations")}
    affinity = {name: value for name, value in spec["affinity"].items() if name != "nodeAffinity"}
    return {**pod, "spec": {**spec, "affinity": affinity, "nodeName": node, "tolerations": [{"operator": "Exists"}]}}


def _container(rng: Random, *, small: bool) -> Json:
    requests = {"cpu": "500m" if small else rng.choice(["250m", "500m", "1", "1", "1.5", "2"])}
    limits: Json = {}
    if rng.random() < 0.4:
        requests["memory"] = rng.choice(["100M", "1Gi", "3500Mi"])
    if rng.random() < 0.05:
        requests["ephemeral-storage"] = "7Gi"
    if not small and rng.random() < 0.06:
        requests[HUGE] = limits[HUGE] = rng.choice(["128Mi", "300Mi"])
    if not small and rng.random() < 0.06:
        requests[DEVICE] = limits[DEVICE] = "1"
    container: Json = {"name": "main", "image": "none", "resources": {"requests": requests, "limits": limits}}
    if rng.random() < 0.15:
        port = {"containerPort": 80, "hostPort": 80, "protocol": rng.choice(["TCP", "TCP", "UDP"])}
        container["ports"] = [port | rng.choice([{}, {}, {"hostIP": "10.0.0.1"}, {"hostIP": "10.0.0.2"}])]
    return container


def _init_containers(rng: Random, *, small: bool) -> list[Json]:
    cpus = ["250m"] if small else ["250m", "1800m", "3"]
    found = []
    for number in range(rng.choice([1, 2])):
        always = {"restartPolicy": "Always"} if rng.random() < 0.5 else {}
        resources = {"requests": {"cpu": rng.choice(cpus)}}
        found.append({"name": f"init-{number}", "image": "none", "resources": resources, **always})
    return found


def _affinity(rng: Random) -> Json:
    affinity: Json = {}
    if rng.random() < 0.35:
        affinity["podAntiAffinity"] = {REQUIRED: [term(rng)]}
    if rng.random() < 0.2:
        affinity["podAffinity"] = {REQUIRED: [term(rng)]}
    if rng.random() < 0.15:
        affinity["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [_node_rule(rng)]}]}}
    return affinity


def _node_rule(rng: Random) -> Json:
    return rng.choice(
        [
            {"key": ZONE, "operator": "In", "values": ["a", "b"]},
            {"key": ZONE, "operator": "NotIn", "values": ["a", "b"]},
            {"key": "generation", "operator": "Gt", "values": ["4"]},
            {"key": "generation", "operator": "Lt", "values": ["5"]},
            {"key": "disk", "operator": "Exists"},
            {"key": "disk", "operator": "DoesNotExist"},
        ]
    )


def _tolerations(rng: Random) -> list[Json]:
    found = []
    if rng.random() < 0.5:
        found.append({"key": "sku", "operator": "Exists"})
    if rng.random() < 0.5:
        found.append({"key": "team", "operator": "Equal", "value": rng.choice(["red", "red", "blue"])})
    return found


def _spreads(rng: Random, sizes: Sizes) -> list[Json]:
    found = [_spread(rng, sizes) for _ in range(rng.choice([1, 1, 2]))]
    return found if len({each["topologyKey"] for each in found}) == len(found) else found[:1]


def _spread(rng: Random, sizes: Sizes) -> Json:
    """A DoNotSchedule constraint. Of a pod to be pinned it ignores node affinity, or there would be one node to see."""
    affinity: Callable[[], str] = lambda: "Ignore" if sizes.pinned else rng.choice(["Ignore", "Honor"])  # noqa: E731
    found = {
        "topologyKey": rng.choice([HOST, HOST, ZONE]),
        "whenUnsatisfiable": "DoNotSchedule",
        "maxSkew": rng.choice([1, 1, 2]),
        "nodeAffinityPolicy": affinity(),
        "nodeTaintsPolicy": rng.choice(["Ignore", "Honor"]),
        **selection(rng),
    }
    if rng.random() < 0.2:
        found["minDomains"] = rng.choice([2, 3])
    return found
