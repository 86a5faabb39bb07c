"""Everything outside of Sluice in one object: Azure, the cluster, the topic and the storage, on either clock.

In the simulator its handlers are called in process; over HTTP the same object is served by a process of its own. What
happened is read from here and from nowhere else.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from local.arm.settings import ArmLatencies, Quirks
from local.chances import Chances
from local.checker.evidence import Evidence
from local.checker.watch import Watch
from local.event_grid import EventFaults
from local.kube.controllers.timing import Timing as ClusterTiming
from local.kube.stand_in import KubernetesStandIn
from local.machines import BootTimes, MachinesBridge
from local.system.azure_side import INGEST_PATH, AzureSide, Deliver
from local.system.chronicle import Recorded
from local.system.sizes import PodSizes
from local.system.strangers import add_strangers
from local.system.trouble import Trouble
from local.timeline import Timeline
from shared.model import Config
from shared.settings.config import ConfigError, parse_config

__all__ = ["INGEST_PATH", "Behaviour", "Deliver", "StandIns"]


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How the outside behaves; every default is the stand-in's own, and `quirks` None draws them by seed."""

    arm: ArmLatencies | None = None
    quirks: Quirks | None = None
    boot: BootTimes | None = None
    cluster: ClusterTiming | None = None
    events: EventFaults = field(default_factory=EventFaults)
    trouble: Trouble = field(default_factory=Trouble)
    flexible: frozenset[str] = frozenset()
    """Names of the pools whose scale sets are Flexible."""
    strangers: bool = False
    """Others have VMs, disks and NICs beside Sluice's."""


class StandIns(AzureSide):
    """`text` is the pools file as its owner wrote it, `config` its meaning. Thread-safe by the timeline's lock."""

    def __init__(  # noqa: PLR0913 - all but the first three by keyword, and most left alone
        self,
        timeline: Timeline,
        text: str,
        config: Config,
        *,
        seed: int = 0,
        behaviour: Behaviour | None = None,
        topic_key: str = "local",
        token: str = "",
        blobs: Path | None = None,
        executor: Executor | None = None,
    ) -> None:
        """`token` guards the API server; the others are `AzureSide`'s."""
        how = behaviour or Behaviour()
        self._disturbed: datetime | None = None
        super().__init__(
            timeline,
            text,
            config,
            seed=seed,
            latencies=how.arm,
            quirks=how.quirks,
            events=how.events,
            trouble=how.trouble.arm,
            topic_key=topic_key,
            blobs=blobs,
            executor=executor,
        )
        with timeline.lock:
            self.cluster = KubernetesStandIn(
                timeline, seed=seed, token=token, timing=how.cluster, trouble=how.trouble.cluster
            )
            self.sizes = PodSizes(self.cluster.store)
            self.chronicle.follow_cluster(self.cluster)
            self.bridge = MachinesBridge(
                timeline, self.arm.machines, self.cluster, config, seed=seed, boot=how.boot, trouble=how.trouble.nodes
            )
            if how.strangers:
                add_strangers(self.arm, self.cluster, config)
            self.add_pools(flexible=how.flexible)
            swaps = config.scale_down.replace_saving > 0
            self.watch = Watch(
                timeline,
                self.arm.truth,
                self.arm.cloud.quota,
                self.cluster,
                self.pool_facts(),
                swaps=swaps,
                share=config.scale_down.max_parallel_fraction,
            )
            self.topic.on_outcome(self.watch.deliveries.note)
        self.cluster_door = Recorded(self.cluster, self.chronicle, "cluster")

    def set_pools_file(self, text: str) -> None:
        """Put another pools file in place, as its owner would; with one that is none, the last good one holds."""
        with self.timeline.lock, suppress(ConfigError):
            super().set_pools_file(text)
            self.watch.modes({pool.name: pool.mode.value for pool in parse_config(text).pools})

    def calm(self) -> None:
        """The trouble ends: nothing strikes by chance any more, and what was held back is let go."""
        with self.timeline.lock:
            for chances in self._chances():
                chances.end()
            self.topic.calm()
            self.disturbed()

    def disturbed(self) -> None:
        """Something misbehaved just now that no stand-in knows of, such as a host that crashed."""
        self._disturbed = self.timeline.now()

    def probes(self) -> Counter[str]:
        """How often each kind of trouble was delivered, by stand-in and kind, such as `arm.throttled`; failures on
        order by operation and stage."""
        with self.timeline.lock:
            names = ("arm", "cluster", "nodes")
            found: Counter[str] = Counter()
            for name, chances in zip(names, self._chances(), strict=True):
                found.update({f"{name}.{kind}": count for kind, count in chances.counts.items()})
            counters = self.topic.counters
            for kind in ("lost", "duplicated", "delayed", "reordered"):
                if count := getattr(counters, kind):
                    found[f"events.{kind}"] = count
            return found

    def last_trouble(self) -> datetime | None:
        """When anything went wrong last, by chance or on order."""
        moments = (self._disturbed, *(chances.last for chances in self._chances()))
        return max((moment for moment in moments if moment is not None), default=None)

    def _chances(self) -> tuple[Chances, Chances, Chances]:
        return self.arm.cloud.chances.chances, self.cluster.misfortune.chances, self.bridge.misfortune.chances

    def evidence(
        self,
        *,
        orchestrations: tuple[str, ...] = (),
        host: tuple[str, ...] = (),
        events: tuple[str, ...] = (),
    ) -> Evidence:
        """What the checker judges; the first two arguments are what the Functions host has to say, `events` those of
        which nothing came."""
        with self.timeline.lock:
            self.watch.step(self.last_trouble())
            return Evidence(
                begun=self.begun,
                now=self.timeline.now(),
                arm=self.arm.truth,
                cluster=self.cluster.truth,
                store=self.cluster.store,
                seen=self.watch.violations,
                pools=self.pool_facts(),
                quota=self.arm.cloud.quota,
                orchestrations=orchestrations,
                host=host,
                dead_letters=tuple(sorted(self.dead_letters())),
                events=events,
            )
