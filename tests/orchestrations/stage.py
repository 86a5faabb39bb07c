"""The whole of Sluice in virtual time, on stand-ins; the test says when the exporter speaks, and what happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import orjson

from functions.app import create_app
from functions.services import Services
from local.arm.settings import Quirks
from local.arm.stand_in import ArmStandIn
from local.durable.model import Faults, Latencies
from local.functions_host import FunctionsHost, HostOptions, InstanceView
from local.machines import BootTimes
from local.system.services import BLOB_URL, Doors, InProcess
from local.system.stand_ins import Behaviour, StandIns
from local.timeline import VirtualTimeline
from local.web import Handler, Request, Response
from shared.adapters.errors import NotFound
from shared.names import NODE_IDLE, PODS_UNSCHEDULABLE, plan_container
from shared.reading.projection import next_idle_since, project
from shared.settings.config import parse_config
from shared.wire.events import make_event

Json = dict[str, Any]

POOLS = """
cluster: training
mode: act
azure: {subscription: 00000000-0000-0000-0000-000000000001, resource_group: nodes, location: westeurope}
pools:
  - name: spot
    resource: spot
    sku: Standard_D4s_v5
    shape: {cpu: 4, memory: 16Gi, pods: 30}
    priority: Spot
    price: 0.05
    max: 10
    fallback: [regular]
  - name: regular
    resource: regular
    sku: Standard_D4s_v5
    shape: {cpu: 4, memory: 16Gi, pods: 30}
    priority: Regular
    price: 0.2
    max: 10
scale_down: {idle_after: 10m}
"""


class Watched:
    """A door that remembers who wrote what through it: (method, path)."""

    def __init__(self, inner: Handler) -> None:
        self._inner = inner
        self.writes: list[tuple[str, str]] = []
        self.requests = 0

    def handle(self, request: Request) -> Response:
        self.requests += 1
        if request.method != "GET":
            self.writes.append((request.method, request.path))
        return self._inner.handle(request)


class Stage:
    """Everything that a scene needs; `run` lets time pass."""

    def __init__(
        self,
        pools: str = POOLS,
        *,
        behaviour: Behaviour | None = None,
        timers: bool = False,
        faults: Faults | None = None,
        guard: Callable[[ArmStandIn], Handler] = lambda arm: arm,
        cluster_guard: Callable[[Handler], Handler] = lambda cluster: cluster,
    ) -> None:
        """The guards put doors before ARM and the API server, for the functions."""
        self.timeline = VirtualTimeline()
        self.config = parse_config(pools, to_act=True)
        quiet = Behaviour(quirks=Quirks(), boot=BootTimes(boot=(30.0, 30.0)))
        self.stand = StandIns(self.timeline, pools, self.config, behaviour=behaviour or quiet)
        self.arm, self.cluster = Watched(guard(self.stand.arm)), Watched(cluster_guard(self.stand.cluster))
        doors = Doors(self.arm, self.cluster, self.stand.blobs, self.stand.topic)
        outside = InProcess(doors, self.timeline)
        self.errors: list[tuple[str, BaseException]] = []
        options = HostOptions(
            latencies=Latencies.none(),
            timers=timers,
            faults=faults or Faults(),
            on_function_error=lambda *error: self.errors.append(error),
        )
        self.services: Services = outside.services()
        self.host = FunctionsHost(create_app(self.services), self.timeline, options)
        self.stand.connect(self.host.handle)
        user = InProcess(Doors(self.stand.arm, self.stand.cluster, self.stand.blobs, self.stand.topic), self.timeline)
        self.api, self.store, self.publisher = user.cluster(), user.store(), user.publisher()
        self._sequence = 0
        self._idle: Mapping[str, datetime] = {}

    def run(self, seconds: float) -> None:
        """Let time pass, and hold every rule of the host on the way."""
        self.timeline.run(self.timeline.now() + timedelta(seconds=seconds))
        assert not self.errors, self.errors[0]
        assert not self.host.violations, [str(violation) for violation in self.host.violations]
        failed = [view for view in self.host.instances() if view.status == "Failed"]
        assert not failed, failed[0]

    def submit(
        self,
        number: int,
        cpu: str = "3",
        prefix: str = "pod",
        notes: Mapping[str, str] | None = None,
        finalizers: Sequence[str] = (),
        **spec: Any,
    ) -> None:
        """Create pods of a ReplicaSet that nobody plays: they are never made anew. `notes` are annotations."""
        for count in range(number):
            name = f"{prefix}-{count}"
            owner = {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": prefix,
                "uid": f"rs-{prefix}",
                "controller": True,
            }
            meta: Json = {"name": name, "namespace": "default", "ownerReferences": [owner], "labels": {"app": prefix}}
            meta |= {"annotations": dict(notes or {}), "finalizers": list(finalizers)}
            container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container], **spec}}
            self.api.create("/api/v1/namespaces/default/pods", body)

    def finish(self, prefix: str = "pod") -> None:
        """Delete these pods at once."""
        for pod in self.pods(prefix):
            self.api.delete(f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}", grace_seconds=0)

    def pods(self, prefix: str = "") -> list[Json]:
        """Pods by the beginning of their names."""
        return [pod for pod in self.api.list("/api/v1/pods")[0] if pod["metadata"]["name"].startswith(prefix)]

    def bound(self, prefix: str = "") -> list[str]:
        """Names of pods that have a node."""
        return [pod["metadata"]["name"] for pod in self.pods(prefix) if pod["spec"].get("nodeName")]

    def nodes(self, pool: str = "") -> list[Json]:
        """Nodes of a pool, by name."""
        found = self.api.list("/api/v1/nodes")[0]
        return [node for node in found if pool in (node["metadata"]["labels"].get("sluice.io/pool", ""), "")]

    def machines(self) -> dict[str, int]:
        """VMs by pool."""
        return self.stand.machines_now()

    def event(self, kind: str = PODS_UNSCHEDULABLE, detail: Json | None = None) -> Json:
        """What the exporter would send now."""
        self._sequence += 1
        now = self.timeline.now()
        pods, nodes = self.api.list("/api/v1/pods")[0], self.api.list("/api/v1/nodes")[0]

        def look(idle: Mapping[str, datetime]) -> Any:
            return project(
                cluster="training",
                epoch=1,
                sequence=self._sequence,
                now=now,
                config=self.config,
                pods=pods,
                nodes=nodes,
                idle_since=idle,
            )

        self._idle = next_idle_since(look({}).nodes, self._idle, self.config, now)
        snapshot = look(self._idle)
        return make_event(kind, snapshot, subject="training", detail=detail or {}, account_url=BLOB_URL).event

    def say(self, kind: str = PODS_UNSCHEDULABLE, detail: Json | None = None, seconds: float = 0.0) -> Json:
        """Send what the exporter would send now, and let time pass."""
        event = self.event(kind, detail)
        self.publisher.publish([event])
        self.run(seconds)
        return event

    def idle(self, minutes: float = 11.0, seconds: float = 0.0) -> None:
        """The exporter notices idle nodes, and says so when they have been idle for long enough."""
        self.event()
        self.run(minutes * 60)
        self.say(NODE_IDLE, seconds=seconds)

    def ledger(self) -> Json:
        """The cluster's entity."""
        state: Json = self.host.entity("cluster", "training") or {}
        return state

    def document(self, name: str) -> Json:
        """A stored plan or verdict; {} when there is none."""
        try:
            found: Json = orjson.loads(self.store.get(plan_container("training"), name).data)
        except NotFound:
            return {}
        return found

    def status(self) -> Json:
        """What the HTTP function says."""
        response = self.host.handle(Request("GET", "/api/status", {}, {}, b""))
        assert response.status == 200, response.body
        document: Json = orjson.loads(response.body)
        return document

    def orchestrations(self, name: str) -> list[InstanceView]:
        """Those of a function."""
        return [view for view in self.host.instances() if view.name == name]
