"""Core quotas for planning: read from compute when pods wait and the last reading is old, one request per region.

A reading that fails holds up no plan: what is not known is not limited, and Azure has the last word anyway.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from functions.outcomes import Json, tell
from functions.world import LEFT_ALONE, World, budget_key, may_grow
from shared.adapters.errors import OutsideError, Throttled
from shared.model import Config, Pool, Snapshot, Usage
from shared.planning.quota import FRESH, SHORT, STALE, age_of, known_usages, refuses, usages_document

DONE = "quotas_read"  # in an order: there is nobody to ask
RECENT = timedelta(seconds=30)  # a reading this young is good enough for a write that comes close to a quota
_FAR = 4  # times what is asked for: with that much left a quota is not looked at again before a write


def refresh(
    world: World, config: Config, snapshot: Snapshot, order: Json, view: Json, now: datetime
) -> dict[str, float]:
    """Read the usages that a plan for waiting pods should know: an old reading is read anew, one that refuses somebody
    sooner, since quota may have been freed. Where ARM is throttling, {budget: seconds} says for how long; it is left
    alone meanwhile."""
    if not snapshot.pending or order.get(DONE):
        return {}
    refused = any(entry.get("quota") for entry in view.get("failures", ()))
    throttled: dict[str, float] = {}
    for key, pool in _regions(config).items():
        if world.is_throttled(key, order["now"]) or not _is_due(
            _stored(world, config, key), config, now, refused=refused
        ):
            continue
        try:
            _read(world, config, key, pool, now)
        except Throttled as error:
            throttled[key] = error.retry_after or LEFT_ALONE
            world.throttled(key, order["now"], throttled[key])
        except OutsideError as error:
            world.throttled(key, order["now"], LEFT_ALONE)
            tell("no quotas", cluster=config.cluster, budget=key, error=error.message)
    return throttled


def _read(world: World, config: Config, key: str, pool: Pool, now: datetime) -> None:
    """Read one region's usages, and keep what concerns the cluster's pools."""
    assert pool.azure is not None  # noqa: S101 - `_regions` has only such
    usages = world.compute_of(pool).usages(pool.azure.location)
    world.put_document(config.cluster, _document(key), usages_document(usages, config.pools, now))


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
    acting = [pool for pool in config.pools if may_grow(pool) and pool.azure]
    return {budget_key(pool): pool for pool in reversed(acting)}


def tightest(world: World, pool: Pool, add: int, now: datetime) -> Usage | None:
    """The quota that leaves room for the fewest nodes of the pool, if one leaves fewer than `add`.

    Whatever may matter is read anew: others use the same quota, and what Azure would refuse need not be asked for. One
    that was far from its limit a short while ago is not.
    """
    config, key = world.config(pool.cluster), budget_key(pool)
    if pool.azure is None or not pool.cores or key not in _regions(config):
        return None
    document = _stored(world, config, key)
    found = _tightest(document, pool)
    if age_of(document, now) > STALE or found is None or _room(found, pool) >= _FAR * add:
        return None
    if age_of(document, now) > RECENT and not world.is_throttled(key, now.isoformat()):
        try:
            _read(world, config, key, pool, now)
        except OutsideError as error:
            tell("no quotas", cluster=config.cluster, budget=key, error=error.message)
            return None
        found = _tightest(_stored(world, config, key), pool)
    return found if found is not None and _room(found, pool) < add else None


def room_under(usage: Usage | None, pool: Pool, add: int) -> int:
    """How many of `add` nodes the quota has room for."""
    return add if usage is None else _room(usage, pool)


def _room(usage: Usage, pool: Pool) -> int:
    return max(0, usage.limit - usage.used) // pool.cores


def _tightest(document: Json, pool: Pool) -> Usage | None:
    usages = (Usage(**entry) for entry in document.get("usages", ()))
    mine = (each for each in usages if pool.counts_against(each.subscription, each.location, each.name))
    return min(mine, key=lambda each: _room(each, pool), default=None)


def _stored(world: World, config: Config, key: str) -> Json:
    return world.document_or(config.cluster, _document(key), {})


def _document(key: str) -> str:
    return f"quotas/{key}.json"
