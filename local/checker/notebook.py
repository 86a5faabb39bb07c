"""What the rules that look on share: where violations are written down, and what the outside looks like just now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from local.arm.state import Vm
from local.checker.evidence import CLUSTER_TAG, PoolFacts, attends
from local.kube.kinds import NODE
from local.kube.objects import is_finished, is_true
from local.kube.store import Store, Stored
from local.timeline import Timeline


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

    def working_on(self, node: str) -> list[Stored]:
        """Pods that would lose their work with the node: those of DaemonSets and static ones go with it anyway."""
        return [pod for pod in self.store.pods_on(node) if not is_finished(pod) and not attends(pod.metadata)]

    def is_ready(self, node: str) -> bool:
        """Whether the node's kubelet says so."""
        found = self.store.get(NODE, ("", node))
        return found is not None and is_true(found, "Ready")


def some(names: list[str]) -> str:
    """The first of them, and how many more there are."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
