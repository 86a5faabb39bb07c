"""The function app: every blueprint, made for one set of services, so that several apps can live in one process."""

from __future__ import annotations

from functions import (
    admission,
    agent_pools,
    drains,
    entities,
    evictions,
    examining,
    explanations,
    histories,
    housekeeping,
    ingest,
    leftovers,
    levers,
    maintenance,
    opening,
    operations,
    planning,
    pools,
    removals,
    resuming,
    retirement_steps,
    sagas,
    status,
)
from functions.durable import Untyped, new_app
from functions.services import Services
from functions.world import World


def create_app(services: Services) -> Untyped:
    """All functions of Sluice on these services."""
    world = World(services)
    return new_app(
        [
            ingest.registry(world),
            admission.registry(),
            planning.registry(world),
            opening.registry(world),
            sagas.registry(),
            resuming.registry(),
            operations.registry(world),
            pools.registry(world),
            agent_pools.registry(world),
            retirement_steps.registry(world),
            drains.registry(world),
            removals.registry(world),
            evictions.registry(world),
            maintenance.registry(world),
            leftovers.registry(world),
            housekeeping.registry(world),
            entities.registry(),
            status.registry(world),
            levers.registry(world),
            histories.registry(world),
            explanations.registry(world),
            examining.registry(world),
        ]
    )
