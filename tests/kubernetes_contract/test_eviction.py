"""The Eviction API and its budgets: what a drain goes through."""

from __future__ import annotations

import pytest

from shared.adapters.errors import NotFound, StaleWrite, Throttled
from tests.kubernetes_contract.targets import (
    BUDGETS,
    DEPLOYMENTS,
    NODES,
    PODS,
    Target,
    budget,
    condition,
    deployment,
    is_ready,
    node,
    pod,
)


def _running(cluster: Target, *names: str, app: str = "a") -> list[dict]:
    cluster.api.create(NODES, node("n"))
    for name in names:
        cluster.api.create(PODS, pod(name, "100m", labels={"app": app}))
    return [
        cluster.until(lambda name=name: is_ready(found := cluster.api.get(f"{PODS}/{name}")) and found)
        for name in names
    ]


def _budget(cluster: Target, allowed: int, **spec: object) -> None:
    cluster.api.create(BUDGETS, budget("b", {"app": "a"}, **spec))
    cluster.until(lambda: _settled(cluster, allowed))


def _settled(cluster: Target, allowed: int) -> bool:
    found = cluster.api.get(f"{BUDGETS}/b")
    status = found.get("status") or {}
    observed = status.get("observedGeneration") == found["metadata"]["generation"]
    return observed and status.get("disruptionsAllowed") == allowed


def _gone(cluster: Target, name: str) -> bool:
    try:
        cluster.api.get(f"{PODS}/{name}")
    except NotFound:
        return True
    return False


def test_a_running_pod_is_evicted_and_ends(cluster: Target) -> None:
    (found,) = _running(cluster, "p")
    cluster.api.evict("default", "p", found["metadata"]["uid"])
    cluster.until(lambda: _gone(cluster, "p"))


def test_an_eviction_of_another_pod_of_that_name_is_stale(cluster: Target) -> None:
    _running(cluster, "p")
    with pytest.raises(StaleWrite, match="does not match the UID in record"):
        cluster.api.evict("default", "p", "11111111-2222-3333-4444-555555555555")


def test_an_eviction_of_a_pod_that_is_gone_is_not_found(cluster: Target) -> None:
    with pytest.raises(NotFound):
        cluster.api.evict("default", "nobody", "11111111-2222-3333-4444-555555555555")


def test_a_budget_refuses_for_now(cluster: Target) -> None:
    (found,) = _running(cluster, "p")
    _budget(cluster, 0, minAvailable=1)
    with pytest.raises(Throttled, match="would violate the pod's disruption budget") as raised:
        cluster.api.evict("default", "p", found["metadata"]["uid"])
    assert (raised.value.status, raised.value.retry_after) == (429, None)
    assert not cluster.api.get(f"{PODS}/p")["metadata"].get("deletionTimestamp")


def test_a_budget_is_spent_at_once_by_the_eviction_that_it_allows(cluster: Target) -> None:
    first, second = _running(cluster, "p", "q")
    _budget(cluster, 1, minAvailable=1)
    cluster.api.evict("default", "p", first["metadata"]["uid"])
    with pytest.raises(Throttled):
        cluster.api.evict("default", "q", second["metadata"]["uid"])


def test_a_pod_that_does_not_run_yet_is_not_protected(cluster: Target) -> None:
    made = cluster.api.create(PODS, pod("waiting", labels={"app": "a"}))
    _budget(cluster, 0, minAvailable=1)
    cluster.api.evict("default", "waiting", made["metadata"]["uid"])
    assert _gone(cluster, "waiting")


def test_two_budgets_over_one_pod_are_an_error_of_the_server(cluster: Target) -> None:
    (found,) = _running(cluster, "p")
    _budget(cluster, 0, minAvailable=1)
    cluster.api.create(BUDGETS, budget("c", {"app": "a"}, minAvailable=0))
    with pytest.raises(Exception, match="more than one PodDisruptionBudget") as raised:
        cluster.api.evict("default", "p", found["metadata"]["uid"])
    assert raised.value.status == 500


def test_a_percentage_counts_from_the_replicas_that_are_wanted(cluster: Target) -> None:
    cluster.api.create(NODES, node("n"))
    cluster.api.create(DEPLOYMENTS, deployment("a", 4))
    cluster.api.create(BUDGETS, budget("b", {"app": "a"}, maxUnavailable="30%"))
    cluster.until(lambda: _settled(cluster, 2))  # 30 % of 4, rounded up
    status = cluster.api.get(f"{BUDGETS}/b")["status"]
    assert (status["expectedPods"], status["desiredHealthy"]) == (4, 2)


def test_an_evicted_pod_of_a_deployment_comes_again_under_another_name(cluster: Target) -> None:
    cluster.api.create(NODES, node("n"))
    cluster.api.create(DEPLOYMENTS, deployment("web", 1))

    def ready() -> list[dict]:
        pods, _ = cluster.api.list(PODS, label_selector="app=web")
        return [one for one in pods if is_ready(one) and not one["metadata"].get("deletionTimestamp")]

    (old,) = cluster.until(ready)
    cluster.api.evict("default", old["metadata"]["name"], old["metadata"]["uid"])
    new = cluster.until(lambda: [one for one in ready() if one["metadata"]["uid"] != old["metadata"]["uid"]])
    assert new[0]["metadata"]["name"] != old["metadata"]["name"]


def test_a_bound_pod_gets_its_grace_period(cluster: Target) -> None:
    _running(cluster, "p")
    cluster.api.patch(f"{PODS}/p", {"metadata": {"finalizers": ["example.com/watch"]}})
    cluster.api.delete(f"{PODS}/p", grace_seconds=7)
    found = cluster.api.get(f"{PODS}/p")
    assert found["metadata"]["deletionTimestamp"]
    assert found["metadata"]["deletionGracePeriodSeconds"] in {0, 7}  # 0 once the containers have ended
    assert condition(found, "PodScheduled")["status"] == "True"
