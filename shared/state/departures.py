"""Drained nodes on their way out: those of a pool are deleted together, however many sagas wait for that.

A saga whose node is drained queues here (`depart`). The first one of a pool is told to start a removal; when that has
the pool's lock it takes whoever is ready by then (`take_departing`), asks Azure once for all of them, and notes what
became of each (`note_departures`), which the sagas read from here. A removal that gathers holds a lease, since a
removal may die; whoever asks after that starts another one. One whose pool is busy gathers on until it asks again.
"""

from __future__ import annotations

from dataclasses import replace

from shared.state.ledger import (
    DELETING,
    DRAINING,
    GONE,
    KEPT,
    READY,
    REASON_LENGTH,
    RECALLED,
    REMOVING,
    ClusterLedger,
    Json,
    Leaving,
    Lock,
    after,
    moment,
    passed,
)

GATHERING = 900.0  # seconds: longer than a removal waits for its pool's lock


def depart(ledger: ClusterLedger, order: Json) -> Json:
    """How the departure of `node` stands: {"state"} is "lead" (start the removal `removal`; `company`: more nodes of
    the pool are about to come), "wait", "gone", "kept" (with `kind` and `why`), "recalled" or "unknown".

    With `ready` the node queues, also after it was kept; `force` asks Azure not to wait for the guest.
    """
    leaving = ledger.retirements.get(order["node"])
    if leaving is None or leaving.op != order["op"]:
        return {"state": "unknown"}
    if leaving.stage == RECALLED:
        return {"state": "recalled"}
    if order.get("ready"):
        leaving = replace(leaving, stage=READY, removal="", kind="", why="", force=bool(order.get("force")))
        ledger.retirements[order["node"]] = leaving
    if leaving.stage == KEPT:
        return {"state": "kept", "kind": leaving.kind, "why": leaving.why}
    if leaving.stage == GONE:
        return {"state": "gone"}
    return _gathered(ledger, leaving, order["now"]) if leaving.stage == READY else {"state": "wait"}


def _gathered(ledger: ClusterLedger, leaving: Leaving, now: str) -> Json:
    removal = f"{leaving.op}-{int(moment(now).timestamp())}"
    if not _gathers(ledger, leaving.pool, removal, now):
        return {"state": "wait"}
    others = (each for each in ledger.retirements.values() if each.pool == leaving.pool and each.op != leaving.op)
    return {"state": "lead", "removal": removal, "company": any(each.stage in (DRAINING, READY) for each in others)}


def take_departing(ledger: ClusterLedger, order: Json) -> Json:
    """The nodes that the removal `op` may ask Azure about from now on, `most` at once: {"nodes":
    [{node, op, force, dead}]}. None of them can be called back any more. Whoever becomes ready later gathers for
    another removal."""
    pool, removal = order["pool"], order["op"]
    gathering = ledger.gathering.get(pool)
    if gathering is not None and gathering.holder == removal:
        del ledger.gathering[pool]
    mine = [node for node, each in ledger.retirements.items() if each.stage == REMOVING and each.removal == removal]
    ready = [node for node, each in ledger.retirements.items() if each.stage == READY and each.pool == pool]
    taken = [*mine, *ready][: order["most"]]
    for node in taken:
        ledger.retirements[node] = replace(ledger.retirements[node], stage=REMOVING, removal=removal)
    entries = ((node, ledger.retirements[node]) for node in taken)
    return {"nodes": [{"node": node, "op": each.op, "force": each.force, "dead": each.dead} for node, each in entries]}


def note_departures(ledger: ClusterLedger, order: Json) -> Json:
    """What became of nodes that the removal `op` had taken: `deleting` and `gone` [node], `ready` [node] where Azure
    surely was not asked, `kept` {node: [kind, why]}. Others' nodes stay what they are.

    "gathers": whether this removal asks again for those that are ready; if not, another one has begun to gather, and
    takes them along.
    """
    for stage in (DELETING, GONE, READY):
        for node in order.get(stage, ()):
            _note(ledger, node, order["op"], stage)
    for node, (kind, why) in order.get(KEPT, {}).items():
        _note(ledger, node, order["op"], KEPT, kind, why)
    again = [ledger.retirements[node].pool for node in order.get(READY, ()) if node in ledger.retirements]
    return {"ok": True, "gathers": not again or _gathers(ledger, again[0], order["op"], order["now"])}  # all of a pool


def _gathers(ledger: ClusterLedger, pool: str, removal: str, now: str) -> bool:
    """Whether `removal` gathers the pool's nodes from now on; not while another one does."""
    gathering = ledger.gathering.get(pool)
    if gathering is not None and gathering.holder != removal and not passed(gathering.deadline, now):
        return False
    ledger.gathering[pool] = Lock(removal, after(now, GATHERING))
    return True


def _note(ledger: ClusterLedger, node: str, removal: str, stage: str, kind: str = "", why: str = "") -> None:
    leaving = ledger.retirements.get(node)
    if leaving is not None and leaving.removal == removal and leaving.stage in (REMOVING, DELETING):
        kept = "" if stage == READY else removal
        ledger.retirements[node] = replace(leaving, stage=stage, removal=kept, kind=kind, why=why[:REASON_LENGTH])
