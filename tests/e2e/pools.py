"""Pools files with the times of a test: idleness counts after seconds, not minutes."""

from __future__ import annotations


def pools_file(*pools: str, mode: str = "act", drain_timeout: str = "60s", idle_after: str = "3s") -> str:
    """A pools file with these entries, each a YAML flow mapping."""
    entries = "\n".join(f"  - {pool}" for pool in pools)
    return f"""
cluster: real
mode: {mode}
azure: {{subscription: 00000000-0000-0000-0000-000000000000, resource_group: sluice, location: westeurope}}
pools:
{entries}
scale_down: {{idle_after: {idle_after}, drain_timeout: {drain_timeout}, max_parallel_fraction: 1}}
timing: {{node_join_timeout: 60s, debounce: 500ms, lead_lease: 30s}}
"""


def pool(name: str, *, cpu: int = 4, most: int = 10, price: float = 0.2, **more: str) -> str:
    """An entry whose nodes offer `cpu` CPUs to pods."""
    extra = "".join(f", {key}: {value}" for key, value in more.items())
    shape = f"{{cpu: {cpu}, memory: {4 * cpu}Gi}}"
    return f"{{name: {name}, sku: Standard_D{cpu}s_v5, shape: {shape}, price: {price}, max: {most}{extra}}}"


SPOT = pool("cpu-spot", price=0.05, priority="Spot", fallback="[cpu-regular]")
REGULAR = pool("cpu-regular")
