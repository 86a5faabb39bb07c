"""The audit trail: what was done to which node and pod, when, by which operation, why, and which rule allowed it.

One small blob per statement, below `trail/` of the cluster's plans, where a lifecycle rule ends its days. A statement
lies under whom it is about, so that a node or a pod, also one that is long gone, is found by listing one prefix:

    trail/nodes/<node>/<day>~<op>~<event>[~<which pods>].json
    trail/pods/<namespace>/<name>/<day>~<op>~<event>~<uid>.json
    trail/growths/<pool>/<day>~<op>~<event>.json

The name says what is meant, so a statement that is made again is the same one, and the first stands. What is stated per
operation is bounded by the events there are; a pass that repeats itself every ten seconds states nothing anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import orjson

from functions.outcomes import LOG, Json
from functions.world import World
from shared.adapters.errors import OutsideError, StaleWrite
from shared.names import plan_container

TRAIL = "trail/"
NODES, PODS, GROWTHS = f"{TRAIL}nodes", f"{TRAIL}pods", f"{TRAIL}growths"
MOST_NAMED = 200  # pods or instances in one statement; each pod has its own as well
MOST_READ = 100  # statements about one subject, the newest
REMEMBERED = 4096  # statements that this process knows to be written: repeated passes cost no request

# Of growths: why nodes were asked for, which instances came of it, what Azure refused.
ASKED, BOUGHT, REFUSED = "asked", "bought", "refused"
# Of nodes that are to go, in the order of a saga that meets every obstacle.
NOTICED = "noticed"  # Azure announced that it takes the VM
DEAD = "dead"  # not Ready for so long that its pods are given up
CORDONED = "cordoned"
EVICTED = "evicted"
ENDING = "ending"  # found on its way out by our drain, which may have evicted it a moment before
HELD = "held"  # a PodDisruptionBudget said not now
BLOCKED = "blocked"  # a pod's own opt-out said never
PAUSED = "paused"  # the cluster could not be asked whether it still may go; it goes on when it can be
FORCED = "forced"  # deleted without its kubelet, which is dead
RECALLED = "recalled"
KEPT = "kept"
DELETED = "deleted"  # its VM, by instance id
GONE = "gone"  # VM, NIC and OS disk are, and the Node object with them
BURIED = "buried"  # the Node object of a VM that was gone already
CLEARED = "cleared"  # something left over that carried our tags
# Of pools that only observe: what an acting one would have done.
WOULD_BUY, WOULD_GO = "would-buy", "would-go"
EVENTS = (
    *(WOULD_BUY, WOULD_GO),
    *(ASKED, BOUGHT, REFUSED),
    *(NOTICED, DEAD, CORDONED, PAUSED, EVICTED, ENDING, HELD, BLOCKED, FORCED, RECALLED, KEPT, DELETED, GONE, BURIED),
    CLEARED,
)


def note_node(
    world: World, order: Json, event: str, why: str, *, rule: str = "", pods: Iterable[Json] = (), **more: object
) -> None:
    """State an `event` of `order`'s node {cluster, node, op, now, uid?, pool?, reason?}, and the same of each of `pods`
    (objects of the API) that it happened to.

    `why` is for a person; `rule` names what allowed or forbade it ("idle for 10m below 50 %", "PodDisruptionBudget
    default/web"). Call it right after the deed, from the activity that did it. Twice is once.
    """
    pods = list(pods)
    base = _statement(order, event, why, rule, {"node": order["node"], "node_uid": order.get("uid", ""), **more})
    for pod in pods:
        meta = pod["metadata"]
        uid, name = meta.get("uid", ""), f"{meta.get('namespace', 'default')}/{meta['name']}"
        _write(world, order["cluster"], f"{PODS}/{name}/{_named(base, uid)}", {**base, "pod": name, "uid": uid})
    named = [f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}" for pod in pods]
    extra = {"pods": named[:MOST_NAMED], "number": len(named)} if named else {}
    which = _digest(sorted(pod["metadata"].get("uid", "") for pod in pods)) if pods else ""
    _write(world, order["cluster"], f"{NODES}/{order['node']}/{_named(base, which)}", {**base, **extra})


def note_growth(world: World, order: Json, event: str, why: str, *, rule: str = "", **more: object) -> None:
    """State an `event` of the growth `order` {cluster, pool, op, now}: why it was asked for, the `instances` that came
    of it (history finds a node by them), or what Azure refused (`code`)."""
    instances = more.get("instances")
    if isinstance(instances, list):
        more = {**more, "instances": instances[:MOST_NAMED], "number": len(instances)}
    base = _statement(order, event, why, rule, more)
    which = str(more.get("code", "")) if event == REFUSED else ""
    _write(world, order["cluster"], f"{GROWTHS}/{order['pool']}/{_named(base, which)}", base)


def statements(world: World, cluster: str, prefix: str, days: Iterable[str] = ()) -> list[Json]:
    """What was stated below a prefix (`NODES/<node>`, ...), oldest first: the newest MOST_READ, or those of `days`
    (YYYY-MM-DD)."""
    wanted = tuple(days)
    names = [
        name
        for name in world.store.list(plan_container(cluster), f"{prefix}/")
        if not wanted or name.removeprefix(f"{prefix}/").startswith(wanted)
    ]
    found = [world.document_or(cluster, name, {}) for name in names[-MOST_READ:]]
    return sorted((each for each in found if each), key=lambda each: (each["at"], EVENTS.index(each["event"])))


def is_known(world: World, cluster: str, node: str) -> bool:
    """Whether anything was ever stated of a node of that name."""
    return bool(world.store.list(plan_container(cluster), f"{NODES}/{node}/"))


def _statement(order: Json, event: str, why: str, rule: str, more: Mapping[str, object]) -> Json:
    if event not in EVENTS:
        raise ValueError(f"event {event!r} is unknown to the trail")
    base = {"at": order["now"], "cluster": order["cluster"], "op": order["op"], "event": event, "why": why}
    told = {"rule": rule, "pool": order.get("pool", ""), "reason": order.get("reason", ""), **more}
    return base | {name: value for name, value in told.items() if value not in ("", None)}


def _named(statement: Json, which: str) -> str:
    event = EVICTED if statement["event"] == ENDING else statement["event"]  # one place: whoever was evicted is ending
    return "~".join(filter(None, (statement["at"][:10], statement["op"], event, which))) + ".json"


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:12]


def _write(world: World, cluster: str, name: str, statement: Json) -> None:
    """A statement that cannot be written is told in the log and holds nobody up: no drain waits for its own record."""
    key = f"{cluster}/{name}"
    if key in world.stated:
        return
    try:
        world.store.put(plan_container(cluster), name, orjson.dumps(statement), if_absent=True)
    except StaleWrite:
        pass  # stated before
    except OutsideError as error:
        LOG.warning("not in the trail: %s: %s", error.message, orjson.dumps(statement).decode())
        return
    world.stated[key] = None
    while len(world.stated) > REMEMBERED:
        world.stated.pop(next(iter(world.stated)), None)
