"""The pools file: one per cluster, validated whole at the edge, one frozen object afterwards.

Every key, default, unit and reason stands in the tables below; the parser and the published JSON Schema are both made
from them. `parse_config` asks only for what planning needs; `check_can_act` adds what Azure needs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from shared.model import MOST_AT_ONCE, AzureScope, Config, Drain, Mode, Pool, PoolKind, Priority, ScaleDown, Timing
from shared.quantity import format_amount
from shared.settings import config_aks, config_bounds
from shared.settings.config_schema import (
    MISSING,
    Choice,
    Duration,
    Field,
    Labels,
    ListOf,
    Number,
    Problem,
    Quantities,
    Record,
    Records,
    Switch,
    TaintText,
    Text,
    Whole,
)
from shared.settings.config_text import load_document
from shared.sku_catalogue import PODS_PER_NODE, capacity, learnt_reservation, quota_family, vcpus

Json = dict[str, Any]

MOST_NODES = 100_000
"""Of one pool; twenty times what Kubernetes supports in a cluster, so that only slips of the pen are caught."""

_STRICTNESS = (Mode.ACT, Mode.GROW_ONLY, Mode.OBSERVE, Mode.PAUSED)
_ACTING = (Mode.ACT, Mode.GROW_ONLY)

_NAME = Text(r"[a-z0-9](?:-?[a-z0-9])*", "lower-case letters, digits and single hyphens between them", 40)
_AZURE_NAME = Text(r"[A-Za-z0-9_](?:[A-Za-z0-9_.()-]*[A-Za-z0-9_()-])?", "a name that Azure accepts", 90)
_FILE_NAME = Text(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.json", "the name of a JSON file beside this one", 100)
_SUBSCRIPTION = Text(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", "a subscription id (a GUID)", 36)

_AZURE = (
    Field("subscription", _SUBSCRIPTION, "The subscription's id."),
    Field("resource_group", _AZURE_NAME, "The resource group of the scale set, the VMs or the AKS cluster."),
    Field("location", Text(r"[a-z0-9]+", "a region's short name such as westeurope", 40), "The region's short name."),
    Field("aks_cluster", _AZURE_NAME, "The AKS cluster's name; for kind aks only."),
)

_POOL = (
    Field("name", _NAME, "The pool's name, in plans, reasons and the label sluice.io/pool.", required=True),
    Field("max", Whole(0, MOST_NODES), "Nodes, at most; 0 closes the pool.", required=True),
    Field(
        "min",
        Whole(0, MOST_NODES),
        "Nodes kept even when idle. Default 0: what nobody asked for costs nothing.",
        default=0,
    ),
    Field(
        "kind",
        Choice(PoolKind),
        "vmss (a scale set, uniform or flexible), vm (single VMs) or aks (an agent pool). Default vmss: the usual "
        "carrier of self-managed nodes.",
        default=PoolKind.VMSS.value,
    ),
    Field("resource", _AZURE_NAME, "The scale set, the VM name prefix or the agent pool. Default: the pool's name."),
    Field("template", _FILE_NAME, "Kind vm only: the ARM body of a VM, with {name} and {zone} to be filled in."),
    Field("sku", _AZURE_NAME, "The VM size; gives the shape where it is a known one, and names it in failures."),
    Field("shape", Quantities(), f"A node's capacity before reservations; pods defaults to {PODS_PER_NODE}."),
    Field(
        "reserved",
        Quantities(),
        "What the kubelet and the system keep of the shape. Default: nothing where `shape` is written, since then it "
        "is meant as written; else what AKS documents for a node of that size.",
    ),
    Field(
        "priority",
        Choice(Priority),
        "Spot or Regular. Default Regular: nothing is evicted that nobody declared evictable.",
        default=Priority.REGULAR.value,
    ),
    Field("price", Number(0), "Per node and hour, in one currency throughout. Without it the pool is used last."),
    Field(
        "zones", ListOf(Text("[0-9]{1,2}", "a zone's number in quotes", 2), 9), "Availability zones; none: regional."
    ),
    Field("labels", Labels(), "Labels that the pool's nodes carry from the start."),
    Field("taints", ListOf(TaintText(), 50), "Taints that the pool's nodes carry from the start."),
    Field(
        "fallback", ListOf(_NAME, 50), "Pools tried in this order when this one cannot deliver; without it, by price."
    ),
    Field("mode", Choice(Mode), "As the file's mode, for this pool; the stricter of the two holds."),
    Field(
        "drain",
        Choice(Drain),
        "What becomes of pods that end by themselves (restartPolicy Never or OnFailure) when a node is to go: evict, "
        "or wait, which closes the node and lets them run to their end. Default evict: whoever minds says so.",
        default=Drain.EVICT.value,
    ),
    Field("azure", Record(_AZURE), "Overrides the file's azure, key by key."),
    *config_bounds.pool_fields(MOST_NODES),
)

_SCALE_DOWN = (
    Field(
        "idle_after",
        Duration(0, 86_400),
        "How long a node must be idle before it may go. Default 10m, as cluster-autoscaler's "
        "scale-down-unneeded-time: shorter pays for new boots, longer for empty nodes.",
        default="10m",
    ),
    Field(
        "utilization_below",
        Number(0, 1),
        "Idle is a node whose requests, DaemonSets aside, are below this share of what it offers. Default 0.5, as "
        "cluster-autoscaler's: under half, its pods fit beside another such node's.",
        default=0.5,
    ),
    Field(
        "drain_timeout",
        Duration(1, 86_400),
        "How long budgets and slow terminations may hold a drain up before the node is given back. Default 15m: "
        "outlasts a rolling restart behind a budget, ends before the next idle period would.",
        default="15m",
    ),
    Field(
        "max_parallel_fraction",
        Number(0, 1),
        "Share of the cluster's nodes that may retire at a time, one at least; as many more may wait for pods to run "
        "to their end. Default 0.1: a mistake costs a tenth.",
        default=0.1,
    ),
    Field(
        "completion_timeout",
        Duration(1, 2_592_000),
        "How long a node that is to go may wait for pods that must run to their end (`drain: wait`, or the annotation "
        "sluice.io/wait-for-completion) before it is given back. Default 24h: a night's training ends within it.",
        default="24h",
    ),
    Field(
        "dead_after",
        Duration(360, 2_592_000),
        "How long a node's kubelet must be silent before the node is given up and its VM deleted by force; at least "
        "6m. Default 20m, as cluster-autoscaler's scale-down-unready-time: by then Kubernetes has given up its pods.",
        default="20m",
    ),
    Field(
        "replace_saving",
        Number(0, 1),
        "Busy nodes whose pods fit elsewhere, or on nodes that are cheaper by at least this share of their price, give "
        "way; 0 for never. Default 0: pods that run are not moved for money unless somebody asks for it; 0.2 is a "
        "cautious start.",
        default=0.0,
    ),
    Field(
        "return_to_spot",
        Switch(),
        "Whether nodes of pools that a Spot pool names as its fallback give way to Spot again, once it may be had: "
        "Spot is bought first, one node, then twice as many each time it goes well. Default true: a fallback stands "
        "in, and nobody wants to pay for it longer than needed.",
        default=True,
    ),
)

_TIMING = (
    Field(
        "node_join_timeout",
        Duration(30, 86_400),
        "How long a new VM counts as supply without its node having joined. Default 15m, as cluster-autoscaler's "
        "max-node-provision-time: GPU images with their drivers take up to ten minutes.",
        default="15m",
    ),
    Field(
        "resources_timeout",
        Duration(30, 86_400),
        "How long a new node counts as supply of extended resources (GPUs) that it has not announced yet. "
        "Default 25m: a driver installed after the node has joined takes ten minutes, and may cost a restart.",
        default="25m",
    ),
    Field(
        "debounce",
        Duration(0, 300),
        "How long the exporter collects unschedulable pods before it says so. Default 1s: one burst becomes one plan, "
        "and nobody notices a second beside a boot.",
        default="1s",
    ),
    Field(
        "lead_lease",
        Duration(10, 3600),
        "How long a planner leads without a sign of life before another may take over. Default 2m: longer than a cold "
        "start and a plan together, shorter than the five minutes between two maintenances.",
        default="2m",
    ),
    Field(
        "gang_hold",
        Duration(0, 86_400),
        "How long nodes that came for a gang are kept when no pool can deliver the rest of it. Default 5m: a "
        "fallback's VMs come or fail within three, and idle GPUs are dear.",
        default="5m",
    ),
)

_FILE = Record(
    (
        Field("cluster", _NAME, "The cluster's name: in events, durable instances and containers.", required=True),
        Field(
            "mode",
            Choice(Mode),
            "act, grow-only (never removes), observe (plans and says so) or paused. Default observe: the first rollout "
            "shows what it would do.",
            default=Mode.OBSERVE.value,
        ),
        Field("azure", Record(_AZURE), "Where the pools live; needed to act, not to plan."),
        Field("pools", Records(Record(_POOL), 500), "The pools, in any order.", required=True),
        Field("scale_down", Record(_SCALE_DOWN), "When and how nodes go.", default={}),
        Field("timing", Record(_TIMING), "The waits of growing and noticing.", default={}),
        *config_bounds.file_fields(_NAME),
    )
)


class ConfigError(ValueError):
    """The pools file cannot be used; `problems` holds everything that is wrong with it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def parse_config(text: str | bytes, *, to_act: bool = False) -> Config:
    """The file's meaning, defaults filled in; with `to_act` also everything that `check_can_act` asks for.

    Raises ConfigError with all problems at once.
    """
    problems: list[Problem] = []
    document = load_document(text, problems)
    written = None if problems else _FILE.read(document, "", problems)
    if written is None:
        raise ConfigError(problems)
    pools = _pools(written, problems)
    problems += _cross_checks(pools)
    mixes, headroom = config_bounds.mixes_of(written), config_bounds.headroom_of(written)
    problems += config_bounds.problems_of(pools, mixes, headroom)
    problems += config_aks.problems_of(pools)
    if to_act:
        problems += _missing_to_act(pools, {problem.path for problem in problems})
    if problems:
        raise ConfigError(problems)
    return Config(
        cluster=written["cluster"],
        mode=written["mode"],
        pools=tuple(pools.values()),
        scale_down=ScaleDown(**written["scale_down"]),
        timing=Timing(**written["timing"]),
        mixes=tuple(mixes.values()),
        headroom=headroom,
        priority_cutoff=written["priority_cutoff"],
    )


def check_can_act(config: Config) -> tuple[Problem, ...]:
    """What is missing for the pools whose mode lets Sluice write to Azure; empty when nothing is."""
    return tuple(_missing_to_act({f"pools[{index}]": pool for index, pool in enumerate(config.pools)}))


def json_schema() -> Json:
    """The JSON Schema of a pools file. What spans several keys (min above max, fallbacks) only the parser can say."""
    schema = _FILE.schema()
    schema["properties"]["pools"]["items"]["anyOf"] = [{"required": ["shape"]}, {"required": ["sku"]}]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Sluice pools file",
        **schema,
    }


def _pools(written: Mapping[str, Any], problems: list[Problem]) -> dict[str, Pool]:
    """The pools by path. One with problems is there too, as far as it could be read, so that checks can go on."""
    mode, azure = written.get("mode", Mode.OBSERVE), written.get("azure")
    found: dict[str, Pool] = {}
    for path, fields in written.get("pools", {}).items():
        shape, reserved = _capacity(fields, path, problems)
        pool = _pool(fields, shape, reserved, _scope(azure, fields.get("azure")), mode)
        found[path] = dataclasses.replace(pool, cluster=written.get("cluster", ""))
    return found


def _pool(fields: Json, shape: dict[str, int], reserved: dict[str, int], azure: AzureScope | None, mode: Mode) -> Pool:
    name: str = fields.get("name", "")
    kind, resource = fields.get("kind", PoolKind.VMSS), fields.get("resource") or name
    priority = fields.get("priority", Priority.REGULAR)
    return Pool(
        name=name,
        kind=kind,
        resource=resource,
        sku=fields.get("sku", ""),
        shape=shape,
        reserved=reserved,
        priority=priority,
        price=fields.get("price"),
        minimum=fields.get("min", 0),
        maximum=fields.get("max", MOST_NODES),
        zones=fields.get("zones", ()),
        labels=config_aks.labels_of(kind, resource, priority, fields.get("labels", {})),
        taints=config_aks.taints_of(kind, priority, fields.get("taints", ())),
        fallback=fields.get("fallback", ()),
        template=fields.get("template", ""),
        mode=max(mode, fields.get("mode", Mode.ACT), key=_STRICTNESS.index),
        azure=azure,
        quota_family=fields.get("quota", {}).get("family", quota_family(fields.get("sku", ""))),
        vcpus=fields.get("quota", {}).get("vcpus", vcpus(fields.get("sku", ""))),
        placement_groups=fields.get("placement_groups"),
        headroom=fields.get("headroom", 0),
        ramp=fields.get("ramp", MOST_AT_ONCE),
        drain=fields.get("drain", Drain.EVICT),
    )


def _scope(shared: Mapping[str, str] | None, own: Mapping[str, str] | None) -> AzureScope | None:
    if shared is None and own is None:
        return None
    merged = {"subscription": "", "resource_group": "", "location": "", **(shared or {}), **(own or {})}
    return AzureScope(**merged)


def _capacity(fields: Json, path: str, problems: list[Problem]) -> tuple[dict[str, int], dict[str, int]]:
    """Shape and reservation of a pool; empty where problems leave them open."""
    if any(problem.path.startswith(f"{path}.shape") for problem in problems):
        return {}, {}
    written: dict[str, int] | None = fields.get("shape")
    shape = {"pods": PODS_PER_NODE, **written} if written is not None else capacity(fields.get("sku", ""))
    if shape is None:
        message = "give the shape, such as {cpu: 4, memory: 16Gi}"
        message += ": this size is not in the catalogue" if "sku" in fields else ", or a known sku"
        problems.append(Problem(f"{path}.shape", fields.get("sku", MISSING), message))
        return {}, {}
    if missing := [name for name in ("cpu", "memory", "pods") if not shape.get(name)]:
        problems.extend(
            Problem(f"{path}.shape.{name}", shape.get(name, MISSING), "must be above 0") for name in missing
        )
        return {}, {}
    reserved: dict[str, int] = fields.get("reserved", {} if written is not None else learnt_reservation(shape))
    problems.extend(_over_reserved(shape, reserved, path))
    return shape, reserved


def _over_reserved(shape: Mapping[str, int], reserved: Mapping[str, int], path: str) -> Iterator[Problem]:
    for name, kept in reserved.items():
        if kept > shape.get(name, 0):
            limit = format_amount(name, shape.get(name, 0))
            yield Problem(f"{path}.reserved.{name}", format_amount(name, kept), f"is more than the shape's {limit}")


def _cross_checks(pools: Mapping[str, Pool]) -> Iterator[Problem]:
    yield from _duplicates(pools)
    names = {pool.name for pool in pools.values()}
    for path, pool in pools.items():
        if pool.minimum > pool.maximum:
            yield Problem(f"{path}.min", pool.minimum, f"is above max {pool.maximum}; lower it, or raise max")
        if pool.template and pool.kind is not PoolKind.VM:
            yield Problem(f"{path}.template", pool.template, f"belongs to kind vm only; this pool is {pool.kind}")
        for index, name in enumerate(pool.fallback):
            if name == pool.name:
                yield Problem(f"{path}.fallback[{index}]", name, "is the pool itself; remove it")
            elif name not in names:
                yield Problem(
                    f"{path}.fallback[{index}]", name, f"is no pool of this file ({', '.join(sorted(names))})"
                )
    yield from _cycles(pools)


def _duplicates(pools: Mapping[str, Pool]) -> Iterator[Problem]:
    names: dict[str, str] = {}
    carriers: dict[tuple[str, ...], str] = {}
    for path, pool in pools.items():
        if pool.name in names and pool.name:
            yield Problem(f"{path}.name", pool.name, f"is the name of {names[pool.name]} already; choose another")
        names.setdefault(pool.name, path)
        scope = (pool.azure.subscription, pool.azure.resource_group) if pool.azure else ("", "")
        carrier = tuple(part.casefold() for part in (pool.kind, pool.resource, *scope))
        if carrier in carriers and pool.resource:
            message = f"carries {carriers[carrier]} already; two pools cannot share one {pool.kind}"
            yield Problem(f"{path}.resource", pool.resource, message)
        carriers.setdefault(carrier, path)


def _cycles(pools: Mapping[str, Pool]) -> Iterator[Problem]:
    """Each pool that is reached again from itself, named at the pool; a pool naming itself is told elsewhere."""
    next_pools = {pool.name: [name for name in pool.fallback if name != pool.name] for pool in pools.values()}
    for path, pool in pools.items():
        seen: set[str] = set()
        ahead = list(next_pools[pool.name])
        while ahead:
            name = ahead.pop()
            if name not in seen:
                seen.add(name)
                ahead.extend(next_pools.get(name, ()))
        if pool.name in seen:
            yield Problem(f"{path}.fallback", list(pool.fallback), "leads back to this pool; break the circle")


def _missing_to_act(pools: Mapping[str, Pool], told: Collection[str] = ()) -> Iterator[Problem]:
    """`told`: paths of problems that are known already; what is wrong there is not missing as well."""
    for path, pool in pools.items():
        if pool.mode not in _ACTING:
            continue
        scope = dataclasses.asdict(pool.azure) if pool.azure else {}
        missing = [
            name
            for name in ("subscription", "resource_group", "location")
            if not scope.get(name) and not {f"azure.{name}", f"{path}.azure.{name}"} & set(told)
        ]
        if missing:
            message = (
                f"to act, {' and '.join(missing)} must be given, here or in the file's azure; or set mode: observe"
            )
            yield Problem(f"{path}.azure", MISSING, message)
        yield from config_aks.missing_to_act(path, pool)
        if pool.kind is PoolKind.VM and not pool.template:
            yield Problem(
                f"{path}.template", MISSING, "to act, kind vm needs the ARM body of a VM; or set mode: observe"
            )
