"""From what was seen to a CloudEvent of `shared.wire.events`, its snapshot stored first where it does not fit inside.

`detail` of an event is `{"pods", "classes"}` for unschedulable pods, else `{"count", "nodes": [{"name", "providerID",
"pool", "idle_since", "evicting_at"}]}` with absent times left out, and at most MOST_NAMED nodes named.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from exporter.node_agent import Machine, Preemption
from shared.adapters.errors import Rejected
from shared.adapters.protocols import BlobStore, Json
from shared.model import NodeView, Snapshot
from shared.names import NODE_EVICTING, PODS_UNSCHEDULABLE
from shared.wire.events import make_event

MOST_NAMED = 200  # nodes in an event's detail: 40 kB of the 200 that an event may have; the snapshot has them all


class Envelopes:
    """Events of the exporter. `account_url` is the storage account's blob endpoint, as the functions write it."""

    def __init__(self, store: BlobStore | None, account_url: str = "") -> None:
        self._store, self._account_url = store, account_url

    def event(self, kind: str, snapshot: Snapshot, nodes: Sequence[NodeView]) -> Json:
        """The event, ready to be sent. Raises `OutsideError` when its snapshot could not be stored, Rejected when there
        is no storage for it."""
        detail = _pods(snapshot) if kind == PODS_UNSCHEDULABLE else _nodes(nodes)
        subject = nodes[0].name if len(nodes) == 1 else snapshot.cluster
        made = make_event(kind, snapshot, subject=subject, detail=detail, account_url=self._account_url)
        if made.upload is not None:
            if self._store is None:
                raise Rejected("the snapshot is too large for an event and no storage is given; set --storage")
            self._store.put(made.upload.container, made.upload.name, made.upload.data)
        return made.event


def eviction_notice(cluster: str, node: str, machine: Machine, found: Preemption, now: datetime) -> Json:
    """The node agent's event. It has seen one machine and no cluster: its snapshot is empty, under epoch 0 and sequence
    0, which nothing ever takes for newer than what it has; what counts is `detail`."""
    said = {
        "name": node,
        "providerID": machine.provider_id,
        "evicting_at": _written(found.not_before),
        "event": found.event_id,
    }
    nothing = Snapshot(cluster, 0, 0, now, (), ())
    return make_event(NODE_EVICTING, nothing, subject=node, detail={"count": 1, "nodes": [said]}).event


def _pods(snapshot: Snapshot) -> Json:
    return {"pods": sum(len(group.pods) for group in snapshot.pending), "classes": len(snapshot.pending)}


def _nodes(nodes: Sequence[NodeView]) -> Json:
    return {"count": len(nodes), "nodes": [_node(node) for node in nodes[:MOST_NAMED]]}


def _node(node: NodeView) -> Json:
    said: Json = {"name": node.name, "providerID": node.provider_id, "pool": node.pool}
    times = {"idle_since": node.idle_since, "evicting_at": node.evicting_at}
    return said | {name: _written(moment) for name, moment in times.items() if moment is not None}


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
