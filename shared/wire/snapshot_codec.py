"""Snapshots as compact JSON, and back without trusting a byte.

What repeats is written once and referred to by index: shapes, label sets, taint lists and resource lists. Pods are runs
of one namespace, `[namespace, [name, uid, name, uid, ...]]`, and a uid that is a UUID is written in 22 characters.
Objects are lists in a fixed order, not mappings: `_FORMAT` changes when the order does, and a reader refuses what it
does not know.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import orjson

from shared.model import (
    BoundPods,
    DaemonShape,
    Gang,
    Movability,
    NodeView,
    PodClass,
    PodRef,
    PodShape,
    Snapshot,
    Taint,
)
from shared.wire.json_reader import Node
from shared.wire.shape_codec import (
    MOST_TABLE,
    read_ports,
    read_shape,
    read_taints,
    write_ports,
    write_shape,
    write_taints,
)

Json = dict[str, Any]
Key = TypeVar("Key", bound=Hashable)

_FORMAT = 1
_MOST_PODS = 500_000
_MOST_NODES = 50_000
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
    shapes = [read_shape(item) for item in root["shapes"].items(MOST_TABLE)]
    maps = [item.mapping() for item in root["maps"].items(MOST_TABLE)]
    taints = [read_taints(item) for item in root["taints"].items(MOST_TABLE)]
    return Snapshot(
        cluster=root["cluster"].text(),
        epoch=root["epoch"].whole(0, _LARGEST),
        sequence=root["sequence"].whole(0, _LARGEST),
        observed_at=root["observed_at"].time(),
        pending=tuple(_read_class(item, shapes) for item in root["pending"].items(MOST_TABLE)),
        nodes=tuple(_read_node(item, shapes, maps, taints) for item in root["nodes"].items(_MOST_NODES)),
        daemons=tuple(_read_daemon(item, shapes) for item in root["daemons"].items(MOST_TABLE)),
        gangs=tuple(_read_gang(item) for item in root["gangs"].items(MOST_TABLE)) if "gangs" in root else (),
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
        return self.shapes.index(shape, write_shape)

    def mapping(self, mapping: Mapping[str, Any]) -> int:
        return self.maps.index(tuple(mapping.items()), dict)

    def taint_list(self, taints: Sequence[Taint]) -> int:
        return self.taints.index(tuple(taints), write_taints)


def _gang(gang: Gang) -> list[object]:
    return [gang.name, gang.minimum, dict(gang.roles), gang.problem]


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
        write_ports(view.host_ports),
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


def _read_class(node: Node, shapes: Sequence[PodShape]) -> PodClass:
    shape, pods, *nominated = node.fields(2, 3)
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
    (name, uid, provider_id, pool, labels, own, taint_list, allocatable, requested, *rest) = node.fields(17, 18)
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
        host_ports=read_ports(ports),
        ready=ready.flag(),
        unschedulable=unschedulable.flag(),
        created_at=created_at.time(),
        bound=tuple(_read_bound(group, shapes) for group in bound.items(MOST_TABLE)),
        idle_since=None if idle_since.value is None else idle_since.time(),
        evicting_at=None if evicting_at.value is None else evicting_at.time(),
        annotations=annotations.choice(maps).texts(),
        leaving=leaving[0].choice(maps).amounts() if leaving else {},
    )
