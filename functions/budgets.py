"""Nodes whose pods no PodDisruptionBudget lets go just now: nothing is bought so that such a node could give way."""

from __future__ import annotations

from collections.abc import Iterator

from functions.outcomes import Json, tell
from shared.adapters.errors import NotFound, Refused
from shared.adapters.protocols import ClusterApi
from shared.rules.pod_rules import matches_selector

BUDGETS = "/apis/policy/v1/poddisruptionbudgets"


def nodes_held(api: ClusterApi) -> dict[str, str] | None:
    """By node, which budget allows no disruption now; None where budgets may not be listed, so nobody knows."""
    try:
        budgets, _ = api.list(BUDGETS)
    except (Refused, NotFound) as error:
        tell("no right to list", resource="poddisruptionbudgets", error=error.message)
        return None
    shut = [budget for budget in budgets if not (budget.get("status") or {}).get("disruptionsAllowed")]
    return dict(_held(api, shut)) if shut else {}


def _held(api: ClusterApi, budgets: list[Json]) -> Iterator[tuple[str, str]]:
    for namespace in sorted({budget["metadata"]["namespace"] for budget in budgets}):
        pods, _ = api.list(f"/api/v1/namespaces/{namespace}/pods")
        for budget in budgets:
            meta, selector = budget["metadata"], budget["spec"].get("selector")
            if meta["namespace"] == namespace and selector is not None:
                why = f"PodDisruptionBudget: {namespace}/{meta['name']} allows no disruption now"
                yield from (
                    (pod["spec"]["nodeName"], why)
                    for pod in pods
                    if pod["spec"].get("nodeName") and matches_selector(selector, pod["metadata"].get("labels") or {})
                )
