"""VM sizes: cores and quota family by the naming convention of Azure's sizes, or as a pools file registers them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from local.arm.state import Json

_SIZE = re.compile(r"^Standard_([A-Z]+)(\d+)(?:-\d+)?([a-z]*)(?:_[A-Z]\w*)?(?:_v(\d+))?$")
_GPUS_PER_CORES = {"NC": 6, "ND": 12, "NV": 6}


@dataclass(frozen=True, slots=True)
class Sku:
    """One VM size; `memory_gb` is decimal text in Azure's own answers, a number here."""

    name: str
    vcpus: int
    memory_gb: float
    gpus: int
    family: str


class Skus:
    """Sizes by name; an unknown name is read by the convention, so that no list has to be kept."""

    def __init__(self) -> None:
        self._known: dict[str, Sku] = {}

    def register(self, sku: Sku) -> None:
        """Say what a size has."""
        self._known[sku.name.lower()] = sku

    def of(self, name: str) -> Sku:
        """The size; one core for a name that follows no convention."""
        return self._known.get(name.lower()) or conventional(name)

    def listed(self, location: str, zones: tuple[str, ...] = ("1", "2", "3")) -> list[Json]:
        """Registered sizes in the form of the resource SKUs list."""
        return [_listed(sku, location, zones) for sku in self._known.values()]


def conventional(name: str) -> Sku:
    """Cores and family as the name tells them: Standard_D4s_v5 has 4 cores of standardDSv5Family."""
    found = _SIZE.match(name)
    if found is None:
        return Sku(name, 1, 4.0, 0, f"{name}Family")
    letters, cores, features, version = found[1], int(found[2]), found[3], found[4]
    suffix = f"v{version}" if version else ""
    gpus = max(1, cores // _GPUS_PER_CORES[letters[:2]]) if letters[:2] in _GPUS_PER_CORES else 0
    return Sku(name, cores, cores * 4.0, gpus, f"standard{letters}{features.upper()}{suffix}Family")


def _listed(sku: Sku, location: str, zones: tuple[str, ...]) -> Json:
    capabilities = {"vCPUs": sku.vcpus, "MemoryGB": f"{sku.memory_gb:g}", "GPUs": sku.gpus, "LowPriorityCapable": True}
    return {
        "resourceType": "virtualMachines",
        "name": sku.name,
        "tier": "Standard",
        "family": sku.family,
        "locations": [location],
        "locationInfo": [{"location": location, "zones": list(zones), "zoneDetails": []}],
        "capabilities": [{"name": name, "value": str(value)} for name, value in capabilities.items() if value],
        "restrictions": [],
    }
