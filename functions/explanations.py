"""GET /api/explain: why a pod waits or goes where it goes, why a node stays or leaves.

Answered by the plan that would be made this moment, of the newest snapshot and of all that the ledger remembers;
nothing is begun by it. What a node's saga said, and what is paused, comes on top.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

import azure.functions as func

from functions import quotas
from functions.asking import OPERATE, READ, Mistake, admitted, cluster_asked, route, subject_of
from functions.durable import Json, Registry, Starter, cluster_entity
from functions.nodes import Load, holder_of, is_cordoned, is_ready, load_of, path_of
from functions.planning import decide, without_gone
from functions.status import STAYED
from functions.world import World, may_grow, may_retire
from shared.adapters.errors import NotFound, RetryLater
from shared.model import Config, Ledger, Mode, NodeView, Plan, PodRef, Pool, Snapshot
from shared.planning.evicted import with_evictions
from shared.planning.explaining import explain
from shared.provider_id import pool_of
from shared.reading.drain import node_blocked_by
from shared.reading.pods import (
    DEFAULT_SCHEDULER,
    is_pending_candidate,
    is_terminal,
    is_terminating,
    owner_kind,
)
from shared.reading.projection import utilization
from shared.state import arrivals
from shared.state.ledger import ClusterLedger, moment, planning_ledger

_LEFT = (
    "whoever runs that pool is to buy it, and no other pool buys for the pod meanwhile; if nobody runs it: "
    "sluice pause --pool {pool}"
)
MOST_EXPLAINED = 200  # classes of pods for which the reason of their place is worked out


@dataclass(frozen=True, slots=True)
class Picture:
    """The cluster as the next plan would see it, and that plan; None where no snapshot has come in."""

    config: Config
    view: Json
    now: datetime
    ledger: Ledger
    snapshot: Snapshot | None
    plan: Plan


async def picture_of(world: World, client: Starter, cluster: str) -> Picture:
    """What is known now, and what would be decided by it."""
    state = await client.read_entity_state(cluster_entity(cluster))
    known = ClusterLedger.decode(state.entity_state if state.entity_exists else None).view()
    config, now = world.config(cluster), world.services.clock()
    snapshot = _newest(world, cluster, known)
    if snapshot is None:
        return Picture(config, known, now, planning_ledger(known, now), None, Plan())
    view = arrivals.without_arrived(known, arrivals.arrived(snapshot, known), snapshot)
    ledger = replace(planning_ledger(view, now), usages=quotas.known(world, config, known, now))
    ledger = with_evictions(snapshot, config, ledger, now)
    snapshot, decided = decide(snapshot, config, ledger, now)
    decided = replace(decided, served=explain(decided, snapshot, config, ledger, now, MOST_EXPLAINED))
    return Picture(config, known, now, ledger, snapshot, decided)


def _newest(world: World, cluster: str, view: Json) -> Snapshot | None:
    if not view["snapshot"]:
        return None
    try:
        return without_gone(world.snapshot(cluster, view["snapshot"]), view)
    except NotFound:
        return None  # a day has passed since


def _gone(kind: str, name: str) -> Mistake:
    told = f"sluice history {name} tells what was done to it"
    return Mistake(f"{kind} {name}: is not there (any more); {told}", 404)


def of_pod(world: World, cluster: str, seen: Picture, name: str) -> Json:
    """Why a pod is where it is. Raises Mistake when there is none."""
    namespace, plain = name.split("/")
    try:
        pod = world.api(cluster).get(f"/api/v1/namespaces/{namespace}/pods/{plain}")
    except NotFound as error:
        raise Mistake(
            f"pod {name}: is not there (any more); sluice history {name} tells what was done to it", 404
        ) from error
    ref = PodRef(namespace, plain, pod["metadata"].get("uid", ""))
    verdict, because = _pod_verdict(pod, ref, seen)
    return {"verdict": verdict, "because": [*because, *_standing(world, cluster, seen)] if because else [*because]}


def _pod_verdict(pod: Json, ref: PodRef, seen: Picture) -> tuple[str, list[str]]:
    still = _no_candidate(pod)
    if still:
        return still, []
    if seen.snapshot is None:
        return "nobody has told Sluice of it yet", ["no snapshot of the cluster is there: does the exporter run?"]
    if not any(ref in group.pods for group in seen.snapshot.pending):
        seen_at = f"{seen.snapshot.observed_at:%Y-%m-%d %H:%M:%S} UTC"
        told = f"the newest snapshot, of {seen_at}, does not show it as waiting"
        return "nobody has told Sluice of it yet", [
            told,
            "the exporter tells in seconds, the sweep in five minutes",
        ]
    return _placed(ref, seen)


def _no_candidate(pod: Json) -> str:  # noqa: PLR0911 - one line per obstacle
    """Why a pod does not wait for a node, or ""."""
    spec = pod.get("spec") or {}
    if spec.get("nodeName"):
        return f"it has a node: {spec['nodeName']}"
    if is_terminal(pod):
        return "it has ended"
    if is_terminating(pod):
        return "it is being deleted"
    if spec.get("schedulingGates"):
        gates = ", ".join(gate.get("name", "") for gate in spec["schedulingGates"])
        return f"kube-scheduler must not place it yet: scheduling gates {gates}"
    if owner_kind(pod) == "DaemonSet":
        return "it is a DaemonSet's, and comes with its node: no node is bought for it"
    if is_pending_candidate(pod):
        return ""
    scheduler = spec.get("schedulerName", DEFAULT_SCHEDULER)
    if scheduler != DEFAULT_SCHEDULER:
        return f"scheduler {scheduler} is to place it, for which no nodes are bought"
    return "kube-scheduler does not (yet) say that it lacks room: see the pod's condition PodScheduled"


def _placed(ref: PodRef, seen: Picture) -> tuple[str, list[str]]:
    """Where the plan puts a waiting pod, and why, or why nowhere."""
    plan = seen.plan
    for placed in plan.fits_existing:
        if ref in placed.pods:
            return f"it fits on {placed.target}, which is there", ["kube-scheduler will place it"]
    for placed in plan.reuse:
        if ref in placed.pods:
            return f"it gets {placed.target}, which was on its way out and is called back", []
    for placed in plan.fits_upcoming:
        if ref in placed.pods:
            return f"it waits for a node of {placed.target} that is coming", list(_coming(placed.target, seen))
    for delta in plan.deltas:
        if any(ref in node.pods for node in delta.nodes):
            return _bought(ref, delta.pool, delta.add, seen)
    reasons = next((group.reasons for group in plan.unserved if ref in group.pods), {})
    width = max(map(len, reasons), default=0)
    lines = [f"{pool:{width}}  {reason}" for pool, reason in reasons.items()]
    return "it is not served", lines or ["the newest snapshot does not show it as waiting any more"]


def _bought(ref: PodRef, pool_name: str, number: int, seen: Picture) -> tuple[str, list[str]]:
    pool = seen.config.pool(pool_name)
    mode = pool.mode if pool is not None else Mode.ACT
    acts = pool is not None and may_grow(pool)
    verb = "the next plan buys" if acts else f"{mode.value}: a plan would buy"
    why = next(
        (each.why for each in seen.plan.served if each.target == pool_name and _same(each.example, ref, seen)), ""
    )
    left = [] if acts else [_LEFT.format(pool=pool_name)]
    return f"{verb} {number} of {pool_name} for it and others", [line for line in (why, *left) if line]


def _same(example: PodRef, ref: PodRef, seen: Picture) -> bool:
    """Whether two pods are of one class."""
    pending = seen.snapshot.pending if seen.snapshot is not None else ()
    return any(example in group.pods and ref in group.pods for group in pending)


def _coming(pool: str, seen: Picture) -> Iterator[str]:
    for op, growth in seen.view["growths"].items():
        if growth["pool"] == pool:
            joining = f", {len(growth['claimed'])} still to join" if growth["claimed"] else ""
            yield (
                f"{growth['add']} asked for at {_at(growth['asked'])} by operation {op}, {growth['stage']}{joining};"
                f" counted on until {_at(growth['deadline'])}"
            )


def _standing(world: World, cluster: str, seen: Picture) -> Iterator[str]:
    """What bears on all pods: pauses, refusals of Azure, the age of the snapshot."""
    for name, entry in world.pauses(cluster).items():
        what = "the cluster" if name == "*" else f"pool {name}"
        yield f"{what} is paused{' by ' + entry['by'] if entry['by'] else ''}" + (
            f": {entry['reason']}" if entry["reason"] else ""
        )
    for memory in seen.view["failures"]:
        where = " ".join(filter(None, (memory.get("pool"), memory["sku"], memory["priority"], memory["zone"])))
        yield f"Azure said {memory['code']} for {where or 'everything'}: tried again after {_at(memory['until'])}"


def of_node(world: World, cluster: str, seen: Picture, name: str) -> Json:
    """Why a node stays or goes. Raises Mistake when there is none."""
    try:
        node = world.api(cluster).get(path_of(name))
    except NotFound as error:
        raise Mistake(
            f"node {name}: is not there (any more); sluice history {name} tells what was done to it", 404
        ) from error
    pool = seen.config.pool(pool_of(node, seen.config))
    verdict = _node_verdict(node, pool, seen)
    return {"verdict": verdict, "because": list(_of_node(world, cluster, node, pool, seen))}


def _unseen(kind: str, name: str, seen: Picture, error: RetryLater) -> Json:
    """The answer while the API server gives none."""
    going = seen.view["retirements"].get(name) if kind == "node" else None
    verdict = _leaving(going) if going is not None else "the API server does not answer, and it can't be looked at"
    meanwhile = "meanwhile no node is drained or deleted, and nodes are bought by what was seen in the last two minutes"
    return {"verdict": verdict, "because": [error.message, meanwhile]}


def _leaving(going: Json) -> str:
    held = f"; {going['kind']}: {going['why']}" if going["why"] else ""
    return f"it is leaving: {going['stage']} since {_at(going['since'])}, operation {going['op']}{held}"


def _node_verdict(node: Json, pool: Pool | None, seen: Picture) -> str:
    name = node["metadata"]["name"]
    going = seen.view["retirements"].get(name)
    if pool is None:
        return "it belongs to no pool of the pools file: it is never touched"
    if going is not None:
        return _leaving(going)
    reason = next((each.reason for each in seen.plan.retirements if each.node == name), "")
    if reason:
        acts = may_retire(pool)
        return f"the next plan retires it: {reason}" if acts else f"{pool.mode.value}: it would be retired, {reason}"
    if name in seen.plan.kept:
        return f"it stays: {seen.plan.kept[name]}"
    view = _view(name, seen)
    if view is None:
        return "it stays: the newest snapshot does not show it, and nothing is decided about what is not shown"
    return f"it stays: {_busy(view, seen)}"


def _view(name: str, seen: Picture) -> NodeView | None:
    nodes = seen.snapshot.nodes if seen.snapshot is not None else ()
    return next((each for each in nodes if each.name == name), None)


def _busy(view: NodeView, seen: Picture) -> str:
    settings = seen.config.scale_down
    used, below = f"{utilization(view):.0%}", f"{settings.utilization_below:.0%}"
    if view.idle_since is None:
        return f"it is in use: its pods ask for {used}, and idle is below {below}"
    patience = f"{settings.idle_after / 60:.0f} min"
    return f"idle since {view.idle_since:%Y-%m-%d %H:%M:%S} UTC ({used} asked for), and it may go after {patience}"


def _of_node(world: World, cluster: str, node: Json, pool: Pool | None, seen: Picture) -> Iterator[str]:
    name = node["metadata"]["name"]
    if not is_ready(node):
        yield "it is not Ready"
    if is_cordoned(node):
        op = holder_of(node)
        yield (f"cordoned by operation {op} of Sluice" if op else "cordoned by an administrator, hence left alone")
    if opted_out := node_blocked_by(node["metadata"].get("annotations") or {}):
        yield opted_out
    if pool is None:
        return
    if not may_retire(pool):
        yield f"pool {pool.name} is in mode {pool.mode.value}: no node is taken away"
    yield from _of_load(load_of(world.api(cluster), name, pool.drain))
    for placed in seen.plan.fits_existing:
        if placed.target == name:
            yield f"waiting pods that are to come to it: {len(placed.pods)}"
    yield from _told_before(world, cluster, name, seen)


def _of_load(load: Load) -> Iterator[str]:
    if load.blocked:
        yield f"a pod keeps it: {load.blocked}"
    elif load.remaining:
        yield f"{load.remaining} pod{'s' * (load.remaining != 1)} would have to move"
    if load.waiting:
        yield f"{len(load.waiting)} pod{'s' * (len(load.waiting) != 1)} would run to the end first"


def _told_before(world: World, cluster: str, name: str, seen: Picture) -> Iterator[str]:
    cooling = seen.view["cooling"].get(name)
    if cooling is not None and moment(cooling["until"]) > seen.now:
        yield f"its retirement was given up ({cooling['reason']}); not tried again before {_at(cooling['until'])}"
    verdict = world.document_or(cluster, f"{STAYED}{name}.json", {})
    if verdict:
        yield f"it stayed at {_at(verdict['at'])}: {verdict['kept']}"


def _at(stamp: str) -> str:
    return f"{stamp[:10]} {stamp[11:19]} UTC"


def registry(world: World) -> Registry:
    """The HTTP trigger."""

    async def explaining(req: func.HttpRequest, client: Starter) -> Json:
        admitted(world, req, READ, OPERATE)
        cluster = cluster_asked(world, req)
        kind, name = subject_of(world, cluster, req)
        if kind == "pool":
            raise Mistake(
                f"pool {name}: explained are pods and nodes; sluice status tells of pools, sluice history too"
            )
        seen = await picture_of(world, client, cluster)
        try:
            answer = (of_node if kind == "node" else of_pod)(world, cluster, seen, name)
        except RetryLater as error:
            answer = _unseen(kind, name, seen, error)
        return {"cluster": cluster, "kind": kind, "name": name, "at": seen.now.isoformat(), **answer}

    made = Registry()
    made.http(route("explain", explaining), "explain", keys=world.services.function_keys)
    return made
