"""What really happened in the cluster: for checkers of invariants and for reports, not for the system under test."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from local.kube.kinds import BUDGET, NODE, POD, Key
from local.kube.objects import condition, is_finished, is_ready
from local.kube.selectors import selector_test
from local.kube.store import ADDED, DELETED, Change, Store, Stored
from local.timeline import Timeline


@dataclass(frozen=True, slots=True)
class BudgetState:
    """A budget just before an eviction was decided; `ready` is counted then and there, whatever its status says."""

    name: str
    allowed: int
    desired: int
    healthy: int
    ready: int


@dataclass(frozen=True, slots=True)
class EvictionRecord:
    """One call of the eviction API; `refusal` is empty when it was granted. `healthy`: the pod ran, was Ready and was
    not on its way out, so that its budgets had a say."""

    at: datetime
    namespace: str
    name: str
    uid: str
    node: str
    budgets: tuple[BudgetState, ...]
    refusal: str
    healthy: bool = True


@dataclass(frozen=True, slots=True)
class PodRecord:
    """One pod's life; None for what has not happened. `deleted` is when it was gone, not when that was asked for."""

    namespace: str
    name: str
    uid: str
    created: datetime
    scheduled: datetime | None = None
    node: str = ""
    started: datetime | None = None
    finished: datetime | None = None
    deleted: datetime | None = None
    phase: str = "Pending"
    evicted: bool = False

    @property
    def wait(self) -> float | None:
        """Seconds from creation to binding."""
        return (self.scheduled - self.created).total_seconds() if self.scheduled else None


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """One Node object's life."""

    name: str
    uid: str
    created: datetime
    ready: datetime | None = None
    deleted: datetime | None = None


@dataclass(frozen=True, slots=True)
class BindingRecord:
    """A pod was bound to a node."""

    at: datetime
    pod: Key
    uid: str
    node: str


class Truth:
    """Grows by every write; read it under the timeline's lock."""

    def __init__(self, store: Store, timeline: Timeline, *, bindings_kept: int = 100_000) -> None:
        self._store, self._timeline = store, timeline
        self.pods: dict[str, PodRecord] = {}
        self.nodes: dict[str, NodeRecord] = {}
        self.bindings: deque[BindingRecord] = deque(maxlen=bindings_kept)
        self.evictions: list[EvictionRecord] = []
        self._watchers: list[Callable[[object], None]] = []
        store.subscribe(self._note)

    def on_record(self, watcher: Callable[[object], None]) -> None:
        """Call `watcher` with every new EvictionRecord and BindingRecord as it happens."""
        self._watchers.append(watcher)

    def budgets_now(self, pod: Stored) -> tuple[BudgetState, ...]:
        """The budgets over a pod, counted afresh."""
        matching = [
            one for one in self._store.all(BUDGET, pod.namespace) if selector_test(one.spec.get("selector"))(pod.labels)
        ]
        return tuple(self._budget_state(one) for one in matching)

    def note_eviction(self, pod: Stored, budgets: tuple[BudgetState, ...], refusal: str) -> None:
        """Called by the API after each decision, with the budgets as they were before it."""
        node = str(pod.spec.get("nodeName", ""))
        healthy = is_ready(pod) and not is_finished(pod) and not pod.terminating
        record = EvictionRecord(self._timeline.now(), pod.namespace, pod.name, pod.uid, node, budgets, refusal, healthy)
        self.evictions.append(record)
        if not refusal and pod.uid in self.pods:
            self.pods[pod.uid] = replace(self.pods[pod.uid], evicted=True)
        self._tell(record)

    def _tell(self, record: object) -> None:
        for watcher in self._watchers:
            watcher(record)

    def _budget_state(self, budget: Stored) -> BudgetState:
        test = selector_test(budget.spec.get("selector"))
        pods = [one for one in self._store.all(POD, budget.namespace) if test(one.labels)]
        ready = sum(1 for one in pods if is_ready(one) and not one.terminating)
        status = budget.status
        allowed, desired, healthy = (
            int(status.get(name, 0)) for name in ("disruptionsAllowed", "desiredHealthy", "currentHealthy")
        )
        return BudgetState(budget.name, allowed, desired, healthy, ready)

    def _note(self, change: Change) -> None:
        if change.new.kind is POD:
            self._note_pod(change)
        elif change.new.kind is NODE:
            self._note_node(change)

    def _note_pod(self, change: Change) -> None:
        pod, now = change.new, self._timeline.now()
        if change.type == ADDED:
            self.pods[pod.uid] = PodRecord(pod.namespace, pod.name, pod.uid, now)
        record = self.pods[pod.uid]
        node = str(pod.spec.get("nodeName", ""))
        if node and not record.node:
            record = replace(record, scheduled=now, node=node)
            binding = BindingRecord(now, pod.key, pod.uid, node)
            self.bindings.append(binding)
            self._tell(binding)
        phase = str(pod.status.get("phase", ""))
        if phase != record.phase:
            record = replace(record, phase=phase)
            if phase == "Running":
                record = replace(record, started=now)
            if is_finished(pod):
                record = replace(record, finished=now)
        if change.type == DELETED:
            record = replace(record, deleted=now)
        self.pods[pod.uid] = record

    def _note_node(self, change: Change) -> None:
        node, now = change.new, self._timeline.now()
        record = self.nodes.get(node.uid) or NodeRecord(node.name, node.uid, now)
        ready = condition(node, "Ready")
        if record.ready is None and ready is not None and ready["status"] == "True":
            record = replace(record, ready=now)
        if change.type == DELETED:
            record = replace(record, deleted=now)
        self.nodes[node.uid] = record
