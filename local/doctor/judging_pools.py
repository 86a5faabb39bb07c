"""A pool of the pools file against what carries it in Azure: a scale set or an agent pool, as ARM shows it.

What ARM does not show (taints and labels that a kubelet is started with) is judged by the nodes: `judging_nodes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from local.doctor.findings import Check, Finding
from shared.adapters.azure_agent_pools import size_of
from shared.adapters.azure_parsing import scale_set_of
from shared.adapters.protocols import ScaleSet
from shared.model import PlacementGroups, Pool, PoolKind, Priority, Taint

Json = dict[str, Any]
Complaint = tuple[str, str]
_TEMPLATE = "k8s.io_cluster-autoscaler_node-template_"
_SHOWN = 3


def judge(pool: Pool, body: Json | None) -> Iterator[Finding]:
    """`body` None: there is nothing of that name. One finding per fault; one that is well when there is none."""
    check = Check("pool", pool.name)
    if body is None:
        what = "agent pool" if pool.kind is PoolKind.AKS else "scale set"
        where = pool.azure.resource_group if pool.azure else "?"
        told = f"resource: there is no {what} {pool.resource} in {where}"
        yield check.failed(told, f"make the {what}, or name the right one in `resource` and `azure`")
        return
    complaints = list(_agent_pool(pool, body) if pool.kind is PoolKind.AKS else _scale_set(pool, body))
    warnings = list(_capacity(pool, _count(pool, body)))
    yield from (check.failed(told, remedy) for told, remedy in complaints)
    yield from (check.warning(told, remedy) for told, remedy in warnings)
    if not complaints and not warnings:
        yield check.ok(f"{pool.resource} is as the pools file says")


def judge_autoscale(pools: Iterable[Pool], settings: Iterable[Json]) -> Iterator[Finding]:
    """Azure Monitor's autoscale settings of a resource group; one that is switched on acts on its target."""
    active = {
        str(each.get("properties", {}).get("targetResourceUri", "")).rsplit("/", 1)[-1].lower(): each.get("name")
        for each in settings
        if each.get("properties", {}).get("enabled") is not False
    }
    for pool in pools:
        check, rule = Check("scaler", pool.name), active.get(pool.resource.lower())
        if rule is None:
            yield check.ok("no autoscale setting of Azure Monitor acts on it")
            continue
        told = f"the autoscale setting {rule} acts on {pool.resource} too, and two scalers would undo each other"
        yield check.failed(told, f"az monitor autoscale delete --name {rule}, or set the pool's mode to observe")


def _scale_set(pool: Pool, body: Json) -> Iterator[Complaint]:
    properties = body.get("properties", {})
    profile = properties.get("virtualMachineProfile") or {}
    spot = profile.get("priority") in ("Spot", "Low")
    yield from _equal("sku", pool.sku or None, (body.get("sku") or {}).get("name"))
    yield from _equal("priority", str(pool.priority), "Spot" if spot else "Regular")
    yield from _equal("zones", sorted(pool.zones), sorted(map(str, body.get("zones") or ())))
    yield from _equal("location", _place(pool.azure.location) if pool.azure else None, _place(body.get("location")))
    yield from _eviction("evictionPolicy", pool, profile.get("evictionPolicy"))
    seen = scale_set_of(body)
    yield from _unfit(seen)
    if seen.overprovisions:
        yield (
            "overprovision is true: Azure makes more VMs than are asked for",
            "set overprovision: false on the scale set",
        )
    if seen.single_group and pool.ceiling > PlacementGroups.SINGLE.most:
        told = f"max {pool.maximum} is above the {PlacementGroups.SINGLE.most} VMs of a single placement group"
        yield told, "lower max, or make the scale set with singlePlacementGroup: false"
    yield from _kept_parts(profile) if seen.flexible else ()
    yield from _announced(pool, body.get("tags") or {})


def _unfit(seen: ScaleSet) -> Iterator[Complaint]:
    """What the app says of such a pool, which it leaves alone as long as it is so: why, and what to do."""
    told, _, remedy = seen.unfit.partition(": ")
    if told:
        yield told, f"{remedy}; until then Sluice does nothing with the pool"


def _agent_pool(pool: Pool, body: Json) -> Iterator[Complaint]:
    properties = body.get("properties", {})
    yield from _unfit(size_of(body, pool))
    spot = properties.get("scaleSetPriority") == "Spot"
    yield from _equal("sku", pool.sku or None, properties.get("vmSize"))
    yield from _equal("priority", str(pool.priority), "Spot" if spot else "Regular")
    yield from _equal("zones", sorted(pool.zones), sorted(map(str, properties.get("availabilityZones") or ())))
    yield from _eviction("scaleSetEvictionPolicy", pool, properties.get("scaleSetEvictionPolicy"))
    labels = properties.get("nodeLabels") or {}
    yield from _lacking("label", {key: value for key, value in pool.labels.items() if not _by_aks(key)}, labels)
    yield from _taints(pool, map(_taint, properties.get("nodeTaints") or ()))


def _by_aks(label: str) -> bool:
    """AKS writes these by itself, and does not count them among the pool's own."""
    return label == "agentpool" or label.startswith("kubernetes.azure.com/")


def _count(pool: Pool, body: Json) -> int:
    return size_of(body, pool).capacity if pool.kind is PoolKind.AKS else scale_set_of(body).capacity


def _capacity(pool: Pool, count: int) -> Iterator[Complaint]:
    if count > pool.maximum:
        told = f"limits: {pool.resource} has {count} machines, max is {pool.maximum}"
        yield told, "raise max, or let Sluice shrink it as nodes fall idle; it will not grow meanwhile"


def _equal(field: str, written: object, found: object) -> Iterator[Complaint]:
    if written is None or str(written).lower() == str(found).lower():
        return
    told = f"{field}: the pools file says {_shown(written)}, Azure {_shown(found)}"
    yield told, f"set {field} in the pools file to what is there, or make the pool in Azure anew"


def _shown(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(value)}]"
    return str(value) if value not in (None, "") else "nothing"


def _place(name: object) -> str | None:
    return str(name).replace(" ", "").lower() if name else None


def _eviction(field: str, pool: Pool, found: object) -> Iterator[Complaint]:
    if pool.priority is Priority.SPOT and found == "Deallocate":
        told = f"{field} is Deallocate: evicted VMs go on counting in the capacity and against the quota"
        yield told, "make the pool anew with eviction policy Delete; Azure changes it on no pool that exists"


def _kept_parts(profile: Json) -> Iterator[Complaint]:
    """VMs of a Flexible set are VMs of their own: what is not deleted with them stays, and costs."""
    storage, network = profile.get("storageProfile") or {}, profile.get("networkProfile") or {}
    parts = {"osDisk": storage.get("osDisk") or {}}
    for configuration in network.get("networkInterfaceConfigurations") or ():
        parts[f"network interface {configuration.get('name')}"] = configuration.get("properties") or {}
    for name, part in parts.items():
        if part.get("deleteOption") == "Detach":
            told = f"deleteOption of {name} is Detach: it stays when its VM goes, and is cleared up minutes later"
            yield told, "set deleteOption: Delete in the scale set's model"


def _announced(pool: Pool, tags: Json) -> Iterator[Complaint]:
    """Labels and taints as cluster-autoscaler's tags announce them for new nodes, where there are such tags."""
    labels = {
        _untagged(name, "label_"): str(value) for name, value in tags.items() if name.startswith(f"{_TEMPLATE}label_")
    }
    taints = [
        _taint(f"{_untagged(name, 'taint_')}={value}")
        for name, value in tags.items()
        if name.startswith(f"{_TEMPLATE}taint_")
    ]
    if labels:
        yield from _lacking("label", pool.labels, labels)
    if taints:
        yield from _taints(pool, taints)


def _untagged(name: str, kind: str) -> str:
    """Source: cluster-autoscaler, cloudprovider/azure README: `/` is written `_`, and `_` is written `~2`."""
    return name.removeprefix(_TEMPLATE + kind).replace("_", "/").replace("~2", "_")


def _taint(text: str) -> Taint:
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return Taint(key, value, effect)


def _lacking(what: str, written: Iterable[str] | dict[str, str], found: Json) -> Iterator[Complaint]:
    pairs = dict(written) if isinstance(written, dict) else {}
    wrong = [f"{key}={value}" for key, value in pairs.items() if str(found.get(key)) != value]
    if wrong:
        told = f"{what}s: the pools file says {', '.join(wrong[:_SHOWN])}, which nodes there do not get"
        yield told, f"give the pool's nodes these {what}s, or take them out of the pools file"


def _taints(pool: Pool, found: Iterable[Taint]) -> Iterator[Complaint]:
    there = {taint for taint in found if taint.effect != "PreferNoSchedule"}
    written = {taint for taint in pool.taints if taint.effect != "PreferNoSchedule"}
    yield from _differing("nodes get, and the pools file lacks", there - written, _ADD)
    yield from _differing("the pools file says, and nodes do not get", written - there, _DROP)


_ADD = "add them to `taints`: pods that do not tolerate them would be planned for, and never come"
_DROP = "take them out of `taints`, or give them to the pool's nodes: pods that could go there are not planned for"


def _differing(how: str, taints: set[Taint], remedy: str) -> Iterator[Complaint]:
    if taints:
        named = sorted(f"{taint.key}={taint.value}:{taint.effect}" for taint in taints)
        yield f"taints: {how} {', '.join(named[:_SHOWN])}", remedy
