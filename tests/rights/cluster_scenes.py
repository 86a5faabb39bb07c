"""What the functions and the exporter do in a cluster, scene by scene: each needs rights there, and breaks without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import orjson

from local.arm.settings import Quirks
from local.kube.rest_transport import make_api
from local.machines import BootTimes
from local.system.stand_ins import Behaviour
from local.system.virtual import VirtualSystem
from local.web import Handler, Request, Response
from shared.adapters.protocols import ClusterApi
from shared.names import NODE_JOINED
from shared.reading.gang_members import PATHS
from tests.orchestrations.stage import Stage, Watched
from tests.rights.chart import EXPORTER, FUNCTIONS
from tests.rights.cluster import Asked, GuardedCluster

Json = dict[str, Any]
NAMESPACE = "kube-system"  # where the exporter of the virtual system has its Lease
PODS = "/api/v1/namespaces/default/pods"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
SWEEP = 300
NATIVE = b'"hostname":"native"'
MEMBER = NATIVE + b',"schedulingGroup":{"podGroupName":"job"}'
QUIET = BootTimes(boot=(30.0, 30.0))

POOLS = """
cluster: training
mode: act
azure: {subscription: 00000000-0000-0000-0000-000000000001, resource_group: nodes, location: westeurope}
pools:
  - {name: big, resource: big, sku: Standard_D16s_v5, shape: {cpu: 16, memory: 64Gi, pods: 30}, price: 0.5, max: 3}
  - {name: small, resource: small, sku: Standard_D4s_v5, shape: {cpu: 4, memory: 16Gi, pods: 30}, price: 0.1, max: 9}
scale_down: {idle_after: 10m, replace_saving: 0.2}
"""
DIFFICULT = ("claiming", "native", "coscheduled", "volcanic")
OWN_POOLS = POOLS[: POOLS.index("  - {name: big")] + "".join(
    f"  - {{name: {name}, resource: {name}, sku: Standard_D4s_v5, labels: {{for: {name}}}, price: 0.1, max: 2,\n"
    "     shape: {cpu: 4, memory: 16Gi, pods: 30}}\n"
    for name in DIFFICULT
)
Allows = Callable[[Asked], bool]


class Broken(AssertionError):
    """What a scene promises did not come about; the message ends with what people are told of missing rights."""


@dataclass
class Performance:
    """What came of a scene: what was asked of the API server, what of it was refused, and what broke."""

    asked: set[Asked] = field(default_factory=set)
    refused: set[Asked] = field(default_factory=set)
    broken: Broken | None = None

    def note(self, asked: Asked, allowed: bool) -> None:
        self.asked.add(asked)
        if not allowed:
            self.refused.add(asked)


@dataclass(frozen=True)
class Scene:
    """`play` gets a door before the API server for its account, and tells by an AssertionError what went wrong."""

    name: str
    account: str
    play: Callable[[Callable[[Handler], Handler]], None]


def perform(scene: Scene, allows: Allows, user: str) -> Performance:
    """Play a scene with what is allowed."""
    seen = Performance()
    try:
        scene.play(lambda cluster: GuardedCluster(cluster, allows, user, seen.note))
    except AssertionError as error:
        seen.broken = Broken(f"{scene.name}: {error}")
    return seen


class PodGroups:
    """An API server that serves PodGroups too, one of each kind, and pods that belong to the native one: those whose
    host name is NATIVE, since the stand-in has the feature off, as 1.36 has it."""

    def __init__(self, inner: Handler) -> None:
        self._inner = inner

    def handle(self, request: Request) -> Response:
        group = next((name for name, path in PATHS.items() if path == request.path), None)
        if group is None:
            answer = self._inner.handle(request)
            return replace(answer, body=answer.body.replace(NATIVE, MEMBER))
        if request.query.get("watch") == "true":
            return Response(200, {"content-type": "application/json"})
        meta = {"name": "job", "namespace": "default", "resourceVersion": "1", "uid": group}
        spec = {"schedulingPolicy": {"gang": {"minCount": 1}}, "minMember": 1}
        item = {"apiVersion": f"{group}/v1", "kind": "PodGroup", "metadata": meta, "spec": spec}
        return Response.of_json(200, {"kind": "PodGroupList", "metadata": {"resourceVersion": "1"}, "items": [item]})


def sweep_plans(door: Callable[[Handler], Handler]) -> None:
    """Pods that no event announced, with a claim and with gangs, get nodes by the sweep's own look at the cluster."""
    stage = Stage(OWN_POOLS, timers=True, cluster_guard=lambda cluster: door(PodGroups(cluster)))
    submit_difficult(stage.api)
    stage.run(3 * SWEEP)
    waiting = sorted({pod["metadata"]["name"] for pod in stage.pods()} - set(stage.bound()))
    assert waiting == [], f"{waiting} wait for nodes after three sweeps; {told(stage)}"


def exchange(door: Callable[[Handler], Handler]) -> None:
    """A cheaper node is bought for what is left on a dear one, which is drained by eviction, and removed."""
    stage = Stage(POOLS, cluster_guard=door)
    stage.submit(1, cpu="12", prefix="large")
    stage.submit(1, cpu="3", prefix="web", nodeSelector={"kubernetes.io/os": "linux"})
    stage.run(2)
    stage.say(seconds=300)
    assert stage.bound("large") == ["large-0"], f"a pod waits for a node; {told(stage)}"
    stage.finish("large")
    for _ in range(4):
        stage.idle(seconds=400)
        if not stage.pods("web"):
            stage.submit(1, cpu="3", prefix="web")
    assert stage.machines()["big"] == 0, f"the dear node stays; {told(stage)}"
    assert [node for node in stage.nodes("big") if node["metadata"]["labels"]["sluice.io/pool"] == "big"] == [], (
        f"the Node object of a machine that is gone stays; {told(stage)}"
    )


def opening(door: Callable[[Handler], Handler]) -> None:
    """A new node is opened to the pods that it was bought for, which fit tightly."""
    boot = BootTimes(boot=(30.0, 30.0), startup_taint=True)
    carried_out: list[Watched] = []

    def guarded(cluster: Handler) -> Handler:
        carried_out.append(Watched(cluster))
        return door(carried_out[0])

    stage = Stage(POOLS, behaviour=Behaviour(quirks=Quirks(), boot=boot), cluster_guard=guarded)
    stage.submit(2, "2900m", prefix="large")
    stage.submit(2, "1", prefix="small")
    stage.run(2)
    stage.say(seconds=120)
    stage.say(NODE_JOINED, seconds=30)
    assert len(stage.bound()) == 4, f"only {stage.bound()} have nodes; {told(stage)}"
    nominated = [path for method, path in carried_out[0].writes if method == "PATCH" and "/pods/" in path]
    assert len(nominated) == 4, f"pods are not nominated to the nodes bought for them; {told(stage)}"


def told(stage: Stage) -> str:
    """What `status` says of missing rights."""
    lacking = [each["what"] for each in stage.status()["clusters"]["training"]["lacking"]]
    return f"missing rights: {lacking}"


def announce(door: Callable[[Handler], Handler]) -> None:
    """What the exporter sees is announced at once, for difficult pods as well."""
    system = _system(lambda cluster: door(PodGroups(cluster)), OWN_POOLS)
    system.exporter.poll()  # all watches, as the threads have it in a cluster
    submit_difficult(make_api(system.stand_ins.cluster, ""))
    system.run_for(timedelta(seconds=45))
    bought = system.stand_ins.machines_now()
    assert set(bought.values()) == {1}, f"four pods that need a node each wait, and what is asked for is {bought}"


def take_over(door: Callable[[Handler], Handler]) -> None:
    """A Lease that somebody let go of is taken over, and pods are announced."""

    def with_lease(cluster: Handler) -> Handler:
        spec = {"holderIdentity": "", "leaseDurationSeconds": 30, "leaseTransitions": 1}
        body = {"metadata": {"name": "sluice-exporter", "namespace": NAMESPACE}, "spec": spec}
        cluster.handle(Request("POST", LEASES, {}, {"content-type": "application/json"}, orjson.dumps(body)))
        return door(cluster)

    system = _system(with_lease)
    api = make_api(system.stand_ins.cluster, "")
    api.create(PODS, pod("plain"))
    system.run_for(timedelta(seconds=200))
    assert all(each["spec"].get("nodeName") for each in _pods(system)), "a pod waits for a node"


def make_room_for_daemons(door: Callable[[Handler], Handler]) -> None:
    """A DaemonSet that came while the exporter ran takes its room on new nodes, and larger ones are bought."""
    system = _system(door)
    api = make_api(system.stand_ins.cluster, "")
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}
    labels = {"app": "agent"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    body = {"metadata": {"name": "agent"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
    api.create("/apis/apps/v1/namespaces/default/daemonsets", body)
    system.run_for(timedelta(seconds=20))
    api.create(PODS, pod("plain"))
    system.run_for(timedelta(seconds=60))
    assert system.stand_ins.machines_now() == {"big": 1, "small": 0}, "nodes are bought without room for the DaemonSet"


def notice_nodes(door: Callable[[Handler], Handler]) -> None:
    """A node that came while the exporter ran, and is idle for long enough, is announced as such, and goes."""
    system = _system(door)
    api = make_api(system.stand_ins.cluster, "")
    api.create(PODS, pod("plain"))
    system.run_for(timedelta(seconds=200))
    assert system.stand_ins.machines_now()["small"] == 1, "a pod waits for a node"
    api.delete(f"{PODS}/plain", grace_seconds=0)
    system.run_for(timedelta(minutes=14))
    assert system.stand_ins.machines_now()["small"] == 0, "an idle node stays"


def submit_difficult(api: ClusterApi) -> None:
    """Pods that cannot be planned for without knowing more: of their claim, and of their gangs. Each has a pool."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "pv-1"}
    disk = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "disk.csi.azure.com", "volumeHandle": "/disks/pv-1"},
    }
    api.create("/api/v1/persistentvolumes", {"metadata": {"name": "pv-1"}, "spec": disk})
    meta = {"name": "data", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    api.create("/api/v1/namespaces/default/persistentvolumeclaims", {"metadata": meta, "spec": claim})
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    claiming, native, coscheduled, volcanic = ({"nodeSelector": {"for": name}} for name in DIFFICULT)
    api.create(PODS, pod("claiming", volumes=volumes, **claiming))
    api.create(PODS, pod("native", hostname="native", **native))
    api.create(PODS, pod("coscheduled", labels={"scheduling.x-k8s.io/pod-group": "job"}, **coscheduled))
    api.create(PODS, pod("volcanic", annotations={"scheduling.volcano.sh/group-name": "job"}, **volcanic))


def pod(name: str, *, labels: Json | None = None, annotations: Json | None = None, **spec: Any) -> Json:
    """A pod that fills most of a small node."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}}
    meta: Json = {"name": name, "namespace": "default", "labels": labels or {}, "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container], **spec}}


def _system(door: Callable[[Handler], Handler], pools: str = POOLS) -> VirtualSystem:
    def guard(who: str, handler: Handler) -> Handler:
        if who == "functions cluster":
            return PodGroups(handler)
        return door(handler) if who == "exporter cluster" else handler

    quiet = Behaviour(quirks=Quirks(), boot=QUIET)
    system = VirtualSystem(pools, behaviour=quiet, guard=guard)
    system.run_for(timedelta(seconds=10))
    return system


def _pods(system: VirtualSystem) -> list[Json]:
    return make_api(system.stand_ins.cluster, "").list("/api/v1/pods")[0]


SCENES = (
    Scene("a sweep plans for pods that nobody announced", FUNCTIONS, sweep_plans),
    Scene("a dear node is exchanged for a cheaper one", FUNCTIONS, exchange),
    Scene("a new node is opened to its pods", FUNCTIONS, opening),
    Scene("pods are announced as they come", EXPORTER, announce),
    Scene("a Lease is taken over", EXPORTER, take_over),
    Scene("a DaemonSet gets its room", EXPORTER, make_room_for_daemons),
    Scene("an idle node is announced", EXPORTER, notice_nodes),
)
