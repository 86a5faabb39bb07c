"""Plays a world: busy and broken first, then without faults until it has settled, then without work until it is empty.

After the faults have ended, what people asked for must be served, or rightly not; after the people have gone, every
pool must be back at its minimum, and nothing of all that may be left.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache, partial
from math import ceil

import orjson

from local.arm.faults import Fault
from local.arm.pools import vm_template
from local.arm.rights import GuardedArm
from local.checker.evidence import NODE_OPT_OUTS, Evidence
from local.checker.rules import (
    check,
    gangs_start_together,
    nobody_waits_in_vain,
    nodes_without_vm,
)
from local.checker.together import GIVEN_BACK_WITHIN, served_in_part
from local.durable.model import Instance
from local.durable.replay import ReplayMismatch, replay_prefixes
from local.functions_host import HostOptions
from local.kube.kinds import DEPLOYMENT, NODE, POD
from local.kube.objects import controller_of, is_finished
from local.randomness import stream
from local.roles import Role, grants_of, read_roles
from local.simulation.doors import Crashes, HastyDoor, guarded
from local.simulation.journal import MemoryJournal
from local.simulation.trouble import FOR_GOOD, Outbreak
from local.simulation.volumes import Volumes
from local.simulation.workload import BUDGETS, DEPLOYMENTS, FINALIZER, JOBS, PODS, SHORT_GANG, Deed, placed_by_hand
from local.simulation.worlds import World
from local.system.releases import Releases
from local.system.stand_ins import Behaviour
from local.system.virtual import VirtualSystem
from local.web import Handler, Request
from shared.model import PoolKind
from shared.names import CONFIG_CONTAINER, POOL_LABEL
from shared.settings.config import parse_config

STEP = timedelta(seconds=20)
CHECK_EVERY = timedelta(minutes=10)
SETTLE = timedelta(hours=3)
"""Until everything is served when nothing fails any more: the longest memory of a failure, a boot and two sweeps."""
GO_HOME = timedelta(hours=3)
"""Until everything is gone: idle time, drains, and leftovers that must be seen twice, half an hour apart."""
MOST_KEPT = 3  # nodes of a pool that an administrator wants to keep
HASTE = 0.02  # of all cordons: an administrator is a moment earlier
PLACED = 0.1  # of all nodes that Sluice cordons: somebody places a pod there by hand, within seconds
PLACED_WITHIN = 15.0
BY_HAND = 0.3  # of all worlds: a disk is attached by hand, and would go with its VM
PLENTY = 1_000_000
_FAILED = re.compile(r'\{"ok": ?false, ?"kind": ?"([a-z-]+)"')
Listener = Callable[[float, str, tuple[str | bytes, ...]], None]
METHODS = {"create": "POST", "delete": "DELETE", "patch": "PATCH"}


@cache
def _roles() -> Mapping[str, Role]:
    """Those that the app has in every world; none in a copy of the tree without them, where it may do everything."""
    return read_roles()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a world. `hours` are virtual; `pods`, and VMs `grown` and `retired`, count all there ever were."""

    seed: int
    digest: str
    violations: tuple[str, ...]
    probes: Counter[str] = field(default_factory=Counter)
    hours: float = 0.0
    pods: int = 0
    grown: int = 0
    retired: int = 0


def play(
    world: World,
    listen: Listener | None = None,
    releases: Releases | None = None,
) -> Outcome:
    """Play a world to its end; `listen` hears of everything that happens, `releases` says what each host runs."""
    return Run(world, listen, releases).play()


class Run:
    """One world under way."""

    def __init__(
        self,
        world: World,
        listen: Listener | None = None,
        releases: Releases | None = None,
    ) -> None:
        self.world, self.probes = world, Counter[str]()
        self._releases = releases
        self._found: dict[str, None] = {}
        self._draw = stream(world.seed, "driver")
        self._haste, self._placing = stream(world.seed, "haste"), stream(world.seed, "placing")
        self._keeping = stream(world.seed, "keeping")
        self._replays = stream(world.seed, "replays")
        self._crashes: Crashes | None = None
        self._armed: list[Fault] = []
        self.system = self._system()
        self.system.chronicle.listener = listen
        self._crashes = Crashes(self.system.timeline, world.crashes, self.probes)
        self.begun = self.system.timeline.now()
        self._checked = self.begun
        self._calm, self._calm_since = False, self.begun
        self._templates()
        self._deallocate()
        self.volumes = Volumes(self.system, world.volumes, world.detach, stream(world.seed, "volumes"), self.probes)
        by_hand = stream(world.seed, "volume by hand")
        if by_hand.random() < BY_HAND:
            self.system.timeline.call_later(by_hand.uniform(120.0, world.busy), self.volumes.attach_by_hand)
        self._plan()

    def play(self) -> Outcome:
        """All three acts."""
        self._until(lambda: self._seconds() >= self.world.busy, timedelta(seconds=self.world.busy))
        self._calm_down()
        if not self._until(self._served, SETTLE):
            self._note(f"settling: not within {SETTLE} after the last fault")
            self._note(*nobody_waits_in_vain(self._evidence()))
        self._go_home()
        self._until(self._empty, GO_HOME)
        self._judge()
        return self._outcome()

    # Making it

    def _system(self) -> VirtualSystem:
        world = self.world
        behaviour = Behaviour(
            arm=world.latencies,
            boot=world.boot,
            cluster=world.timing,
            events=world.events,
            trouble=world.chances,
            flexible=world.flexible,
            strangers=True,
        )
        host = HostOptions(
            latencies=world.hops,
            faults=world.host,
            extended_sessions=0.95,
            on_instance_end=self._on_instance_end,
            on_fault=self._on_fault,
        )
        journal = MemoryJournal(partial(self._pass_by, before=True), partial(self._pass_by, before=False))
        return VirtualSystem(
            world.text(),
            seed=world.seed,
            behaviour=behaviour,
            host=host,
            journal=journal,
            guard=self._guarded,
            exporter_skew=world.skew,
            look_delay=world.look_delay,
            direct_blobs=True,
            releases=self._releases,
        )

    def _pass_by(self, place: str = "journal", *, before: bool) -> None:
        if self._crashes is not None:
            self._crashes.pass_by(place, before=before)

    def _guarded(self, door: str, inner: Handler) -> Handler:
        if door == "functions cluster":
            inner = HastyDoor(inner, self._just_then)
        if door == "functions arm" and (roles := _roles()):
            grants = grants_of(parse_config(self.world.text(), to_act=True), roles)
            inner = GuardedArm(inner, lambda: self.system.stand_ins.arm.cloud.estate, grants)
        return guarded(door, inner, self._pass_by)

    def _templates(self) -> None:
        """Bodies of single VMs, where the app looks for them."""
        stand_ins = self.system.stand_ins
        for pool in stand_ins.config.pools:
            if pool.kind is PoolKind.VM:
                body = orjson.dumps(vm_template(pool))
                kind = {"x-ms-blob-type": "BlockBlob"}
                stand_ins.blobs.handle(Request("PUT", f"/{CONFIG_CONTAINER}/{pool.template}", {}, kind, body))

    def _deallocate(self) -> None:
        """Scale sets whose Spot VMs stay behind, stopped, when Azure takes them."""
        for group in self.system.stand_ins.arm.cloud.estate.groups.values():
            for scale_set in group.scale_sets.values():
                if self.world.deallocating and scale_set.spot:
                    scale_set.profile["evictionPolicy"] = "Deallocate"

    def _plan(self) -> None:
        later = self.system.timeline.call_later
        for deed in self.world.deeds:
            later(deed.at, partial(self._do, deed))
        for outbreak in self.world.outbreaks:
            later(outbreak.at, partial(self._break_out, outbreak))

    # What happens in it

    def _do(self, deed: Deed) -> None:
        arm = self.system.stand_ins.arm
        self.probes[f"deed {deed.doing}"] += 1
        match deed.doing:
            case "create" | "delete" | "patch":
                self._send(METHODS[deed.doing], deed.path, deed.body)
            case "preempt":
                self._preempt((deed.body or {})["share"], deed.number)
            case "cordon":
                self._cordon()
            case "keep":
                self._keep()
            case "quota":
                arm.cloud.quota.set_limit(deed.name, int(deed.number))
            case "stock":
                arm.set_stock(int(deed.number), **(deed.body or {}))
            case "upgrade":
                arm.occupy(deed.name, deed.number)
            case "throttle":
                arm.set_throttle(reads=(30.0, 3.0), writes=(5.0, deed.number))
            case "mode":
                self.system.stand_ins.set_pools_file(self.world.text(deed.name))

    def _preempt(self, share: float, notice: float) -> None:
        truth = self.system.stand_ins.arm.truth
        spot = [vm.computer_name for vm in truth.live_vms() if vm.spot and vm.deleting_at is None]
        for node in self._draw.sample(spot, k=min(len(spot), ceil(share * len(spot)))):
            if self.system.stand_ins.preempt(node, notice) is not None:
                self.probes["spot eviction"] += 1

    def _cordon(self) -> None:
        nodes = [node for node in self.system.stand_ins.cluster.store.all(NODE) if not node.spec.get("unschedulable")]
        if nodes:
            self._mark(self._draw.choice(nodes).name, unschedulable=True)
            self.probes["administrator's cordon"] += 1

    def _keep(self) -> None:
        """Somebody says of some nodes that they must stay, until the people go."""
        nodes = [node for node in self.system.stand_ins.cluster.store.all(NODE) if POOL_LABEL in node.labels]
        for node in self._keeping.sample(nodes, k=min(len(nodes), MOST_KEPT)):
            name, value = self._keeping.choice(NODE_OPT_OUTS)
            self._send("PATCH", f"/api/v1/nodes/{node.name}", {"metadata": {"annotations": {name: value}}})
            self.probes["administrator's opt-out"] += 1

    def _just_then(self, name: str) -> None:
        """Somebody takes a node out of service just when Sluice would, or puts a pod there a moment later."""
        node = self.system.stand_ins.cluster.store.get(NODE, ("", name))
        if self._calm or node is None or node.spec.get("unschedulable"):
            return
        if self._haste.random() < HASTE:
            self._mark(name, unschedulable=True)
            self.probes["administrator's cordon at the same moment"] += 1
        elif self._placing.random() < PLACED:
            self.system.timeline.call_later(self._placing.uniform(0.0, PLACED_WITHIN), partial(self._place, name))

    def _place(self, node: str) -> None:
        """Somebody puts a pod where Sluice is emptying."""
        if self.system.stand_ins.cluster.store.get(NODE, ("", node)) is not None:
            self.probes["pod placed by hand"] += 1
            self._send("POST", PODS, placed_by_hand(f"by-hand-{self.probes['pod placed by hand']}", node))

    def _mark(self, node: str, *, unschedulable: bool) -> None:
        """What `kubectl cordon` and `uncordon` send."""
        self._send("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": unschedulable or None}})

    def _break_out(self, outbreak: Outbreak) -> None:
        faults = self.system.stand_ins.arm.faults
        fault = Fault(
            outbreak.operation,
            outbreak.resource,
            code=outbreak.code or "InternalServerError",
            stage=outbreak.stage,
            times=None,
            probability=outbreak.probability,
            partial=outbreak.partial,
            seconds=outbreak.seconds,
            retry_after=outbreak.retry_after,
        )
        faults.add(fault)
        if outbreak.until == FOR_GOOD:
            return
        self._armed.append(fault)
        self.system.timeline.call_later(outbreak.until - outbreak.at, lambda: faults.remove(fault))

    # Calm

    def _calm_down(self) -> None:
        """Every fault ends, and whoever held something lets go."""
        stand_ins = self.system.stand_ins
        self._calm, self._calm_since = True, self.system.timeline.now()
        stand_ins.calm()
        self.volumes.let_go()
        for fault in self._armed:
            stand_ins.arm.faults.remove(fault)
        if self._crashes is not None:
            self._crashes.end()
        stand_ins.arm.cloud.throttle = None
        stand_ins.arm.cloud.stocks.clear()
        for name in stand_ins.arm.cloud.quota.limits():
            stand_ins.arm.cloud.quota.set_limit(name, PLENTY)
        for node in list(stand_ins.cluster.store.all(NODE)):
            if node.spec.get("unschedulable") and "sluice.io/retire-operation" not in node.annotations:
                self._mark(node.name, unschedulable=False)
        for pod in list(stand_ins.cluster.store.all(POD)):
            if FINALIZER in (pod.metadata.get("finalizers") or ()):
                path = f"/api/v1/namespaces/default/pods/{pod.name}"
                self._send("PATCH", path, {"metadata": {"finalizers": None}})

    def _served(self) -> bool:
        """Whether everybody who can be served is, no gang in part, and nothing is under way."""
        if self.system.running():
            return False
        evidence = self._evidence()
        in_vain = itertools.chain(nobody_waits_in_vain(evidence), served_in_part(evidence, timedelta()))
        return next(in_vain, None) is None

    def _go_home(self) -> None:
        store = self.system.stand_ins.cluster.store
        for deployment in list(store.all(DEPLOYMENT)):
            self._send("DELETE", f"{DEPLOYMENTS}/{deployment.name}")
        self._send("DELETE", BUDGETS)
        self._send("DELETE", f"{JOBS}/{SHORT_GANG}")  # which would run for hours
        for node in list(store.all(NODE)):
            if said := {name: None for name, _ in NODE_OPT_OUTS if name in node.annotations}:
                self._send("PATCH", f"/api/v1/nodes/{node.name}", {"metadata": {"annotations": said}})
        for pod in list(store.all(POD)):
            if not pod.spec.get("nodeName") and not is_finished(pod):
                owner = controller_of(pod)
                if owner is not None and owner["kind"] == "Job":
                    self._send("DELETE", f"{JOBS}/{owner['name']}")
                self._send("DELETE", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}")

    def _empty(self) -> bool:
        if not self.system.settled():
            return False
        leaks = self.system.stand_ins.arm.truth.leaks()
        return not leaks.nics and not leaks.disks and not nodes_without_vm(self._evidence())

    # Judging it

    def _until(self, done: Callable[[], bool], within: timedelta) -> bool:
        end = self.system.timeline.now() + within
        while not done():
            if self.system.timeline.now() >= end:
                return False
            self.system.run_for(STEP)
            if self.system.timeline.now() - self._checked >= CHECK_EVERY:
                self._check_standing()
        return True

    def _check_standing(self) -> None:
        self._checked = self.system.timeline.now()
        stand_ins = self.system.stand_ins
        if not self._calm:
            stand_ins.disturbed()
        stand_ins.watch.step(stand_ins.last_trouble())
        self._note(*stand_ins.watch.violations)
        if self._calm and self._checked - self._calm_since > GIVEN_BACK_WITHIN:
            self._note(*gangs_start_together(self._evidence()))

    def _judge(self) -> None:
        system = self.system
        running = [f"{instance.name} {instance.id} has not ended" for instance in system.running()]
        raised = [f"function {name} raised {type(error).__name__}: {error}" for name, error in system.errors]
        told = self._evidence(
            orchestrations=(*system.failed, *running), host=(*(str(broken) for broken in system.broken), *raised)
        )
        self._note(*check(replace(told, events=system.unhandled())))

    def _evidence(self, *, orchestrations: tuple[str, ...] = (), host: tuple[str, ...] = ()) -> Evidence:
        return self.system.stand_ins.evidence(orchestrations=orchestrations, host=host)

    def _note(self, *violations: str) -> None:
        self._found.update(dict.fromkeys(violations))

    def _on_fault(self, kind: str) -> None:
        self.probes[kind] += 1

    def _on_instance_end(self, instance: Instance) -> None:
        self.probes[f"ended {instance.name}"] += 1
        if (failure := _FAILED.match(instance.output or "")) is not None:
            self.probes[f"ended {instance.name}: {failure[1]}"] += 1
        if self._replays.random() < self.world.replayed:
            try:
                self.probes["replayed prefixes"] += replay_prefixes(self.system.host, instance.id)
            except ReplayMismatch as mismatch:
                self._note(f"t={self._seconds():.1f}s replay: {mismatch}")
        instance.history = []

    def _seconds(self) -> float:
        return (self.system.timeline.now() - self.begun).total_seconds()

    def _send(self, method: str, path: str, body: object = None) -> None:
        """As a user of the cluster; what is gone meanwhile is nobody's fault."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        data = b"" if body is None else orjson.dumps(body)
        response = self.system.stand_ins.cluster.handle(Request(method, path, {}, {"content-type": kind}, data))
        if response.status >= 400 and response.status != 404:
            raise ValueError(f"{method} {path}: {response.status} {response.body.decode()}")

    def _outcome(self) -> Outcome:
        stand_ins = self.system.stand_ins
        self.probes.update(stand_ins.probes())
        refused = sum(bool(eviction.refusal) for eviction in stand_ins.cluster.truth.evictions)
        self.probes["eviction refused by a budget"] += refused
        return Outcome(
            self.world.seed,
            self.system.chronicle.digest,
            tuple(self._found),
            self.probes,
            self._seconds() / 3600,
            len(stand_ins.sizes.by_uid),
            len(stand_ins.arm.truth.vms),
            sum(vm.deleted_at is not None for vm in stand_ins.arm.truth.vms),
        )
