"""Whether an empty node of a pool could take a pod: asked of the stand-in's scheduler, which shares nothing with the
planner. A pod that uses a rule which this scheduler does not know is never said to fit: nobody is accused by guess.
"""

from __future__ import annotations

from collections.abc import Mapping

from local.checker.evidence import PoolFacts
from local.kube.controllers.needs import Needs, needs_of
from local.kube.controllers.room import Room
from local.kube.store import Store, Stored


def fits(store: Store, pod: Stored, pool: PoolFacts) -> bool:
    """On a node that carries nothing yet."""
    needs = needs_of(store, pod)
    return not needs.unknown and takes(needs, pool)


def takes(needs: Needs, pool: PoolFacts) -> bool:
    """Whether what the scheduler knows speaks against it."""
    room = Room(f"a node of {pool.name}")
    room.labels = pool.labels
    room.taints = [{"key": key, "value": value, "effect": effect} for key, value, effect in pool.taints]
    room.allocatable = dict(pool.allocatable)
    return not room.refusals(needs)


def offers(allocatable: Mapping[str, int], overhead: Mapping[str, int]) -> dict[str, int]:
    """What is left of a node for pods that are not on every node."""
    return {name: value - overhead.get(name, 0) for name, value in allocatable.items()}
