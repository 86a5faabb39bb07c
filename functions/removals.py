"""What a removal does: delete the VMs of many drained nodes in one call, and see each of them gone.

Before the call everything that it depends on is read again, for each node by itself: one that must stay keeps nobody
else from going.
"""

from __future__ import annotations

from collections.abc import Sequence

from functions import dead, nodes, trail
from functions.agent_pools import refusal_of
from functions.deletion import begin_deletion, refuse_doomed_disks
from functions.durable import Registry
from functions.outcomes import STALE, THROTTLED, Busy, Json, problem, tell
from functions.rechecks import GOING, machine, of_node, refuse_busy, refuse_lost, shrinking
from functions.world import World, may_retire
from shared.adapters.errors import NotFound, OutsideError, RetryLater, StaleWrite
from shared.adapters.protocols import ClusterApi, Compute, Instance, Leftover, OperationStatus
from shared.model import Pool, PoolKind
from shared.provider_id import parse

ENDING = "ending"
UNDELETED = "undeleted"  # Azure was asked, and the VM is still there
UNSEEN = "unseen"  # the cluster could not be asked whether the node still may go


def delete_node_vms(world: World, order: Json) -> Json:
    """Under the pool's lock: look at each of `nodes` [{node, op, force, dead}] again, and delete the VMs of those that
    may go: {"deleting": [node], "kept": {node: [kind, why]}, "refused": ""}.

    `refused` is the kind of Azure's refusal of the whole call, with `asked` whether it may have taken it all the same.
    """
    pool = shrinking(world, order)
    compute = world.compute_of(pool)
    if pool.kind is not PoolKind.VM and (closed := refusal_of(pool, compute.scale_set(pool))):
        why = {"reason": closed["reason"], "retry_after": None, "code": ""}
        return {"deleting": [], "kept": {}, "refused": closed["kind"], "asked": False, **why}
    recheck = _Recheck(world, pool, compute.instances(pool))
    kept: dict[str, list[str]] = {}
    doomed: dict[str, Instance | None] = {}
    vms: dict[str, Json] = {}
    unseen: list[str] | None = None
    for each in order["nodes"]:
        if unseen is not None:  # to ask in vain for each of a hundred would outlast the lock
            kept[each["node"]] = unseen
            continue
        try:
            vms[each["node"]], doomed[each["node"]] = recheck.of({**order, **each})
        except Busy as busy:
            kept[each["node"]] = [busy.kind, busy.reason]
        except RetryLater as error:
            unseen = kept[each["node"]] = [UNSEEN, error.message[:500]]
            trail.note_node(world, {**order, **each}, trail.PAUSED, error.message)
        except OutsideError as error:
            answer = problem(error)
            kept[each["node"]] = [answer["kind"], answer["reason"]]
    forced = {each["node"] for each in order["nodes"] if each.get("force") or each.get("dead")}
    _noted(world, order, vms, [])
    try:
        tokens = _asked(compute, pool, doomed, forced)
    except OutsideError as error:
        answer = problem(error)
        asked = answer["kind"] not in (STALE, THROTTLED) or not _at_once(pool, doomed)
        return {"deleting": [], "kept": kept, "refused": answer["kind"], "asked": asked, **_why(answer)}
    if tokens:
        _noted(world, order, vms, tokens)
    for node in doomed:
        _state_deleted(world, {**order, "node": node, **vms[node]}, forced=node in forced)
    return {"deleting": list(doomed), "kept": kept, "refused": ""}


def _state_deleted(world: World, order: Json, *, forced: bool) -> None:
    tell("vm deleted", cluster=order["cluster"], node=order["node"], pool=order["pool"], op=order["op"])
    rule = "drained, its volumes detached, and every data disk that is not ours set to Detach"
    why = f"VM {order['instance_id']} goes"
    if forced:
        rule = "its guest is dead, or its deletion hung, and every data disk that is not ours is set to Detach"
        trail.note_node(world, order, trail.FORCED, f"{why} without waiting for its guest", rule=rule)
    trail.note_node(world, order, trail.DELETED, why, rule=rule, instance=order["instance_id"])


def _noted(world: World, order: Json, vms: Json, tokens: list[str]) -> None:
    """Keep what is deleted where the looks find it, beside what an earlier call of this removal kept there."""
    name = removal_document(order["op"])
    before = world.document_or(order["cluster"], name, {"vms": {}, "tokens": []})
    document = {"vms": {**before["vms"], **vms}, "tokens": [*before["tokens"], *tokens]}
    world.put_document(order["cluster"], name, document)


def removal_document(removal: str) -> str:
    """Where a removal keeps what it deletes: too much for an orchestration to carry."""
    return f"removals/{removal}.json"


class _Recheck:
    """The last look at each node before its VM goes; those that go count for the pool's minimum from then on."""

    def __init__(self, world: World, pool: Pool, instances: list[Instance]) -> None:
        self._world, self._pool, self._instances = world, pool, instances
        self._standing = sum(each.provisioning_state != GOING for each in instances)
        self._volumes: dict[str, list[str]] | None = None

    def of(self, order: Json) -> tuple[Json, Instance | None]:
        """What is to be seen gone, and the VM to delete, None when it is going or gone. Raises Busy."""
        api = self._world.api(order["cluster"])
        node = nodes.read_node(api, order)
        refuse_lost(node, order)
        if order.get("dead"):
            dead.refuse_alive(self._world, order, node)
            dead.refuse_held(api, self._pool, order)
        else:
            nodes.refuse_opted_out(node)
            self._refuse_busy(api, order["node"])
        if parse(node.get("spec", {}).get("providerID", "")) is None:
            raise Busy("unknown-vm", "its providerID names no Azure VM")
        vm = {"op": order["op"], "uid": node["metadata"].get("uid", ""), "nics": [], "os_disk": ""}
        mine = of_node(self._instances, node)
        if mine is None:
            return {**vm, "instance_id": machine(node)}, None
        refuse_doomed_disks(mine)
        vm |= {"instance_id": mine.instance_id, "nics": list(mine.nics), "os_disk": mine.os_disk}
        if mine.provisioning_state == GOING:
            return vm, mine if order.get("force") else None
        if self._standing <= self._pool.minimum and not order.get("dead"):
            raise Busy("minimum", f"pool {self._pool.name} would fall below its minimum of {self._pool.minimum}")
        self._standing -= 1
        return vm, mine

    def _refuse_busy(self, api: ClusterApi, node: str) -> None:
        load = refuse_busy(api, self._pool, node, frozenset())
        if load.waiting:
            raise Busy("busy", f"busy again: {nodes.name_of(load.waiting[0])} runs to its end")
        if load.ending:
            raise Busy(ENDING, f"{nodes.name_of(load.ending[0])} is still ending")
        if self._volumes is None:
            self._volumes = nodes.volumes_by_node(api)
        if attached := self._volumes.get(node):
            raise Busy("volumes", f"volumes are still attached: {', '.join(attached[:3])}")


def _asked(compute: Compute, pool: Pool, doomed: dict[str, Instance | None], forced: set[str]) -> list[str]:
    """Azure's tokens of what was asked for: one request for all, and one for those that hang."""
    tokens = []
    for force in (False, True):
        fresh = [each for node, each in doomed.items() if each is not None and (node in forced) is force]
        token = begin_deletion(compute, pool, fresh, force=force).token
        tokens.extend([token] if token else [])
    return tokens


def _at_once(pool: Pool, doomed: dict[str, Instance | None]) -> bool:
    """Whether all were in one request, so that a refusal of it means that none was taken."""
    ids = [each.instance_id for each in doomed.values() if each is not None]
    return pool.kind is PoolKind.AKS or len(ids) == 1 or all(instance_id.isdigit() for instance_id in ids)


def _why(answer: Json) -> Json:
    return {name: answer[name] for name in ("reason", "retry_after", "code")}


def look_at_removal(world: World, order: Json) -> Json:
    """How far `left` [node] have come: {"gone": [node], "waiting": {node: what}, "stalled": [node], "why",
    "retry_after"}. What is ours and left over of those that are gone is deleted on the way.

    `stalled` are those that Azure is through with, and that are there all the same; `why` is its code.
    """
    pool = world.pool_to_finish(order["cluster"], order["pool"])
    compute = world.compute_of(pool)
    document = world.document(order["cluster"], removal_document(order["op"]))
    over, why, retry_after = _operations(compute, document["tokens"])
    present = {each.instance_id.casefold(): each for each in compute.instances(pool)}
    look = _Look(world, pool, compute, order)
    stalled = []
    for node in order["left"]:
        vm = document["vms"][node]
        there = present.get(vm["instance_id"].casefold())
        if there is None:
            look.finish(node, vm)
            continue
        look.waiting[node] = "the VM"
        if over and there.provisioning_state != GOING:
            stalled.append(node)
    return {"gone": look.gone, "waiting": look.waiting, "stalled": stalled, "why": why, "retry_after": retry_after}


def _operations(compute: Compute, tokens: list[str]) -> tuple[bool, str, float | None]:
    """Whether Azure is through with all of it, its first code if it failed, and how long it wants to be left alone."""
    statuses = [_status(compute, token) for token in tokens]
    waits = [status.retry_after for status in statuses if status.retry_after]
    why = next((status.code for status in statuses if status.done and not status.ok), "")
    return all(status.done for status in statuses), why, max(waits, default=None)


def _status(compute: Compute, token: str) -> OperationStatus:
    """An operation that cannot be asked after (any more) is over for us: the VMs tell."""
    try:
        return compute.poll(token)
    except NotFound:
        return OperationStatus(done=True, ok=True)


class _Look:
    """What is found gone at one look; leftovers are listed once for all."""

    def __init__(self, world: World, pool: Pool, compute: Compute, order: Json) -> None:
        self._world, self._pool, self._compute, self._order = world, pool, compute, order
        self._leftovers: list[Leftover] | None = None
        self.gone: list[str] = []
        self.waiting: dict[str, str] = {}

    def finish(self, node: str, vm: Json) -> None:
        """The VM is gone: see to its NICs, its OS disk and its Node object. What is in one's way is in no other's."""
        if not may_retire(self._pool):
            self.gone.append(node)  # nothing more is written; what is left over is for a sweep in another mode
            return
        try:
            held = self._clear(vm).rsplit("/", 1)[-1] if vm["nics"] or vm["os_disk"] else ""
            if not held:
                delete_node_object(self._world.api(self._order["cluster"]), node, vm["uid"])
        except OutsideError as error:
            held = f"what is left of it ({error.message[:80]})"
        if held:
            self.waiting[node] = held
            return
        tell("retired", cluster=self._order["cluster"], node=node, pool=self._pool.name, op=vm["op"])
        order = {**self._order, "node": node, "op": vm["op"], "uid": vm["uid"]}
        trail.note_node(self._world, order, trail.GONE, "VM, NICs, OS disk and Node object are gone")
        self.gone.append(node)

    def _clear(self, vm: Json) -> str:
        if self._leftovers is None:
            self._leftovers = self._compute.leftovers([self._pool])
        return clear_leftovers(self._compute, self._leftovers, vm)


def clear_leftovers(compute: Compute, leftovers: Sequence[Leftover], vm: Json) -> str:
    """Delete the NICs and the OS disk of a VM that is gone, where they stayed behind; the id of one that is still
    held, or ""."""
    own = {name.casefold() for name in [*vm["nics"], vm["os_disk"]] if name}
    for left in leftovers:
        if left.resource_id.casefold() not in own:
            continue
        if left.attached:
            return left.resource_id
        try:
            compute.delete_leftover(left)
        except StaleWrite:
            return left.resource_id
    return ""


def delete_node_object(api: ClusterApi, node: str, uid: str) -> None:
    """Remove the Node, if it still is that one."""
    try:
        api.delete(nodes.path_of(node), uid=uid)
    except (NotFound, StaleWrite):
        return  # gone already, or a new machine has joined under the old name


def registry(world: World) -> Registry:
    """The activities of `remove_nodes`."""

    made = Registry()
    made.activity(world, delete_node_vms, look_at_removal)
    return made
