"""Deciding: from the newest snapshot, the pools file and the ledger to a plan, and what of it may be begun."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice

import orjson

from functions import quotas, verifying
from functions.budgets import nodes_held
from functions.durable import Registry
from functions.observing import note_wishes
from functions.outcomes import Json, tell
from functions.wishes import growths_of, operation_id
from functions.world import World, budget_key, may_grow, may_retire
from shared.adapters.errors import RetryLater
from shared.model import (
    Config,
    Judged,
    Ledger,
    Mode,
    NodeView,
    Plan,
    PodRef,
    ReturnState,
    Snapshot,
    Supply,
)
from shared.names import API_DISCOVERY
from shared.nodes.starting import MOST_NOMINATED, Opening, openings
from shared.planning import gang_holds, returning
from shared.planning.devices import newly_failed
from shared.planning.evicted import with_evictions
from shared.planning.explaining import explain
from shared.planning.gangs import withheld
from shared.planning.plan import plan
from shared.planning.replacing import with_replacements
from shared.planning.retirement import waits_for_pods
from shared.state import arrivals
from shared.state.bulk import unpack
from shared.state.ledger import failure_entry, hold_entry, lesson_entry, moment, planning_ledger, return_entry, stamp
from shared.state.purchases import REASON_LENGTH

LATEST = "latest.json"
YOUNG = timedelta(minutes=2)  # a snapshot by which nodes are bought though the API server does not answer
BLIND = "the API server did not answer: planned by the newest snapshot alone, and no node goes"
ACTED = "acted"  # a folder of its own, so that a lifecycle rule can name it
WAITING = "DisruptionBudget"  # how `shared.planning.retirement` begins the reason of a node that has to wait its turn
MOST_NARROWED = 4  # plans for gangs that need pools which only observe; each sorts some of them out
UNDECIDED = "more gangs need nodes of pools that only observe than one plan sorts out"
MOST_STARTS = 24  # of growths, and of retirements, per plan: an order has 32 kB; the next plan goes on
MOST_LESSONS = 4  # told to the ledger per plan: they have some kilobytes each, and nobody waits for them
STATUS_UNSERVED = 20
STATUS_SERVED = 20  # classes of pods for which the plan says why they go where they go, the dearest
STATUS_PODS = 5


def make_plan(world: World, order: Json) -> Json:
    """{cluster, holder, generation, view, snapshot?} -> what to begin; the plan itself goes into a blob.

    A snapshot is a claim: the pods that nodes would be bought for are read again, and where some are gone, it is
    decided anew without them. `throttled` {budget: seconds}: where ARM would not tell the quotas. `blind` in the order:
    the API server did not answer a while; then nodes are still bought by a snapshot that is young, and none goes.
    """
    config = world.config(order["cluster"])
    if order.get("blind"):
        config = replace(config, scale_down=replace(config.scale_down, replace_saving=0.0))
    known = unpack(order["view"])
    name = order.get("snapshot") or known["snapshot"]
    base = {"lease": config.timing.lead_lease, "settled": {}, "growths": [], "retirements": []}
    if not name or config.mode is Mode.PAUSED:
        return {**base, "why": "paused" if name else "no snapshot has come in yet"}
    snapshot = without_gone(world.snapshot(order["cluster"], name), known)
    now = moment(order["now"])
    base["throttled"] = quotas.refresh(world, config, snapshot, order, known, now)
    settled = arrivals.arrived(snapshot, known)
    view = arrivals.without_arrived(known, settled, snapshot)
    ledger = replace(planning_ledger(view, now), usages=quotas.known(world, config, known, now))
    ledger = with_evictions(snapshot, config, ledger, now)
    seen, (snapshot, decided) = snapshot, _decided(world, snapshot, config, ledger, now)
    fresh, blind = _reread(world, seen, decided, config, order, now)
    if blind:
        decided = replace(decided, retirements=(), notes=(*decided.notes, BLIND))
    if fresh is not None:
        name = f"verified/{plan_name(order)}"
        world.put_snapshot(name, fresh)
        snapshot, decided = _decided(world, fresh, config, ledger, now)
    decided, given = gang_holds.give_back(decided, snapshot, config, ledger, now)
    decided, returns = _returned(world, decided, snapshot, config, ledger, now)
    opening = openings(snapshot, config, decided, may_grow, MOST_NOMINATED)
    if decided.deltas:
        decided = replace(decided, served=explain(decided, snapshot, config, ledger, now, STATUS_SERVED))
    waits = _some_wait(decided) or any(state and state.nodes for state in returns.values())
    found = {"settled": settled, "snapshot": name, "idle_waiting": waits, "openings": len(opening)}
    found["returning"] = {pool: return_entry(state) if state else None for pool, state in returns.items()}
    found["learnt"] = _news(decided, view.get("learnt", {}))
    found["failures"] = [failure_entry(memory) for memory in newly_failed(snapshot, config, now)]
    found["judged"] = _judged(decided.judged) if view["bought"] else {}
    holds = gang_holds.holds_after(decided, snapshot, ledger, now, _acting(config), given)
    found["gangs"] = {key: hold_entry(hold) if hold else None for key, hold in holds.items()}
    made = {**base, **_to_begin(order, config, snapshot, ledger, decided), **found}
    _store(world, order, config, decided, made, opening)
    return made


def _decided(world: World, snapshot: Snapshot, config: Config, ledger: Ledger, now: datetime) -> tuple[Snapshot, Plan]:
    """The plan, and the snapshot as far as it was heeded."""
    snapshot, decided = decide(snapshot, config, ledger, now)
    if config.scale_down.replace_saving:
        decided = _exchanged(world, decided, snapshot, config, ledger, now)
    return snapshot, decided


def _reread(
    world: World, seen: Snapshot, decided: Plan, config: Config, order: Json, now: datetime
) -> tuple[Snapshot | None, bool]:
    """The snapshot without pods that wait no more, or None if all do; and whether nobody could be asked."""
    wanted = _bought(decided, config)
    grown = {*decided.top_up, *decided.replacements, *(delta.pool for delta in decided.deltas)}
    unproven = not wanted and not grown.isdisjoint(_acting(config))
    api, old = world.api(order["cluster"]), now - seen.observed_at >= YOUNG
    try:
        if unproven and old:
            api.get(API_DISCOVERY)  # nodes that no pod waits for: nothing else would ask
        return verifying.without_gone(api, seen, wanted), False
    except RetryLater as error:
        if not order.get("blind") or old:
            raise
        tell("api server is silent", cluster=order["cluster"], snapshot=str(seen.observed_at), error=error.message)
        return None, True


def _bought(decided: Plan, config: Config) -> frozenset[PodRef]:
    """The pods that nodes are bought for, where somebody acts on it."""
    acting = _acting(config)
    if not any(delta.pool in acting for delta in decided.deltas):
        return frozenset()
    return frozenset(pod for delta in decided.deltas for node in delta.nodes for pod in node.pods)


def decide(snapshot: Snapshot, config: Config, ledger: Ledger, now: datetime) -> tuple[Snapshot, Plan]:
    """The plan; where only some pools are acted on, without gangs that these alone would start in part."""
    acting = _acting(config)
    snapshot = gang_holds.rested(snapshot, ledger, now)
    decided = plan(snapshot, config, ledger, now)
    if not acting:
        return snapshot, decided
    for _ in range(MOST_NARROWED):
        narrowed = withheld(decided, snapshot, acting)
        if narrowed is snapshot:
            return snapshot, decided
        snapshot = narrowed
        decided = plan(snapshot, config, ledger, now)
    gangs = (replace(gang, problem=gang.problem or UNDECIDED) for gang in snapshot.gangs)
    snapshot = replace(snapshot, gangs=tuple(gangs))
    return snapshot, plan(snapshot, config, ledger, now)


def _acting(config: Config) -> frozenset[str]:
    """The pools in which what is planned is bought."""
    return frozenset(pool.name for pool in config.pools if may_grow(pool))


def _returned(
    world: World, decided: Plan, snapshot: Snapshot, config: Config, ledger: Ledger, now: datetime
) -> tuple[Plan, Mapping[str, ReturnState | None]]:
    """The plan with the next step of a return to Spot, if there is any to be taken."""
    there = {node.pool for node in snapshot.nodes}
    if not returning.is_due(there, config, ledger, now):
        return decided, {}
    held = nodes_held(world.api(config.cluster)) or {}
    ledger = replace(ledger, cooling={**ledger.cooling, **held})
    return returning.with_returns(decided, snapshot, config, ledger, now)


def _exchanged(world: World, decided: Plan, snapshot: Snapshot, config: Config, ledger: Ledger, now: datetime) -> Plan:
    """The plan with the exchanges of nodes that pay and that PodDisruptionBudgets let happen."""
    held = nodes_held(world.api(config.cluster))
    if held is None:
        return replace(decided, notes=(*decided.notes, "no node gives way: poddisruptionbudgets may not be listed"))
    return with_replacements(decided, snapshot, config, replace(ledger, cooling={**ledger.cooling, **held}), now)


def without_gone(snapshot: Snapshot, view: Json) -> Snapshot:
    """A snapshot may be older than the end of a node that we took away."""
    gone = view.get("gone", {})
    return replace(snapshot, nodes=tuple(node for node in snapshot.nodes if gone.get(node.name) != node.uid))


def _some_wait(decided: Plan) -> bool:
    """Whether idle nodes stay only because others go first: these ones' end is then a reason to plan again."""
    held = any(reason.startswith(WAITING) for reason in decided.kept.values())
    return held or len(decided.retirements) > MOST_STARTS


def _news(decided: Plan, known: Json) -> Json:
    """Lessons about pools that the ledger does not have yet, a few at a time."""
    lessons = {pool: lesson_entry(lesson) for pool, lesson in decided.learnt.items() if lesson.lasting}
    return dict(islice(((pool, entry) for pool, entry in lessons.items() if known.get(pool) != entry), MOST_LESSONS))


def _judged(judged: Judged) -> Json:
    """As the ledger takes it."""
    seen = {
        node: {key: [stamp(since), pod] for key, (since, pod) in found.items()} for node, found in judged.seen.items()
    }
    return {"seen": seen, "vain": {key: reason[:REASON_LENGTH] for key, reason in judged.vain.items()}}


def _to_begin(order: Json, config: Config, snapshot: Snapshot, ledger: Ledger, decided: Plan) -> Json:
    name = plan_name(order)
    growths = list(growths_of(order, config, decided, snapshot, ledger.failures))[:MOST_STARTS]
    nodes = {node.name: node for node in snapshot.nodes}
    retirements = [
        _retirement(order, config, nodes[going.node], going.reason, name)
        for going in decided.retirements
        if _may_go(config, nodes.get(going.node))
    ][:MOST_STARTS]
    acting = _acting(config)
    ours = [node for node in snapshot.nodes if node.pool]
    counts = Counter(node.pool for node in ours)
    return {
        "plan": name,
        "growths": growths,
        "retirements": retirements,
        "recalls": [placed.target for placed in decided.reuse if nodes[placed.target].pool in acting][:MOST_STARTS],
        "limit": max(1, int(len(ours) * config.scale_down.max_parallel_fraction)),
        "spare": {pool.name: max(0, counts[pool.name] - pool.minimum) for pool in config.pools},
        "join_timeout": config.timing.node_join_timeout,
    }


def plan_name(order: Json) -> str:
    """The blob of the plan that a leader makes for a generation."""
    return f"{ACTED}/{operation_id(order['cluster'], order['holder'], str(order['generation']))}.json"


def _may_go(config: Config, node: NodeView | None) -> bool:
    pool = config.pool(node.pool) if node is not None else None
    return pool is not None and may_retire(pool)


def _retirement(order: Json, config: Config, node: NodeView, reason: str, plan_name: str) -> Json:
    pool = config.pool(node.pool)
    return {
        "op": operation_id(order["cluster"], order["holder"], str(order["generation"]), "retire", node.name),
        "node": node.name,
        "pool": node.pool,
        "uid": node.uid,
        "reason": reason,
        "plan": plan_name,
        "drain_timeout": config.scale_down.drain_timeout,
        "completion_timeout": config.scale_down.completion_timeout,
        "waits": waits_for_pods(node),
        "budget": budget_key(pool) if pool is not None else "",
    }


def _store(world: World, order: Json, config: Config, decided: Plan, made: Json, opening: tuple[Opening, ...]) -> None:
    """The whole plan where somebody will read it again; its summary always, for status."""
    if made["growths"] or made["retirements"] or made["recalls"] or opening:
        document = orjson.loads(orjson.dumps(decided, default=list))
        more = {"made_at": order["now"], "openings": orjson.loads(orjson.dumps(opening))}
        world.put_document(order["cluster"], made["plan"], {**document, **more})
    summary = summary_of(decided, config, order["now"], made["snapshot"])
    world.put_document(order["cluster"], LATEST, summary)
    note_wishes(world, order, config, decided)
    if decided.deltas or decided.unserved or decided.retirements or decided.reuse:
        said = {name: summary[name] for name in ("mode", "unserved_pods", "deltas", "reuse", "retirements")}
        tell("planned", cluster=order["cluster"], plan=made["plan"], **said)


def summary_of(decided: Plan, config: Config, now: str, snapshot: str) -> Json:
    """What the status page shows of a plan; in observe mode it is what would have been done."""
    return {
        "made_at": now,
        "mode": config.mode.value,
        "modes": {pool.name: pool.mode.value for pool in config.pools},
        "snapshot": snapshot,
        "deltas": {delta.pool: delta.add for delta in decided.deltas},
        "top_up": dict(decided.top_up),
        "replacements": dict(decided.replacements),
        "reuse": {placed.target: len(placed.pods) for placed in decided.reuse},
        "retirements": {going.node: going.reason for going in decided.retirements},
        "kept": dict(decided.kept),
        "fits_existing": sum(len(placed.pods) for placed in decided.fits_existing),
        "fits_upcoming": sum(len(placed.pods) for placed in decided.fits_upcoming),
        "unserved_pods": sum(len(group.pods) for group in decided.unserved),
        "unserved": [
            {
                "pods": [str(pod) for pod in group.pods[:STATUS_PODS]],
                "more": max(0, len(group.pods) - STATUS_PODS),
                "reasons": dict(group.reasons),
            }
            for group in decided.unserved[:STATUS_UNSERVED]
        ],
        "served": [
            {
                "pod": str(each.example),
                "pods": each.pods,
                "nodes": each.nodes,
                "target": each.target,
                "why": each.why,
                "cost_per_hour": each.cost,
            }
            for each in decided.served
            if each.supply is Supply.NEW
        ],
        "cost_per_hour": decided.cost_per_hour,
        "notes": list(decided.notes),
    }


def registry(world: World) -> Registry:
    """The activities of deciding."""

    made = Registry()
    made.activity(world, make_plan)
    return made
