"""`sluice plan`: what would be done for a cluster, and why. Reads a dump or a live cluster; touches nothing."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson

from local.cli_input import read_pools
from local.cluster_dump import ClusterObjects, from_api_server, from_dump
from local.errors import DONE, UserError
from shared.model import Config, Ledger, Placement, Plan, PodRef, Served, Snapshot, Supply
from shared.packing.pool_choice import known_price
from shared.planning import plan as planning
from shared.planning.explaining import explain
from shared.planning.replacing import with_replacements
from shared.reading.projection import project, storage_seen

_PODS_SHOWN = 4
_NODES_SHOWN = 20
_CLASSES_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `sluice plan`."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--cluster",
        metavar="FILE",
        help="dump of `kubectl get pods,nodes,daemonsets,pvc,pv,sc,csinodes,csidrivers,volumeattachments -A -o json`; "
        "- is stdin",
    )
    source.add_argument("--kubeconfig", metavar="FILE", help="plan for the live cluster that this file names")
    parser.add_argument("--pools", metavar="FILE", required=True, help="the pools file; - is stdin")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="default: text")


def run(arguments: argparse.Namespace) -> int:
    """Print the plan. Raises UserError for whatever keeps it from being made."""
    if arguments.cluster == "-" and arguments.pools == "-":
        raise UserError("--cluster and --pools cannot both be read from standard input")
    with _uncollected():
        _print_plan(arguments)
    return DONE


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the garbage collector: it would search the whole dump again and again, and find nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _print_plan(arguments: argparse.Namespace) -> None:
    _, config = read_pools(arguments.pools, to_act=False)
    objects = from_dump(arguments.cluster) if arguments.cluster else from_api_server(arguments.kubeconfig)
    now = datetime.now(UTC)
    snapshot = _snapshot(objects, config, arguments.cluster or arguments.kubeconfig, now)
    plan = planning.plan(snapshot, config, Ledger(), now)
    plan = with_replacements(plan, snapshot, config, Ledger(), now)
    plan = replace(plan, served=explain(plan, snapshot, config, Ledger(), now))
    if arguments.output == "json":
        sys.stdout.buffer.write(orjson.dumps(as_json(plan)) + b"\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in as_text(plan, config))


def as_json(plan: Plan) -> dict[str, Any]:
    """The plan in the form that scripts rely on. Nodes that are joining count as there: nothing is bought for them."""
    return {
        "deltas": [
            {"pool": delta.pool, "add": delta.add, "nodes": [{"pods": _names(node.pods)} for node in delta.nodes]}
            for delta in plan.deltas
        ],
        "fits_existing": [{"node": each.target, "pods": _names(each.pods)} for each in _placements(plan)],
        "unserved": [
            {"pod": str(pod), "reasons": dict(group.reasons)} for group in plan.unserved for pod in group.pods
        ],
        "cost_per_hour": plan.cost_per_hour,
        "served": [_explained(each) for each in plan.served],
    }


def _explained(each: Served) -> dict[str, Any]:
    return {
        "pod": str(each.example),
        "pods": each.pods,
        "supply": each.supply.value,
        "target": each.target,
        "nodes": each.nodes,
        "why": each.why,
        "cost_per_hour": each.cost,
        "share_per_hour": each.share,
        "runner_up": each.runner_up,
        "runner_up_share_per_hour": each.runner_up_share,
    }


def as_text(plan: Plan, config: Config) -> Iterator[str]:
    """The plan for a person: what is bought and at which price, what fits, what is not served and why."""
    yield from _bought(plan, config)
    yield from _why_bought(plan)
    placements = _placements(plan)
    yield from (f"fits on {each.target}: {_some(each.pods)}" for each in placements[:_NODES_SHOWN])
    if len(placements) > _NODES_SHOWN:
        pods = sum(len(each.pods) for each in placements[_NODES_SHOWN:])
        yield f"fits on {len(placements) - _NODES_SHOWN} more nodes: {pods} pods"
    for group in plan.unserved:
        yield f"not served: {_some(group.pods)}"
        width = max(len(name) for name in group.reasons)
        yield from (f"  {name:{width}}  {reason}" for name, reason in group.reasons.items())
    for name, number in plan.top_up.items():
        spare = plan.headroom.get(name, 0)
        if number > spare:
            yield f"to reach its minimum, pool {name} gets {number - spare} more"
        if spare:
            yield f"for headroom, pool {name} gets {spare} more"
    for name, number in plan.replacements.items():
        yield f"so that dearer nodes can go, pool {name} gets {number} more"
    yield from (f"would go: {each.node} of {each.pool}, {each.reason}" for each in plan.retirements)
    yield from (f"stays: {node}, {reason}" for node, reason in plan.kept.items())
    yield from (f"note: {note}" for note in plan.notes)


def _bought(plan: Plan, config: Config) -> Iterator[str]:
    if not plan.deltas:
        yield "nothing to add"
        return
    width = max(len("POOL"), *(len(delta.pool) for delta in plan.deltas))
    yield f"{'POOL':{width}}  {'ADD':>5}  {'PODS':>6}  {'PER HOUR':>10}"
    for delta in plan.deltas:
        pool = config.pool(delta.pool)
        price = known_price(pool) if pool else None
        cost = "unknown" if price is None else f"{price * delta.add:.3f}"
        yield f"{delta.pool:{width}}  {delta.add:>5}  {sum(len(node.pods) for node in delta.nodes):>6}  {cost:>10}"
    nodes, pods = sum(delta.add for delta in plan.deltas), sum(len(n.pods) for d in plan.deltas for n in d.nodes)
    yield f"{'':{width}}  {nodes:>5}  {pods:>6}  {plan.cost_per_hour:>10.3f}"


def _why_bought(plan: Plan) -> Iterator[str]:
    """The dearest classes, each with why its pool was chosen and what would have been next best."""
    bought = [each for each in plan.served if each.supply is Supply.NEW]
    for each in bought[:_CLASSES_SHOWN]:
        yield f"{_example(each)}: on {each.nodes} new of {each.target}, {_price(each.cost)} per hour"
        second = f"; next best {each.runner_up} at {_price(each.runner_up_share)}" if each.runner_up else ""
        yield f"  {each.why} ({_price(each.share)} for each pod{second})"
    if len(bought) > _CLASSES_SHOWN:
        yield f"and {len(bought) - _CLASSES_SHOWN} more classes of pods; -o json has them"


def _example(each: Served) -> str:
    return f"{each.example} and {each.pods - 1} more" if each.pods > 1 else str(each.example)


def _price(price: float | None) -> str:
    return "unknown" if price is None else f"{price:.4g}"


def _placements(plan: Plan) -> tuple[Placement, ...]:
    return plan.fits_existing + plan.fits_upcoming + plan.reuse


def _names(pods: tuple[PodRef, ...]) -> list[str]:
    return [str(pod) for pod in pods]


def _some(pods: tuple[PodRef, ...]) -> str:
    shown = ", ".join(str(pod) for pod in pods[:_PODS_SHOWN])
    return f"{shown} and {len(pods) - _PODS_SHOWN} more" if len(pods) > _PODS_SHOWN else shown


def _snapshot(objects: ClusterObjects, config: Config, source: str, now: datetime) -> Snapshot:
    try:
        return project(
            cluster=config.cluster,
            epoch=0,
            sequence=0,
            now=now,
            config=config,
            pods=objects.pods,
            nodes=objects.nodes,
            daemon_sets=objects.daemon_sets,
            pod_groups=objects.pod_groups,
            storage=storage_seen(objects.pods, objects.volumes, objects.unread),
        )
    except ValueError as error:
        raise UserError(f"{source}: {error}") from error
