"""The whole system on virtual time: stand-ins, Functions host and exporter in one process and one thread.

What runs in Azure runs here unchanged, down to the SDKs; only the requests stay in the process and time jumps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from exporter.cache import DAEMON_SETS_PATH, NODES_PATH, PODS_PATH
from exporter.config_source import Source, WatchedConfig
from exporter.detectors import Cadence
from exporter.lease import LeaseTerms
from exporter.service import ExporterService
from local.checker.rules import check
from local.durable.journal import Journal
from local.durable.model import Instance, Status, Violation
from local.functions_host import FunctionsHost, HostOptions
from local.kube.kinds import (
    ATTACHMENT,
    CLAIM,
    CSI_DRIVER,
    CSI_NODE,
    DAEMON_SET,
    NODE,
    POD,
    STORAGE_CLASS,
    VOLUME,
)
from local.kube.store import Change
from local.system.chronicle import Recorded
from local.system.history import run_record
from local.system.lifetime import HostCrash, Lifetime
from local.system.records import RunRecord
from local.system.releases import PRESENT, Releases
from local.system.services import BLOB_URL, Doors, InProcess
from local.system.stand_ins import Behaviour, StandIns
from local.system.users import Users
from local.timeline import Due, VirtualTimeline
from local.web import Handler, Request, Response
from shared.names import CONFIG_CONTAINER, plan_container, snapshot_container
from shared.reading import storage
from shared.settings.config import parse_config

HOST_SEEDS = 1_000_003  # from one host's seed to the next one's, so that no host draws an id twice
LOOK_DELAY = 0.1  # seconds: a watch event is mostly that quick
TIDY_EVERY = timedelta(hours=1)
KEPT = timedelta(hours=2)  # finished orchestrations and the blobs they were told by
SWEEP = "reconcile"
_LASTING = frozenset({"last-good.yaml", "latest.json", "pauses.json", "idle.json", "leftovers.json", "stuck.json"})
_WATCHED = {
    POD: PODS_PATH,
    NODE: NODES_PATH,
    DAEMON_SET: DAEMON_SETS_PATH,
    CLAIM: storage.Kind.CLAIMS.path,
    VOLUME: storage.Kind.VOLUMES.path,
    STORAGE_CLASS: storage.Kind.CLASSES.path,
    CSI_NODE: storage.Kind.CSI_NODES.path,
    CSI_DRIVER: storage.Kind.CSI_DRIVERS.path,
    ATTACHMENT: storage.Kind.ATTACHMENTS.path,
}
Guard = Callable[[str, Handler], Handler]
"""Puts something before a door: by who goes through it ("functions", "exporter") and where it leads ("arm")."""
_SELDOM = LeaseTerms(duration=3600.0, renew_every=1200.0, retry_every=600.0)  # there is nobody else to lead


class VirtualSystem:
    """One run: the same arguments give the same run, event by event, in every process."""

    def __init__(  # noqa: PLR0913 - all but the first by keyword, and most left alone
        self,
        text: str,
        *,
        seed: int = 1,
        behaviour: Behaviour | None = None,
        host: HostOptions | None = None,
        cadence: Cadence | None = None,
        direct_blobs: bool = False,
        journal: Journal | None = None,
        guard: Guard | None = None,
        exporter_skew: timedelta = timedelta(),
        look_delay: float = LOOK_DELAY,
        releases: Releases | None = None,
    ) -> None:
        """`text` is the pools file; raises ConfigError when it is none. Seed and hooks of `host` are set here.

        With a `journal` the Functions host may crash (a `HostCrash` out of whatever it is doing): another one comes up
        from it. `exporter_skew` is how far the exporter's clock goes before ours, `look_delay` how many seconds after
        a change in the cluster its watches tell of it. `direct_blobs` reaches the storage
        account without its SDK, for simulations of thousands of worlds. `releases` says which release of the app each
        host runs: the present one, if nobody does.
        """
        self.timeline = VirtualTimeline()
        self.stand_ins = StandIns(self.timeline, text, parse_config(text, to_act=True), seed=seed, behaviour=behaviour)
        self.chronicle = self.stand_ins.chronicle
        self.failed: list[str] = []
        self.errors: list[tuple[str, BaseException]] = []
        self.broken: list[Violation] = []
        self.crashes: list[str] = []
        self._told: set[tuple[str, datetime]] = set()  # orchestrations that are known to have ended, and when
        self._guard, self._skew = guard or (lambda _, door: door), exporter_skew
        self._look_delay = look_delay
        self._journal, self._wishes, self._seed = journal, host, seed
        inside = InProcess(self._doors("functions"), self.timeline, direct_blobs=direct_blobs)
        self._inside, self._lifetime = inside, Lifetime(self.timeline)
        self._releases, self._direct_blobs = releases, direct_blobs
        self.host = self._new_host()
        self.stand_ins.connect(self.deliver)
        outside = InProcess(self._doors("exporter"), self.timeline, direct_blobs=direct_blobs)
        self.transports = (inside, outside)
        store = outside.store()
        source = WatchedConfig(self._pools_file(), self._exporter_clock)
        self.exporter = ExporterService(
            outside.cluster(),
            outside.publisher(),
            store,
            source,
            self._exporter_clock,
            identity="exporter-0",
            account_url=BLOB_URL,
            terms=_SELDOM,
            cadence=cadence,
        )
        self.users = Users(self.timeline, self.stand_ins.cluster, self.stand_ins.cluster)
        self._pump: Due | None = None
        self._looking = False
        self._touched: set[str] = set()
        self.stand_ins.cluster.store.subscribe(self._changed)
        self._look()
        self._tidy_later()

    # Running

    def run_for(self, span: timedelta) -> None:
        """Let that much time pass."""
        end = self.timeline.now() + span
        while self.timeline.now() < end:
            try:
                self.timeline.run(end)
            except HostCrash as crash:
                self._lose_host(crash)

    def run_until(self, done: Callable[[], bool], within: timedelta, step: timedelta = timedelta(seconds=5)) -> bool:
        """Let time pass until `done`, at most `within`; whether it came to be."""
        end = self.timeline.now() + within
        while not done() and self.timeline.now() < end:
            self.run_for(step)
        return done()

    # Looking

    def settled(self) -> bool:
        """Whether nobody's pods are left, every pool is back at its minimum, and nothing is under way."""
        pods = self.stand_ins.cluster.store.all(POD)
        if any(pod.uid in self.stand_ins.sizes.by_uid for pod in pods) or self.running():
            return False
        counts = self.stand_ins.machines_now()
        return all(counts[pool.name] <= pool.minimum for pool in self.stand_ins.config.pools)

    def machines_now(self) -> int:
        """How many VMs there are."""
        return sum(self.stand_ins.machines_now().values())

    def running(self) -> list[Instance]:
        """Orchestrations that have not ended, without the sweep, which comes and goes."""
        return [i for i in self.host.engine.instances.values() if not i.finished and i.name != SWEEP]

    def unhandled(self) -> tuple[str, ...]:
        """Events of which nothing came, and nothing is about to come."""
        letters = b"".join(blob.data for blob in self.stand_ins.dead_letters().values())
        running = " ".join(instance.id for instance in self.running())
        return tuple(self.stand_ins.watch.deliveries.at_the_end(letters.decode(errors="replace") + running))

    def record(self, extra: Mapping[str, object] | None = None) -> RunRecord:
        """What became of it all, judged."""
        running = [f"{instance.name} {instance.id} has not ended" for instance in self.running()]
        broken = [str(violation) for violation in self.broken]
        evidence = self.stand_ins.evidence(
            orchestrations=(*self.failed, *running),
            host=(*broken, *self._raised()),
            events=self.unhandled(),
        )
        return run_record(self.stand_ins, check(evidence), extra)

    def _raised(self) -> list[str]:
        return [f"function {name} raised {type(error).__name__}: {error}" for name, error in self.errors]

    # The Functions host

    def _new_host(self) -> FunctionsHost:
        """Everything in process is made anew: adapters, what they remember, the app with its world."""
        timeline = self._lifetime if self._journal is not None else self.timeline
        options = self._options(self._wishes, self._seed + len(self.crashes) * HOST_SEEDS)
        if self._releases is None:
            app = PRESENT.create_app(self._inside.services())
            return FunctionsHost(app, timeline, options, journal=self._journal)
        release = self._releases(len(self.crashes))
        app = release.app(self._doors("functions"), self.timeline, direct_blobs=self._direct_blobs)
        options = replace(options, version=release.version, strict=False)
        return FunctionsHost(app, timeline, options, journal=self._journal)

    def deliver(self, request: Request) -> Response:
        """As Event Grid reaches the host; raises ConnectionError while there is none."""
        if self._lifetime.over:
            raise ConnectionRefusedError("the Functions host is down")
        try:
            return self.host.handle(request)
        except HostCrash as crash:
            self._lose_host(crash)
            raise ConnectionResetError(crash.where) from crash

    def _lose_host(self, crash: HostCrash) -> None:
        self.crashes.append(crash.where)
        self.stand_ins.disturbed()
        self.chronicle.note("crash", crash.where)
        self._lifetime.end()
        self.host.engine.stop()
        self.timeline.call_later(crash.down_for, self._come_up)

    def _come_up(self) -> None:
        self._lifetime = Lifetime(self.timeline)
        self.host = self._new_host()
        for instance in self.host.engine.instances.values():
            if instance.finished and (instance.id, instance.updated) not in self._told:
                self._ended(instance)  # in its last transaction, after which the host died before it could say so

    # The inside

    def _doors(self, who: str) -> Doors:
        stand_ins = self.stand_ins
        cluster = Recorded(stand_ins.watch.door(stand_ins.cluster, who), self.chronicle, f"{who} cluster")
        arm = Recorded(stand_ins.watch.door(stand_ins.arm, who), self.chronicle, f"{who} arm")
        return Doors(
            arm=self._guard(f"{who} arm", arm),
            cluster=self._guard(f"{who} cluster", stand_ins.cluster.misfortune.door(cluster)),
            blobs=self._guard(f"{who} blobs", stand_ins.blobs),
            topic=self._guard(f"{who} topic", stand_ins.topic),
        )

    def _exporter_clock(self) -> datetime:
        return self.timeline.now() + self._skew

    def _pools_file(self) -> Source:
        """As a mounted file: looked at often, hence without a request each time."""
        container, name = self.stand_ins.blobs.containers[CONFIG_CONTAINER], f"{self.stand_ins.config.cluster}.yaml"
        last = ""

        def read() -> bytes | None:
            nonlocal last
            blob = container[name]
            changed, last = blob.etag != last, blob.etag
            return blob.data if changed else None

        return read

    def _options(self, host: HostOptions | None, seed: int) -> HostOptions:
        return replace(
            host or HostOptions(keep_histories=False),
            seed=seed,
            version=PRESENT.version,
            on_violation=self.broken.append,
            on_instance_end=self._ended_by(host),
            on_function_error=lambda name, error: self.errors.append((name, error)),
        )

    def _ended_by(self, wishes: HostOptions | None) -> Callable[[Instance], None]:
        def ended(instance: Instance) -> None:
            self._ended(instance)
            if wishes is not None:
                wishes.on_instance_end(instance)

        return ended

    def _ended(self, instance: Instance) -> None:
        self._told.add((instance.id, instance.updated))
        self.chronicle.note("ended", instance.name, instance.id, instance.status.value, instance.output or "")
        self.stand_ins.watch.deliveries.note_end(instance.name, instance.id, instance.output or "")
        if instance.status is not Status.COMPLETED:
            self.failed.append(
                f"{instance.name} {instance.id} {instance.status.value}: {(instance.output or '')[:300]}"
            )

    def _changed(self, change: Change) -> None:
        path = _WATCHED.get(change.new.kind)
        if path is None:
            return
        self._touched.add(path)
        if not self._looking:
            self._looking = True
            self.timeline.call_later(self._look_delay, self._look)

    def _look(self) -> None:
        """What a watch thread and the exporter's loop do when something changed."""
        self._looking = False
        touched, self._touched = self._touched, set()
        self.exporter.poll(touched)
        self._tick()

    def _tick(self) -> None:
        if self._pump is not None:
            self._pump.cancel()
        due = self.exporter.tick(self._exporter_clock())
        self._pump = self.timeline.call_at(due - self._skew, self._look) if due is not None else None

    def _tidy_later(self) -> None:
        self.timeline.call_later(TIDY_EVERY.total_seconds(), self._tidy)

    def _tidy(self) -> None:
        """Forget what nobody will ask for again, as a lifecycle rule of the storage account and a purge job would."""
        before = self.timeline.now() - KEPT
        self.host.purge(before)
        cluster = self.stand_ins.config.cluster
        for container in (snapshot_container(cluster), plan_container(cluster)):
            blobs = self.stand_ins.blobs.containers.get(container, {})
            for name in [name for name, blob in blobs.items() if blob.modified < before and name not in _LASTING]:
                del blobs[name]
        self._tidy_later()
