"""What the cluster's entity remembers, as a pure state machine: who plans, what is in flight, what Azure refused.

The entity serialises operations but does not undo one that raises half-way, so `apply` works on a copy and returns the
new state only when the operation went through. Every operation may come twice: each names what it is about (event,
growth or retirement id), and finds it done. Time comes in with the order (`now`), never from a clock.

A growth counts as supply (`Upcoming`) until each of its instances has appeared as a usable node, or its deadline has
passed: counted too long it delays a purchase, forgotten too early it buys twice.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import orjson

from shared.model import FailureMemory, Learnt, Ledger, Priority, Taint, Upcoming
from shared.state.bulk import pack, unpack

Json = dict[str, Any]

# How much is remembered: all of it, with a thousand instances to come, stays below 32 kB (`shared.state.bulk`).
SEEN_LIMIT = 256  # events; a redelivery comes within minutes, and a busy cluster says a few hundred things an hour
SPENT_LIMIT = 128  # instances already accounted for, so that a later growth cannot claim them again
SPENT_LIMIT_BUSY = 1024  # while growths are under way that were asked for when those instances were made
GONE_LIMIT = 48  # nodes that an older snapshot may still show
COOLING_LIMIT = 20  # nodes whose retirement was given up a short while ago
FAILURE_LIMIT = 16
GROWTH_LIMIT = 24  # growths in flight
LEARNT_ROOM = 4_000  # bytes of what was learnt of pools, squeezed: some thirty of them; who learnt last stays
REASON_LENGTH = 100
GROWTH_FIRST = 120.0  # seconds that a growth which has yet to write keeps everybody else from its pool's lock

INTENDED = "intended"
ASKED = "asked"
ARRIVING = "arriving"
DRAINING = "draining"
REMOVING = "removing"  # under the pool's lock, about to ask Azure: nobody may call the node back any more
DELETING = "deleting"
RECALLED = "recalled"  # told to stay: pods need it; its saga ends at its next look
EVICTING = "evicting"  # goes whether we plan it or not

RECALL_REASON = "called back: pods needed it"


class LedgerError(ValueError):
    """An order that no version of Sluice would send: its operation or a field is unknown."""


def moment(text: str) -> datetime:
    """An ISO 8601 time as stored here."""
    return datetime.fromisoformat(text)


def stamp(when: datetime) -> str:
    """The text that `moment` reads."""
    return when.isoformat()


@dataclass(frozen=True, slots=True)
class Lead:
    """Who plans for this cluster just now; after `deadline` anybody may take over."""

    holder: str
    generation: int
    deadline: str


@dataclass(frozen=True, slots=True)
class Growth:
    """Nodes asked for. `claimed`, once `stage` is arriving: the instances that are meant and not yet seen as nodes."""

    pool: str
    add: int
    stage: str
    asked: str
    deadline: str
    target: int | None = None
    claimed: tuple[str, ...] = ()

    @property
    def outstanding(self) -> int:
        """How many nodes are still to come."""
        return len(self.claimed) if self.stage == ARRIVING else self.add


@dataclass(frozen=True, slots=True)
class Leaving:
    """A node with a saga in flight."""

    op: str
    pool: str
    since: str
    stage: str = DRAINING


@dataclass(frozen=True, slots=True)
class Lock:
    """One writer per pool, for the write; a lease, since a writer may die."""

    holder: str
    deadline: str


@dataclass(frozen=True, slots=True)
class Cooling:
    """A node that stayed, why, and until when it is not tried again. With `seen` (epoch, sequence), a newer snapshot
    ends it early: the plan came from one that did not show yet what held the node."""

    until: str
    reason: str
    seen: tuple[int, int] | None = None

    def lifted(self, known: tuple[int, int]) -> bool:
        """Whether something newer than the mistake is `known`."""
        return self.seen is not None and known > tuple(self.seen)


@dataclass(slots=True)
class ClusterLedger:
    """The entity's state. `generation` counts what was recorded, `served` is the generation last planned for.

    `gone` {node: uid} are nodes that we took away: a snapshot that still shows them is older than that. `idle_waiting`:
    the last plan kept idle nodes only because as many as may be were going already. `learnt` {pool: what its nodes were
    like}, the oldest lesson first.
    """

    epoch: int = 0
    sequence: int = 0
    snapshot: str = ""
    generation: int = 0
    served: int = 0
    lead: Lead | None = None
    seen: list[str] = field(default_factory=list)
    spent: list[str] = field(default_factory=list)
    growths: dict[str, Growth] = field(default_factory=dict)
    failures: list[Json] = field(default_factory=list)
    retirements: dict[str, Leaving] = field(default_factory=dict)
    cooling: dict[str, Cooling] = field(default_factory=dict)
    gone: dict[str, str] = field(default_factory=dict)
    idle_waiting: bool = False
    locks: dict[str, Lock] = field(default_factory=dict)
    learnt: dict[str, Json] = field(default_factory=dict)

    def encode(self) -> Json:
        """As JSON values. By hand: `asdict` would copy every id one by one, at every operation of the entity."""
        plain: Json = {name: getattr(self, name) for name in self.__dataclass_fields__}
        entries = {name: {key: asdict(one) for key, one in plain[name].items()} for name in _ENTRIES}
        return {**plain, **entries, "lead": asdict(self.lead) if self.lead else None}

    @classmethod
    def decode(cls, state: Json | None) -> ClusterLedger:
        """A fresh ledger for None; unknown fields (written by a newer version) are left out."""
        if state is None:
            return cls()
        known: Json = {
            name: list(value) if name in _LISTS else value
            for name, value in unpack(state).items()
            if name in cls.__dataclass_fields__
        }
        known["lead"] = Lead(**known["lead"]) if known.get("lead") else None
        known["growths"] = {op: _growth(entry) for op, entry in known.get("growths", {}).items()}
        known["retirements"] = {node: Leaving(**entry) for node, entry in known.get("retirements", {}).items()}
        known["cooling"] = {node: Cooling(**entry) for node, entry in known.get("cooling", {}).items()}
        known["locks"] = {pool: Lock(**entry) for pool, entry in known.get("locks", {}).items()}
        return cls(**known)

    def view(self) -> Json:
        """What planning needs to see: everything but the events' ids."""
        return {name: value for name, value in self.encode().items() if name != "seen"}

    def answer(self) -> Json:
        """The view as it travels: to be opened by `unpack`, save for `lead` and the numbers."""
        return pack(self.view(), _BULKY)


_ENTRIES = ("growths", "retirements", "cooling", "locks")
_LISTS = ("seen", "spent", "failures")
_BULKY = ("seen", "spent", "growths", "retirements", "failures", "cooling", "gone", "learnt")


def _growth(entry: Json) -> Growth:
    return Growth(**{**entry, "claimed": tuple(entry.get("claimed", ()))})


def planning_ledger(view: Json, now: datetime | None = None) -> Ledger:
    """The planner's picture of a view; nodes that are left alone for a while are among it if `now` is given."""
    view = unpack(view)
    growths = [_growth(entry) for entry in view.get("growths", {}).values()]
    cooling = _cooling(view, now) if now is not None else {}
    return Ledger(
        upcoming=tuple(Upcoming(g.pool, g.outstanding, moment(g.deadline)) for g in growths if g.outstanding > 0),
        failures=tuple(_memory(entry) for entry in view.get("failures", ())),
        retiring=frozenset(view.get("retirements", {})) - _leaving(view, RECALLED),
        deleting=_leaving(view, DELETING),
        cooling=cooling,
        recallable=_leaving(view, DRAINING),
        recalled=_leaving(view, RECALLED) | {node for node, why in cooling.items() if why == RECALL_REASON},
        learnt={pool: _lesson(entry) for pool, entry in view.get("learnt", {}).items()},
    )


def _leaving(view: Json, stage: str) -> frozenset[str]:
    """The nodes with a saga that stands there."""
    return frozenset(node for node, going in view.get("retirements", {}).items() if going["stage"] == stage)


def _cooling(view: Json, now: datetime) -> dict[str, str]:
    known = (view.get("epoch", 0), view.get("sequence", 0))
    entries = {node: Cooling(**entry) for node, entry in view.get("cooling", {}).items()}
    return {
        node: entry.reason for node, entry in entries.items() if moment(entry.until) > now and not entry.lifted(known)
    }


def _memory(entry: Json) -> FailureMemory:
    priority = Priority(entry["priority"]) if entry["priority"] else None
    until = moment(entry["until"])
    return FailureMemory(entry["sku"], entry["zone"], priority, entry["code"], until, entry.get("pool", ""))


def failure_entry(memory: FailureMemory) -> Json:
    """A failure as orders and the state carry it."""
    return {
        "sku": memory.sku,
        "zone": memory.zone,
        "priority": memory.priority.value if memory.priority else "",
        "code": memory.code,
        "until": stamp(memory.until),
        "pool": memory.pool,
    }


def lesson_entry(lesson: Learnt) -> Json:
    """A lesson as orders and the state carry it."""
    return {
        "declared": lesson.declared,
        "newest": stamp(lesson.newest),
        "allocatable": dict(lesson.allocatable),
        "labels": dict(lesson.labels),
        "lacking": list(lesson.lacking),
        "taints": [[taint.key, taint.value, taint.effect] for taint in lesson.taints],
    }


def _lesson(entry: Json) -> Learnt:
    taints = tuple(Taint(*fields) for fields in entry["taints"])
    labels, lacking = tuple(sorted(entry["labels"].items())), tuple(entry["lacking"])
    return Learnt(entry["declared"], moment(entry["newest"]), entry["allocatable"], labels, lacking, taints)


def _digest(event: str) -> str:
    """Enough of an id to recognise it by."""
    return hashlib.sha256(event.encode()).hexdigest()[:12]


def _after(now: str, seconds: float) -> str:
    return stamp(moment(now) + timedelta(seconds=seconds))


def _passed(deadline: str, now: str) -> bool:
    return moment(deadline) <= moment(now)


def _record(ledger: ClusterLedger, order: Json) -> Json:
    """Somebody has news: answer lead, follow or seen. News that are older than what is known are seen as well, unless
    `force`d: then another look is due (a replan brings no news of its own, a sweep those of what it began with), but
    still at the newest that is known. An older picture would lack nodes that the ledger has settled, and buy them
    again."""
    event, holder, now = _digest(order["event"]), order["holder"], order["now"]
    lead = ledger.lead
    if event in ledger.seen:
        mine = lead is not None and lead.holder == holder
        return {"role": "lead" if mine else "seen", "view": ledger.answer()} if mine else {"role": "seen"}
    ledger.seen = [*ledger.seen, event][-SEEN_LIMIT:]
    news = (order.get("epoch", 0), order.get("sequence", 0))
    known = (ledger.epoch, ledger.sequence)
    newer = bool(order.get("snapshot")) and (news > known or (news == known and bool(order.get("force"))))
    if newer:
        (ledger.epoch, ledger.sequence), ledger.snapshot = news, order["snapshot"]
    if not newer and not order.get("force"):
        return {"role": "seen"}
    ledger.generation += 1
    if lead is not None and not _passed(lead.deadline, now) and lead.holder != holder:
        return {"role": "follow"}
    ledger.lead = Lead(holder, ledger.generation, _after(now, order["lease"]))
    return {"role": "lead", "view": ledger.answer()}


def _release(ledger: ClusterLedger, order: Json) -> Json:
    """The leader has planned for `generation`: done, again (something newer came in), or lost (taken over). What it
    found on the way is kept in any case: nodes that have appeared, and `learnt` {pool: what its nodes are like}."""
    _settle(ledger, order)
    _learn(ledger, order.get("learnt") or {})
    lead = ledger.lead
    if lead is None or lead.holder != order["holder"]:
        return {"state": "lost"}
    ledger.served = max(ledger.served, order["generation"])
    ledger.idle_waiting = bool(order.get("idle_waiting"))
    if ledger.generation > order["generation"]:
        ledger.lead = Lead(lead.holder, ledger.generation, _after(order["now"], order["lease"]))
        return {"state": "again", "view": ledger.answer()}
    ledger.lead = None
    return {"state": "done"}


def _settle(ledger: ClusterLedger, order: Json) -> Json:
    """`settled` {growth: [instances]}: they are nodes now. A growth with nothing left to come leaves."""
    for op, arrived in (order.get("settled") or {}).items():
        growth = ledger.growths.get(op)
        if growth is None:
            continue
        claimed = tuple(instance for instance in growth.claimed if instance not in arrived)
        ledger.growths[op] = replace(growth, claimed=claimed)
    _drop_arrived(ledger)
    return {"ok": True}


def _learn(ledger: ClusterLedger, lessons: dict[str, Json]) -> None:
    """Keep what is not older than what is known, for as many pools as there is room for."""
    for pool, entry in lessons.items():
        known = ledger.learnt.get(pool)
        if known and known["declared"] == entry["declared"] and moment(known["newest"]) > moment(entry["newest"]):
            continue
        ledger.learnt.pop(pool, None)
        ledger.learnt[pool] = entry
    while ledger.learnt and len(zlib.compress(orjson.dumps(ledger.learnt))) > LEARNT_ROOM:
        del ledger.learnt[next(iter(ledger.learnt))]


def _drop_arrived(ledger: ClusterLedger) -> None:
    ledger.growths = {op: g for op, g in ledger.growths.items() if g.stage != ARRIVING or g.claimed}


def _begin(ledger: ClusterLedger, order: Json) -> Json:
    """The leader starts what it has planned. A leader that lost its lease is refused everything: another one plans now,
    and both would buy."""
    if ledger.lead is None or ledger.lead.holder != order["holder"]:
        return {"growths": [], "retirements": [], "recalls": [], "refused": {"*": "the lead was taken over"}}
    refused: dict[str, str] = {}
    growths = [wish["op"] for wish in order.get("growths", ()) if _begin_growth(ledger, wish, order)]
    retirements = []
    for wish in order.get("retirements", ()):
        problem = _retirement_problem(ledger, wish, order)
        if problem:
            refused[wish["node"]] = problem
            continue
        ledger.retirements.setdefault(wish["node"], Leaving(wish["op"], wish["pool"], order["now"]))
        retirements.append(wish["op"])
    recalls = [
        {"node": node, "op": ledger.retirements[node].op, "pool": ledger.retirements[node].pool}
        for node in order.get("recalls", ())
        if _recall(ledger, node)
    ]
    return {"growths": growths, "retirements": retirements, "recalls": recalls, "refused": refused}


def _recall(ledger: ClusterLedger, node: str) -> bool:
    """Tell a saga that its node stays, if it has not gone too far: who holds its pool's lock may have asked Azure."""
    leaving = ledger.retirements.get(node)
    if leaving is None or leaving.stage not in (DRAINING, RECALLED):
        return False
    ledger.retirements[node] = replace(leaving, stage=RECALLED)
    return True


def _begin_growth(ledger: ClusterLedger, wish: Json, order: Json) -> bool:
    if wish["op"] not in ledger.growths:
        if len(ledger.growths) >= GROWTH_LIMIT:
            return False
        deadline = _after(order["now"], order["join_timeout"])
        ledger.growths[wish["op"]] = Growth(wish["pool"], wish["add"], INTENDED, order["now"], deadline)
    return True


def _retirement_problem(ledger: ClusterLedger, wish: Json, order: Json) -> str:
    """Why this retirement must not start, or "". `limit`: how many nodes may drain at once; `spare` {pool: nodes above
    its minimum}. Nodes that only wait for their VM to go do not use up the limit: one that hangs must block nobody."""
    present = ledger.retirements.get(wish["node"])
    if present is not None:
        return "" if present.op == wish["op"] else "a retirement of this node is under way"
    cooling, known = ledger.cooling.get(wish["node"]), (ledger.epoch, ledger.sequence)
    if cooling is not None and not _passed(cooling.until, order["now"]) and not cooling.lifted(known):
        return f"stayed a short while ago: {cooling.reason}"
    draining = sum(leaving.stage not in (DELETING, RECALLED) for leaving in ledger.retirements.values())
    if draining >= order["limit"]:
        return f"{order['limit']} retirements are under way, which is as many as may be"
    leaving_pool = sum(leaving.pool == wish["pool"] for leaving in ledger.retirements.values())
    if leaving_pool >= order["spare"].get(wish["pool"], 0):
        return f"pool {wish['pool']} would fall below its minimum"
    return ""


def _adopt(ledger: ClusterLedger, order: Json) -> Json:
    """A node that goes whether we plan it or not (evicted, or its VM is gone): no limit, but only one saga per node."""
    present = ledger.retirements.get(order["node"])
    if present is not None and present.op != order["op"]:
        return {"ok": False, "kind": "duplicate", "op": present.op}
    ledger.retirements[order["node"]] = present or Leaving(order["op"], order["pool"], order["now"], EVICTING)
    return {"ok": True}


def _lock_pool(ledger: ClusterLedger, order: Json) -> Json:
    """The pool's write lock. `others`: growths of the pool that another saga may have asked Azure for and not seen end;
    while there are any, capacity without an instance may still be theirs. Growths go first: pods wait for them, and the
    retirements of a busy evening would take the lock from one another for minutes. A retirement that was called back
    gets no lock, and one that gets it can't be called back any more: `recalled` says so."""
    pool, holder, now = order["pool"], order["holder"], order["now"]
    mine = _node_of(ledger, holder)
    if mine and ledger.retirements[mine].stage == RECALLED:
        return {"granted": False, "recalled": True}
    lock = ledger.locks.get(pool)
    if lock is not None and lock.holder != holder and not _passed(lock.deadline, now):
        return {"granted": False}
    if holder not in ledger.growths and _growth_waits(ledger, pool, now):
        return {"granted": False}
    growth = ledger.growths.get(holder)
    others = sum(g.pool == pool and g.stage == ASKED and op != holder for op, g in ledger.growths.items())
    ledger.locks[pool] = Lock(holder, _after(now, order["seconds"]))
    if mine and ledger.retirements[mine].stage == DRAINING:
        ledger.retirements[mine] = replace(ledger.retirements[mine], stage=REMOVING)
    return {"granted": True, "others": others, "growth": asdict(growth) if growth else None}


def _node_of(ledger: ClusterLedger, op: str) -> str:
    """The node whose saga this is, or ""."""
    return next((node for node, leaving in ledger.retirements.items() if leaving.op == op), "")


def _growth_waits(ledger: ClusterLedger, pool: str, now: str) -> bool:
    """Whether a growth has yet to write; one that has not come to it for long may never do."""
    waiting = [growth for growth in ledger.growths.values() if growth.pool == pool and growth.stage == INTENDED]
    return any(not _passed(_after(growth.asked, GROWTH_FIRST), now) for growth in waiting)


def _unlock_pool(ledger: ClusterLedger, order: Json) -> Json:
    """Give the lock back, and note in the same breath what the write came to: `target` of the growth `holder`, that
    the node `deleting` now only waits for its VM to go, or that Azure surely was not asked to delete `draining`'s."""
    lock = ledger.locks.get(order["pool"])
    if lock is not None and lock.holder == order["holder"]:
        del ledger.locks[order["pool"]]
    growth = ledger.growths.get(order["holder"])
    if growth is not None and order.get("target") is not None and growth.stage == INTENDED:
        ledger.growths[order["holder"]] = replace(growth, target=order["target"], stage=ASKED)
    for stage in (DELETING, DRAINING):
        leaving = ledger.retirements.get(order.get(stage, ""))
        if leaving is not None and (stage == DELETING or leaving.stage == REMOVING):
            ledger.retirements[order[stage]] = replace(leaving, stage=stage)
    return {"ok": True}


def _conclude_growth(ledger: ClusterLedger, order: Json) -> Json:
    """Azure is through with a growth. `candidates`: instances that may be its own, likeliest first; it claims as many
    as it asked for among those that no other growth has. What was not delivered is no supply any more."""
    _remember_failure(ledger, order)
    growth = ledger.growths.get(order["op"])
    if growth is None:
        return {"ok": True, "claimed": []}
    if growth.stage == ARRIVING:
        return {"ok": True, "claimed": list(growth.claimed)}
    taken = {f"{g.pool}/{name}" for g in ledger.growths.values() for name in g.claimed} | set(ledger.spent)
    free = [name for name in order["candidates"] if f"{growth.pool}/{name}" not in taken]
    claimed = tuple(free[: growth.add])
    deadline = _after(order["now"], order["join_timeout"])
    ledger.growths[order["op"]] = replace(growth, stage=ARRIVING, claimed=claimed, deadline=deadline)
    limit = SPENT_LIMIT_BUSY if any(g.stage != ARRIVING for g in ledger.growths.values()) else SPENT_LIMIT
    ledger.spent = [*ledger.spent, *(f"{growth.pool}/{name}" for name in claimed)][-limit:]
    _drop_arrived(ledger)
    return {"ok": True, "claimed": list(claimed)}


def _end_retirement(ledger: ClusterLedger, order: Json) -> Json:
    """A saga is over. With `kept` (why the node stays) it is left alone for `cooldown` seconds, with `stale` only until
    there are news; with `gone` (its uid) no older snapshot may bring it back. `again`: there is room now for idle nodes
    that had to wait."""
    leaving = ledger.retirements.get(order["node"])
    recalled = False
    if leaving is not None and leaving.op == order["op"]:
        del ledger.retirements[order["node"]]
        recalled = leaving.stage == RECALLED
    if order.get("kept"):
        until = _after(order["now"], order["cooldown"])
        seen = (ledger.epoch, ledger.sequence) if order.get("stale") and not recalled else None
        reason = RECALL_REASON if recalled else order["kept"][:REASON_LENGTH]
        ledger.cooling[order["node"]] = Cooling(until, reason, seen)
        ledger.cooling = dict(list(ledger.cooling.items())[-COOLING_LIMIT:])
    if order.get("gone"):
        ledger.gone = dict([*ledger.gone.items(), (order["node"], order["gone"])][-GONE_LIMIT:])
    again, ledger.idle_waiting = ledger.idle_waiting, False
    return {"ok": True, "again": again}


def _remember_failure(ledger: ClusterLedger, order: Json) -> Json:
    """Azure's refusals, one entry per scope: the longer memory stays."""
    for entry in order.get("failures", ()):
        same = [known for known in ledger.failures if _scope(known) == _scope(entry)]
        if any(moment(known["until"]) >= moment(entry["until"]) for known in same):
            continue
        ledger.failures = [known for known in ledger.failures if _scope(known) != _scope(entry)]
        ledger.failures = [*ledger.failures, entry][-FAILURE_LIMIT:]
    return {"ok": True}


def _scope(entry: Json) -> tuple[str, str, str, str]:
    return entry["sku"], entry["zone"], entry["priority"], entry.get("pool", "")


def _tidy(ledger: ClusterLedger, order: Json) -> Json:
    """Drop what time has ended, and answer the view; an expired lead stays in it, for whoever takes over."""
    now = order["now"]
    ledger.growths = {op: g for op, g in ledger.growths.items() if not _passed(g.deadline, now)}
    ledger.failures = [entry for entry in ledger.failures if not _passed(entry["until"], now)]
    ledger.cooling = {node: entry for node, entry in ledger.cooling.items() if not _passed(entry.until, now)}
    ledger.locks = {pool: lock for pool, lock in ledger.locks.items() if not _passed(lock.deadline, now)}
    return {"ok": True, "view": ledger.answer()}


_OPERATIONS: dict[str, Callable[[ClusterLedger, Json], Json]] = {
    "record": _record,
    "release": _release,
    "settle": _settle,
    "begin": _begin,
    "adopt": _adopt,
    "lock_pool": _lock_pool,
    "unlock_pool": _unlock_pool,
    "conclude_growth": _conclude_growth,
    "end_retirement": _end_retirement,
    "remember_failure": _remember_failure,
    "tidy": _tidy,
}


def apply(state: Json | None, operation: str, order: Json) -> tuple[Json, Json]:
    """The state after `operation`, and its answer. Raises LedgerError, with the old state untouched."""
    run = _OPERATIONS.get(operation)
    if run is None:
        raise LedgerError(f"operation {operation!r} is unknown to the ledger")
    ledger = ClusterLedger.decode(state)
    try:
        answer = run(ledger, order)
    except KeyError as missing:
        raise LedgerError(f"operation {operation!r} lacks the field {missing}") from missing
    return pack(ledger.encode(), _BULKY), answer
