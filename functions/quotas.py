"""Core quotas for planning: read from compute when pods wait and the last reading is old, one request per region.

A reading that fails holds up no plan: what is not known is not limited, and Azure has the last word anyway.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from functions.durable import Json, Orchestration, Registry, Steps, budget_entity
from functions.waiting import clock, once
from functions.world import World, budget_key, may_grow
from shared.model import Config, Pool, PoolKind, Snapshot, Usage
from shared.planning.quota import FRESH, SHORT, age_of, known_usages, refuses, usages_document
from shared.state.ledger import moment

DONE = "quotas_read"  # in an order: there was a try already


def due(world: World, config: Config, snapshot: Snapshot, order: Json, view: Json, now: datetime) -> list[str]:
    """The budgets (a subscription's region each) whose usages are to be read before a plan is made: an old reading is
    read anew, one that refuses somebody sooner, since quota may have been freed."""
    if not snapshot.pending or order.get(DONE):
        return []
    refused = any(entry.get("quota") for entry in view.get("failures", ()))
    return [key for key in _regions(config) if _is_due(_stored(world, config, key), config, now, refused=refused)]


def _is_due(document: Json, config: Config, now: datetime, *, refused: bool) -> bool:
    age = age_of(document, now)
    return age > FRESH or (age > SHORT and (refused or refuses(document, config.pools)))


def known(world: World, config: Config, view: Json, now: datetime) -> tuple[Usage, ...]:
    """What is known of the quotas, with what was asked for since."""
    return tuple(usage for key in _regions(config) for usage in _known_of(world, config, key, view, now))


def _known_of(world: World, config: Config, key: str, view: Json, now: datetime) -> Iterator[Usage]:
    return known_usages(_stored(world, config, key), view.get("growths", {}).values(), config.pools, now)


def _regions(config: Config) -> dict[str, Pool]:
    """A pool of each subscription and region in which nodes may be bought."""
    acting = [pool for pool in config.pools if may_grow(pool) and pool.azure and pool.kind is not PoolKind.AKS]
    return {budget_key(pool): pool for pool in reversed(acting)}


def _stored(world: World, config: Config, key: str) -> Json:
    return world.document_or(config.cluster, _document(key), {})


def _document(key: str) -> str:
    return f"quotas/{key}.json"


def read_usages(world: World, order: Json) -> Json:
    """{cluster, budget}: read one region's usages, and keep what concerns the cluster's pools."""
    config = world.config(order["cluster"])
    pool = _regions(config).get(order["budget"])
    if pool is None or pool.azure is None:
        return {}
    usages = world.compute_of(pool).usages(pool.azure.location)
    document = usages_document(usages, config.pools, moment(order["now"]))
    world.put_document(config.cluster, _document(order["budget"]), document)
    return {}


def refreshed(context: Orchestration, order: Json, budgets: list[str]) -> Steps[None]:
    """Read each region's usages, where the request budget has something left: a plan does not wait for that."""
    for budget in budgets:
        message = {"now": clock(context), "amount": 1, "urgent": True}
        answer: Json = yield context.call_entity(budget_entity(budget), "draw", message)
        if not answer["wait"]:
            yield from once(context, "read_usages", {"cluster": order["cluster"], "budget": budget})


def registry(world: World) -> Registry:
    """The activity that reads usages."""
    made = Registry()
    made.activity(world, read_usages)
    return made
