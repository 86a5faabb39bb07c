"""What a pod asks of a node, worked out apart from the core: what both get wrong alike would stay unseen.

Sources: pkg/scheduler/framework/plugins/{noderesources,nodeaffinity,tainttoleration,nodeports} and
k8s.io/component-helpers/{resource,scheduling} of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import orjson

from local.kube.kinds import CLAIM, STORAGE_CLASS, VOLUME, Json
from local.kube.quantities import amount
from local.kube.store import Store, Stored

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
_BINDING = "VolumeBinding"
PodPort = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Needs:
    """One pod's demands. Pods of equal `key` are equal to the scheduler. `unknown` says which rule is not simulated;
    `alternatives` is None without required node affinity."""

    key: bytes
    priority: int
    requests: Mapping[str, int]
    selector: Mapping[str, str]
    alternatives: list[Json] | None
    tolerations: list[Json]
    ports: tuple[PodPort, ...]
    unknown: str = ""
    volumes: tuple[list[Json], ...] = field(default=())


def needs_of(store: Store, pod: Stored) -> Needs:
    """From the pod and the claims it uses."""
    spec = pod.spec
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    alternatives = None if required is None else required.get("nodeSelectorTerms") or []
    volumes, unknown = _volumes(store, pod)
    made = Needs(
        key=b"",
        priority=int(spec.get("priority", 0)),
        requests=requests(spec),
        selector=spec.get("nodeSelector") or {},
        alternatives=alternatives,
        tolerations=spec.get("tolerations") or [],
        ports=tuple(_ports(spec)),
        unknown=unknown or _unknown_rule(spec),
        volumes=volumes,
    )
    values = (made.priority, sorted(made.requests.items()), sorted(made.selector.items()), alternatives)
    key = orjson.dumps((*values, made.tolerations, made.ports, made.unknown, volumes), option=orjson.OPT_SORT_KEYS)
    return Needs(key, *(getattr(made, name) for name in Needs.__slots__[1:]))


def _unknown_rule(spec: Json) -> str:
    affinity = spec.get("affinity") or {}
    hard = "requiredDuringSchedulingIgnoredDuringExecution"
    if any((affinity.get(part) or {}).get(hard) for part in ("podAffinity", "podAntiAffinity")):
        return "required pod affinity"
    constraints = spec.get("topologySpreadConstraints") or ()
    if any(one.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule" for one in constraints):
        return "topology spread constraints"
    if spec.get("resourceClaims"):
        return "dynamic resource claims"
    return "pod groups" if spec.get("schedulingGroup") else ""


def _volumes(store: Store, pod: Stored) -> tuple[tuple[list[Json], ...], str]:
    found: list[list[Json]] = []
    for volume in pod.spec.get("volumes") or ():
        if volume.get("ephemeral") is not None:
            return (), _BINDING
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if not name:
            continue
        claim = store.get(CLAIM, (pod.namespace, name))
        if claim is None:
            return (), f'persistentvolumeclaim "{name}" not found'
        bound = store.get(VOLUME, ("", claim.spec.get("volumeName", "")))
        if bound is None:
            return (), _BINDING if _waits(store, claim) else "pod has unbound immediate PersistentVolumeClaims"
        required = (bound.spec.get("nodeAffinity") or {}).get("required")
        if required:
            found.append(required.get("nodeSelectorTerms") or [])
    return tuple(found), ""


def _waits(store: Store, claim: Stored) -> bool:
    """Whether the claim binds with its first pod: then the scheduler would choose where its volume is made."""
    found = store.get(STORAGE_CLASS, ("", claim.spec.get("storageClassName", "")))
    return found is not None and found.body.get("volumeBindingMode") == "WaitForFirstConsumer"


def requests(spec: Json) -> dict[str, int]:
    """Effective requests: containers and sidecars together, or the highest moment of the init phase; plus overhead.
    Requests of the pod as a whole take the place of its containers' where they are given."""
    running: dict[str, int] = {}
    peak: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        wanted = _of_container(container)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, wanted)
            _raise(peak, sidecars)
        else:
            _raise(peak, _sum(sidecars, wanted))
    for container in spec.get("containers") or ():
        _add(running, _of_container(container))
    total = _sum(running, sidecars)
    _raise(total, peak)
    total |= _amounts((spec.get("resources") or {}).get("requests"))
    _add(total, _amounts(spec.get("overhead")))
    return {name: value for name, value in total.items() if value}


def _of_container(container: Json) -> dict[str, int]:
    return _amounts((container.get("resources") or {}).get("requests"))


def _amounts(given: Mapping[str, str] | None) -> dict[str, int]:
    return {name: amount(name, text) for name, text in (given or {}).items()}


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    total = dict(one)
    _add(total, other)
    return total


def _raise(peak: dict[str, int], other: Mapping[str, int]) -> None:
    for name, value in other.items():
        peak[name] = max(peak.get(name, 0), value)


def _ports(spec: Json) -> Iterable[PodPort]:
    containers = [*(spec.get("containers") or ())]
    containers += [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    for container in containers:
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                yield port.get("hostIP") or "0.0.0.0", port.get("protocol", "TCP"), int(port["hostPort"])  # noqa: S104


def tolerates(tolerations: Iterable[Json], taint: Json) -> bool:
    """Whether one of them tolerates the taint."""
    return any(_tolerates(one, taint) for one in tolerations)


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")


def any_term(terms: Iterable[Json], name: str, labels: Mapping[str, str]) -> bool:
    """Whether one of the node selector terms matches; an empty term matches nothing."""
    return any(_term(term, name, labels) for term in terms)


def _term(term: Json, name: str, labels: Mapping[str, str]) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(_holds(one, labels) for one in expressions) and all(
        _holds(one, {"metadata.name": name}) for one in fields
    )


def _holds(expression: Json, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case operator:
            return _compares(operator, value, values)


def _compares(operator: str, value: str | None, values: Iterable[str]) -> bool:
    try:
        number, bound = int(value or ""), int(next(iter(values), ""))
    except ValueError:
        return False
    return number > bound if operator == "Gt" else number < bound
