"""Clusters of one subscription and region share its request budget: what Azure tells one, all of them heed."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from local.arm.faults import Fault
from tests.orchestrations.stage import POOLS, Stage

BUDGET = "00000000-0000-0000-0000-000000000001-westeurope"


def two_clusters() -> Stage:
    """A second pools file in the same app, whose pools are the same scale sets: only the ledgers differ."""
    stage = Stage()
    text = POOLS.replace("cluster: training", "cluster: serving")
    stage.store.put("config", "serving.yaml", text.encode())
    return stage


def grow(stage: Stage, cluster: str, pool: str = "spot") -> str:
    """Begin a growth as the cluster's plan does: an entry in its ledger, and the saga."""
    op, now = f"op-{cluster}-{pool}", stage.timeline.now().isoformat()
    lead = {"now": now, "event": "e", "holder": "h", "lease": 60.0, "force": True}
    wish: dict[str, Any] = {"op": op, "pool": pool, "add": 1, "kind": "vmss", "budget": BUDGET, "zones": [], "why": ""}
    stage.host.signal("cluster", cluster, "record", lead)
    begin = {"now": now, "holder": "h", "growths": [wish], "limit": 1, "spare": {}, "join_timeout": 900.0}
    stage.host.signal("cluster", cluster, "begin", begin)
    stage.run(0.5)
    stage.host.client_start("grow_pool", {**wish, "cluster": cluster, "join_timeout": 900.0}, f"grow:{op}")
    return op


def writes(stage: Stage) -> int:
    return sum(method == "PATCH" for method, _ in stage.arm.writes)


def test_retry_after_heard_by_one_cluster_holds_for_the_other() -> None:
    stage = two_clusters()
    fault = Fault("scale_set.update", "spot", code="TooManyRequests", status=429, retry_after=90, times=1)
    stage.stand.arm.faults.add(fault)
    grow(stage, "training")
    stage.run(3)
    assert writes(stage) == 1
    heard = stage.timeline.now()
    grow(stage, "serving", "regular")
    stage.run(80)
    assert writes(stage) == 1
    stage.run(60)
    assert writes(stage) == 3
    shut = datetime.fromisoformat(stage.host.entity("request_budget", BUDGET)["shut_until"])
    assert 80 <= (shut - heard).total_seconds() <= 90


def test_without_a_refusal_neither_waits_for_the_other() -> None:
    stage = two_clusters()
    grow(stage, "training")
    grow(stage, "serving", "regular")
    stage.run(5)
    assert writes(stage) == 2


def test_what_one_cluster_draws_is_gone_for_the_other() -> None:
    stage = two_clusters()
    grow(stage, "training")
    stage.run(1)
    once = stage.host.entity("request_budget", BUDGET)["tokens"]
    grow(stage, "serving", "regular")
    stage.run(1)
    assert stage.host.entity("request_budget", BUDGET)["tokens"] < once


def test_a_sweep_waits_while_the_budget_is_shut() -> None:
    stage = Stage(timers=True)
    now = stage.timeline.now().isoformat()
    stage.host.signal("request_budget", BUDGET, "throttled", {"now": now, "retry_after": 300.0})
    stage.run(1)
    stage.host.client_start("reconcile", {"cluster": "training", "budgets": [BUDGET]}, "sweep")
    stage.arm.requests = 0
    stage.run(280)
    assert stage.arm.requests == 0
    stage.run(60)
    assert stage.arm.requests > 0


def test_every_sweep_knows_whose_requests_it_uses() -> None:
    stage = Stage(timers=True)
    stage.run(301)
    (sweep,) = stage.orchestrations("reconcile")
    assert sweep.input == {"cluster": "training", "budgets": [BUDGET]}
