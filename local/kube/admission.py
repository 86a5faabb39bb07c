"""What the API server adds to an object before it stores it: defaults and the admission plugins that matter here.

Sources: pkg/apis/core/v1/defaults.go; admission plugins Priority, DefaultTolerationSeconds, ServiceAccount (without its
token volume) and TaintNodesByCondition of Kubernetes 1.36.
"""

from __future__ import annotations

from local.kube.kinds import (
    BUDGET,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    NAMESPACE,
    NODE,
    POD,
    PRIORITY_CLASS,
    REPLICA_SET,
    SERVICE,
    STATEFUL_SET,
    Json,
    Kind,
)
from local.kube.problems import forbidden
from local.kube.store import Store

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_TOLERATION_SECONDS = 300


def admit(store: Store, kind: Kind, body: Json) -> None:
    """Fill in a new object, in place."""
    if kind is POD:
        _admit_pod(store, body)
    elif kind is NODE:
        _admit_node(body)
    elif kind is NAMESPACE:
        body.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
        body["status"] = {"phase": "Active"}
    elif kind is SERVICE:
        body.setdefault("spec", {}).setdefault("type", "ClusterIP")
        body["status"] = {"loadBalancer": {}}
    elif kind is PRIORITY_CLASS:
        body.setdefault("preemptionPolicy", "PreemptLowerPriority")
    elif kind in _WORKLOADS:
        _admit_workload(kind, body)
    elif kind.status:
        body.setdefault("status", {})


def _admit_node(body: Json) -> None:
    spec = body.setdefault("spec", {})
    if not any(taint.get("key") == NOT_READY for taint in spec.get("taints") or ()):
        spec["taints"] = [*(spec.get("taints") or []), {"key": NOT_READY, "effect": "NoSchedule"}]
    status = body.setdefault("status", {})
    if "capacity" in status:
        status.setdefault("allocatable", status["capacity"])


def _admit_pod(store: Store, body: Json) -> None:
    spec = body.setdefault("spec", {})
    spec.pop("schedulingGroup", None)  # as every field of a feature that is off (GenericWorkload, alpha in 1.36)
    default_pod_spec(spec)
    _admit_priority(store, body["metadata"]["name"], spec)
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    tolerations = list(spec.get("tolerations") or ())
    for key in (NOT_READY, UNREACHABLE):
        if not any(_tolerates_eviction(toleration, key) for toleration in tolerations):
            seconds = {"tolerationSeconds": _TOLERATION_SECONDS}
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", **seconds})
    spec["tolerations"] = tolerations
    body["status"] = {"phase": "Pending", "qosClass": _quality(spec)}
    if spec.get("schedulingGates"):
        message = "Scheduling is blocked due to non-empty scheduling gates"
        gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": message}
        body["status"]["conditions"] = [gated | {"lastProbeTime": None, "lastTransitionTime": store.now_text()}]


def _tolerates_eviction(toleration: Json, key: str) -> bool:
    return toleration.get("key", "") in {key, ""} and toleration.get("effect", "") in {"NoExecute", ""}


def _admit_priority(store: Store, name: str, spec: Json) -> None:
    wanted = spec.get("priorityClassName", "")
    found = _SYSTEM_PRIORITIES.get(wanted)
    policy = "PreemptLowerPriority"
    if found is None and wanted:
        chosen = store.get(PRIORITY_CLASS, ("", wanted))
        if chosen is None:
            raise forbidden(POD, name, f"no PriorityClass with name {wanted} was found")
        found, policy = chosen.body.get("value", 0), chosen.body["preemptionPolicy"]
    elif found is None:
        ranked = [one for one in store.all(PRIORITY_CLASS) if one.body.get("globalDefault")]
        if ranked:
            spec["priorityClassName"] = ranked[0].name
            found, policy = ranked[0].body.get("value", 0), ranked[0].body["preemptionPolicy"]
    spec["priority"] = found or 0
    spec.setdefault("preemptionPolicy", policy)


def default_pod_spec(spec: Json) -> None:
    """Defaults of a PodSpec, in place; for pods and for the templates of their controllers."""
    for name, value in (
        ("restartPolicy", "Always"),
        ("dnsPolicy", "ClusterFirst"),
        ("schedulerName", "default-scheduler"),
        ("terminationGracePeriodSeconds", 30),
        ("enableServiceLinks", True),
    ):
        spec.setdefault(name, value)
    spec.setdefault("securityContext", {})
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        if isinstance(container, dict):
            _default_container(container, host_network=bool(spec.get("hostNetwork")))


def _default_container(container: Json, *, host_network: bool) -> None:
    image = str(container.get("image", ""))
    latest = image.endswith(":latest") or (":" not in image.rpartition("/")[2] and "@" not in image)
    container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    resources = container.setdefault("resources", {})
    limits = resources.get("limits") or {}
    if limits:
        resources["requests"] = {**limits, **(resources.get("requests") or {})}
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if host_network and "containerPort" in port:
            port.setdefault("hostPort", port["containerPort"])


def _quality(spec: Json) -> str:
    """The pod's class of service (pkg/apis/core/helper/qos), by cpu and memory."""
    resources = [
        one.get("resources") or {} for one in (*(spec.get("initContainers") or ()), *spec.get("containers", ()))
    ]
    demands = [
        ((one.get("requests") or {}).get(name), (one.get("limits") or {}).get(name))
        for one in resources
        for name in ("cpu", "memory")
    ]
    if not any(request or limit for request, limit in demands):
        return "BestEffort"
    return "Guaranteed" if all(limit and request == limit for request, limit in demands) else "Burstable"


_WORKLOADS = frozenset({DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, JOB, BUDGET})


def _admit_workload(kind: Kind, body: Json) -> None:
    spec = body.setdefault("spec", {})
    body["status"] = {}
    if kind in {DEPLOYMENT, REPLICA_SET, STATEFUL_SET}:
        spec.setdefault("replicas", 1)
    if kind is DEPLOYMENT:
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
        spec.setdefault("strategy", rolling)
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)
    if kind is STATEFUL_SET:
        spec.setdefault("podManagementPolicy", "OrderedReady")
    if kind is DAEMON_SET:
        spec.setdefault("updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}})
    if kind is JOB:
        for name, value in (("parallelism", 1), ("completions", 1), ("backoffLimit", 6)):
            spec.setdefault(name, value)
    template = spec.get("template")
    if isinstance(template, dict):
        template.setdefault("metadata", {})
        default_pod_spec(template.setdefault("spec", {}))
