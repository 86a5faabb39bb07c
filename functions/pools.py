"""What touches a pool's machines. Every activity reads anew before it writes, and is safe to run twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import accumulate

from functions import quotas, trail
from functions.deletion import begin_deletion, report_kept
from functions.durable import Registry
from functions.nodes import holder_of, is_cordoned, is_ready, provider_id
from functions.outcomes import LATER, REJECTED, Json, no, tell
from functions.world import World, may_grow
from shared.adapters.errors import CapacityMissing, OutsideError
from shared.adapters.protocols import Instance, ScaleSet
from shared.model import PlacementGroups, Pool, PoolKind, Priority
from shared.names import CLUSTER_TAG, OPERATION_TAG, POOL_TAG
from shared.provider_id import parse
from shared.state.failures import FULL, GROUP_FULL, MISSING, POOL_UNFIT, SAGA_LOST, failure_memory, is_zonal, quota_text
from shared.state.ledger import NOT_ASKED, failure_entry, moment

CLOCK_SKEW = timedelta(seconds=5)  # between Azure's creation times and ours
FAILED = "Failed"
GOING = "Deleting"
CREATING = "Creating"
QUOTA = "QuotaExceeded"
MOST_NAMED = 10_000  # characters of ids in one answer, which has 32 kB


def read_pool(world: World, order: Json) -> Json:
    """The pool's size just now, and how many of `add` VMs may be asked for: {"capacity", "etag", "present", "size",
    "busy", "may_add", "short", "code", "message"}; the last three tell what stands against the rest.

    `size`: the least that may be asked for. A target below the VMs that stand would make Azure choose some and delete
    them, whatever runs there; only the surplus of a set that overprovisions is taken away anyhow. `busy`: Azure is at
    work on the set, so that capacity without an instance may be somebody's who still waits for it; save for the
    `phantom` part, which growths asked for in vain. Read `ahead`, it is no necessity yet.

    Whether VMs that are being deleted still count in the capacity, Azure does not say. So a target below the capacity
    has to wait for them: another VM might go instead.
    """
    pool = world.pool(order["cluster"], order["pool"])
    if not may_grow(pool):
        return _forbidden(pool)
    if order.get("ahead") and world.is_throttled(order["budget"], order["now"]):
        return no(LATER, "Azure wants to be left alone just now")
    compute = world.compute_of(pool)
    scale_set = compute.scale_set(pool)
    if scale_set.unfit:
        return no(REJECTED, scale_set.unfit, code=POOL_UNFIT)
    instances = compute.instances(pool)
    standing = sum(each.provisioning_state != GOING for each in instances)
    busy = is_busy(scale_set, instances)
    owed = max(0, scale_set.capacity - order.get("phantom", 0))
    size = owed if scale_set.overprovisions and busy else max(owed, standing)
    if size + order["add"] < scale_set.capacity and standing < len(instances):
        return no(LATER, f"{len(instances) - standing} VMs of {pool.resource} are still being deleted")
    found = {"capacity": scale_set.capacity, "etag": scale_set.etag, "present": len(instances), "size": size}
    return {**found, "busy": busy, **allowed_of(world, pool, scale_set, size, order)}


def write_capacity(world: World, order: Json) -> Json:
    """Ask for `target` instances in all, if the scale set still is as read."""
    pool = world.pool(order["cluster"], order["pool"])
    if not may_grow(pool):
        return _forbidden(pool)
    token = world.compute_of(pool).begin_capacity(pool, order["target"], order["etag"])
    tell("capacity asked", cluster=order["cluster"], pool=pool.name, op=order["op"], target=order["target"])
    trail.note_growth(world, order, trail.ASKED, _wish(order), add=order["add"], target=order["target"])
    return {"token": token, "hurry": pool.priority is Priority.SPOT}


def lower_capacity(world: World, order: Json) -> Json:
    """Give back capacity that has no instance: exactly down to the instances just listed, and never below."""
    pool = world.pool_to_finish(order["cluster"], order["pool"])
    if not may_grow(pool):
        return _forbidden(pool)
    compute = world.compute_of(pool)
    scale_set = compute.scale_set(pool)
    instances = compute.instances(pool)
    live = len(instances)
    if scale_set.capacity <= live or scale_set.unfit:
        return {"token": ""}
    if is_busy(scale_set, instances):  # the missing ones may be on their way, to an administrator perhaps
        return {"token": "", "busy": True}
    tell("capacity lowered", cluster=order["cluster"], pool=pool.name, was=scale_set.capacity, to=live)
    return {"token": compute.begin_capacity(pool, live, scale_set.etag)}


def create_vms(world: World, order: Json) -> Json:
    """Create up to `add` stand-alone VMs named after the operation, as far as the pool's maximum leaves room."""
    pool = world.pool(order["cluster"], order["pool"])
    if not may_grow(pool):
        return _forbidden(pool)
    return _create_vms(world, pool, order)


def inspect_growth(world: World, order: Json) -> Json:
    """What a growth came to, by its instances: candidates to claim (ready ones first), failed ones, failures."""
    pool = world.pool_as_known(order["cluster"], order["pool"])
    instances = world.compute_of(pool).instances(pool) if order["asked_azure"] else []
    mine = [each for each in instances if _is_of(each, order)]
    failed = [each for each in mine if has_failed(each)]
    good = sorted(
        (each for each in mine if not has_failed(each) and each.provisioning_state != GOING), key=likeliest(order)
    )
    found = {
        "candidates": _named(good),
        "failed": _named(failed),
        "creating": sum(each.provisioning_state != "Succeeded" for each in good),
    }
    failures = _failures(pool, order, failed, len(good))
    for entry in failures["failures"]:
        trail.note_growth(world, order, trail.REFUSED, f"Azure said {entry['code']}", code=entry["code"])
    return {**found, **failures}


def delete_instances(world: World, order: Json) -> Json:
    """Delete the instances `failed`, if they still are what they were listed for: failed, or never joined."""
    pool = world.pool_to_finish(order["cluster"], order["pool"])
    if not may_grow(pool):
        return _forbidden(pool)
    compute = world.compute_of(pool)
    listed = [each for each in compute.instances(pool) if each.instance_id in order["failed"]]
    nodes, _ = world.api(order["cluster"]).list("/api/v1/nodes")
    doomed = [each for each in listed if useless(each, nodes)]
    if not doomed:
        return {"token": ""}
    deletion = begin_deletion(compute, pool, doomed)
    report_kept(world, order, deletion.kept)
    going = [each.instance_id for each in doomed if each.instance_id not in deletion.kept]
    tell("instances deleted", cluster=order["cluster"], pool=pool.name, op=order["op"], instances=going)
    return {"token": deletion.token}


def _forbidden(pool: Pool) -> Json:
    return no("mode", f"pool {pool.name} is in mode {pool.mode.value}: nothing is written")


def is_busy(scale_set: ScaleSet, instances: list[Instance]) -> bool:
    """Whether Azure is at work on the set, for whomever: instances that are missing may still come."""
    return scale_set.changing or any(each.provisioning_state == CREATING for each in instances)


def allowed_of(world: World, pool: Pool, scale_set: ScaleSet | None, size: int, order: Json) -> Json:
    """How many of `add` VMs the pool's maximum, its placement group and the quotas let be asked for; what Azure would
    refuse is not asked for, but remembered, so that the rest is planned elsewhere at once."""
    add, now = order["add"], moment(order["now"])
    ceiling, code = pool.ceiling, FULL
    if scale_set is not None and scale_set.single_group and PlacementGroups.SINGLE.most < ceiling:
        ceiling, code = PlacementGroups.SINGLE.most, GROUP_FULL
    room, message = max(0, ceiling - size), f"pool {pool.name} is at its maximum of {ceiling}"
    usage = quotas.tightest(world, pool, min(add, room), now)
    if usage is not None:
        room, code = quotas.room_under(usage, pool, add), QUOTA
        message = quota_text(replace(usage, used=usage.used + room * pool.cores))  # with what is asked for now
    if room >= add:
        return {"may_add": add, "short": [], "code": "", "message": ""}
    memory = failure_memory(code, message, pool, now)
    short = [failure_entry(memory)] if memory is not None else []
    tell("asked for less", cluster=order["cluster"], pool=pool.name, op=order["op"], of=add, room=room, why=message)
    return {"may_add": room, "short": short, "code": code, "message": message}


def _named(instances: list[Instance]) -> list[str]:
    """Their ids, as many as an answer can hold; whoever is left out is found by the next look or sweep."""
    lengths = accumulate(len(each.instance_id) + 4 for each in instances)
    return [each.instance_id for each, length in zip(instances, lengths, strict=True) if length <= MOST_NAMED]


def _is_of(instance: Instance, order: Json) -> bool:
    """Whether the instance may belong to the growth: created for it by name, or since it was asked for."""
    if order["kind"] == PoolKind.VM.value:
        return instance.tags.get(OPERATION_TAG) == order["op"] or f"-{order['op']}-" in instance.name
    return instance.created_at is None or instance.created_at >= moment(order["asked"]) - CLOCK_SKEW


def has_failed(instance: Instance) -> bool:
    """Of no use: Azure could not provision it, or has evicted it and only deallocated."""
    return bool(instance.failure) or instance.provisioning_state == FAILED or instance.deallocated


def likeliest(order: Json) -> Callable[[Instance], tuple[bool, bool, float, str]]:
    """Those that are ready before those that may still fail; then the oldest that came after the growth was asked for,
    since a later growth of the pool can only have younger ones."""
    asked = moment(order["asked"]).timestamp() if "asked" in order else 0.0

    def key(instance: Instance) -> tuple[bool, bool, float, str]:
        made = instance.created_at.timestamp() if instance.created_at else asked
        return instance.provisioning_state != "Succeeded", made < asked, made, instance.instance_id

    return key


def _failures(pool: Pool, order: Json, failed: list[Instance], good: int) -> Json:
    """What to remember, and whether to plan again: not where the mode forbids to go on."""
    if order["code"] in ("mode", SAGA_LOST):
        return {"failures": [], "again": order["code"] != "mode"}
    now = moment(order["now"])
    named = [(each.failure or FAILED, "", each.zone) for each in failed]
    if order["code"] and not any(code == order["code"] and zone and is_zonal(code) for code, _, zone in named):
        named = [(order["code"], order["message"], order.get("zone", "")), *named]
    if good < order["add"] and not named:
        named = [(MISSING, "", "")]
    memories = [failure_memory(code, message, pool, now, zone) for code, message, zone in named]
    if good < order["add"] and not any(memories):
        memories = [failure_memory(MISSING, "", pool, now)]
    entries = [failure_entry(memory) for memory in memories if memory is not None]
    for entry in entries:
        tell("azure refused", cluster=order["cluster"], op=order["op"], **{**entry, "pool": pool.name})
    return {"failures": entries[:8], "again": True}


def state_growth(world: World, order: Json) -> Json:
    """{cluster, pool, op, instances}: what came of a growth, for the trail: history finds a node's purchase by it."""
    trail.note_growth(world, order, trail.BOUGHT, _wish(order), instances=order["instances"])
    return {}


def _wish(order: Json) -> str:
    return order.get("why") or "to have enough nodes"


def useless(instance: Instance, nodes: Sequence[Json]) -> bool:
    """One without a node; or a failed one whose node is not Ready. What Azure calls failed may work all the same (an
    extension that could not be installed), and pods may run there; on a deallocated one nothing does, whatever its Node
    still says. A node that an administrator cordoned is left alone."""
    mine = [node for node in nodes if provider_id(node) == instance.provider_id.casefold()]
    works = not instance.deallocated and any(is_ready(node) for node in mine)
    kept = works or any(is_cordoned(node) and not holder_of(node) for node in mine)
    return not mine or (has_failed(instance) and not kept)


def _create_vms(world: World, pool: Pool, order: Json) -> Json:
    """{"tokens", "target", "granted", "short"}; a refusal of all of them is told as such."""
    compute = world.compute_of(pool)
    names = [f"{pool.resource}-{order['op']}-{number}" for number in range(order["add"])]
    present = compute.instances(pool)
    mine = sum(each.name in names for each in present)
    strangers = len(present) - mine
    allowed = allowed_of(world, pool, None, strangers, {**order, "add": order["add"] - mine})
    names = names[: mine + allowed["may_add"]]
    if not names:
        return no("short", allowed["message"], code=allowed["code"])
    tokens, refused, placed = _ask_for_vms(world, pool, order, names)
    tell("machines asked", cluster=order["cluster"], pool=pool.name, op=order["op"], count=len(tokens))
    if not tokens and refused:
        return {**refused[0], "tokens": [], "target": strangers}
    now = moment(order["now"])
    memories = [failure_memory(each["code"], each["reason"], pool, now, each["zone"]) for each in refused]
    short = [*allowed["short"], *(failure_entry(memory) for memory in memories if memory is not None)]
    return {
        "tokens": tokens,
        "target": strangers + len(tokens),
        "granted": len(tokens),
        "short": short,
        "zones": placed,
    }


def _ask_for_vms(world: World, pool: Pool, order: Json, names: list[str]) -> tuple[list[str], list[Json], list[str]]:
    """The operations begun, the refusals (one for each zone), and by number the zone of each VM, as far as pools have
    zones."""
    compute, template = world.compute_of(pool), world.template(pool)
    tags = {CLUSTER_TAG: order["cluster"], POOL_TAG: pool.name, OPERATION_TAG: order["op"]}
    tokens: list[str] = []
    refusals: dict[str, Json] = {}
    placed = [NOT_ASKED] * len(names) if pool.zones else []
    for number, (name, zone) in enumerate(_placed(names, order.get("zones") or list(pool.zones))):
        if zone in refusals:
            continue
        try:
            tokens.append(compute.begin_create_vm(pool, name, zone, tags, template))
            if placed:
                placed[number] = zone
        except CapacityMissing as error:
            refusals[zone] = no("capacity", error.message[:500], code=error.code, zone=zone)
            if not is_zonal(error.code):
                break
        except OutsideError:
            if not tokens:
                raise
            break
    if tokens:
        trail.note_growth(world, order, trail.ASKED, _wish(order), add=len(tokens))
    return tokens, list(refusals.values()), placed


def _placed(names: list[str], zones: list[str]) -> list[tuple[str, str]]:
    """Each name in its zone, in turns: asked again, it is the same one."""
    return [(name, zones[number % len(zones)] if zones else "") for number, name in enumerate(names)]


def unjoined(instances: list[Instance], machines: frozenset[str], now: datetime, join_timeout: float) -> list[str]:
    """Instances that have had their time to become a node, and did not; one without a creation time is left alone."""
    old = now - timedelta(seconds=join_timeout)
    return [
        each.instance_id
        for each in instances
        if each.created_at is not None
        and each.created_at < old
        and each.provisioning_state != GOING
        and each.provider_id.casefold() not in machines
        and parse(each.provider_id) is not None
    ]


def registry(world: World) -> Registry:
    """The activities of growing a pool, and of clearing up what failed."""

    made = Registry()
    made.activity(
        world, read_pool, write_capacity, lower_capacity, create_vms, inspect_growth, state_growth, delete_instances
    )
    return made
