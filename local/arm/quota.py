"""Core quotas per subscription and location, checked when VMs are asked for, as compute does.

Spot VMs count against lowPriorityCores alone, others against their family and the regional total; deallocated VMs keep
counting (both documented in "Check vCPU quotas").
"""

from __future__ import annotations

from local.arm.errors import ArmError
from local.arm.skus import Skus
from local.arm.state import Estate, Json, Vm

UNLIMITED = 1_000_000
TOTAL = "cores"
LOW_PRIORITY = "lowPriorityCores"
_NAMES = {TOTAL: "Total Regional Cores", LOW_PRIORITY: "LowPriorityCores"}


class Quota:
    """Limits by name; what is not set is not limited."""

    def __init__(self, estate: Estate, skus: Skus) -> None:
        self._estate, self._skus = estate, skus
        self._limits: dict[tuple[str, str], int] = {}

    def set_limit(self, name: str, cores: int, subscription: str = "") -> None:
        """`name` is `cores`, `lowPriorityCores` or a family; an empty subscription means each of them."""
        self._limits[subscription.lower(), name] = cores

    def limit(self, subscription: str, name: str) -> int:
        """In cores."""
        lowered = subscription.lower()
        return self._limits.get((lowered, name), self._limits.get(("", name), UNLIMITED))

    def limits(self) -> dict[str, int]:
        """Every limit that was set, by name; of several subscriptions the smallest."""
        found: dict[str, int] = {}
        for (_, name), cores in self._limits.items():
            found[name] = min(cores, found.get(name, cores))
        return found

    def counts_for(self, vm: Vm) -> tuple[tuple[str, ...], int]:
        """The quotas that a VM uses, and how many cores of each."""
        sku = self._skus.of(vm.sku)
        return _counted(sku.family, spot=vm.spot), sku.vcpus

    def used(self, subscription: str, location: str) -> dict[str, int]:
        """Cores in use by quota name."""
        used = {TOTAL: 0, LOW_PRIORITY: 0}
        prefix = f"/subscriptions/{subscription}/".lower()
        for vm in self._estate.all_vms():
            if vm.location != location or not vm.id.lower().startswith(prefix):
                continue
            sku = self._skus.of(vm.sku)
            for name in _counted(sku.family, spot=vm.spot):
                used[name] = used.get(name, 0) + sku.vcpus
        return used

    def check(self, subscription: str, location: str, sku_name: str, *, spot: bool, count: int) -> None:
        """Raises ArmError 409 OperationNotAllowed when `count` more VMs exceed a quota."""
        if not self._limits or count <= 0:
            return
        sku = self._skus.of(sku_name)
        used, needed = self.used(subscription, location), sku.vcpus * count
        for name in _counted(sku.family, spot=spot):
            limit, usage = self.limit(subscription, name), used.get(name, 0)
            if usage + needed > limit:
                raise ArmError(409, "OperationNotAllowed", _message(name, location, limit, usage, needed))

    def left(self, subscription: str, location: str) -> dict[str, int]:
        """Cores still free under each quota that was set."""
        if not self._limits:
            return {}
        used = self.used(subscription, location)
        return {name: self.limit(subscription, name) - used.get(name, 0) for _, name in self._limits}

    def listed(self, subscription: str, location: str) -> list[Json]:
        """In the form of the usages list."""
        used = self.used(subscription, location)
        names = sorted({*used, *(name for _, name in self._limits)})
        return [
            {
                "name": {"value": name, "localizedValue": _NAMES.get(name, f"{name} vCPUs")},
                "unit": "Count",
                "currentValue": used.get(name, 0),
                "limit": self.limit(subscription, name),
            }
            for name in names
        ]


def _counted(family: str, *, spot: bool) -> tuple[str, ...]:
    return (LOW_PRIORITY,) if spot else (family, TOTAL)


def _message(name: str, location: str, limit: int, usage: int, needed: int) -> str:
    words = _NAMES.get(name, f"{name} Cores")
    return (
        f"Operation could not be completed as it results in exceeding approved {words} quota."
        f" Additional details - Deployment Model: Resource Manager, Location: {location}, Current Limit: {limit},"
        f" Current Usage: {usage}, Additional Required: {needed}, (Minimum) New Limit Required: {usage + needed}."
    )
