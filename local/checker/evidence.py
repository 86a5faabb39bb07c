"""What a verdict is made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from local.arm.quota import Quota
from local.arm.state import Vm
from local.arm.truth import Truth as ArmTruth
from local.kube.kinds import Json
from local.kube.store import Store
from local.kube.truth import Truth as ClusterTruth

OPT_OUTS = (
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
    ("karpenter.sh/do-not-disrupt", "true"),
)
"""Annotations by which a pod says that it must not be moved, by the documents of cluster-autoscaler and Karpenter."""

POOL_TAG = "sluice-pool"
CLUSTER_TAG = "sluice-cluster"
NODE_OPT_OUTS = (
    ("cluster-autoscaler.kubernetes.io/scale-down-disabled", "true"),
    ("karpenter.sh/do-not-disrupt", "true"),
)
"""Annotations by which a node says that it must not be taken away for being idle."""
MIRROR = "kubernetes.io/config.mirror"


def opt_out(annotations: Mapping[str, str], words: Iterable[tuple[str, str]]) -> str:
    """The first of these annotations that is there with its value, or ""."""
    return next((name for name, value in words if annotations.get(name) == value), "")


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """A pool as its owner wrote it: amounts as the scheduler counts, taints as (key, value, effect).

    `headroom`: nodes kept free of pods. `acts`: whether anything may be bought for it at all.
    """

    name: str
    resource: str
    minimum: int
    maximum: int
    allocatable: Mapping[str, int]
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[tuple[str, str, str], ...] = ()
    cluster: str = ""
    sku: str = ""
    spot: bool = False
    headroom: int = 0
    acts: bool = True

    def holds(self, vm: Vm) -> bool:
        """Whether the VM is one of the pool's: by its scale set or agent pool, or by its tag where it stands alone."""
        if vm.scale_set is not None:
            return vm.resource.lower() == self.resource.lower()
        ours = not self.cluster or vm.tags.get(CLUSTER_TAG, self.cluster) == self.cluster
        return ours and vm.tags.get(POOL_TAG) == self.name


def attends(metadata: Json) -> bool:
    """Whether a pod goes with its node: a DaemonSet's, or a static one."""
    owners = {owner.get("kind") for owner in metadata.get("ownerReferences") or ()}
    return bool(owners & {"DaemonSet", "Node"}) or MIRROR in (metadata.get("annotations") or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureEvidence:
    """What can be told of a run without looking into its cluster: enough where the cluster is a real one.

    `quota` knows the cores that the subscription may have. `orchestrations` are those that have not ended or that
    failed, `host` the rules that they broke, `dead_letters` the events nobody could take: in words, with their ids.
    """

    begun: datetime
    now: datetime
    arm: ArmTruth
    pools: tuple[PoolFacts, ...]
    quota: Quota
    orchestrations: tuple[str, ...] = ()
    host: tuple[str, ...] = ()
    dead_letters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence(AzureEvidence):
    """Everything about a run; `seen` is what a `Watch` saw while it went on, `events` those of which nothing came."""

    cluster: ClusterTruth
    store: Store
    seen: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
