"""What the rules that look on share: where violations are written down, and what the outside looks like just now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from local.arm.state import Vm
from local.checker.evidence import CLUSTER_TAG, PoolFacts, attends
from local.kube.kinds import ATTACHMENT, NODE
from local.kube.objects import is_finished, is_true
from local.kube.store import Store, Stored
from local.timeline import Timeline

HANDS_OFF = frozenset({"observe", "paused"})


@dataclass(slots=True)
class Notebook:
    """`actor` is who writes to the cluster at this moment, "" for everybody but Sluice."""

    timeline: Timeline
    begun: datetime
    store: Store
    pools: tuple[PoolFacts, ...]
    actor: str = ""
    violations: dict[str, None] = field(default_factory=dict)
    machines: dict[str, Vm] = field(default_factory=dict)
    """Our VMs that exist, by their node's name."""
    taken: set[str] = field(default_factory=set)
    """Names of nodes whose VM Azure took away, until another has the name."""
    modes: dict[str, str] = field(default_factory=dict)
    """How far Sluice may go in each pool by now, as its owner wrote it."""
    share: float = 1.0
    """Of the cluster's nodes, how many may be emptied at once."""
    ours: set[str] = field(default_factory=set)
    """Ids of all VMs that were ever ours, in lower case."""

    def note(self, rule: str, words: str) -> None:
        """A rule was broken just now."""
        seconds = (self.timeline.now() - self.begun).total_seconds()
        self.violations[f"t={seconds:.1f}s {rule}: {words}"] = None

    @contextmanager
    def acting(self, who: str) -> Iterator[None]:
        """Whatever is written inside is this one's doing."""
        before, self.actor = self.actor, who
        try:
            yield
        finally:
            self.actor = before

    def pool_of(self, vm: Vm) -> PoolFacts | None:
        """The pool that the VM belongs to."""
        return next((pool for pool in self.pools if pool.holds(vm)), None)

    def is_ours(self, tags: dict[str, str], name: str) -> bool:
        """Whether a resource is named in the pools file, or tagged with the cluster."""
        lowered = name.lower()
        named = any(pool.resource.lower() == lowered for pool in self.pools)
        return named or any(pool.cluster and tags.get(CLUSTER_TAG) == pool.cluster for pool in self.pools)

    def refuse_hands_on(self, pool: PoolFacts | None, words: str) -> None:
        """Sluice writes though the owner has taken its hands off the pool."""
        mode = self.modes.get(pool.name, "act") if pool is not None else "act"
        if self.actor and mode in HANDS_OFF:
            self.note("hands-off", f"{words} in mode {mode}")

    def working_on(self, node: str) -> list[Stored]:
        """Pods that would lose their work with the node: those of DaemonSets and static ones go with it anyway."""
        return [pod for pod in self.store.pods_on(node) if not is_finished(pod) and not attends(pod.metadata)]

    def volumes_on(self, node: str) -> list[str]:
        """The volumes that Kubernetes still holds for attached to the node."""
        return [each.name for each in self.store.all(ATTACHMENT) if each.spec.get("nodeName") == node]

    def is_ready(self, node: str) -> bool:
        """Whether the node's kubelet says so."""
        found = self.store.get(NODE, ("", node))
        return found is not None and is_true(found, "Ready")


def some(names: list[str]) -> str:
    """The first of them, and how many more there are."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
