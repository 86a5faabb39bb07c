"""Core quotas: how many vCPUs of a family, of a region and of Spot are left for which pools.

Spot VMs count against `lowPriorityCores` alone, others against their family and the regional total `cores` (Microsoft
Learn, "Check vCPU quotas"). What no usage names is not limited: a reading that fails must not stop anybody's growth,
Azure itself has the last word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from shared.model import FailureMemory, Pool, Usage, folded
from shared.packing.allowance import JointLimit

Json = dict[str, Any]

FRESH = timedelta(minutes=5)  # a reading this young is good enough for any plan
SHORT = timedelta(minutes=1)  # but one that refuses somebody is asked for anew: quota may have been freed
LAG = timedelta(minutes=1)
STALE = timedelta(minutes=15)  # an older one says too little to refuse anybody by
_WRITE_SOON = timedelta(minutes=2)  # between the decision and the write, and until Azure counts what was asked for


@dataclass(frozen=True, slots=True)
class QuotaLimit:
    """A quota as a limit on what may be bought; `limit.costs` are in the order of the pools it was made for."""

    usage: Usage
    limit: JointLimit

    def refusal(self, pool: int, bought: Sequence[int]) -> str:
        """Why not one more node of that pool, once these were bought; "" if there is quota for it."""
        cost = self.limit.costs[pool]
        left = self.limit.left - sum(c * n for c, n in zip(self.limit.costs, bought, strict=True))
        if cost <= max(0, left):
            return ""
        of = f"{max(0, left)} of {self.usage.limit} vCPUs left"
        return f"QuotaExceeded: {self.usage.name} {of} are short of the {cost} of a node"


def quota_limits(pools: Sequence[Pool], usages: Iterable[Usage]) -> list[QuotaLimit]:
    """The quotas that concern any of these pools."""
    found = []
    for usage in usages:
        costs = tuple(pool.cores if _concerns(usage, pool) else 0 for pool in pools)
        if any(costs):
            found.append(QuotaLimit(usage, JointLimit(costs, max(0, usage.limit - usage.used))))
    return found


def _concerns(usage: Usage, pool: Pool) -> bool:
    return pool.counts_against(usage.subscription, usage.location, usage.name)


def with_refusals(usages: Iterable[Usage], failures: Iterable[FailureMemory], now: datetime) -> list[Usage]:
    """The usages, with what Azure said of a quota when it refused: that is a reading too, until a newer one is there.

    A reading of the same minute is none: compute's own list lags behind its refusals.
    """
    found = {_key(usage.subscription, usage.location, usage.name): usage for usage in usages}
    for failure in failures:
        if not failure.quota or failure.numbers is None or failure.since is None or failure.until <= now:
            continue
        key = _key(failure.subscription, failure.location, failure.quota)
        known = found.get(key)
        if known is None or known.read_at is None or known.read_at < failure.since + LAG:
            limit, used = failure.numbers
            found[key] = Usage(failure.subscription, failure.location, failure.quota, used, limit, failure.since)
    return list(found.values())


def _key(subscription: str, location: str, name: str) -> tuple[str, str, str]:
    return folded(subscription), folded(location), folded(name)


def usages_document(usages: Iterable[Usage], pools: Sequence[Pool], now: datetime) -> Json:
    """A reading as it is stored, without what none of the pools uses."""
    return {
        "read_at": now.isoformat(),
        "usages": [
            {
                "subscription": usage.subscription,
                "location": usage.location,
                "name": usage.name,
                "used": usage.used,
                "limit": usage.limit,
            }
            for usage in usages
            if any(_concerns(usage, pool) for pool in pools)
        ],
    }


def refuses(document: Mapping[str, Any], pools: Sequence[Pool]) -> bool:
    """Whether a stored reading leaves some pool not even one node."""
    usages = [Usage(**entry) for entry in document.get("usages", ())]
    return any(_concerns(usage, pool) and usage.limit - usage.used < pool.cores for usage in usages for pool in pools)


def age_of(document: Mapping[str, Any], now: datetime) -> timedelta:
    """How old a stored reading is; more than any age that counts if there is none."""
    read_at = document.get("read_at")
    return now - datetime.fromisoformat(read_at) if read_at else timedelta.max


def known_usages(
    document: Mapping[str, Any], growths: Iterable[Mapping[str, Any]], pools: Sequence[Pool], now: datetime
) -> Iterator[Usage]:
    """The usages of a stored reading, with the nodes added that were asked for too late to be counted in it.

    `growths` are the ledger's entries (pool, add, asked). One that was decided shortly before the reading counts twice
    rather than never: the next reading mends it.
    """
    if age_of(document, now) > STALE:
        return
    since = datetime.fromisoformat(document["read_at"]) - _WRITE_SOON
    asked: dict[str, int] = {}
    for growth in growths:
        if datetime.fromisoformat(growth["asked"]) >= since:
            asked[growth["pool"]] = asked.get(growth["pool"], 0) + growth["add"]
    for entry in document["usages"]:
        usage = Usage(**entry)
        more = sum(asked.get(pool.name, 0) * pool.cores for pool in pools if _concerns(usage, pool))
        yield replace(usage, used=usage.used + more, read_at=datetime.fromisoformat(document["read_at"]))
