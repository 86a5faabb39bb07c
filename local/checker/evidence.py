"""What a verdict is made from, and who looks on while it happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from local.arm.quota import Quota
from local.arm.state import Vm
from local.arm.truth import Truth as ArmTruth
from local.kube.kinds import POD, Json
from local.kube.stand_in import KubernetesStandIn
from local.kube.store import Store
from local.kube.truth import BindingRecord, EvictionRecord
from local.kube.truth import Truth as ClusterTruth

OPT_OUTS = (
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
    ("karpenter.sh/do-not-disrupt", "true"),
)
"""Annotations by which a pod says that it must not be moved, by the documents of cluster-autoscaler and Karpenter."""

POOL_TAG = "sluice-pool"
MIRROR = "kubernetes.io/config.mirror"


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """A pool as its owner wrote it: amounts as the scheduler counts, taints as (key, value, effect)."""

    name: str
    resource: str
    minimum: int
    maximum: int
    allocatable: Mapping[str, int]
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[tuple[str, str, str], ...] = ()

    def holds(self, vm: Vm) -> bool:
        """Whether the VM is one of the pool's: by its scale set or agent pool, or by its tag where it stands alone."""
        if vm.scale_set is not None:
            return vm.resource.lower() == self.resource.lower()
        return vm.tags.get(POOL_TAG) == self.name


class Witness:
    """Notes, at the moment of a binding or an eviction, what the pod looked like: later nobody can tell."""

    def __init__(self, cluster: KubernetesStandIn) -> None:
        self._store = cluster.store
        self.attendants: set[str] = set()  # uids of DaemonSet and mirror pods: they go with their node
        self.against_opt_out: list[tuple[datetime, str, str]] = []  # (when, pod, annotation)
        cluster.truth.on_record(self._note)

    def _note(self, record: object) -> None:
        match record:
            case BindingRecord():
                pod = self._store.get(POD, record.pod)
                if pod is not None and _attends(pod.metadata):
                    self.attendants.add(record.uid)
            case EvictionRecord() if not record.refusal:
                pod = self._store.get(POD, (record.namespace, record.name))
                annotations = pod.annotations if pod is not None else {}
                for name, value in OPT_OUTS:
                    if annotations.get(name) == value:
                        self.against_opt_out.append((record.at, f"{record.namespace}/{record.name}", name))


def _attends(metadata: Json) -> bool:
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
    """Everything about a run. `pod_deletions`: pods that Sluice deleted without asking the eviction API."""

    cluster: ClusterTruth
    store: Store
    witness: Witness
    pod_deletions: tuple[str, ...] = ()
