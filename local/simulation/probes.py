"""Which rare cases a campaign must have reached: a world that never meets them proves nothing about them."""

from __future__ import annotations

from collections import Counter

ENOUGH = 300  # worlds; fewer may miss a rare case by chance
MEDIAN_NODES = 10  # grown and retired, in the median world
MEDIAN_PODS = 40
_ARM = (
    "boot",
    "conflict",
    "denied",
    "failing",
    "hanging",
    "late",
    "leftover_disk",
    "leftover_nic",
    "lost",
    "occupied",
    "partial",
    "preempted",
    "provisioning",
    "refused",
    "shortage",
    "slow",
    "throttled",
    "touched",
    "undeleted",
    "unreached",
)
_CLUSTER = ("conflict", "expired", "failing", "lost", "outage", "stuck", "throttled", "unreached")
_NODES = (
    "finalized",
    "flapping",
    "gpus_after_restart",
    "late",
    "never",
    "recreated",
    "shrunken",
    "tainted",
    "without_gpus",
)
_EVENTS = ("delayed", "duplicated", "lost", "reordered")
_PLACES = ("arm", "blobs", "cluster", "journal")
_SAGAS = (
    "ask_agent_pool",
    "clear_agent_pool",
    "drain_node",
    "look_at_growth",
    "mend_nodes",
    "replace_evicted",
    "retire_node",
    "take_pool",
    "undo_growth",
)
_GIVEN_UP = ("grow_pool: capacity", "retire_node: busy", "retire_node: drain-timeout")
REQUIRED = frozenset(
    {
        "activity run twice",
        "administrator's cordon",
        "administrator's opt-out",
        "administrator's cordon at the same moment",
        "eviction refused by a budget",
        "spot eviction",
        "start answered twice",
        "volume attached",
        "volume bound late",
        "volume detached",
        "volume waits for a machine",
        *(f"arm.{kind}" for kind in _ARM),
        *(f"cluster.{kind}" for kind in _CLUSTER),
        *(f"nodes.{kind}" for kind in _NODES),
        *(f"events.{kind}" for kind in _EVENTS),
        *(f"crash {when} {place}" for when in ("before", "after") for place in _PLACES),
        *(f"ended {saga}" for saga in _SAGAS),
        *(f"ended {how}" for how in _GIVEN_UP),
    }
)


def never_reached(probes: Counter[str]) -> list[str]:
    """Those of them that no world has met."""
    return sorted(name for name in REQUIRED if not probes[name])
