"""Which of the nodes asked for have appeared, and how many are still to come.

From its first appearance in a snapshot on, a node speaks for itself: planning counts a young node as what its pool
promises, ready or not. Counted here as well it would hide a shortage, dropped too early it would be bought twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shared.model import NodeView, Snapshot
from shared.provider_id import parse
from shared.state.instances import key_of
from shared.state.ledger import ARRIVING, NOT_ASKED, moment
from shared.state.purchases import with_arrivals

Json = dict[str, Any]


def machine_of(node: NodeView) -> str:
    """The instance id of the VM behind a node; its name when the provider id says nothing."""
    machine = parse(node.provider_id)
    return machine.deletion_id if machine is not None else node.name


def arrived(snapshot: Snapshot, view: Json) -> dict[str, list[str]]:
    """{growth: those of its claimed instances that are nodes now}."""
    present = {key_of(node.pool, machine_of(node)) for node in snapshot.nodes}
    found = {
        op: [instance for instance in growth["claimed"] if key_of(growth["pool"], instance) in present]
        for op, growth in view.get("growths", {}).items()
    }
    return {op: instances for op, instances in found.items() if instances}


def without_arrived(view: Json, gone: dict[str, list[str]], snapshot: Snapshot) -> Json:
    """The view as planning should see it.

    Instances of a growth that Azure is still busy with have no name yet. Nodes of its pool that are younger than it,
    and that no growth has ever claimed, are taken for its own.
    """
    growths = {
        op: {**growth, "claimed": [instance for instance in growth["claimed"] if instance not in gone.get(op, ())]}
        for op, growth in view.get("growths", {}).items()
    }
    unnamed, bought = _unclaimed(view, snapshot), view.get("bought", {})
    for op, growth in sorted(growths.items(), key=lambda item: str(item[1]["asked"])):
        came = [key_of(growth["pool"], instance) for instance in gone.get(op, ())]
        if growth["stage"] != ARRIVING:
            since = moment(growth["asked"])
            mine = [node for node in unnamed if node.pool == growth["pool"] and node.created_at >= since]
            taken = {node.name: key_of(node.pool, machine_of(node)) for node in mine[: growth["add"]]}
            unnamed = [node for node in unnamed if node.name not in taken]
            growths[op] = {
                **growth,
                "add": growth["add"] - len(taken),
                "zones": _zones_left(op, growth, taken.values()),
            }
            came += taken.values()
        bought = with_arrivals(bought, came, growth.get("classes", ()), growth["asked"])
    return {**view, "growths": growths, "bought": bought}


def _zones_left(op: str, growth: Json, taken: Iterable[str]) -> list[str]:
    """Of single VMs: the zones without those that are nodes by now. Their names end in the growth and a number."""
    numbers = {name.rpartition(f"-{op}-")[2] for name in taken if f"-{op}-" in name}
    zones = enumerate(growth.get("zones", ()))
    return [NOT_ASKED if str(number) in numbers else zone for number, zone in zones]


def _unclaimed(view: Json, snapshot: Snapshot) -> list[NodeView]:
    growths = view.get("growths", {}).values()
    known = {key_of(growth["pool"], instance) for growth in growths for instance in growth["claimed"]}
    known |= {name.casefold() for name in view.get("spent", ())}
    return [node for node in snapshot.nodes if node.pool and key_of(node.pool, machine_of(node)) not in known]
