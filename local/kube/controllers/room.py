"""A node as the scheduler sees it: what it offers, what is taken, and whether a pod may go there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from local.kube.controllers.needs import UNSCHEDULABLE_TAINT, Needs, PodPort, any_term, tolerates
from local.kube.kinds import Json
from local.kube.quantities import amount
from local.kube.store import Stored

_HARD = frozenset({"NoSchedule", "NoExecute"})
_LITTLE = {"cpu": 100, "memory": 200 * 1024 * 1024}  # what a pod without requests counts as when nodes are scored
_ANY_IP = "0.0.0.0"  # noqa: S104 - a host port without an address


class Room:
    """One node's room; `generation` grows whenever something may fit that did not before."""

    __slots__ = ("allocatable", "generation", "labels", "name", "pods", "ports", "taints", "unschedulable", "used")

    def __init__(self, name: str) -> None:
        self.name = name
        self.generation = 0
        self.labels: Mapping[str, str] = {}
        self.taints: list[Json] = []
        self.unschedulable = False
        self.allocatable: dict[str, int] = {}
        self.used: dict[str, int] = {}
        self.pods = 0
        self.ports: Counter[PodPort] = Counter()

    def refresh(self, node: Stored) -> bool:
        """Take over the Node's present state; whether it changed in a way that matters."""
        offered = node.status.get("allocatable") or node.status.get("capacity") or {}
        taints = [one for one in node.spec.get("taints") or () if one["effect"] in _HARD]
        state = (
            dict(node.labels),
            taints,
            bool(node.spec.get("unschedulable")),
            {name: amount(name, text) for name, text in offered.items()},
        )
        if state == (self.labels, self.taints, self.unschedulable, self.allocatable):
            return False
        self.labels, self.taints, self.unschedulable, self.allocatable = state
        return True

    def take(self, needs: Needs, sign: int = 1) -> None:
        """Account for a pod; with sign -1 give its room back."""
        for name, value in needs.requests.items():
            self.used[name] = self.used.get(name, 0) + sign * value
        self.pods += sign
        for port in needs.ports:
            self.ports[port] += sign

    def refusals(self, needs: Needs) -> list[str]:  # noqa: PLR0911 - one return per rule, in the scheduler's order
        """Why the pod cannot go here, as the scheduler says it: the first rule that refuses, every missing resource."""
        if self.unschedulable and not tolerates(needs.tolerations, _CORDONED):
            return ["node(s) were unschedulable"]
        if not all(tolerates(needs.tolerations, taint) for taint in self.taints):
            return ["node(s) had untolerated taint(s)"]
        if not self._selected(needs):
            return ["node(s) didn't match Pod's node affinity/selector"]
        if any(self._clashes(port) for port in needs.ports):
            return ["node(s) didn't have free ports for the requested pod ports"]
        if short := self._short(needs):
            return short
        if not all(any_term(terms, self.name, self.labels) for terms in needs.volumes):
            return ["node(s) didn't match PersistentVolume's node affinity"]
        return []

    def score(self, needs: Needs) -> float:
        """LeastAllocated over cpu and memory, 0 to 100: the emptier, the better."""
        total = 0.0
        for name, little in _LITTLE.items():
            offered = self.allocatable.get(name, 0)
            after = self.used.get(name, 0) + needs.requests.get(name, little)
            total += max(offered - after, 0) * 100.0 / offered if offered else 0.0
        return total / len(_LITTLE)

    def _selected(self, needs: Needs) -> bool:
        labels = self.labels
        if any(labels.get(name) != value for name, value in needs.selector.items()):
            return False
        return needs.alternatives is None or any_term(needs.alternatives, self.name, labels)

    def _short(self, needs: Needs) -> list[str]:
        reasons = ["Too many pods"] if self.pods + 1 > self.allocatable.get("pods", 0) else []
        for name, value in needs.requests.items():
            if value > self.allocatable.get(name, 0) - self.used.get(name, 0):
                reasons.append(f"Insufficient {name}")
        return reasons

    def _clashes(self, wanted: PodPort) -> bool:
        ip, protocol, number = wanted
        return any(
            count > 0 and (protocol, number) == (taken[1], taken[2]) and (ip == taken[0] or _ANY_IP in {ip, taken[0]})
            for taken, count in self.ports.items()
        )


_CORDONED: Json = {"key": UNSCHEDULABLE_TAINT, "effect": "NoSchedule"}
