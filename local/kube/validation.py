"""The least that an object must be, and what of it may not change: 422 with the real server's wording.

Source: pkg/apis/core/validation/validation.go of Kubernetes 1.36, reduced to what a user gets wrong first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from local.kube.kinds import BUDGET, DAEMON_SET, DEPLOYMENT, JOB, NODE, POD, REPLICA_SET, STATEFUL_SET, Json, Kind
from local.kube.problems import FieldProblem, invalid
from local.kube.quantities import milli
from local.kube.selectors import selector_test
from local.kube.store import Stored

_SUBDOMAIN = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_NAME_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_POLICIES = ("Always", "OnFailure", "Never")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_MUTABLE_POD_SPEC = frozenset(
    {"activeDeadlineSeconds", "tolerations", "schedulingGates", "containers", "initContainers"}
)
_POD_UPDATE_RULE = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`, "
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def validate(kind: Kind, body: Json) -> None:
    """A new object. Raises 422 with all problems at once."""
    name = body["metadata"]["name"]
    problems = list(_name(name))
    if check := _CHECKS.get(kind):
        problems += check(body.get("spec") or {})
    if problems:
        raise invalid(kind, name, problems)


def validate_update(kind: Kind, old: Stored, body: Json) -> None:
    """A changed object's main part. Raises 422."""
    spec, before = body.get("spec") or {}, old.spec
    if spec == before:
        return
    problems = list(_CHECKS[kind](spec)) if kind in _CHECKS else []
    if kind is POD:
        problems += _pod_update(spec, before)
    elif kind is NODE and before.get("providerID") not in {None, "", spec.get("providerID")}:
        message = "Forbidden: node updates may not change metadata other than labels or capacity: providerID is set"
        problems.append(FieldProblem("spec.providerID", message, "FieldValueForbidden"))
    elif kind in _SELECTED and spec.get("selector") != before.get("selector"):
        problems.append(FieldProblem("spec.selector", "Invalid value: field is immutable"))
    if problems:
        raise invalid(kind, old.name, problems)


def _required(field: str) -> FieldProblem:
    return FieldProblem(field, "Required value", "FieldValueRequired")


def _unsupported(field: str, value: object, supported: Iterable[str]) -> FieldProblem:
    listed = ", ".join(f'"{one}"' for one in sorted(supported))
    return FieldProblem(field, f'Unsupported value: "{value}": supported values: {listed}', "FieldValueNotSupported")


def _name(name: str) -> Iterable[FieldProblem]:
    if len(name) > 253:
        yield FieldProblem("metadata.name", f'Invalid value: "{name}": must be no more than 253 characters')
    if not _SUBDOMAIN.match(name):
        yield FieldProblem("metadata.name", f'Invalid value: "{name}": {_NAME_RULE}')


def _pod_spec(spec: Json, at: str = "spec") -> Iterable[FieldProblem]:
    containers = spec.get("containers")
    if not containers:
        yield _required(f"{at}.containers")
        return
    seen: set[str] = set()
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            yield from _container(container, f"{at}.{group}[{index}]", seen)
    if spec.get("restartPolicy", "Always") not in _POLICIES:
        yield _unsupported(f"{at}.restartPolicy", spec["restartPolicy"], _POLICIES)
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        effect = toleration.get("effect")
        if effect and effect not in _EFFECTS:
            yield _unsupported(f"{at}.tolerations[{index}].effect", effect, _EFFECTS)


def _container(container: Json, at: str, seen: set[str]) -> Iterable[FieldProblem]:
    name = container.get("name")
    if not name:
        yield _required(f"{at}.name")
    elif name in seen:
        yield FieldProblem(f"{at}.name", f'Duplicate value: "{name}"', "FieldValueDuplicate")
    seen.add(name or "")
    if not container.get("image"):
        yield _required(f"{at}.image")
    yield from _resources(container.get("resources") or {}, f"{at}.resources")


def _resources(resources: Json, at: str) -> Iterable[FieldProblem]:
    amounts: dict[tuple[str, str], int] = {}
    for part in ("requests", "limits"):
        for name, text in (resources.get(part) or {}).items():
            try:
                amounts[part, name] = milli(text)
            except ValueError:
                rule = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                yield FieldProblem(f"{at}.{part}[{name}]", f'Invalid value: "{text}": {rule}')
    for (part, name), amount in amounts.items():
        if amount < 0:
            yield FieldProblem(f"{at}.{part}[{name}]", "Invalid value: must be greater than or equal to 0")
        if part == "requests" and amount > amounts.get(("limits", name), amount):
            text, limit = resources["requests"][name], resources["limits"][name]
            message = f'Invalid value: "{text}": must be less than or equal to {name} limit of {limit}'
            yield FieldProblem(f"{at}.requests", message)


def _pod_update(spec: Json, before: Json) -> Iterable[FieldProblem]:
    fixed = {name: value for name, value in spec.items() if name not in _MUTABLE_POD_SPEC}
    fixed_before = {name: value for name, value in before.items() if name not in _MUTABLE_POD_SPEC}
    for part in ("containers", "initContainers"):
        fixed[part], fixed_before[part] = _imageless(spec.get(part)), _imageless(before.get(part))
    kept = [one for one in before.get("tolerations") or () if one not in (spec.get("tolerations") or ())]
    if fixed != fixed_before or kept:
        yield FieldProblem("spec", _POD_UPDATE_RULE, "FieldValueForbidden")
    gates_before = before.get("schedulingGates") or ()
    if any(gate not in gates_before for gate in spec.get("schedulingGates") or ()):
        message = "Forbidden: only deletion is allowed, but found new scheduling gates"
        yield FieldProblem("spec.schedulingGates", message, "FieldValueForbidden")


def _imageless(containers: list[Json] | None) -> list[Json]:
    return [{name: value for name, value in one.items() if name != "image"} for one in containers or ()]


def _workload(spec: Json) -> Iterable[FieldProblem]:
    template = spec.get("template") or {}
    replicas = spec.get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        yield FieldProblem("spec.replicas", f"Invalid value: {replicas}: must be greater than or equal to 0")
    selector = spec.get("selector")
    labels = (template.get("metadata") or {}).get("labels") or {}
    if not selector:
        yield _required("spec.selector")
    elif not selector_test(selector)(labels):
        message = "Invalid value: `selector` does not match template `labels`"
        yield FieldProblem("spec.template.metadata.labels", message)
    yield from _pod_spec(template.get("spec") or {}, "spec.template.spec")


def _job(spec: Json) -> Iterable[FieldProblem]:
    pod = (spec.get("template") or {}).get("spec") or {}
    yield from _pod_spec(pod, "spec.template.spec")
    if pod.get("restartPolicy", "Always") == "Always":
        yield _unsupported("spec.template.spec.restartPolicy", "Always", ("OnFailure", "Never"))


def _node(spec: Json) -> Iterable[FieldProblem]:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(spec.get("taints") or ()):
        at, key, effect = f"spec.taints[{index}]", taint.get("key", ""), taint.get("effect", "")
        if not key:
            yield _required(f"{at}.key")
        if effect not in _EFFECTS:
            yield _unsupported(f"{at}.effect", effect, _EFFECTS)
        if (key, effect) in seen:
            yield FieldProblem(at, f"Duplicate value: {key}:{effect}", "FieldValueDuplicate")
        seen.add((key, effect))


def _budget(spec: Json) -> Iterable[FieldProblem]:
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield FieldProblem("spec", "Invalid value: minAvailable and maxUnavailable cannot be both set")


_CHECKS: dict[Kind, Callable[[Json], Iterable[FieldProblem]]] = {
    POD: _pod_spec,
    NODE: _node,
    DEPLOYMENT: _workload,
    REPLICA_SET: _workload,
    DAEMON_SET: _workload,
    STATEFUL_SET: _workload,
    JOB: _job,
    BUDGET: _budget,
}
_SELECTED = frozenset({DEPLOYMENT, REPLICA_SET, DAEMON_SET, STATEFUL_SET})
