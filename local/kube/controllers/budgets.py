"""PodDisruptionBudgets: how many of their pods may go just now.

Source: pkg/controller/disruption/disruption.go of Kubernetes 1.36.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from local.kube.controllers.work import WorkQueue
from local.kube.kinds import BUDGET, DAEMON_SET, DEPLOYMENT, JOB, POD, REPLICA_SET, STATEFUL_SET, Json, Key
from local.kube.objects import controller_of, is_ready, with_condition
from local.kube.registry import Registry
from local.kube.selectors import selector_test
from local.kube.store import DELETED, Change, Stored

_FORGET_DISRUPTED = timedelta(minutes=2)
_BY_KIND = {kind.kind: kind for kind in (REPLICA_SET, STATEFUL_SET, DEPLOYMENT, DAEMON_SET, JOB)}


class Budgets:
    """Keeps the status of every budget right."""

    def __init__(self, registry: Registry) -> None:
        self._registry, self._store = registry, registry.store
        self._queue: WorkQueue[Key] = WorkQueue(registry.timeline, self._sync)
        self._store.subscribe(self._note)

    def _note(self, change: Change) -> None:
        new = change.new
        if new.kind is BUDGET and change.type != DELETED:
            self._queue.add(new.key)
        elif new.kind is POD and self._store.count(BUDGET):
            for budget in self._store.all(BUDGET, new.namespace):
                test = selector_test(budget.spec.get("selector"))
                if test(new.labels) or (change.old is not None and test(change.old.labels)):
                    self._queue.add(budget.key)
        elif new.kind in {REPLICA_SET, STATEFUL_SET, DEPLOYMENT} and self._store.count(BUDGET):
            for budget in self._store.all(BUDGET, new.namespace):
                self._queue.add(budget.key)

    def _sync(self, key: Key) -> None:
        budget = self._store.get(BUDGET, key)
        if budget is None:
            return
        test = selector_test(budget.spec.get("selector"))
        pods = [one for one in self._store.all(POD, budget.namespace) if test(one.labels)]
        disrupted = self._still_disrupted(budget, pods)
        healthy = sum(1 for one in pods if is_ready(one) and not one.terminating and one.name not in disrupted)
        expected, desired = self._wanted(budget.spec, pods)
        allowed = max(healthy - desired, 0) if expected > 0 else 0
        status = {
            **budget.status,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "disruptionsAllowed": allowed,
            "observedGeneration": budget.metadata.get("generation", 1),
        }
        status.pop("disruptedPods", None)
        if disrupted:
            status["disruptedPods"] = disrupted
        self._registry.set_status(budget, with_condition(status, _condition(allowed), self._store.now_text()))

    def _still_disrupted(self, budget: Stored, pods: list[Stored]) -> Json:
        """Evictions granted that the pods do not show yet; one that never happens is forgotten after two minutes."""
        alive = {one.name for one in pods if not one.terminating}
        now = self._registry.timeline.now()
        kept = {}
        for name, text in (budget.status.get("disruptedPods") or {}).items():
            if name in alive and datetime.fromisoformat(text) + _FORGET_DISRUPTED > now:
                kept[name] = text
                self._registry.timeline.call_later(
                    _FORGET_DISRUPTED.total_seconds(), lambda: self._queue.add(budget.key)
                )
        return kept

    def _wanted(self, spec: Json, pods: list[Stored]) -> tuple[int, int]:
        """Expected pods and desired healthy ones."""
        if "maxUnavailable" in spec:
            expected = self._scale(pods)
            return expected, max(expected - _part(spec["maxUnavailable"], expected), 0)
        minimum = spec.get("minAvailable", 1)
        if isinstance(minimum, int):
            return len(pods), minimum
        expected = self._scale(pods)
        return expected, _part(minimum, expected)

    def _scale(self, pods: list[Stored]) -> int:
        """The replicas that the pods' controllers are meant to have; pods without a controller do not count."""
        owners = {reference["uid"]: reference for pod in pods if (reference := controller_of(pod))}
        namespace = pods[0].namespace if pods else ""
        total = 0
        for reference in owners.values():
            kind = _BY_KIND.get(reference["kind"])
            owner = self._store.get(kind, (namespace, reference["name"])) if kind else None
            total += int(owner.spec.get("replicas", 0)) if owner is not None else 0
        return total


def _part(value: int | str, total: int) -> int:
    """A number, or a percentage of the total, rounded up."""
    if isinstance(value, int):
        return value
    return -(-int(value.removesuffix("%")) * total // 100)


def _condition(allowed: int) -> Json:
    word = ("True", "SufficientPods") if allowed > 0 else ("False", "InsufficientPods")
    return {"type": "DisruptionAllowed", "status": word[0], "reason": word[1], "message": ""}
