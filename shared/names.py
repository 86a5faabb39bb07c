"""The names that Sluice writes into clusters and subscriptions: one place, since other people's tools match on them."""

from __future__ import annotations

POOL_LABEL = "sluice.io/pool"
RETIRING_TAINT = "sluice.io/retiring"  # NoSchedule; its value is the operation's short id
STARTING_TAINT = "sluice.io/starting"  # NoSchedule; a pool's nodes may register with it, and Sluice lifts it
RETIRE_OPERATION_ANNOTATION = "sluice.io/retire-operation"  # present = the cordon is ours, not an administrator's
CORDONED_BEFORE_ANNOTATION = "sluice.io/cordoned-before"  # an administrator's cordon was there: undoing ours leaves it
EVICTING_AT_ANNOTATION = "sluice.io/evicting-at"  # RFC 3339; the node agent heard that Azure takes the VM away then

# What people write on pods that must start together, where no group object of a scheduler says it.
GANG_ANNOTATION = "sluice.io/gang"  # a name, within the namespace
GANG_MINIMUM_ANNOTATION = "sluice.io/gang-min-member"  # how many pods of the gang must start together
GANG_ROLE_ANNOTATION = "sluice.io/gang-role"  # optional: what the pod is in it (worker, ps)
GANG_ROLE_MINIMUM_ANNOTATION = "sluice.io/gang-role-min-member"  # how many pods of this pod's role must be among them

# What people write on a pod that must run to its end: its node waits for that, and nobody evicts the pod.
WAIT_FOR_COMPLETION_ANNOTATION = "sluice.io/wait-for-completion"  # "true"

CLUSTER_TAG = "sluice-cluster"
POOL_TAG = "sluice-pool"
OPERATION_TAG = "sluice-operation"

EVENT_SOURCE_PREFIX = "/sluice/"
PODS_UNSCHEDULABLE = "sluice.pods.unschedulable"
NODE_IDLE = "sluice.node.idle"
NODE_EVICTING = "sluice.node.evicting"
NODE_JOINED = "sluice.node.joined"
EVENT_TYPES = (PODS_UNSCHEDULABLE, NODE_IDLE, NODE_EVICTING, NODE_JOINED)

CONFIG_CONTAINER = "config"  # <cluster>.yaml
DEAD_LETTER_CONTAINER = "dead-letters"


API_DISCOVERY = "/api/v1"
"""What whoever is known to an API server may read of it, by the role system:discovery that every cluster has."""


def snapshot_container(cluster: str) -> str:
    """The container of a cluster's snapshots; a claim check may point nowhere else."""
    return f"snapshots-{cluster}"


def plan_container(cluster: str) -> str:
    """The container of a cluster's plans and verdicts."""
    return f"plans-{cluster}"
