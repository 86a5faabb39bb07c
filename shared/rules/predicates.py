"""Whether a node takes a pod: kube-scheduler's filters by their own names, each answering None or why not.

The rules are those of the plugins of the same name (NodeUnschedulable, NodeAffinity, TaintToleration, NodeResourcesFit,
NodePorts) in kube-scheduler's default profile. A reason begins with the plugin's name and carries the figures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shared.model import (
    HostPort,
    NodeSelectorTerm,
    PodShape,
    Requirement,
    Resources,
    Taint,
    Toleration,
)
from shared.quantity import format_amount

NEW = "a new node"
ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - the scheduler's own word for "every address of the node", nothing is bound to it
PODS = "pods"
ATTACHABLE = "attachable-volumes-csi-"
"""Volumes of a CSI driver are a resource under this name and the driver's; a node without a limit does not name it."""
UNSCHEDULABLE_TAINT = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")

_NAME_FIELD = "metadata.name"
HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_VALUES_SHOWN = 5
_TEXT_SHOWN = 120


@dataclass(frozen=True, slots=True)
class Ground:
    """What the static predicates read of a node: everything that pods coming and going do not change."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


def static_refusal(shape: PodShape, ground: Ground) -> str | None:
    """The first predicate, in the order in which a person would ask, that refuses the pod whatever else runs there."""
    return (
        not_modelled(shape)
        or waiting_claim(shape)
        or node_unschedulable(shape, ground)
        or node_affinity(shape, ground)
        or volume_places(shape, ground)
        or taint_toleration(shape, ground)
    )


def not_modelled(shape: PodShape) -> str | None:
    """Refuses a pod that uses a scheduling rule which the core does not model: it is never ignored."""
    return f"NotModelled: {', '.join(shape.not_modelled)}" if shape.not_modelled else None


def waiting_claim(shape: PodShape) -> str | None:
    """Refuses a pod with a claim that no node can help."""
    return next((place.reason for place in shape.volumes if not place.terms), None)


def volume_places(shape: PodShape, ground: Ground) -> str | None:
    """Refuses unless each of the pod's volumes can be used there: VolumeBinding and VolumeZone."""
    for place in shape.volumes:
        if not any(term_matches(term, ground) for term in place.terms):
            wanted = " or ".join(_term_text(term) for term in place.terms[:_VALUES_SHOWN])
            has = " and ".join(_label_text(key, ground) for key in _keys_asked_for(place.terms)[:_VALUES_SHOWN])
            return f"{place.reason} needs {_cut(wanted)}, {NEW} {_cut(has)}" if wanted else place.reason
    return None


def node_unschedulable(shape: PodShape, ground: Ground) -> str | None:
    """Refuses a cordoned node, unless the pod tolerates the taint that stands for the cordon."""
    if not ground.unschedulable or _tolerated(UNSCHEDULABLE_TAINT, shape.tolerations):
        return None
    return "NodeUnschedulable: the node is cordoned"


def taint_toleration(shape: PodShape, ground: Ground) -> str | None:
    """Refuses at the first NoSchedule or NoExecute taint without a matching toleration."""
    for taint in ground.taints:
        if taint.effect in HARD_EFFECTS and not _tolerated(taint, shape.tolerations):
            return f"TaintToleration: does not tolerate {_taint_text(taint)}"
    return None


def node_affinity(shape: PodShape, ground: Ground) -> str | None:
    """Refuses unless the node selector and one term of the required node affinity hold."""
    for key, value in shape.node_selector:
        if ground.labels.get(key) != value:
            return f"NodeAffinity: needs label {_cut(f'{key}={value}')}, {NEW} {_cut(_label_text(key, ground))}"
    if shape.affinity is None or any(term_matches(term, ground) for term in shape.affinity):
        return None
    asked = _keys_asked_for(shape.affinity)
    if not asked:
        return "NodeAffinity: required node affinity without any requirement matches no node"
    wanted = " or ".join(_term_text(term) for term in shape.affinity[:_VALUES_SHOWN])
    has = " and ".join(_label_text(key, ground) for key in asked[:_VALUES_SHOWN])
    return f"NodeAffinity: needs {_cut(wanted)}, {NEW} {_cut(has)}"


def matches_node_affinity(shape: PodShape, ground: Ground) -> bool:
    """Whether `node_affinity` lets the pod onto the node."""
    if any(ground.labels.get(key) != value for key, value in shape.node_selector):
        return False
    return shape.affinity is None or any(term_matches(term, ground) for term in shape.affinity)


def node_resources_fit(shape: PodShape, free: Resources, where: str = NEW) -> str | None:
    """Refuses when a requested resource, or a place for one more pod, is short; `free` is what is left there."""
    for name, amount in shape.requests:
        if name.startswith(ATTACHABLE):
            if amount > free.get(name, amount):
                driver = name.removeprefix(ATTACHABLE)
                return f"NodeVolumeLimits: needs {amount} volumes of {driver}, {where} can attach {max(0, free[name])}"
        elif amount > max(0, free.get(name, 0)) and amount > 0:
            has = format_amount(name, max(0, free.get(name, 0)))
            return f"NodeResourcesFit: needs {format_amount(name, amount)} {name}, {where} has {has}"
    if free.get(PODS, 0) < 1:
        return f"NodeResourcesFit: needs 1 {PODS}, {where} has {max(0, free.get(PODS, 0))}"
    return None


def node_ports(shape: PodShape, taken: Iterable[HostPort]) -> str | None:
    """Refuses when a host port is taken there; the address 0.0.0.0 collides with every other."""
    used = tuple(taken)
    for port in shape.host_ports:
        if any(ports_collide(port, other) for other in used):
            return f"NodePorts: host port {port.port}/{port.protocol or 'TCP'} is taken"
    return None


def ports_collide(one: HostPort, other: HostPort) -> bool:
    """Whether two host ports exclude each other on one node."""
    if port_key(one) != port_key(other):
        return False
    addresses = {one.ip or ANY_ADDRESS, other.ip or ANY_ADDRESS}
    return len(addresses) == 1 or ANY_ADDRESS in addresses


def port_key(port: HostPort) -> tuple[str, int]:
    """Protocol and number: ports that differ in them never collide."""
    return port.protocol or "TCP", port.port


def term_matches(term: NodeSelectorTerm, ground: Ground) -> bool:
    """Whether all requirements of a term hold; a term without any matches nothing, as in the API's documentation."""
    if not term.match_expressions and not term.match_fields:
        return False
    return all(_field_matches(field, ground.name) for field in term.match_fields) and all(
        requirement_matches(requirement, ground.labels) for requirement in term.match_expressions
    )


def requirement_matches(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """One match expression; NotIn holds where the label is missing, Gt and Lt only between integers."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return value is not None and _ordered(requirement, value)
        case _:
            return False


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """As `Toleration.ToleratesTaint` of the Kubernetes API: an empty key or effect matches every one."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in {"", "Equal"} and toleration.value == taint.value


def _tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(tolerates(toleration, taint) for toleration in tolerations)


def _field_matches(field: Requirement, name: str) -> bool:
    """The API server admits metadata.name alone, with In or NotIn and one value."""
    if field.key != _NAME_FIELD or len(field.values) != 1:
        return False
    return (field.operator == "In" and field.values[0] == name) or (
        field.operator == "NotIn" and field.values[0] != name
    )


def _ordered(requirement: Requirement, value: str) -> bool:
    if len(requirement.values) != 1:
        return False
    bound = requirement.values[0]
    if not (_INTEGER.fullmatch(value) and _INTEGER.fullmatch(bound)):
        return False
    return int(value) > int(bound) if requirement.operator == "Gt" else int(value) < int(bound)


def _taint_text(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _label_text(key: str, ground: Ground) -> str:
    """What the node has of a label; the name of a node to come is nothing that anybody could ask for."""
    value = ground.name if key == _NAME_FIELD else ground.labels.get(key)
    if value is None:
        return f"has no label {key}"
    return f"has a {key} of its own" if "\0" in value else f"has {key}={value}"


def _keys_asked_for(terms: Iterable[NodeSelectorTerm]) -> list[str]:
    asked = (requirement.key for term in terms for requirement in (*term.match_expressions, *term.match_fields))
    return list(dict.fromkeys(asked))


def _term_text(term: NodeSelectorTerm) -> str:
    parts = [_requirement_text(requirement) for requirement in (*term.match_expressions, *term.match_fields)]
    return " and ".join(parts[:_VALUES_SHOWN]) or "an empty term"


def _requirement_text(requirement: Requirement) -> str:
    values = ", ".join(requirement.values[:_VALUES_SHOWN])
    more = ", ..." if len(requirement.values) > _VALUES_SHOWN else ""
    return f"{requirement.key} {requirement.operator}" + (f" [{values}{more}]" if requirement.values else "")


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_SHOWN else text[: _TEXT_SHOWN - 3] + "..."
