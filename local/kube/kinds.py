"""The resources that the stand-in serves, and how each behaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
Key = tuple[str, str]  # namespace ("" for cluster-wide objects) and name


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One resource. `status`: has one that its main endpoint leaves alone; `generation`: counts changes of spec."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    status: bool = False
    generation: bool = False
    subresources: tuple[str, ...] = ()
    all_category: bool = False

    @property
    def api_version(self) -> str:
        """As in an object's apiVersion."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The resource as error messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def opening(self) -> bytes:
        """What stands before an object's own fields."""
        return f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'.encode()


_SCALE = ("scale",)

POD = Kind(
    "",
    "v1",
    "Pod",
    "pods",
    short=("po",),
    status=True,
    generation=True,
    subresources=("binding", "eviction"),
    all_category=True,
)
NODE = Kind("", "v1", "Node", "nodes", namespaced=False, short=("no",), status=True)
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", namespaced=False, short=("ns",), status=True)
EVENT = Kind("", "v1", "Event", "events", short=("ev",))
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps", short=("cm",))
SECRET = Kind("", "v1", "Secret", "secrets")
SERVICE = Kind("", "v1", "Service", "services", short=("svc",), status=True, all_category=True)
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts", short=("sa",))
VOLUME = Kind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False, short=("pv",), status=True)
CLAIM = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", short=("pvc",), status=True)
DEPLOYMENT = Kind(
    "apps",
    "v1",
    "Deployment",
    "deployments",
    short=("deploy",),
    status=True,
    generation=True,
    subresources=_SCALE,
    all_category=True,
)
REPLICA_SET = Kind(
    "apps",
    "v1",
    "ReplicaSet",
    "replicasets",
    short=("rs",),
    status=True,
    generation=True,
    subresources=_SCALE,
    all_category=True,
)
DAEMON_SET = Kind(
    "apps", "v1", "DaemonSet", "daemonsets", short=("ds",), status=True, generation=True, all_category=True
)
STATEFUL_SET = Kind(
    "apps",
    "v1",
    "StatefulSet",
    "statefulsets",
    short=("sts",),
    status=True,
    generation=True,
    subresources=_SCALE,
    all_category=True,
)
JOB = Kind("batch", "v1", "Job", "jobs", status=True, generation=True, all_category=True)
BUDGET = Kind(
    "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", short=("pdb",), status=True, generation=True
)
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")
ATTACHMENT = Kind("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", namespaced=False, status=True)
STORAGE_CLASS = Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False, short=("sc",))
CSI_NODE = Kind("storage.k8s.io", "v1", "CSINode", "csinodes", namespaced=False)
CSI_DRIVER = Kind("storage.k8s.io", "v1", "CSIDriver", "csidrivers", namespaced=False)
PRIORITY_CLASS = Kind(
    "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False, short=("pc",), generation=True
)

KINDS = (
    POD,
    NODE,
    NAMESPACE,
    EVENT,
    CONFIG_MAP,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    VOLUME,
    CLAIM,
    DEPLOYMENT,
    REPLICA_SET,
    DAEMON_SET,
    STATEFUL_SET,
    JOB,
    BUDGET,
    LEASE,
    ATTACHMENT,
    STORAGE_CLASS,
    CSI_NODE,
    CSI_DRIVER,
    PRIORITY_CLASS,
)
BY_PATH: Mapping[tuple[str, str, str], Kind] = {(kind.group, kind.version, kind.plural): kind for kind in KINDS}
OPENINGS: Mapping[Kind, bytes] = {kind: kind.opening for kind in KINDS}
