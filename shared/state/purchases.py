"""Which nodes were bought for which classes of pods, and for which classes nothing is bought for now.

A node that came and does not take the pods that it was bought for would be bought again and again: the pods still wait,
and by all that the pools file says such a node would do. So what came is held against whom it was bought for
(`shared.planning.in_vain`), and the class has to pause: 5 minutes, twice as long with each time, an hour at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shared.state.ledger import ClusterLedger, after, passed

Json = dict[str, Any]

BOUGHT_LIMIT = 64  # nodes, the latest
VAIN_LIMIT = 32  # classes, the latest
FIRST_PAUSE = 300.0  # seconds
LONGEST_PAUSE = 3600.0
FORGOTTEN_AFTER = 7200.0  # seconds without another mistake, and the next one counts as the first
REASON_LENGTH = 200


def with_arrivals(
    bought: Mapping[str, Json], nodes: Iterable[str], classes: Iterable[str], now: str
) -> dict[str, Json]:
    """What was bought for whom, with these nodes (by pool and instance)."""
    fresh = {node: {"classes": list(classes), "at": now} for node in nodes if node not in bought}
    known = {**bought, **fresh} if classes else dict(bought)
    return dict(list(known.items())[-BOUGHT_LIMIT:])


def keep_judgement(ledger: ClusterLedger, judged: Json, now: str) -> None:
    """What a plan found: `seen` {node: {class: [since, pod]}} is all that looks like a mistake just now, `vain`
    {class: reason} what surely is one."""
    seen, vain = judged.get("seen", {}), judged.get("vain", {})
    for node, entry in ledger.bought.items():
        entry.pop("seen", None)
        if node in seen:
            entry["seen"] = seen[node]
        entry["classes"] = [each for each in entry["classes"] if each not in vain]
    ledger.bought = {node: entry for node, entry in ledger.bought.items() if entry["classes"]}
    for each, reason in vain.items():
        _pause(ledger, each, reason, now)


def forget_purchases(ledger: ClusterLedger, now: str) -> None:
    """Drop what time has ended."""
    ledger.vain = {
        each: entry for each, entry in ledger.vain.items() if not passed(after(entry["until"], FORGOTTEN_AFTER), now)
    }
    ledger.bought = {
        node: entry for node, entry in ledger.bought.items() if not passed(after(entry["at"], FORGOTTEN_AFTER), now)
    }


def _pause(ledger: ClusterLedger, each: str, reason: str, now: str) -> None:
    known = ledger.vain.pop(each, None)
    if known is not None and passed(after(known["until"], FORGOTTEN_AFTER), now):
        known = None
    if known is not None and not passed(known["until"], now):
        ledger.vain[each] = known
        return
    times = known["times"] + 1 if known is not None else 1
    seconds = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(times - 1, 8))
    ledger.vain[each] = {"until": after(now, seconds), "times": times, "reason": reason[:REASON_LENGTH]}
    ledger.vain = dict(list(ledger.vain.items())[-VAIN_LIMIT:])
