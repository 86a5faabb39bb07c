"""Label and field selectors: as query parameters, and as they stand in objects (LabelSelector)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from local.kube.kinds import EVENT, JOB, NAMESPACE, NODE, POD, REPLICA_SET, SECRET, Json, Kind
from local.kube.problems import bad_request
from local.kube.store import Stored

Labels = Mapping[str, str]
Test = Callable[[Labels], bool]

_SET = re.compile(r"^(\S+)\s+(in|notin)\s+\(([^)]*)\)$")
_EQUALITY = re.compile(r"^([^=!\s]+)\s*(==|=|!=)\s*(\S*)$")
_NAME = re.compile(r"^(!?)\s*([A-Za-z0-9][\w./-]*)$")

_FIELDS: Mapping[Kind, frozenset[str]] = {
    POD: frozenset(
        {
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        }
    ),
    NODE: frozenset({"spec.unschedulable"}),
    NAMESPACE: frozenset({"status.phase"}),
    EVENT: frozenset(
        {f"involvedObject.{part}" for part in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion")}
        | {"involvedObject.fieldPath", "reason", "reportingComponent", "source", "type"}
    ),
    SECRET: frozenset({"type"}),
    JOB: frozenset({"status.successful"}),
    REPLICA_SET: frozenset({"status.replicas"}),
}
"""What else than metadata.name and metadata.namespace selects each kind (Kubernetes' conversion functions)."""

_DEFAULTS = {"spec.unschedulable": "false", "spec.hostNetwork": "false", "status.replicas": "0"}


def requirement(key: str, operator: str, values: frozenset[str]) -> Test:
    """One match expression over labels; NotIn also holds where the label is absent."""
    match operator:
        case "In":
            return lambda labels: labels.get(key) in values
        case "NotIn":
            return lambda labels: labels.get(key) not in values
        case "Exists":
            return lambda labels: key in labels
        case "DoesNotExist":
            return lambda labels: key not in labels
        case _:
            raise bad_request(f'"{operator}" is not a valid label selector operator')


def _all_of(tests: list[Test]) -> Test:
    if len(tests) == 1:
        return tests[0]
    return lambda labels: all(test(labels) for test in tests)


@lru_cache(maxsize=256)
def parse_labels(text: str) -> Test:
    """The labelSelector parameter: `a=b,c!=d,e in (x,y),!f,g`. Raises 400."""
    parts = [part.strip() for part in re.split(r",(?![^(]*\))", text) if part.strip()]
    return _all_of([_label_part(part) for part in parts])


def _label_part(part: str) -> Test:
    if found := _SET.match(part):
        values = frozenset(value.strip() for value in found[3].split(","))
        return requirement(found[1], "In" if found[2] == "in" else "NotIn", values)
    if found := _EQUALITY.match(part):
        return requirement(found[1], "NotIn" if found[2] == "!=" else "In", frozenset({found[3]}))
    if found := _NAME.match(part):
        return requirement(found[2], "DoesNotExist" if found[1] else "Exists", frozenset())
    raise bad_request(f"unable to parse requirement: found {part!r}, expected: a label selector")


def selector_test(selector: Json | None) -> Test:
    """A LabelSelector of an object: None matches nothing, an empty one everything."""
    if selector is None:
        return lambda _: False
    tests = [requirement(key, "In", frozenset({value})) for key, value in (selector.get("matchLabels") or {}).items()]
    tests += [
        requirement(one["key"], one["operator"], frozenset(one.get("values") or ()))
        for one in selector.get("matchExpressions") or ()
    ]
    return _all_of(tests)


def field(stored: Stored, path: str) -> str:
    """The value that a field selector compares; empty where there is none."""
    value: object = stored.body
    if path == "source":
        path = "source.component"
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return _DEFAULTS.get(path, "")
    return str(value).lower() if isinstance(value, bool) else str(value)


class Selection:
    """What a list or watch asks for. `exact` holds fields that must equal a value, for the indexes' use."""

    def __init__(self, kind: Kind, namespace: str, labels: str = "", fields: str = "") -> None:
        self.namespace = namespace
        self.exact: dict[str, str] = {}
        self._labels = parse_labels(labels) if labels else None
        self._fields = [self._field_part(kind, part.strip()) for part in fields.split(",") if part.strip()]
        self.everything = not (namespace or self._labels or self._fields)

    def _field_part(self, kind: Kind, part: str) -> tuple[str, bool, str]:
        found = _EQUALITY.match(part)
        if not found:
            raise bad_request(f"invalid field selector: {part!r}; can't understand it")
        path, equal, value = found[1], found[2] != "!=", found[3]
        if path not in {"metadata.name", "metadata.namespace"} and path not in _FIELDS.get(kind, ()):
            raise bad_request(f"field label not supported: {path}")
        if equal:
            self.exact[path] = value
        return path, equal, value

    def matches(self, stored: Stored | None) -> bool:
        """Whether the object is there and asked for."""
        if stored is None:
            return False
        if self.everything:
            return True
        if self.namespace and stored.key[0] != self.namespace:
            return False
        if self._labels and not self._labels(stored.labels):
            return False
        return all((field(stored, path) == value) is equal for path, equal, value in self._fields)
