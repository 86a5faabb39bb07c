"""What the functions do in a cluster, right by right: the Helm chart grants exactly these (a test holds the two equal),
and `sluice doctor` asks the API server for each of them."""

from __future__ import annotations

from dataclasses import dataclass

VOLUMES, GANGS = "volumes", "gangs"
POD_GROUPS = ("scheduling.k8s.io", "scheduling.x-k8s.io", "scheduling.volcano.sh")


@dataclass(frozen=True, slots=True)
class ClusterRight:
    """One verb on one kind of object, in every namespace. `without`: what does not work when it is missing. `part`:
    the value of the chart that grants it, "" where it always does."""

    verb: str
    group: str
    resource: str
    without: str
    part: str = ""


NEEDED = (
    ClusterRight("get", "", "pods", "pods cannot be read again before anything is done for them"),
    ClusterRight("list", "", "pods", "nodes cannot be drained, and the cluster cannot be surveyed"),
    ClusterRight("get", "", "nodes", "nodes cannot be looked at before they go"),
    ClusterRight("list", "", "nodes", "the cluster cannot be surveyed"),
    ClusterRight("patch", "", "nodes", "nodes can be neither cordoned nor opened"),
    ClusterRight("delete", "", "nodes", "Node objects stay behind when their VMs are gone"),
    ClusterRight("create", "", "pods/eviction", "nodes cannot be drained"),
    ClusterRight("list", "apps", "daemonsets", "what will sit on a new node is not known"),
    ClusterRight("list", "storage.k8s.io", "volumeattachments", "no node with volumes can be deleted safely"),
    ClusterRight("patch", "", "pods/status", "pods are not told the node that was bought for them"),
    ClusterRight("list", "policy", "poddisruptionbudgets", "no node is exchanged for a cheaper one"),
    ClusterRight("list", "", "persistentvolumeclaims", "pods with volumes are not served", VOLUMES),
    ClusterRight("list", "", "persistentvolumes", "pods with volumes are not served", VOLUMES),
    ClusterRight("list", "storage.k8s.io", "storageclasses", "pods with volumes are not served", VOLUMES),
    ClusterRight("list", "storage.k8s.io", "csinodes", "pods with volumes are not served", VOLUMES),
    ClusterRight("list", "storage.k8s.io", "csidrivers", "pods with volumes are not served", VOLUMES),
    *(ClusterRight("list", group, "podgroups", "groups of pods are not seen as such", GANGS) for group in POD_GROUPS),
)
