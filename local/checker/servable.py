"""Whether an empty node of a pool could take a pod: asked of the stand-in's scheduler, which shares nothing with the
planner. A pod that uses a rule which this scheduler does not know is never said to fit: nobody is accused by guess.
"""

from __future__ import annotations

from local.checker.evidence import PoolFacts
from local.kube.controllers.needs import needs_of
from local.kube.controllers.room import Room
from local.kube.store import Store, Stored


def fits(store: Store, pod: Stored, pool: PoolFacts) -> bool:
    """On a node that carries nothing yet."""
    needs = needs_of(store, pod)
    room = Room(f"a node of {pool.name}")
    room.labels = pool.labels
    room.taints = [{"key": key, "value": value, "effect": effect} for key, value, effect in pool.taints]
    room.allocatable = dict(pool.allocatable)
    return not needs.unknown and not room.refusals(needs)
