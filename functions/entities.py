"""The two entities: thin shells around pure state machines."""

from __future__ import annotations

from functions.durable import CLUSTER, REQUEST_BUDGET, Registry
from shared.state import operations, request_budget


def registry() -> Registry:
    """`cluster` (key: the cluster's name) and `request_budget` (key: subscription-region, shared by all clusters)."""
    made = Registry()
    made.entity(CLUSTER, operations.apply)
    made.entity(REQUEST_BUDGET, request_budget.apply)
    return made
