"""Which pools need not be asked, since Azure has said for a day that their size is not to be had."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from local.arm.truth import Refusal
from local.checker.evidence import PoolFacts

NOT_OFFERED = frozenset({"SkuNotAvailable", "VMSizeNotSupported"})
"""Codes that say that a size is not offered at all. On demand that lasts, and karpenter-provider-azure waits 23 hours;
every other refusal is forgotten within the time that a world has to settle."""
MEMORY = timedelta(hours=23)


def shut_pools(refusals: Iterable[Refusal], pools: tuple[PoolFacts, ...], now: datetime) -> set[str]:
    """Names of on-demand pools whose size, or another pool's of the same size, was refused so."""
    sizes: set[str] = set()
    for refusal in refusals:
        if refusal.code in NOT_OFFERED and now - refusal.at < MEMORY:
            sizes.update(pool.sku or pool.name for pool in pools if not pool.spot and concerns(refusal, pool))
    return {pool.name for pool in pools if not pool.spot and (pool.sku or pool.name) in sizes}


def concerns(refusal: Refusal, pool: PoolFacts) -> bool:
    """Whether it was the pool's growth: a single VM is named after its pool's prefix."""
    name, resource = refusal.resource.lower(), pool.resource.lower()
    return name == resource or name.startswith(f"{resource}-")
