"""The whole system on virtual time, metered: exporter, topic, functions, durable backend, ARM, API server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from bench.latency import meter as metering
from bench.latency import model as m
from exporter.envelope import eviction_notice
from exporter.node_agent import Machine as VirtualMachine
from exporter.node_agent import NodeAgent
from functions.world import World as FunctionsWorld
from local.arm.machines import Machine
from local.arm.settings import ArmLatencies, Quirks
from local.durable.client_binding import InProcessSession
from local.function_runner import InlineRunner
from local.functions_host import HostOptions
from local.kube.controllers.timing import Timing
from local.machines import BootTimes
from local.randomness import stream
from local.system.services import Doors, InProcess
from local.system.stand_ins import Behaviour
from local.system.virtual import VirtualSystem
from local.web import Handler
from shared.model import Snapshot
from shared.names import snapshot_container
from shared.wire.snapshot_codec import encode

CLUSTER = "bench"
SETTLED = timedelta(seconds=100)


@dataclass(frozen=True, slots=True)
class Estate:
    """Two pools of one kind, Spot and the on-demand one that it falls back to. `grown_by` and `operation`: the method
    that their size is written with, and what the ARM stand-in calls it. `failure`: seconds until Azure says no."""

    prefix: str
    kind: str
    spot: str
    regular: str
    grown_by: str
    operation: str
    tolerations: Sequence[Mapping[str, str]] = ()
    failure: tuple[float, float] = (5.0, 20.0)

    @property
    def pools_file(self) -> str:
        """With prices that let Spot be bought first."""
        each = f"kind: {self.kind}, sku: Standard_D16s_v5, shape: {{cpu: 16, memory: 64Gi}}, max: 300"
        return f"""
cluster: {CLUSTER}
mode: act
azure: {{subscription: 00000000-0000-0000-0000-000000000000, resource_group: sluice, location: westeurope,
  aks_cluster: bench}}
pools:
  - {{name: {self.spot}, {each}, priority: Spot, price: 0.2, fallback: [{self.regular}]}}
  - {{name: {self.regular}, {each}, price: 0.9}}
"""


SCALE_SETS = Estate("", "vmss", "cpu-spot", "cpu-regular", "PATCH", "scale_set.update")
AGENT_POOLS = Estate(
    "AKS: ",
    "aks",
    "cpuspot",
    "cpuregular",
    "PUT",
    "agent_pool.update",
    ({"key": "kubernetes.azure.com/scalesetpriority", "operator": "Exists"},),  # the taint of every Spot node of AKS
)
LATE_AGENT_POOLS = replace(AGENT_POOLS, prefix="AKS late: ", failure=(60.0, 180.0))


class World(VirtualSystem):
    """One world for one draw: everything about it follows from the model and the seed, but processor times."""

    def __init__(self, model: m.Model, measured: metering.Measured, seed: int, estate: Estate = SCALE_SETS) -> None:
        self._model, self._measured, self._seed, self.estate = model, measured, seed, estate
        self._meter: metering.Meter | None = None
        self.delivered: list[datetime] = []
        """When the topic handed events to `ingest`."""
        self.counted: list[Counter[str]] = []
        """What had happened until then."""
        behaviour = Behaviour(
            arm=ArmLatencies(retry_after=model.retry_after, failure=estate.failure),
            quirks=Quirks.drawn(seed),
            boot=BootTimes(boot=(20.0, 20.0), notices=False),
            cluster=Timing(),
        )
        super().__init__(estate.pools_file, seed=seed, behaviour=behaviour)
        self._wrap_functions()
        client = metering.Door(self.host, self.meter, "durable client")
        self.host._runner = InlineRunner(InProcessSession(client))
        self._agents: list[NodeAgent] = []
        self._topic = InProcess(self._doors("node agent"), self.timeline).publisher()
        self.stand_ins.arm.machines.subscribe(on_preempt_notice=self._announced)

    @property
    def meter(self) -> metering.Meter:
        """What the functions' time is taken with."""
        if self._meter is None:
            source = stream(self._seed, "bench", self._model.name)
            self._meter = metering.Meter(self._model, self._measured, source, self.timeline)
        return self._meter

    def settle(self) -> None:
        """A sweep, after which the worker knows its pools file; then enough time for all queues to be idle, and for
        instances that nobody keeps ready to be gone."""
        self.host.run_timer("maintenance")
        self.run_for(SETTLED)
        self.meter.fall_asleep()

    def become(self, model: m.Model, seed: int) -> None:
        """Go on by this model, with draws of its own."""
        self._model, self._seed = model, seed
        self.meter.become(model, stream(seed, "bench", model.name))
        self.stand_ins.topic._source = stream(seed, "bench topic", model.name)
        self.meter.fall_asleep()

    def submit(self, pods: int, cpu_millis: int = 1500) -> None:
        """Pods of a ReplicaSet that nobody plays, in up to ten sizes."""
        for number in range(pods):
            request = {"cpu": f"{cpu_millis + 50 * (number % 10)}m", "memory": "2Gi"}
            self.users.create(
                "/api/v1/namespaces/default/pods", _pod(f"work-{number}", request, self.estate.tolerations)
            )

    def reach(self, done: Callable[[], bool], within: timedelta = timedelta(minutes=4)) -> bool:
        """Let time pass, moment by moment, until `done`."""
        end = self.timeline.now() + within
        while not done():
            due = self.timeline.next_due()
            if due is None or due > end:
                return False
            self.timeline.step()
        return True

    # The inside

    def _doors(self, who: str) -> Doors:
        doors = super()._doors(who)
        if who != "functions":
            return doors

        def timed(kind: str, handler: Handler) -> Handler:
            return metering.Door(handler, self.meter, kind)

        return replace(
            doors,
            arm=timed("arm", doors.arm),
            cluster=timed("kubernetes", doors.cluster),
            blobs=timed("blobs", doors.blobs),
        )

    def _options(self, host: HostOptions | None, seed: int) -> HostOptions:
        return replace(super()._options(host, seed), draws=self.meter)

    def _wrap_functions(self) -> None:
        index, meter = self.host.index, self.meter
        for name, code in index.orchestrators.items():
            index.orchestrators[name] = meter.synchronous(metering.EPISODE, code)
        for name, code in index.entities.items():
            index.entities[name] = meter.synchronous("operations", code)
        for name, activity in index.activities.items():
            wrapped = self._metered(activity.function, asynchronous=bool(activity.client))
            index.activities[name] = replace(activity, function=wrapped)
        for name, trigger in index.event_grid.items():
            function = meter.asynchronous("deliveries", metering.OUTSIDE, trigger.function)
            index.event_grid[name] = replace(trigger, function=self._noting(function))

    def _metered(self, function: Callable[..., Any], *, asynchronous: bool) -> Callable[..., Any]:
        if asynchronous:
            return self.meter.asynchronous(metering.ACTIVITY, metering.WORKER, function)
        return self.meter.synchronous(metering.ACTIVITY, function)

    def _noting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        async def noted(**named: Any) -> Any:  # noqa: ANN401 - whatever it takes and gives
            self.delivered.append(self.timeline.now())
            self.counted.append(self.meter.counts.copy())
            return await function(**named)

        return noted

    def _announced(self, machine: Machine, not_before: datetime) -> None:
        """What the node agent on that VM does: it asks once a second, and posts what it finds."""
        source = self.meter.source
        wait = source.uniform(0.0, m.AGENT_PERIOD) + m.METADATA.draw(source) + m.PUBLISH.draw(source)
        vm = VirtualMachine(machine.name, machine.provider_id)
        document = {
            "Events": [
                {
                    "EventId": f"evict-{machine.name}",
                    "EventType": "Preempt",
                    "Resources": [machine.name],
                    "NotBefore": not_before.strftime("%a, %d %b %Y %H:%M:%S GMT"),
                }
            ]
        }
        build = partial(eviction_notice, CLUSTER, machine.name.lower(), vm)
        agent = NodeAgent(lambda _: document, self._topic, vm, build)
        self._agents.append(agent)
        self.timeline.call_later(wait, lambda: agent.poll(self.timeline.now()))


def _store_only(world: FunctionsWorld, name: str, snapshot: Snapshot, written: bytes = b"") -> None:
    """`ingest` runs in a scale group of its own: the worker finds nothing of what it had at hand."""
    world.store.put(snapshot_container(snapshot.cluster), name, written or encode(snapshot))


FunctionsWorld.put_snapshot = _store_only  # type: ignore[method-assign]


def _pod(name: str, requests: dict[str, str], tolerations: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "work", "uid": "rs-work", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "ownerReferences": [owner]},
        "spec": {
            "containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}],
            "tolerations": [dict(each) for each in tolerations],
        },
    }
