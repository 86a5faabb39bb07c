"""What is timed: one path through one world, from a moment of Azure's to a write of ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import orjson

from bench.latency import meter as metering
from bench.latency import model as m
from bench.latency.branching import branches
from bench.latency.worlds import SCALE_SETS, Estate, World
from local.arm.faults import Fault
from local.kube.kinds import POD
from local.web import Request

FALLBACK = "Azure's failure to the accepted on-demand request"
CORDON = "Spot notice to cordon"
REPLACED = "Spot notice to the accepted request for a replacement"
EVENT = "event delivered to ARM request"
SIZES = (1, 10, 100, 1000)
BRANCHES = 30
"""Draws that share what came before the path that is timed; from there on each goes its own way."""


def event_path(pods: int) -> str:
    """The name of the path of an event about so many pods."""
    return f"{EVENT}, {pods:,} pod{'s' if pods > 1 else ''}"


@dataclass(frozen=True, slots=True)
class Sample:
    """One draw of one path: seconds, and what happened in the whole app meanwhile."""

    path: str
    seconds: float
    hops: Mapping[str, int]


class Lost(Exception):
    """A world in which the path did not come to its end: the bench is wrong, or Sluice is."""


class _Watch:
    """Waits for one request."""

    def __init__(self, world: World, wanted: Callable[[str, Request], bool]) -> None:
        self._world, self._wanted = world, wanted
        self.left: datetime | None = None
        self.done: datetime | None = None
        self.hops: Counter[str] = Counter()
        world.meter.listeners.append(self._notice)

    def _notice(self, kind: str, request: Request, left: datetime, done: datetime) -> None:
        if self.left is None and self._wanted(kind, request):
            self.left, self.done, self.hops = left, done, self._world.meter.counts.copy()

    @property
    def seen(self) -> bool:
        """Whether it has been sent."""
        return self.left is not None


def event(
    model: m.Model, measured: metering.Measured, seeds: range, pods: int, estate: Estate = SCALE_SETS
) -> Iterator[Sample]:
    """Pods come; the exporter's event is delivered; the pool is written to."""
    for some in _batches(seeds):
        world = _with_pods(World(model, measured, some.start, estate), pods)
        yield from branches(some, partial(_event, world, model, pods))


def _with_pods(world: World, pods: int) -> World:
    world.settle()
    world.submit(pods)
    _reach(world, lambda: world.stand_ins.topic.counters.published > 0, "an event")
    return world


def _event(world: World, model: m.Model, pods: int, seed: int) -> list[Sample]:
    world.become(model, seed)
    watch = _Watch(world, _grows(world.estate, world.estate.spot))
    _reach(world, lambda: bool(world.delivered), "a delivery")
    begun, before = world.delivered[0], world.counted[0]
    _reach(world, lambda: watch.seen, "a request")
    assert watch.left is not None
    return [Sample(world.estate.prefix + event_path(pods), (watch.left - begun).total_seconds(), watch.hops - before)]


def fallback(
    model: m.Model, measured: metering.Measured, seeds: range, estate: Estate = SCALE_SETS
) -> Iterator[Sample]:
    """Azure accepts Spot nodes, and fails to allocate them some seconds later; on-demand ones are accepted."""
    for seed in seeds:
        yield from _fallback(World(model, measured, seed, estate))


def _fallback(world: World) -> list[Sample]:
    estate = world.estate
    world.settle()
    world.stand_ins.arm.faults.add(Fault(estate.operation, estate.spot, "AllocationFailed", stage="async"))
    world.submit(10)
    operations = world.stand_ins.arm.cloud.operations.by_id
    _reach(world, lambda: any(each.code for each in operations.values()), "the failure")
    (ended,) = (each.ended_at for each in operations.values() if each.code)
    assert ended is not None
    before, watch = world.meter.counts.copy(), _Watch(world, _grows(estate, estate.regular))
    _reach(world, lambda: watch.seen, "the fallback")
    assert watch.done is not None
    return [Sample(estate.prefix + FALLBACK, (watch.done - ended).total_seconds(), watch.hops - before)]


def eviction(
    model: m.Model, measured: metering.Measured, seeds: range, estate: Estate = SCALE_SETS
) -> Iterator[Sample]:
    """A Spot VM with pods is told that it goes; its node is cordoned, and a new one asked for."""
    for some in _batches(seeds):
        world = _with_a_node(World(model, measured, some.start, estate))
        yield from branches(some, partial(_eviction, world, model))


def _with_a_node(world: World) -> World:
    world.submit(5, 3000)  # it is full
    _reach(world, lambda: _all_run(world), "a node")
    world.settle()
    return world


def _batches(seeds: range) -> Iterator[range]:
    for start in range(seeds.start, seeds.stop, BRANCHES):
        yield range(start, min(start + BRANCHES, seeds.stop))


def _eviction(world: World, model: m.Model, seed: int) -> list[Sample]:
    world.become(model, seed)
    node = next(vm.computer_name for vm in world.stand_ins.arm.truth.live_vms()).lower()
    before = world.meter.counts.copy()
    estate = world.estate
    cordon, grown = _Watch(world, _cordons(node)), _Watch(world, _grows(estate, estate.spot, estate.regular))
    begun = world.timeline.now()
    if world.stand_ins.preempt(node) is None:
        raise Lost(f"no VM for {node}")
    _reach(world, lambda: cordon.seen and grown.seen, "cordon and replacement")
    assert cordon.done is not None
    assert grown.done is not None
    return [
        Sample(estate.prefix + CORDON, (cordon.done - begun).total_seconds(), cordon.hops - before),
        Sample(estate.prefix + REPLACED, (grown.done - begun).total_seconds(), grown.hops - before),
    ]


def _all_run(world: World) -> bool:
    pods = world.stand_ins.cluster.store.all(POD)
    return all(pod.spec.get("nodeName") for pod in pods)


def _reach(world: World, done: Callable[[], bool], what: str) -> None:
    if not world.reach(done):
        raise Lost(f"{what} did not come: {world.errors[:1]} {world.failed[:1]}")


def _grows(estate: Estate, *pools: str) -> Callable[[str, Request], bool]:
    def wanted(kind: str, request: Request) -> bool:
        return kind == "arm write" and request.method == estate.grown_by and request.path.rsplit("/", 1)[-1] in pools

    return wanted


def _cordons(node: str) -> Callable[[str, Request], bool]:
    def wanted(kind: str, request: Request) -> bool:
        if kind != "kubernetes" or request.method != "PATCH" or request.path != f"/api/v1/nodes/{node}":
            return False
        return bool(orjson.loads(request.body).get("spec", {}).get("unschedulable"))

    return wanted
