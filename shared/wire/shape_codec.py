"""Shapes of pods as compact lists, and back without trusting a byte: the part of a snapshot that has the most forms.

A list begins with what every shape has; what few have (rules between pods, a gang, preferences, volumes) comes in
further fields, the last ones left out where there is nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from shared.model import (
    HostPort,
    NodeSelectorTerm,
    PodSelector,
    PodShape,
    PodTerm,
    Preferences,
    Requirement,
    Spread,
    Taint,
    Toleration,
    VolumePlace,
)
from shared.wire.json_reader import Node

MOST_TABLE = 500_000
"""Entries of any one list; more is nothing that a cluster has."""


def write_shape(shape: PodShape) -> list[object]:
    """A shape as a list of plain values."""
    return [
        dict(shape.requests),
        dict(shape.node_selector),
        None if shape.affinity is None else [_term(term) for term in shape.affinity],
        [[one.key, one.operator, one.value, one.effect] for one in shape.tolerations],
        write_ports(shape.host_ports),
        shape.priority,
        list(shape.not_modelled),
        *_further(shape),
    ]


def _further(shape: PodShape) -> list[object]:
    """What few shapes have, in a fixed order; None for what this one lacks, and nothing behind the last that it has."""
    fields: list[object] = [_rules(shape), shape.gang or None, _preferences(shape.preferred), _places(shape.volumes)]
    while fields and fields[-1] is None:
        fields.pop()
    return fields


def _places(places: Iterable[VolumePlace]) -> list[object] | None:
    return [[place.reason, [_term(term) for term in place.terms]] for place in places] or None


def _preferences(preferred: Preferences | None) -> list[object] | None:
    if preferred is None:
        return None
    nodes = [[weight, _term(term)] for weight, term in preferred.nodes]
    return [
        nodes,
        [list(one) for one in preferred.near],
        [list(one) for one in preferred.apart],
        list(preferred.spread),
    ]


def _rules(shape: PodShape) -> list[object] | None:
    """What rules between pods say and read, as one field; None for most shapes."""
    if not (shape.namespace or shape.near or shape.apart or shape.spread):
        return None
    return [
        shape.namespace,
        dict(shape.labels),
        [[*_selector(term.selector), term.topology_key] for term in shape.near],
        [[*_selector(term.selector), term.topology_key] for term in shape.apart],
        [
            [
                *_selector(each.selector),
                each.topology_key,
                each.max_skew,
                each.min_domains,
                each.honors_affinity,
                each.honors_taints,
            ]
            for each in shape.spread
        ],
        shape.leaving,
    ]


def _selector(selector: PodSelector) -> list[object]:
    return [None if selector.namespaces is None else list(selector.namespaces), _requirements(selector.requirements)]


def write_taints(taints: tuple[Taint, ...]) -> list[object]:
    """Taints as lists of key, value and effect."""
    return [[taint.key, taint.value, taint.effect] for taint in taints]


def _term(term: NodeSelectorTerm) -> list[object]:
    return [_requirements(term.match_expressions), _requirements(term.match_fields)]


def _requirements(requirements: Iterable[Requirement]) -> list[object]:
    return [[one.key, one.operator, list(one.values)] for one in requirements]


def write_ports(ports: Iterable[HostPort]) -> list[object]:
    """Host ports as lists of ip, protocol and port."""
    return [[one.ip, one.protocol, one.port] for one in ports]


def read_shape(node: Node) -> PodShape:
    """The shape that `write_shape` wrote. Raises ValueError naming path and value for anything else."""
    requests, selector, affinity, tolerations, ports, priority, not_modelled, *further = node.fields(7, 11)
    shape = PodShape(
        requests=tuple(requests.amounts().items()),
        node_selector=tuple(selector.texts().items()),
        affinity=None if affinity.value is None else tuple(_read_term(term) for term in affinity.items(MOST_TABLE)),
        tolerations=tuple(Toleration(*one.text_fields(4)) for one in tolerations.items(MOST_TABLE)),
        host_ports=read_ports(ports),
        priority=priority.whole(-(2**31), 2**31),
        not_modelled=tuple(one.text() for one in not_modelled.items(100)),
    )
    for read, field in zip(_FURTHER, further, strict=False):
        if field.value is not None:
            shape = read(shape, field)
    return shape


def _read_membership(shape: PodShape, node: Node) -> PodShape:
    return replace(shape, gang=node.text())


def _read_preferences(shape: PodShape, node: Node) -> PodShape:
    nodes, near, apart, spread = node.fields(4)
    terms = [one.fields(2) for one in nodes.items(MOST_TABLE)]
    return replace(
        shape,
        preferred=Preferences(
            tuple((weight.whole(-(2**31), 2**31), _read_term(term)) for weight, term in terms),
            _read_weights(near),
            _read_weights(apart),
            tuple(one.text() for one in spread.items(MOST_TABLE)),
        ),
    )


def _read_places(shape: PodShape, node: Node) -> PodShape:
    places = [one.fields(2) for one in node.items(MOST_TABLE)]
    return replace(
        shape,
        volumes=tuple(
            VolumePlace(reason.text(), tuple(_read_term(term) for term in terms.items(MOST_TABLE)))
            for reason, terms in places
        ),
    )


def _read_weights(node: Node) -> tuple[tuple[int, str], ...]:
    pairs = [one.fields(2) for one in node.items(MOST_TABLE)]
    return tuple((weight.whole(-(2**31), 2**31), key.text()) for weight, key in pairs)


def _read_rules(shape: PodShape, node: Node) -> PodShape:
    namespace, labels, near, apart, spread, leaving = node.fields(6)
    return replace(
        shape,
        namespace=namespace.text(),
        labels=tuple(labels.texts().items()),
        near=tuple(_read_pod_term(term) for term in near.items(MOST_TABLE)),
        apart=tuple(_read_pod_term(term) for term in apart.items(MOST_TABLE)),
        spread=tuple(_read_spread(each) for each in spread.items(MOST_TABLE)),
        leaving=leaving.flag(),
    )


_FURTHER = (_read_rules, _read_membership, _read_preferences, _read_places)


def _read_pod_term(node: Node) -> PodTerm:
    namespaces, requirements, key = node.fields(3)
    return PodTerm(_read_selector(namespaces, requirements), key.text())


def _read_spread(node: Node) -> Spread:
    namespaces, requirements, key, skew, domains, affinity, taints = node.fields(7)
    return Spread(
        _read_selector(namespaces, requirements),
        key.text(),
        skew.whole(1, 2**31),
        domains.whole(0, 2**31),
        affinity.flag(),
        taints.flag(),
    )


def _read_selector(namespaces: Node, requirements: Node) -> PodSelector:
    named = None if namespaces.value is None else tuple(one.text() for one in namespaces.items(MOST_TABLE))
    return PodSelector(named, _read_requirements(requirements))


def _read_term(node: Node) -> NodeSelectorTerm:
    expressions, fields = node.fields(2)
    return NodeSelectorTerm(_read_requirements(expressions), _read_requirements(fields))


def _read_requirements(node: Node) -> tuple[Requirement, ...]:
    found = []
    for one in node.items(MOST_TABLE):
        key, operator, values = one.fields(3)
        found.append(
            Requirement(key.text(), operator.text(), tuple(value.text() for value in values.items(MOST_TABLE)))
        )
    return tuple(found)


def read_ports(node: Node) -> tuple[HostPort, ...]:
    """The ports that `write_ports` wrote; raises as `read_shape` does."""
    found = []
    for one in node.items(70_000):
        ip, protocol, port = one.fields(3)
        found.append(HostPort(ip.text(), protocol.text(), port.whole(1, 65_535)))
    return tuple(found)


def read_taints(node: Node) -> tuple[Taint, ...]:
    """The taints that `write_taints` wrote; raises as `read_shape` does."""
    return tuple(Taint(*one.text_fields(3)) for one in node.items(MOST_TABLE))
