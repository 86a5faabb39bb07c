"""Pods, nodes, pools and snapshots with defaults that a test overrides: each test names only what it is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from shared import names
from shared.model import (
    AzureScope,
    BoundPods,
    Config,
    DaemonShape,
    Ledger,
    Mode,
    Movability,
    NodeSelectorTerm,
    NodeView,
    Pairs,
    PodClass,
    PodRef,
    PodShape,
    Pool,
    PoolKind,
    Priority,
    Requirement,
    ScaleDown,
    Snapshot,
    Taint,
    Timing,
    Toleration,
)
from shared.rules.predicates import Ground

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LONG_AGO = NOW - timedelta(hours=5)
GIB = 1024**3
GPU = "nvidia.com/gpu"
GPU_TAINT = Taint("sku", "gpu", "NoSchedule")
GPU_TOLERATION = Toleration("sku", "Equal", "gpu", "NoSchedule")


def shape(cpu: int = 0, memory: int = 0, gpu: int = 0, **more: Any) -> PodShape:
    """A pod's shape: cpu in millicores, memory in bytes; `more` are PodShape's other fields, and `extra` requests."""
    amounts = {"cpu": cpu, "memory": memory, GPU: gpu, **more.pop("extra", {})}
    return PodShape(requests=tuple(sorted((name, amount) for name, amount in amounts.items() if amount)), **more)


def refs(prefix: str, number: int, namespace: str = "default") -> tuple[PodRef, ...]:
    """That many pods, numbered."""
    return tuple(PodRef(namespace, f"{prefix}-{n}", f"uid-{prefix}-{n}") for n in range(number))


def pods(prefix: str, number: int, of: PodShape) -> PodClass:
    """Pending pods of one shape."""
    return PodClass(of, refs(prefix, number))


def needs(
    *expressions: tuple[str, str, tuple[str, ...]], fields: Iterable[tuple[str, str, tuple[str, ...]]] = ()
) -> Any:
    """One node selector term."""
    return NodeSelectorTerm(
        tuple(Requirement(*expression) for expression in expressions), tuple(Requirement(*each) for each in fields)
    )


def ground(name: str = "node-1", labels: Mapping[str, str] | None = None, taints: Iterable[Taint] = ()) -> Ground:
    """A node as the static predicates see it."""
    return Ground(name, labels or {}, tuple(taints))


def pool(name: str = "general", cpu: int = 4000, memory: int = 16 * GIB, gpu: int = 0, **more: Any) -> Pool:
    """A pool of 4-core nodes at 0.20 an hour, up to 100 of them; `more` are Pool's fields."""
    sizes = {"cpu": cpu, "memory": memory, "pods": 110, **({GPU: gpu} if gpu else {})}
    fields: dict[str, Any] = {
        "kind": PoolKind.VMSS,
        "resource": name,
        "sku": f"Standard_{name}",
        "shape": sizes,
        "reserved": {},
        "priority": Priority.REGULAR,
        "price": 0.20,
        "minimum": 0,
        "maximum": 100,
        "zones": (),
        "labels": {},
        "taints": (),
        "fallback": (),
        "template": "",
        "mode": Mode.ACT,
        "azure": AzureScope("subscription", "group", "westeurope"),
    }
    return Pool(name=name, **(fields | more))


def config(*pools: Pool, mode: Mode = Mode.ACT, **scale_down: Any) -> Config:
    """A pools file: nodes may go after 600 s, half of them at once."""
    settings = {"idle_after": 600.0, "utilization_below": 0.5, "drain_timeout": 900.0, "max_parallel_fraction": 0.5}
    return Config(
        cluster="training",
        mode=mode,
        pools=pools or (pool(),),
        scale_down=ScaleDown(**(settings | scale_down)),
        timing=Timing(node_join_timeout=900.0, debounce=1.0, lead_lease=60.0),
    )


def bound(
    prefix: str, number: int, of: PodShape, movability: Movability = Movability.MOVES, why: str = ""
) -> BoundPods:
    """Pods of one shape on a node."""
    return BoundPods(of, refs(prefix, number), movability, why)


def node(name: str, of: Pool | None = None, holds: Iterable[BoundPods] = (), **more: Any) -> NodeView:
    """A ready node of that pool, five hours old, with these pods on it; `more` are NodeView's fields."""
    of = of or pool()
    holds = tuple(holds)
    requested = {"pods": sum(len(each.pods) for each in holds)}
    for each in holds:
        for resource, amount in each.shape.requests:
            requested[resource] = requested.get(resource, 0) + amount * len(each.pods)
    fields: dict[str, Any] = {
        "uid": f"uid-{name}",
        "provider_id": f"azure:///{name}",
        "pool": of.name,
        "labels": {**of.labels, names.POOL_LABEL: of.name, "kubernetes.io/hostname": name},
        "taints": of.taints,
        "allocatable": of.allocatable,
        "requested": requested,
        "host_ports": tuple(port for each in holds for port in each.shape.host_ports),
        "ready": True,
        "unschedulable": False,
        "created_at": LONG_AGO,
        "bound": holds,
    }
    return NodeView(name=name, **(fields | more))


def idle(name: str, of: Pool | None = None, holds: Iterable[BoundPods] = (), **more: Any) -> NodeView:
    """A node that has been idle for an hour."""
    return node(name, of, holds, **({"idle_since": NOW - timedelta(hours=1)} | more))


def snapshot(*pending: PodClass, nodes: Iterable[NodeView] = (), daemons: Iterable[DaemonShape] = ()) -> Snapshot:
    """The cluster as it looks at NOW."""
    return Snapshot("training", 1, 1, NOW, tuple(pending), tuple(nodes), tuple(daemons))


def pairs(**labels: str) -> Pairs:
    """Labels as a shape holds them."""
    return tuple(sorted(labels.items()))


NOTHING = Ledger()
