"""The ARM body of a VM that a pool is made from: what is wrong with it, told before Azure would."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from shared.model import Pool, Priority

AVAILABILITY_SET_LIMIT = 200
"""VMs in one availability set. Source: Microsoft Learn, "Azure subscription and service limits" (Virtual Machines)."""


def availability_set(body: Mapping[str, Any]) -> str:
    """The resource id of the availability set that the template names, or ""."""
    properties = body.get("properties")
    named = properties.get("availabilitySet") if isinstance(properties, Mapping) else None
    return str(named.get("id") or "") if isinstance(named, Mapping) else ""


def template_problems(body: object, pool: Pool) -> Iterator[str]:
    """Why no VM of the pool can be made from it, one line each.

    A VM is in an availability set or in a zone, never in both (Microsoft Learn, "Availability sets overview"), and no
    Spot VM is in a set (Microsoft Learn, "Error messages for Azure Spot Virtual Machines and scale sets").
    """
    where = f"pool {pool.name}: template {pool.template!r}"
    if not isinstance(body, Mapping) or not isinstance(body.get("properties"), Mapping):
        yield f"{where} is no ARM body of a VM: it has no properties"
        return
    chosen = availability_set(body)
    if chosen and (pool.zones or body.get("zones")):
        yield f"{where} names the availability set {chosen}, and a VM in a zone can be in none: remove one of the two"
    if chosen and pool.priority is Priority.SPOT:
        yield f"{where} names the availability set {chosen}, and Azure takes no Spot VM into one: remove one of the two"
    if chosen and pool.maximum > AVAILABILITY_SET_LIMIT:
        limit = f"an availability set takes {AVAILABILITY_SET_LIMIT} VMs"
        yield f"{where} names an availability set, and max is {pool.maximum}: {limit}, so lower max"
