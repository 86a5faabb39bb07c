"""The eviction subresource: a deletion that a PodDisruptionBudget may refuse.

Source: pkg/registry/core/pod/storage/eviction.go of Kubernetes 1.36.
"""

from __future__ import annotations

from local.kube.kinds import BUDGET, Json
from local.kube.objects import is_finished, is_ready, with_condition
from local.kube.problems import ApiProblem, forbidden
from local.kube.registry import DeleteOptions, Registry
from local.kube.selectors import selector_test
from local.kube.store import Stored

_TOO_MANY = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
_STILL_PROCESSING_RETRY_AFTER = 10
_MAX_DISRUPTED = 2000


def budgets_of(registry: Registry, pod: Stored) -> list[Stored]:
    """The budgets whose selector matches the pod."""
    budgets = registry.store.all(BUDGET, pod.namespace)
    return [one for one in budgets if selector_test(one.spec.get("selector"))(pod.labels)]


def evict(registry: Registry, pod: Stored, options: DeleteOptions) -> Stored | None:
    """Evict the pod, and return the budget that was asked, if any. Raises 429 when it does not allow it now."""
    registry.check(pod, options)
    if is_finished(pod) or pod.status.get("phase") == "Pending" or pod.terminating:
        _delete(registry, pod, options)
        return None
    budgets = budgets_of(registry, pod)
    if len(budgets) > 1:
        raise ApiProblem(500, "InternalError", _SEVERAL)
    if budgets and not _unhealthy_may_go(pod, budgets[0]):
        _spend(registry, budgets[0], pod)
    _delete(registry, pod, options)
    return budgets[0] if budgets else None


def _unhealthy_may_go(pod: Stored, budget: Stored) -> bool:
    if is_ready(pod):
        return False
    if budget.spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    desired = budget.status.get("desiredHealthy", 0)
    return bool(budget.status.get("currentHealthy", 0) >= desired > 0)


def _spend(registry: Registry, budget: Stored, pod: Stored) -> None:
    status = budget.status
    if status.get("observedGeneration", 0) < budget.metadata.get("generation", 1):
        cause = f"The disruption budget {budget.name} is still being processed by the server."
        raise _refused(cause, {"retryAfterSeconds": _STILL_PROCESSING_RETRY_AFTER})
    allowed = status.get("disruptionsAllowed", 0)
    disrupted = status.get("disruptedPods") or {}
    if allowed < 0:
        raise forbidden(BUDGET, budget.name, "pdb disruptions allowed is negative")
    if len(disrupted) > _MAX_DISRUPTED:
        raise forbidden(BUDGET, budget.name, "DisruptedPods map too big")
    if allowed == 0:
        needs, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        raise _refused(f"The disruption budget {budget.name} needs {needs} healthy pods and has {has} currently", {})
    spent = {"disruptionsAllowed": allowed - 1, "disruptedPods": {**disrupted, pod.name: registry.store.now_text()}}
    condition = {"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": ""}
    new: Json = {**status, **spent}
    if allowed == 1:
        new = with_condition(new, condition, registry.store.now_text())
    registry.set_status(budget, new)


def _refused(cause: str, details: Json) -> ApiProblem:
    causes = [{"reason": "DisruptionBudget", "message": cause}]
    return ApiProblem(429, "TooManyRequests", _TOO_MANY, {**details, "causes": causes})


def _delete(registry: Registry, pod: Stored, options: DeleteOptions) -> None:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    marked = registry.set_status(pod, with_condition(pod.status, condition, registry.store.now_text()))
    registry.delete(marked, DeleteOptions(grace=options.grace, propagation=options.propagation))
