"""Agent pools of AKS: one operation at a time, so what has to wait is merged.

While AKS is at work on a pool it takes neither a count nor a deletion. Growths that wait become one write of the count
(`shared.state.joint`), deletions one call (`functions.removing`); the longer the pool is busy, the fewer calls there
are. Nobody waits for ever: after `PATIENCE`, or sooner where AKS is busy with an upgrade or the like, the pods are
planned for elsewhere. The count is only ever written as the machines that stand plus those that are wanted, and lowered
only where no machine stands behind it; machines go by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from functions.deletion import begin_deletion
from functions.durable import Json, Orchestration, Registry, Steps
from functions.outcomes import LATER, REJECTED, STALE, THROTTLED, no, tell
from functions.pools import GOING, allowed_of, useless
from functions.waiting import LOCK_SECONDS, finished, ledger, lock, once, pause, unlock, until
from functions.world import World, may_grow
from shared.adapters.protocols import Compute, Instance, ScaleSet
from shared.model import Pool
from shared.state.failures import POOL_BUSY, POOL_UNFIT
from shared.state.ledger import stamp

PATIENCE = timedelta(minutes=5)  # our own operations take one to four minutes
FOREIGN_PATIENCE = timedelta(minutes=1)  # an upgrade takes much longer than that
OWN_STATES = frozenset({"scaling", "deleting", "updating", "succeeded", "failed", "canceled"})
BUSY_PAUSE = 10.0
CLEARING_PAUSES = (10.0, 30.0, 60.0, 120.0)  # nobody waits for what is cleared up; the last one repeats
STALE_PAUSE = 2.0
TURNS_PER_HISTORY = 3
CLEARING_PATIENCE = timedelta(minutes=30)
LOST_CARRIER = timedelta(minutes=70)  # longer than an operation is waited for
MESSAGE_LENGTH = 200
OCCUPIED = "in progress"  # AKS's words for it
AGAIN = (STALE, LATER, THROTTLED)
SENT = {"ok": True, "asked": True, "code": "", "message": ""}  # what came of it, the instances tell


def ask_agent_pool(context: Orchestration) -> Steps[Json | None]:
    """{cluster, pool, op, add, budget, join_timeout}: how AKS's operation for this growth ended, asked for by itself or
    by another one: {"ok", "asked", "code", "message", "since"}; None when the growth is over."""
    order = context.get_input()
    order = {**order, "begun": order.get("begun") or stamp(context.current_utc_datetime)}
    for _ in range(TURNS_PER_HISTORY):
        if "group" in order:
            order, operation = yield from _retold(context, order)
        else:
            mine = {name: order[name] for name in ("op", "pool", "join_timeout")}
            led = yield from ledger(context, order, "lead_growth", **mine, seconds=LOCK_SECONDS)
            if led["state"] == "over":
                return None
            order["since"] = led["asked"]
            order, operation = yield from _turn(context, order, led)
        if operation is not None:
            return {**operation, "since": order["since"]}
    context.continue_as_new(order)
    return {}


def _turn(context: Orchestration, order: Json, led: Json) -> Steps[tuple[Json, Json | None]]:
    """(the order for the next turn, how the operation ended or None)."""
    if led["state"] == "sent":
        return order, SENT
    if led["state"] == "carried" and led["operation"] is not None:
        return order, {**led["operation"], "carried": True}
    if led["state"] != "lead":
        yield from pause(context, BUSY_PAUSE)
        return order, SENT if until(context, order["begun"]) < -LOST_CARRIER.total_seconds() else None
    room = yield from once(context, "read_agent_pool", order, add=led["add"])
    if not room["ok"] and room["kind"] in AGAIN and not _out_of_patience(context, order, room):
        yield from _wait(context, room)
        return order, None
    if not room["ok"] and room["kind"] in AGAIN:
        yield from unlock(context, order)
        return order, _refused(POOL_BUSY, room, sent=False)
    yield from ledger(
        context,
        order,
        "note_joint",
        op=order["op"],
        pool=order["pool"],
        company=led["company"],
        join_timeout=order["join_timeout"],
    )
    order = {**order, "group": led["add"]}
    return (yield from _written(context, order, room))


def _retold(context: Orchestration, order: Json) -> Steps[tuple[Json, Json | None]]:
    """Another turn for those that AKS has been asked for, perhaps in vain: the first answer was no clear one."""
    yield from ledger(context, order, "lock_pool", pool=order["pool"], holder=order["op"], seconds=LOCK_SECONDS)
    room = yield from once(context, "read_agent_pool", order, add=order["group"])
    if not room["ok"] and room["kind"] in AGAIN:
        if not _out_of_patience(context, order, room):
            yield from _wait(context, room)
            return order, None
        return order, (yield from _ended(context, order, _refused(POOL_BUSY, room, sent=True)))
    return (yield from _written(context, order, room))


def _written(context: Orchestration, order: Json, room: Json) -> Steps[tuple[Json, Json | None]]:
    if not room["ok"]:
        refused = _refused(room.get("code") or room["kind"], room, sent="tried" in order)
        return order, (yield from _ended(context, order, refused))
    if room["ours"]:
        return order, (yield from _ended(context, order, SENT))
    if room["short"]:
        yield from ledger(context, order, "remember_failure", failures=room["short"])
    order = {**order, "tried": {"etag": room["etag"], "target": room["target"]}}
    written = yield from once(context, "write_capacity", order, target=room["target"], etag=room["etag"])
    if not written["ok"] and written["kind"] in AGAIN and not _out_of_patience(context, order, written):
        yield from _wait(context, written)
        return order, None
    if not written["ok"] and written["kind"] in AGAIN:
        return order, (yield from _ended(context, order, _refused(POOL_BUSY, written, sent=True)))
    if not written["ok"]:
        refused = _refused(written.get("code") or written["kind"], written, sent=False)
        return order, (yield from _ended(context, order, refused))
    yield from unlock(context, order)
    waiting = {name: order[name] for name in ("cluster", "pool", "budget")}
    waiting |= {"token": written["token"], "hurry": written["hurry"]}
    ended: Json = yield context.call_sub_orchestrator("await_operation", waiting)
    operation = {**SENT, "ok": ended["ok"], "code": ended["code"], "message": ended["message"]}
    return order, (yield from _ended(context, order, operation, locked=False))


def _ended(context: Orchestration, order: Json, operation: Json, *, locked: bool = True) -> Steps[Json]:
    """Tell those that came along."""
    if locked:
        yield from unlock(context, order)
    told = {**operation, "message": operation["message"][:MESSAGE_LENGTH]}
    yield from ledger(context, order, "end_joint", op=order["op"], ended=told)
    return operation


def _wait(context: Orchestration, answer: Json) -> Steps[None]:
    busy = answer.get("busy") or OCCUPIED in answer["reason"]  # the latter by another pool, or the cluster itself
    yield from pause(context, max(BUSY_PAUSE if busy else STALE_PAUSE, answer.get("retry_after") or 0.0))


def _out_of_patience(context: Orchestration, order: Json, answer: Json) -> bool:
    ours = str(answer.get("busy") or "scaling").lower() in OWN_STATES
    return until(context, order["begun"]) < -(PATIENCE if ours else FOREIGN_PATIENCE).total_seconds()


def _refused(code: str, answer: Json, *, sent: bool) -> Json:
    return {"ok": False, "asked": sent, "code": code, "message": answer["reason"]}


def read_agent_pool(world: World, order: Json) -> Json:
    """{"etag", "target", "ours", "short"}: the count to ask for, which is the machines that stand and `add` more, or as
    many of them as maximum and quotas allow; `short` is then what to remember.

    `tried` {etag, target}: an earlier write whose answer was no clear one; where the pool has been changed to that
    count since, it was `ours`. Otherwise a refusal, with `busy` where AKS is at work on the pool.
    """
    pool = world.pool(order["cluster"], order["pool"])
    if not may_grow(pool):
        return no("mode", f"pool {pool.name} is in mode {pool.mode.value}: nothing is written")
    compute = world.compute_of(pool)
    found = compute.scale_set(pool)
    tried = order.get("tried")
    if refusal := refusal_of(pool, found):
        return refusal
    if tried and found.etag != tried["etag"] and found.capacity == tried["target"]:
        return {"etag": found.etag, "target": found.capacity, "ours": True, "short": []}
    standing = sum(each.provisioning_state != GOING for each in compute.instances(pool))
    allowed = allowed_of(world, pool, None, standing, order)
    if allowed["may_add"] <= 0:
        return no("short", allowed["message"], code=allowed["code"])
    return {"etag": found.etag, "target": standing + allowed["may_add"], "ours": False, "short": allowed["short"]}


def refusal_of(pool: Pool, found: ScaleSet) -> Json:
    """Why an agent pool or scale set just read takes no write, or nothing."""
    if found.unfit:
        return no(REJECTED, found.unfit, code=POOL_UNFIT)
    if found.busy:
        return no(STALE, f"AKS is busy with pool {pool.name} ({found.busy})", busy=found.busy)
    return {}


def clear_agent_pool(context: Orchestration) -> Steps[Json]:
    """{cluster, pool, op, kind, budget, failed}: delete the machines that failed, then give back the count that has no
    machines; each when AKS rests, and no growth waits.

    First the fallback is let by: its pool may be of the same cluster, which then is busy with what is cleared up.
    """
    order = context.get_input()
    if "patience" not in order:
        order = {**order, "patience": stamp(context.current_utc_datetime + CLEARING_PATIENCE)}
        yield from pause(context, CLEARING_PAUSES[0])
    locked = yield from lock(context, order)
    if locked["granted"]:
        cleared = yield from once(context, "clear_machines", order)
        yield from unlock(context, order)
        if cleared["ok"] and not cleared["token"]:
            return {"ok": True}
        if cleared["ok"]:
            yield from finished(context, order, cleared["token"])
        elif cleared["kind"] not in AGAIN:
            return cleared
    if until(context, order["patience"]) <= 0:
        return no("busy", f"pool {order['pool']} stayed busy; the next sweep looks again")
    rounds = order.get("rounds", 0)
    yield from pause(context, CLEARING_PAUSES[min(rounds, len(CLEARING_PAUSES) - 1)])
    context.continue_as_new({**order, "rounds": rounds + 1})
    return {}


def clear_machines(world: World, order: Json) -> Json:
    """One step of clearing: {"token"} of a deletion or of a lower count, "" when nothing is left to do."""
    pool = world.pool_to_finish(order["cluster"], order["pool"])
    if not may_grow(pool):
        return no("mode", f"pool {pool.name} is in mode {pool.mode.value}: nothing is written")
    compute = world.compute_of(pool)
    found = compute.scale_set(pool)
    if refusal := refusal_of(pool, found):
        return refusal
    instances = compute.instances(pool)
    token = _deleted(world, order, compute, pool, instances)
    if token or found.capacity <= len(instances):
        return {"token": token}
    tell("count lowered", cluster=order["cluster"], pool=pool.name, was=found.capacity, to=len(instances))
    return {"token": compute.begin_capacity(pool, len(instances), found.etag)}


def _deleted(world: World, order: Json, compute: Compute, pool: Pool, instances: Sequence[Instance]) -> str:
    listed = [each for each in instances if each.instance_id in order["failed"] and each.provisioning_state != GOING]
    if not listed:
        return ""
    nodes, _ = world.api(order["cluster"]).list("/api/v1/nodes")
    doomed = [each for each in listed if useless(each, nodes)]
    deletion = begin_deletion(compute, pool, doomed)
    going = [each.instance_id for each in doomed if each.instance_id not in deletion.kept]
    if going:
        tell("instances deleted", cluster=order["cluster"], pool=pool.name, op=order["op"], instances=going)
    return deletion.token


def registry(world: World) -> Registry:
    """What growing and clearing up call for agent pools."""
    made = Registry()
    made.activity(world, read_agent_pool, clear_machines)
    made.orchestrator(ask_agent_pool, clear_agent_pool)
    return made
