"""Gangs and their pods, each test naming only what it is about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from shared.model import Gang, NodeView, Plan, PodClass, Snapshot
from tests import builders


def named(name: str) -> str:
    """As in `Gang.name`."""
    return f"sluice:default/{name}"


def gang(name: str, minimum: int, problem: str = "", **roles: int) -> Gang:
    """A gang of that many pods, so many of each role among them."""
    return Gang(named(name), minimum, tuple(sorted(roles.items())), problem)


def members(gang_name: str, number: int, cpu: int = 1000, role: str = "", **more: Any) -> PodClass:
    """Pending pods of a gang, named after it and their role; `more` are the shape's other fields."""
    field = f"{named(gang_name)}#{role}" if role else named(gang_name)
    shape = builders.shape(cpu, more.pop("memory", 0), gang=field, **more)
    return builders.pods(f"{gang_name}{role}{cpu}", number, shape)


def snapshot(*pending: PodClass, gangs: Iterable[Gang] = (), nodes: Iterable[NodeView] = ()) -> Snapshot:
    """The cluster, and the gangs of its pods."""
    return replace(builders.snapshot(*pending, nodes=nodes), gangs=tuple(gangs))


def served(plan: Plan) -> set[str]:
    """The names of the pods that the plan has a place for."""
    bought = (node.pods for delta in plan.deltas for node in delta.nodes)
    placed = (each.pods for each in plan.fits_existing + plan.fits_upcoming)
    return {ref.name for pods in (*bought, *placed) for ref in pods}


def why(plan: Plan, name: str) -> dict[str, str]:
    """The reasons of a pod that is not served, by pool."""
    found = [group.reasons for group in plan.unserved for ref in group.pods if ref.name == name]
    assert len(found) == 1
    return dict(found[0])
