"""PodDisruptionBudgets: how many of their pods may go just now.

Source: pkg/controller/disruption/disruption.go of Kubernetes 1.36.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from local.kube.controllers.work import WorkQueue
from local.kube.kinds import BUDGET, DAEMON_SET, DEPLOYMENT, JOB, POD, REPLICA_SET, STATEFUL_SET, Json, Key
from local.kube.objects import controller_of, is_ready, with_condition
from local.kube.registry import Registry
from local.kube.selectors import Test, selector_test
from local.kube.store import DELETED, Change, Stored

_FORGET_DISRUPTED = timedelta(minutes=2)
_SCALED = frozenset({REPLICA_SET, STATEFUL_SET, DEPLOYMENT})
_BY_KIND = {kind.kind: kind for kind in (REPLICA_SET, STATEFUL_SET, DEPLOYMENT, DAEMON_SET, JOB)}


class Budgets:
    """Keeps the status of every budget right, and counts as pods change rather than over and over."""

    def __init__(self, registry: Registry) -> None:
        self._registry, self._store = registry, registry.store
        self._members: dict[Key, _Members] = {}
        self._queue: WorkQueue[Key] = WorkQueue(registry.timeline, self._sync)
        self._store.subscribe(self._note)

    def _note(self, change: Change) -> None:
        kind = change.new.kind
        if kind is BUDGET:
            self._note_budget(change)
        elif kind is POD:
            for key, members in self._members.items():
                if key[0] == change.new.namespace and members.note(change):
                    self._queue.add(key)
        elif kind in _SCALED:
            for key in self._members:
                if key[0] == change.new.namespace:
                    self._queue.add(key)

    def _note_budget(self, change: Change) -> None:
        budget = change.new
        if change.type == DELETED:
            self._members.pop(budget.key, None)
            return
        if change.old is None or change.old.spec != budget.spec:
            pods = self._store.all(POD, budget.namespace)
            self._members[budget.key] = _Members(selector_test(budget.spec.get("selector")), pods)
        self._queue.add(budget.key)

    def _sync(self, key: Key) -> None:
        budget = self._store.get(BUDGET, key)
        if budget is None:
            return
        members = self._members[key]
        disrupted = self._still_disrupted(budget, members)
        healthy = members.healthy - sum(1 for name in disrupted if members.pods[budget.namespace, name])
        expected, desired = self._wanted(budget.spec, members)
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

    def _still_disrupted(self, budget: Stored, members: _Members) -> Json:
        """Evictions granted that the pods do not show yet; one that never happens is forgotten after two minutes."""
        now, kept = self._registry.timeline.now(), {}
        for name, text in (budget.status.get("disruptedPods") or {}).items():
            pod = self._store.get(POD, (budget.namespace, name))
            expired = datetime.fromisoformat(text) + _FORGET_DISRUPTED <= now
            if pod is not None and pod.key in members.pods and not pod.terminating and not expired:
                kept[name] = text
                self._registry.timeline.call_later(
                    _FORGET_DISRUPTED.total_seconds(), lambda: self._queue.add(budget.key)
                )
        return kept

    def _wanted(self, spec: Json, members: _Members) -> tuple[int, int]:
        """Expected pods and desired healthy ones."""
        if "maxUnavailable" in spec:
            expected = self._scale(members)
            return expected, max(expected - _part(spec["maxUnavailable"], expected), 0)
        minimum = spec.get("minAvailable", 1)
        if isinstance(minimum, int):
            return len(members.pods), minimum
        expected = self._scale(members)
        return expected, _part(minimum, expected)

    def _scale(self, members: _Members) -> int:
        """The replicas that the pods' controllers are meant to have; pods without a controller do not count."""
        pods = [one for key in members.pods if (one := self._store.get(POD, key)) is not None]
        owners = {reference["uid"]: (one.namespace, reference) for one in pods if (reference := controller_of(one))}
        total = 0
        for namespace, reference in owners.values():
            kind = _BY_KIND.get(reference["kind"])
            owner = self._store.get(kind, (namespace, reference["name"])) if kind else None
            total += int(owner.spec.get("replicas", 0)) if owner is not None else 0
        return total


class _Members:
    """The pods under one budget, each with whether it is healthy, and how many are."""

    def __init__(self, test: Test, pods: list[Stored]) -> None:
        self._test = test
        self.pods: dict[Key, bool] = {one.key: _is_healthy(one) for one in pods if test(one.labels)}
        self.healthy = sum(self.pods.values())

    def note(self, change: Change) -> bool:
        """Take a pod's change over; whether it concerns the budget."""
        pod, was = change.new, self.pods.get(change.new.key)
        now = _is_healthy(pod) if change.type != DELETED and self._test(pod.labels) else None
        if now is None:
            self.pods.pop(pod.key, None)
        else:
            self.pods[pod.key] = now
        self.healthy += bool(now) - bool(was)
        return now != was or (now is not None and pod.terminating)


def _is_healthy(pod: Stored) -> bool:
    return is_ready(pod) and not pod.terminating


def _part(value: int | str, total: int) -> int:
    """A number, or a percentage of the total, rounded up."""
    if isinstance(value, int):
        return value
    return -(-int(value.removesuffix("%")) * total // 100)


def _condition(allowed: int) -> Json:
    word = ("True", "SufficientPods") if allowed > 0 else ("False", "InsufficientPods")
    return {"type": "DisruptionAllowed", "status": word[0], "reason": word[1], "message": ""}
