"""What happens, as sentences: one line for each thing that a watcher of the run would want to see."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass

from local.kube.kinds import NODE, POD
from local.kube.objects import condition
from local.kube.store import ADDED, DELETED, Change
from local.kube.truth import EvictionRecord
from local.system.stand_ins import StandIns

KEPT = 10_000


@dataclass(frozen=True, slots=True)
class Happening:
    """`number` counts from 1 without gaps; `at` is seconds since the run began."""

    number: int
    at: float
    text: str


class Narrator:
    """Listens to the stand-ins' ground truth; `since` answers who asks again and again."""

    def __init__(self, stand_ins: StandIns) -> None:
        self._stand_ins = stand_ins
        self._said: deque[Happening] = deque(maxlen=KEPT)
        self._count = 0
        self._ready: set[str] = set()
        self._cordoned: set[str] = set()
        self._writes = 0
        stand_ins.cluster.store.subscribe(self._changed)
        stand_ins.cluster.truth.on_record(self._recorded)
        stand_ins.arm.machines.subscribe(
            on_deleting=lambda machine: self._say(f"Azure deletes {machine.name}"),
            on_gone=lambda machine: self._say(f"{machine.name} is gone"),
            on_preempt_notice=lambda machine, when: self._say(
                f"Azure will evict the Spot VM {machine.name} at {when:%H:%M:%S}"
            ),
        )

    def since(self, number: int) -> list[Happening]:
        """What was said after `number`, new writes to ARM included."""
        self._look_at_writes()
        return [happening for happening in self._said if happening.number > number]

    def overview(self) -> dict[str, object]:
        """Counts of this moment: pods by phase, nodes, VMs by pool."""
        pods = Counter(str(pod["status"].get("phase", "Pending")) for pod in self._stand_ins.cluster.objects(POD))
        nodes = len(self._stand_ins.cluster.objects(NODE))
        return {"pods": dict(pods), "nodes": nodes, "machines": self._stand_ins.machines_now()}

    def _say(self, text: str) -> None:
        now = (self._stand_ins.timeline.now() - self._stand_ins.begun).total_seconds()
        self._count += 1
        self._said.append(Happening(self._count, round(now, 1), text))

    def _look_at_writes(self) -> None:
        writes = self._stand_ins.arm.truth.writes
        for write in writes[self._writes :]:
            if write.operation in {"scale_set.update", "agent_pool.update"} and write.maximum is not None:
                self._say(f"Azure is asked for {write.target} VMs in all in {write.resource}")
        self._writes = len(writes)

    def _recorded(self, record: object) -> None:
        if isinstance(record, EvictionRecord):
            verdict = f"refused ({record.refusal})" if record.refusal else "evicted"
            self._say(f"{record.namespace}/{record.name} on {record.node}: {verdict}")

    def _changed(self, change: Change) -> None:
        if change.new.kind is NODE:
            self._look_at_writes()
            self._node(change)
        elif change.new.kind is POD and change.type == DELETED:
            self._look_at_writes()

    def _node(self, change: Change) -> None:
        node = change.new
        if change.type == ADDED:
            self._say(f"node {node.name} joins")
        elif change.type == DELETED:
            self._say(f"node {node.name} leaves the cluster")
        ready = condition(node, "Ready")
        if ready is not None and ready["status"] == "True" and node.name not in self._ready:
            self._ready.add(node.name)
            self._say(f"node {node.name} is Ready")
        cordoned = bool(node.spec.get("unschedulable"))
        if cordoned and node.name not in self._cordoned:
            self._cordoned.add(node.name)
            self._say(f"node {node.name} is cordoned")
        if not cordoned and node.name in self._cordoned and change.type != DELETED:
            self._cordoned.discard(node.name)
            self._say(f"node {node.name} takes pods again")
