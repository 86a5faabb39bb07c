"""The real kube-scheduler agrees with plans for pods with volumes: it binds what is planned, and refuses the refused.

Each seed makes pools, storage classes, claims, volumes and nodes with limits of what they attach, and a plan. No driver
runs here, so the test plays its part: once the scheduler has chosen a node for a claim that binds with its first pod,
it makes the volume there.
"""

import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from shared.model import Config, Ledger, Plan, Pool
from shared.nodes.template_node import HOSTNAME_LABEL, template_of
from shared.planning.plan import plan
from shared.reading.projection import project, storage_seen
from shared.reading.storage import Kind
from tests.builders import config, pool
from tests.e2e.conftest import Plane
from tests.e2e.control_plane import Api

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

Json = dict[str, Any]
SEEDS = int(os.environ.get("SEEDS", "8"))
"""Clusters in a run, a few seconds each."""

WAIT_S = 60.0
DISK = "disk.csi.azure.com"
DISKS = f"attachable-volumes-csi-{DISK}"
ZONE, DISK_ZONE = "topology.kubernetes.io/zone", "topology.disk.csi.azure.com/zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
PODS, CLAIMS = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES, NODES = "/api/v1/persistentvolumes", "/api/v1/nodes"
CLASSES, CSI_NODES, ATTACHMENTS = Kind.CLASSES.path, Kind.CSI_NODES.path, Kind.ATTACHMENTS.path
WAITING_CLASSES = ("waits", "waits-for-a", "waits-for-bc")
NOT_JUDGED = ("PoolFull", "Waits", "ZoneNotChoosable", "NotModelled")
KEEP = "sluice.io/keep"


@pytest.fixture(scope="module")
def api(plane: Plane) -> Api:
    """The administrator's hands; storage classes of all sorts are there."""
    api = plane.control_plane.api
    eventually("the service account", lambda: api.get("/api/v1/namespaces/default/serviceaccounts/default").ok)
    for name, topologies in zip(WAITING_CLASSES, (None, allowed(ZONE, "a"), allowed(DISK_ZONE, "b", "c")), strict=True):
        create(api, CLASSES, storage_class(name, **({"allowedTopologies": topologies} if topologies else {})))
    create(api, CLASSES, storage_class("at-once", mode="Immediate"))
    create(api, CLASSES, storage_class("local", provisioner="kubernetes.io/no-provisioner"))
    return api


@pytest.fixture(autouse=True)
def _empty_cluster(api: Api) -> Iterator[None]:
    yield
    for path in (PODS, ATTACHMENTS, CLAIMS, VOLUMES, CSI_NODES, NODES):
        for item in items(api, path):
            if KEEP in item["metadata"].get("finalizers", ()):
                api.patch(f"{path}/{item['metadata']['name']}", {"metadata": {"finalizers": None}})
        api.delete(f"{path}?gracePeriodSeconds=0")
        eventually(f"no more {path}", lambda path=path: not items(api, path))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_plans_for_pods_with_volumes_hold(api: Api, seed: int) -> None:
    rng = Random(seed)
    case = Case(rng, api)
    made = case.plan()
    new = case.make_new_nodes(made)
    settled(api)
    planned = case.pinned(made, new)
    for pod in planned:
        create(api, PODS, pod)
    driver = Driver(api)
    eventually(f"seed {seed}: all {len(planned)} bound", lambda: driver.work() and not unbound(api), lambda: told(api))
    case.refused_are_refused(made, seed)


def test_an_ephemeral_volume_is_planned_for_as_the_scheduler_sees_it(api: Api) -> None:
    size = {"cpu": 4000, "memory": 2**34, "pods": 8, DISKS: 4}
    pools = config(
        pool("in-a", labels={ZONE: "a"}, shape=size), pool("in-b", labels={ZONE: "b"}, shape=size, price=0.1)
    )
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "waits-for-a", **asking("1Gi")}}
    pod = some_pod("p", [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}])
    create(api, PODS, pod)
    eventually("the claim is made", lambda: items(api, CLAIMS))
    made = planned_now(api, pools, [])
    assert [(delta.pool, delta.add) for delta in made.deltas] == [("in-a", 1)]
    for of in pools.pools:
        make_node(api, of, f"new-{of.name}", 0)
    driver = Driver(api)
    eventually("bound", lambda: driver.work() and not unbound(api), lambda: told(api))
    assert items(api, PODS)[0]["spec"]["nodeName"] == "new-in-a"


class Case:
    """A random cluster, and pods that wait."""

    def __init__(self, rng: Random, api: Api) -> None:
        self._rng, self._api = rng, api
        self.config: Config = config(*(some_pool(rng, number) for number in range(rng.randint(1, 3))))
        self._claims = 0
        shared = self._some_claim(bound=True)
        for number in range(rng.randint(0, 3)):
            make_node(api, rng.choice(self.config.pools), f"old-{number}", rng.randrange(2))
            for one in range(rng.randint(0, 2)):
                claims = [
                    shared if rng.random() < 0.3 else self._some_claim(bound=True) for _ in range(rng.randint(0, 2))
                ]
                pod = some_pod(f"running-{number}-{one}", using(claims))
                create(api, PODS, {**pod, "spec": {**pod["spec"], "nodeName": f"old-{number}"}})
        settled(api)
        self.waiting: list[Json] = []
        for number in range(rng.randint(2, 5)):
            for one in range(rng.randint(1, 4)):
                claims = [
                    shared if rng.random() < 0.2 else self._some_claim(bound=rng.random() < 0.5)
                    for _ in range(rng.choice([0, 1, 1, 1, 2, 3]))
                ]
                self.waiting.append(some_pod(f"wait-{number}-{one}", using(claims)))
        eventually("claims are bound", self._claims_are_settled)

    def plan(self) -> Plan:
        """The plan for the cluster as the API server shows it."""
        return planned_now(self._api, self.config, self.waiting)

    def make_new_nodes(self, made: Plan) -> list[list[str]]:
        """Make the nodes that the plan buys; returns their names by delta."""
        found = []
        for delta in made.deltas:
            of = self.config.pool(delta.pool)
            assert of is not None
            found.append([f"new-{of.name}-{number}" for number in range(delta.add)])
            for name in found[-1]:
                make_node(self._api, of, name, self._rng.randrange(2))
        return found

    def pinned(self, made: Plan, new: list[list[str]]) -> list[Json]:
        """The planned pods, each for its node alone."""
        places = {ref.name: each.target for each in (*made.fits_existing, *made.fits_upcoming) for ref in each.pods}
        for delta, nodes in zip(made.deltas, new, strict=True):
            for name, node in zip(nodes, delta.nodes, strict=True):
                places.update((ref.name, name) for ref in node.pods)
        return [pinned(pod, places[name]) for pod in self.waiting if (name := pod["metadata"]["name"]) in places]

    def refused_are_refused(self, made: Plan, seed: int) -> None:
        """Pods that no pool serves are refused by a new node of each pool that could still grow."""
        by_name = {pod["metadata"]["name"]: pod for pod in self.waiting}
        number = 0
        for group in made.unserved:
            for of in self.config.pools:
                reason = group.reasons[of.name]
                if reason.startswith(NOT_JUDGED):
                    continue
                name, number = f"probe-{number}", number + 1
                make_node(self._api, of, name, 0)
                settled(self._api)
                pod = pinned(by_name[group.pods[0].name], name)
                pod["metadata"]["name"] = name
                create(self._api, PODS, pod)
                eventually(f"seed {seed}: {name} judged", lambda name=name: judged(self._api, name))
                assert not accepted(self._api, pod, name), (seed, reason, pod)
                for path in (PODS, NODES):
                    self._api.delete(f"{path}/{name}?gracePeriodSeconds=0")

    def _some_claim(self, *, bound: bool) -> str:
        """The name of a new claim, of any sort unless it has to be bound; some names stand for no claim at all."""
        rng, self._claims = self._rng, self._claims + 1
        name = f"claim-{self._claims}"
        modes = rng.choice([["ReadWriteOnce"]] * 4 + [["ReadWriteMany"], ["ReadWriteOncePod"]])
        if bound:
            create(self._api, VOLUMES, volume(f"pv-{name}", name, some_topology(rng), modes))
            create(self._api, CLAIMS, claim(name, "", modes, volumeName=f"pv-{name}"))
            return name
        sort = rng.random()
        if sort < 0.85:
            create(self._api, CLAIMS, claim(name, rng.choice(WAITING_CLASSES), modes))
            return name
        if sort < 0.9:
            create(self._api, CLAIMS, claim(name, "at-once", modes))
        elif sort < 0.95:
            going = claim(name, "waits", modes)
            going["metadata"]["finalizers"] = [KEEP]
            create(self._api, CLAIMS, going)
            self._api.delete(f"{CLAIMS}/{name}")
        return name

    def _claims_are_settled(self) -> bool:
        bindable = [each for each in items(self._api, CLAIMS) if each["spec"].get("volumeName")]
        return all("pv.kubernetes.io/bind-completed" in each["metadata"].get("annotations", {}) for each in bindable)


class Driver:
    """Makes a volume for each claim for which the scheduler has chosen a node; the volume controller binds it."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._done: set[str] = set()

    def work(self) -> bool:
        """One look; always True."""
        for each in items(self._api, CLAIMS):
            name, node = each["metadata"]["name"], chosen(each)
            if not node or each["spec"].get("volumeName") or name in self._done:
                continue
            zone = self._api.get(f"{NODES}/{node}").json()["metadata"]["labels"][DISK_ZONE]
            made = volume(f"pv-{name}", name, (DISK_ZONE, zone), each["spec"]["accessModes"])
            made["spec"]["storageClassName"] = each["spec"]["storageClassName"]
            made["spec"]["claimRef"]["uid"] = each["metadata"]["uid"]
            create(self._api, VOLUMES, made)
            self._done.add(name)
        return True


def planned_now(api: Api, pools: Config, waiting: list[Json]) -> Plan:
    pods, now = [*items(api, PODS), *waiting], datetime.now(UTC)
    lists = {kind: items(api, kind.path) for kind in Kind}
    snapshot = project(
        cluster="training",
        epoch=1,
        sequence=1,
        now=now,
        config=pools,
        pods=pods,
        nodes=items(api, NODES),
        storage=storage_seen(pods, lists),
    )
    return plan(snapshot, pools, Ledger(), now)


def some_pool(rng: Random, number: int) -> Pool:
    zone = rng.choice(["a", "a", "b", "c", ""])
    return pool(
        f"pool-{number}",
        price=rng.choice([0.1, 0.2, 0.3]),
        shape={"cpu": 4000, "memory": 2**34, "pods": 8, DISKS: rng.choice([1, 2, 3, 8])},
        labels={ZONE: zone} if zone else {},
        zones=("1", "2") if not zone and rng.random() < 0.5 else (),
        maximum=rng.choice([2, 12, 12]),
    )


def make_node(api: Api, of: Pool, name: str, which: int) -> None:
    """A node of the pool, in any of its zones, and what its disk driver says of it."""
    grounds = template_of(of, ()).grounds
    size = {"cpu": f"{of.shape['cpu']}m", "memory": str(of.shape["memory"]), "pods": str(of.shape["pods"])}
    labels = {**grounds[which % len(grounds)].labels, HOSTNAME_LABEL: name}
    limit = {"name": DISK, "nodeID": name, "allocatable": {"count": of.shape[DISKS]}}
    create(api, CSI_NODES, {"metadata": {"name": name}, "spec": {"drivers": [limit]}})
    meta = {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}
    create(api, NODES, {"metadata": meta, "status": {"capacity": size, "allocatable": size}})


def some_topology(rng: Random) -> tuple[str, str]:
    """A label and its value, for a volume's node affinity or, as an old name, for its own labels; or nothing."""
    return rng.choice([(DISK_ZONE, "a"), (DISK_ZONE, "b"), (DISK_ZONE, ""), (ZONE, "a"), (OLD_ZONE, "a__b"), ("", "")])


def volume(name: str, of: str, topology: tuple[str, str], modes: list[str]) -> Json:
    key, value = topology
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]
    return {
        "metadata": {"name": name, "labels": {key: value} if key == OLD_ZONE else {}},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": modes,
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": DISK, "volumeHandle": f"/disks/{name}"},
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": of},
            **({"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if key not in {OLD_ZONE, ""} else {}),
        },
    }


def claim(name: str, storage_class: str, modes: list[str], **spec: str) -> Json:
    wanted = {"accessModes": modes, "storageClassName": storage_class, **asking("1Gi"), **spec}
    return {"metadata": {"name": name}, "spec": wanted}


def asking(size: str) -> Json:
    return {"resources": {"requests": {"storage": size}}}


def storage_class(name: str, provisioner: str = DISK, mode: str = "WaitForFirstConsumer", **more: Any) -> Json:
    return {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode, **more}


def allowed(key: str, *zones: str) -> list[Json]:
    return [{"matchLabelExpressions": [{"key": key, "values": list(zones)}]}]


def using(claims: list[str]) -> list[Json]:
    return [{"name": f"v{n}", "persistentVolumeClaim": {"claimName": name}} for n, name in enumerate(claims)]


def some_pod(name: str, volumes: list[Json]) -> Json:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "500m"}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], "volumes": volumes}}


def pinned(pod: Json, node: str) -> Json:
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [here]}}
    return {"metadata": dict(pod["metadata"]), "spec": {**pod["spec"], "affinity": {"nodeAffinity": required}}}


def items(api: Api, path: str) -> list[Json]:
    found: list[Json] = api.get(path).json()["items"]
    return found


def create(api: Api, path: str, body: Json) -> None:
    reply = api.post(path, body)
    assert reply.ok, (reply.body, body)


def settled(api: Api) -> None:
    """All nodes are ready, and no taint of their start is left."""
    eventually(
        "nodes ready",
        lambda: (
            not any(
                "not-ready" in taint["key"] for node in items(api, NODES) for taint in node["spec"].get("taints", ())
            )
        ),
    )


def unbound(api: Api) -> list[Json]:
    return [item for item in items(api, PODS) if not item["spec"].get("nodeName")]


def chosen(of: Json) -> str:
    """The node that the scheduler has chosen for a claim."""
    return str(of["metadata"].get("annotations", {}).get("volume.kubernetes.io/selected-node", ""))


def judged(api: Api, name: str) -> bool:
    """Whether the scheduler has bound the pod, said that it can't, or chosen its node for a claim."""
    found = api.get(f"{PODS}/{name}").json()
    reported = any(each["type"] == "PodScheduled" for each in found["status"].get("conditions", ()))
    return bool(found["spec"].get("nodeName")) or reported or name in map(chosen, items(api, CLAIMS))


def accepted(api: Api, pod: Json, node: str) -> bool:
    found = api.get(f"{PODS}/{pod['metadata']['name']}").json()
    return bool(found["spec"].get("nodeName")) or node in map(chosen, items(api, CLAIMS))


def told(api: Api) -> list[str]:
    """What the scheduler says of pods that are not bound."""
    return [
        f"{pod['metadata']['name']}: {[each.get('message') for each in pod['status'].get('conditions', ())]}"
        for pod in unbound(api)
    ]


def eventually(what: str, holds: Callable[[], Any], details: Callable[[], Any] = lambda: "") -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {WAIT_S:g} s: {what}; {details()}"
        time.sleep(0.05)
