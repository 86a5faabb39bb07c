"""Snapshots as compact JSON, and back without trusting a byte.

What repeats is written once and referred to by index: shapes, label sets, taint lists and resource lists. Pods are runs
of one namespace, `[namespace, [name, uid, name, uid, ...]]`, and a uid that is a UUID is written in 22 characters.
Objects are lists in a fixed order, not mappings: `_FORMAT` changes when the order does, and a reader refuses what it
does not know. What few shapes have (rules between pods, a gang, preferences, volumes) comes in further fields, the last
ones left out where there is nothing.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import orjson

from shared.model import (
    BoundPods,
    DaemonShape,
    Gang,
    HostPort,
    Movability,
    NodeSelectorTerm,
    NodeView,
    PodClass,
    PodRef,
    PodSelector,
    PodShape,
    PodTerm,
    Preferences,
    Requirement,
    Snapshot,
    Spread,
    Taint,
    Toleration,
    VolumePlace,
)
from shared.wire.json_reader import Node

Json = dict[str, Any]
Key = TypeVar("Key", bound=Hashable)

_FORMAT = 1
_MOST_PODS = 500_000
_MOST_NODES = 50_000
_MOST_TABLE = 500_000
_LARGEST = 2**63 - 1


def encode(snapshot: Snapshot) -> bytes:
    """The snapshot as JSON text."""
    return orjson.dumps(to_json(snapshot))


def decode(data: bytes) -> Snapshot:
    """The snapshot that `encode` wrote. Raises ValueError naming path and value for anything else."""
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"snapshot: not JSON: {error}") from error
    return from_json(document)


def to_json(snapshot: Snapshot) -> Json:
    """The snapshot as plain JSON values."""
    tables = _Tables()
    pending = [_class(group, tables) for group in snapshot.pending]
    common = _common_labels(snapshot.nodes)
    nodes = [_node(view, tables, common) for view in snapshot.nodes]
    daemons = [[daemon.name, tables.shape(daemon.shape)] for daemon in snapshot.daemons]
    return {
        "format": _FORMAT,
        "cluster": snapshot.cluster,
        "epoch": snapshot.epoch,
        "sequence": snapshot.sequence,
        "observed_at": _written_time(snapshot.observed_at),
        "shapes": tables.shapes.values,
        "maps": tables.maps.values,
        "taints": tables.taints.values,
        "pending": pending,
        "nodes": nodes,
        "daemons": daemons,
        **({"gangs": [_gang(gang) for gang in snapshot.gangs]} if snapshot.gangs else {}),
    }


def from_json(document: object) -> Snapshot:
    """See `decode`."""
    root = Node(document, "snapshot").record(
        "format",
        "cluster",
        "epoch",
        "sequence",
        "observed_at",
        "shapes",
        "maps",
        "taints",
        "pending",
        "nodes",
        "daemons",
        optional=("gangs",),
    )
    if root["format"].whole(0, _LARGEST) != _FORMAT:
        raise root["format"].wrong(f"the format {_FORMAT}")
    shapes = [_read_shape(item) for item in root["shapes"].items(_MOST_TABLE)]
    maps = [item.mapping() for item in root["maps"].items(_MOST_TABLE)]
    taints = [_read_taints(item) for item in root["taints"].items(_MOST_TABLE)]
    return Snapshot(
        cluster=root["cluster"].text(),
        epoch=root["epoch"].whole(0, _LARGEST),
        sequence=root["sequence"].whole(0, _LARGEST),
        observed_at=root["observed_at"].time(),
        pending=tuple(_read_class(item, shapes) for item in root["pending"].items(_MOST_TABLE)),
        nodes=tuple(_read_node(item, shapes, maps, taints) for item in root["nodes"].items(_MOST_NODES)),
        daemons=tuple(_read_daemon(item, shapes) for item in root["daemons"].items(_MOST_TABLE)),
        gangs=tuple(_read_gang(item) for item in root["gangs"].items(_MOST_TABLE)) if "gangs" in root else (),
    )


class _Table:
    """Values in the order of their first use; `index` gives a key's place, and writes the value of a new key."""

    def __init__(self) -> None:
        self.values: list[object] = []
        self._places: dict[Hashable, int] = {}

    def index(self, key: Key, write: Callable[[Key], object]) -> int:
        place = self._places.setdefault(key, len(self.values))
        if place == len(self.values):
            self.values.append(write(key))
        return place


class _Tables:
    """What snapshots repeat: pod shapes, mappings (labels, annotations, amounts) and taint lists."""

    def __init__(self) -> None:
        self.shapes, self.maps, self.taints = _Table(), _Table(), _Table()

    def shape(self, shape: PodShape) -> int:
        return self.shapes.index(shape, _shape)

    def mapping(self, mapping: Mapping[str, Any]) -> int:
        return self.maps.index(tuple(mapping.items()), dict)

    def taint_list(self, taints: Sequence[Taint]) -> int:
        return self.taints.index(tuple(taints), _taints)


def _shape(shape: PodShape) -> list[object]:
    return [
        dict(shape.requests),
        dict(shape.node_selector),
        None if shape.affinity is None else [_term(term) for term in shape.affinity],
        [[one.key, one.operator, one.value, one.effect] for one in shape.tolerations],
        _ports(shape.host_ports),
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


def _gang(gang: Gang) -> list[object]:
    return [gang.name, gang.minimum, dict(gang.roles), gang.problem]


def _selector(selector: PodSelector) -> list[object]:
    return [None if selector.namespaces is None else list(selector.namespaces), _requirements(selector.requirements)]


def _taints(taints: tuple[Taint, ...]) -> list[object]:
    return [[taint.key, taint.value, taint.effect] for taint in taints]


def _term(term: NodeSelectorTerm) -> list[object]:
    return [_requirements(term.match_expressions), _requirements(term.match_fields)]


def _requirements(requirements: Iterable[Requirement]) -> list[object]:
    return [[one.key, one.operator, list(one.values)] for one in requirements]


def _ports(ports: Iterable[HostPort]) -> list[object]:
    return [[one.ip, one.protocol, one.port] for one in ports]


def _common_labels(nodes: Sequence[NodeView]) -> set[tuple[str, str]]:
    """Labels that more than one node carries: the rest (hostnames) would make every label set unique."""
    seen: set[tuple[str, str]] = set()
    common: set[tuple[str, str]] = set()
    for view in nodes:
        labels = view.labels.items()
        common.update(label for label in labels if label in seen)
        seen.update(labels)
    return common


def _node(view: NodeView, tables: _Tables, common: set[tuple[str, str]]) -> list[object]:
    shared = {name: value for name, value in sorted(view.labels.items()) if (name, value) in common}
    own = {name: value for name, value in view.labels.items() if name not in shared}
    return [
        view.name,
        _short_uid(view.uid),
        view.provider_id,
        view.pool,
        tables.mapping(shared),
        own,
        tables.taint_list(view.taints),
        tables.mapping(view.allocatable),
        tables.mapping(view.requested),
        _ports(view.host_ports),
        view.ready,
        view.unschedulable,
        _written_time(view.created_at),
        [_bound(group, tables) for group in view.bound],
        view.idle_since and _written_time(view.idle_since),
        view.evicting_at and _written_time(view.evicting_at),
        tables.mapping(view.annotations),
        *([tables.mapping(view.leaving)] if view.leaving else []),
    ]


def _class(group: PodClass, tables: _Tables) -> list[object]:
    return [tables.shape(group.shape), _runs(group.pods), *([group.nominated] if group.nominated else [])]


def _bound(group: BoundPods, tables: _Tables) -> list[object]:
    return [tables.shape(group.shape), _runs(group.pods), group.movability.value, group.blocked_by]


def _runs(pods: Sequence[PodRef]) -> list[object]:
    runs: list[object] = []
    namespace: str | None = None
    run: list[str] = []
    for pod in pods:
        if pod.namespace != namespace:
            namespace, run = pod.namespace, []
            runs.append([namespace, run])
        run.append(pod.name)
        run.append(_short_uid(pod.uid))
    return runs


def _written_time(moment: datetime) -> str:
    if moment.tzinfo is None:
        raise ValueError(f"a time in a snapshot needs a zone: {moment!r}")
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _short_uid(uid: str) -> str:
    """A lower-case UUID as `~` and 22 characters; any other uid as it is, behind a `=`; "" for none."""
    if len(uid) == 36:
        try:
            packed = bytes.fromhex(uid.replace("-", ""))
        except ValueError:
            return f"={uid}"
        if len(packed) == 16 and _dashed(packed) == uid:
            return "~" + base64.urlsafe_b64encode(packed).decode()[:22]
    return f"={uid}" if uid else ""


def _dashed(packed: bytes) -> str:
    text = packed.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _read_uid(written: str, where: Node) -> str:
    if not written or written.startswith("="):
        return written[1:]
    if written.startswith("~") and len(written) == 23:
        try:
            return _dashed(base64.b64decode(written[1:] + "==", altchars=b"-_", validate=True))
        except (binascii.Error, ValueError) as error:
            raise where.wrong("a uid") from error
    raise where.wrong("a uid")


def _fields(node: Node, least: int, most: int) -> list[Node]:
    """The fields of a record, of which the last may be missing."""
    fields = node.items(most)
    if len(fields) < least:
        raise node.wrong(f"a list of {least} to {most}")
    return list(fields)


def _read_shape(node: Node) -> PodShape:
    fields = node.items(11)
    if len(fields) < 7:
        raise node.wrong("a list of 7 to 11")
    requests, selector, affinity, tolerations, ports, priority, not_modelled, *further = fields
    shape = PodShape(
        requests=tuple(requests.amounts().items()),
        node_selector=tuple(selector.texts().items()),
        affinity=None if affinity.value is None else tuple(_read_term(term) for term in affinity.items(_MOST_TABLE)),
        tolerations=tuple(Toleration(*one.text_fields(4)) for one in tolerations.items(_MOST_TABLE)),
        host_ports=_read_ports(ports),
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
    terms = [one.fields(2) for one in nodes.items(_MOST_TABLE)]
    return replace(
        shape,
        preferred=Preferences(
            tuple((weight.whole(-(2**31), 2**31), _read_term(term)) for weight, term in terms),
            _read_weights(near),
            _read_weights(apart),
            tuple(one.text() for one in spread.items(_MOST_TABLE)),
        ),
    )


def _read_places(shape: PodShape, node: Node) -> PodShape:
    places = [one.fields(2) for one in node.items(_MOST_TABLE)]
    return replace(
        shape,
        volumes=tuple(
            VolumePlace(reason.text(), tuple(_read_term(term) for term in terms.items(_MOST_TABLE)))
            for reason, terms in places
        ),
    )


def _read_weights(node: Node) -> tuple[tuple[int, str], ...]:
    pairs = [one.fields(2) for one in node.items(_MOST_TABLE)]
    return tuple((weight.whole(-(2**31), 2**31), key.text()) for weight, key in pairs)


def _read_rules(shape: PodShape, node: Node) -> PodShape:
    namespace, labels, near, apart, spread, leaving = node.fields(6)
    return replace(
        shape,
        namespace=namespace.text(),
        labels=tuple(labels.texts().items()),
        near=tuple(_read_pod_term(term) for term in near.items(_MOST_TABLE)),
        apart=tuple(_read_pod_term(term) for term in apart.items(_MOST_TABLE)),
        spread=tuple(_read_spread(each) for each in spread.items(_MOST_TABLE)),
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
    named = None if namespaces.value is None else tuple(one.text() for one in namespaces.items(_MOST_TABLE))
    return PodSelector(named, _read_requirements(requirements))


def _read_term(node: Node) -> NodeSelectorTerm:
    expressions, fields = node.fields(2)
    return NodeSelectorTerm(_read_requirements(expressions), _read_requirements(fields))


def _read_requirements(node: Node) -> tuple[Requirement, ...]:
    found = []
    for one in node.items(_MOST_TABLE):
        key, operator, values = one.fields(3)
        found.append(
            Requirement(key.text(), operator.text(), tuple(value.text() for value in values.items(_MOST_TABLE)))
        )
    return tuple(found)


def _read_ports(node: Node) -> tuple[HostPort, ...]:
    found = []
    for one in node.items(70_000):
        ip, protocol, port = one.fields(3)
        found.append(HostPort(ip.text(), protocol.text(), port.whole(1, 65_535)))
    return tuple(found)


def _read_taints(node: Node) -> tuple[Taint, ...]:
    return tuple(Taint(*one.text_fields(3)) for one in node.items(_MOST_TABLE))


def _read_class(node: Node, shapes: Sequence[PodShape]) -> PodClass:
    shape, pods, *nominated = _fields(node, 2, 3)
    return PodClass(shape.choice(shapes), _read_pods(pods), nominated[0].text() if nominated else "")


def _read_daemon(node: Node, shapes: Sequence[PodShape]) -> DaemonShape:
    name, shape = node.fields(2)
    return DaemonShape(name.text(), shape.choice(shapes))


def _read_gang(node: Node) -> Gang:
    name, minimum, roles, problem = node.fields(4)
    return Gang(name.text(), minimum.whole(0, _LARGEST), tuple(roles.amounts().items()), problem.text())


def _read_pods(node: Node) -> tuple[PodRef, ...]:
    found: list[PodRef] = []
    for run in node.items(_MOST_PODS):
        namespace, names = run.fields(2)
        space, written = namespace.text(), names.text_list(2 * _MOST_PODS)
        if len(written) % 2:
            raise names.wrong("names and uids in pairs")
        pairs = zip(written[::2], written[1::2], strict=True)
        found.extend(PodRef(space, name, _read_uid(uid, names)) for name, uid in pairs)
    if not found:
        raise node.wrong("at least one pod")
    return tuple(found)


def _read_bound(node: Node, shapes: Sequence[PodShape]) -> BoundPods:
    shape, pods, moves, blocked_by = node.fields(4)
    options = [option.value for option in Movability]
    if moves.value not in options:
        raise moves.wrong(f"one of {', '.join(options)}")
    return BoundPods(shape.choice(shapes), _read_pods(pods), Movability(moves.text()), blocked_by.text())


def _read_node(
    node: Node, shapes: Sequence[PodShape], maps: Sequence[Node], taints: Sequence[tuple[Taint, ...]]
) -> NodeView:
    (name, uid, provider_id, pool, labels, own, taint_list, allocatable, requested, *rest) = _fields(node, 17, 18)
    (ports, ready, unschedulable, created_at, bound, idle_since, evicting_at, annotations, *leaving) = rest
    return NodeView(
        name=name.text(),
        uid=_read_uid(uid.text(), uid),
        provider_id=provider_id.text(),
        pool=pool.text(),
        labels={**labels.choice(maps).texts(), **own.texts()},
        taints=taint_list.choice(taints),
        allocatable=allocatable.choice(maps).amounts(),
        requested=requested.choice(maps).amounts(),
        host_ports=_read_ports(ports),
        ready=ready.flag(),
        unschedulable=unschedulable.flag(),
        created_at=created_at.time(),
        bound=tuple(_read_bound(group, shapes) for group in bound.items(_MOST_TABLE)),
        idle_since=None if idle_since.value is None else idle_since.time(),
        evicting_at=None if evicting_at.value is None else evicting_at.time(),
        annotations=annotations.choice(maps).texts(),
        leaving=leaving[0].choice(maps).amounts() if leaving else {},
    )
