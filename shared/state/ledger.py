"""What the cluster's entity remembers: who plans, what is in flight, what Azure refused.

A growth counts as supply (`Upcoming`) until each of its instances has appeared as a usable node, or its deadline has
passed: counted too long it delays a purchase, forgotten too early it buys twice.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from shared.model import FailureMemory, GangHold, Learnt, Ledger, Priority, Purchase, ReturnState, Taint, Upcoming, Vain
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
GANG_LIMIT = 48  # gangs that nodes were bought for and that do not run yet; those asked for last stay
LEARNT_ROOM = 4_000  # bytes of what was learnt of pools, squeezed: some thirty of them; who learnt last stays
REASON_LENGTH = 100
GROWTH_FIRST = 120.0  # seconds that a growth which has yet to write keeps everybody else from its pool's lock

NOT_ASKED = "-"

INTENDED = "intended"
ASKED = "asked"
ARRIVING = "arriving"
DRAINING = "draining"
WAITING = "waiting"  # for pods that run to their end: nothing is evicted, and it counts among no others
READY = "ready"  # drained: a removal of its pool may take it
REMOVING = "removing"  # under the pool's lock, about to ask Azure: nobody may call the node back any more
DELETING = "deleting"
GONE = "gone"
KEPT = "kept"  # not deleted, or not yet: its saga decides what to do about that
RECALLED = "recalled"  # told to stay: pods need it; its saga ends at its next look
PAUSED = "paused"  # no stage, but the kind of what keeps a node in one: its cluster cannot be seen
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
    """Nodes asked for. `claimed`, once `stage` is arriving: the instances that are meant and not yet seen as nodes.
    `classes`: keys of the pods that they are for, as far as they are remembered.
    `carrier`: the growth that asked for this one as well, and `operation` how that ended. `zones`: of single VMs, by
    the number that ends their names, the zone; `NOT_ASKED` for one that could not be asked for."""

    pool: str
    add: int
    stage: str
    asked: str
    deadline: str
    target: int | None = None
    claimed: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    carrier: str = ""
    operation: Json | None = None
    zones: tuple[str, ...] = ()

    @property
    def outstanding(self) -> int:
        """How many nodes are still to come."""
        return len(self.claimed) if self.stage == ARRIVING else self.add


@dataclass(frozen=True, slots=True)
class Leaving:
    """A node with a saga in flight. `removal` took it; `kind` and `why` say what kept it, or pauses its saga; `force`:
    its VM hangs; `dead`: so does its kubelet."""

    op: str
    pool: str
    since: str
    stage: str = DRAINING
    removal: str = ""
    kind: str = ""
    why: str = ""
    force: bool = False
    dead: bool = False


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
    the last plan kept idle nodes only because as many as may be were going already. `gathering` {pool: the removal that
    takes whoever is ready}. `learnt` {pool: what its nodes were like}, the oldest lesson first. `evictions` {kind of
    Spot: when its last nodes were taken}; `claims` {what one does for many: until when}. `bought` {pool/instance:
    classes that the node was bought for}, `vain` {class: its pause}: see `shared.state.purchases`. `gangs` {digest of a
    name: what was bought for it, and since when}. `phantoms` {pool: capacity that growths asked for in vain while
    others were under way}: the next write leaves it out. `returning` {Spot pool: how the return to it stands}.
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
    gathering: dict[str, Lock] = field(default_factory=dict)
    learnt: dict[str, Json] = field(default_factory=dict)
    evictions: dict[str, list[str]] = field(default_factory=dict)
    claims: dict[str, str] = field(default_factory=dict)
    bought: dict[str, Json] = field(default_factory=dict)
    vain: dict[str, Json] = field(default_factory=dict)
    gangs: dict[str, Json] = field(default_factory=dict)
    phantoms: dict[str, int] = field(default_factory=dict)
    returning: dict[str, Json] = field(default_factory=dict)

    def encode(self) -> Json:
        """As JSON values. By hand: `asdict` would copy every id one by one, at every operation of the entity."""
        plain = _fields(self)
        entries = {name: {key: _fields(one) for key, one in plain[name].items()} for name in _ENTRIES}
        return {**plain, **entries, "lead": _fields(self.lead) if self.lead else None}

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
        for leases in ("locks", "gathering"):
            known[leases] = {pool: Lock(**entry) for pool, entry in known.get(leases, {}).items()}
        return cls(**known)

    def view(self) -> Json:
        """What planning needs to see: everything but the events' ids."""
        return {name: value for name, value in self.encode().items() if name != "seen"}

    def answer(self) -> Json:
        """The view as it travels: to be opened by `unpack`, save for `lead` and the numbers."""
        return pack(self.view(), BULKY)


def _fields(one: Any) -> Json:  # noqa: ANN401 - any dataclass
    """What it consists of, uncopied; entries hold JSON values, and nobody changes them."""
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


_ENTRIES = ("growths", "retirements", "cooling", "locks", "gathering")
_LISTS = ("seen", "spent", "failures")
BULKY = ("seen", "spent", "growths", "retirements", "failures", "cooling", "gone", "learnt", "bought", "vain", "gangs")


def _growth(entry: Json) -> Growth:
    return Growth(**{**entry, **{name: tuple(entry.get(name, ())) for name in ("claimed", "classes", "zones")}})


def _upcoming(growth: Growth) -> list[Upcoming]:
    """What is still to come of a growth, zone by zone where those are known."""
    deadline = moment(growth.deadline)
    if not growth.zones:
        return [Upcoming(growth.pool, growth.outstanding, deadline)] if growth.outstanding > 0 else []
    if growth.stage == ARRIVING:
        zones = [_zone_by_name(name, growth.zones) for name in growth.claimed]
    else:
        zones = [zone for zone in growth.zones if zone != NOT_ASKED][: growth.add]
    return [Upcoming(growth.pool, number, deadline, zone) for zone, number in sorted(Counter(zones).items())]


def _zone_by_name(name: str, zones: tuple[str, ...]) -> str:
    number = name.rpartition("-")[2]
    zone = zones[int(number)] if number.isdecimal() and int(number) < len(zones) else ""
    return "" if zone == NOT_ASKED else zone


def planning_ledger(view: Json, now: datetime | None = None) -> Ledger:
    """The planner's picture of a view; nodes that are left alone for a while are among it if `now` is given."""
    view = unpack(view)
    growths = [_growth(entry) for entry in view.get("growths", {}).values()]
    cooling = _cooling(view, now) if now is not None else {}
    return Ledger(
        upcoming=tuple(each for growth in growths for each in _upcoming(growth)),
        failures=tuple(_memory(entry) for entry in view.get("failures", ())),
        retiring=frozenset(view.get("retirements", {})) - _leaving(view, RECALLED),
        deleting=_leaving(view, DELETING, GONE),
        cooling=cooling,
        recallable=_leaving(view, DRAINING, WAITING, READY),
        waiting=_leaving(view, WAITING),
        recalled=_leaving(view, RECALLED) | {node for node, why in cooling.items() if why == RECALL_REASON},
        learnt={pool: _lesson(entry) for pool, entry in view.get("learnt", {}).items()},
        bought={node: _purchase(entry) for node, entry in view.get("bought", {}).items()},
        vain={key: Vain(moment(entry["until"]), entry["reason"]) for key, entry in view.get("vain", {}).items()},
        gangs={key: _hold(entry) for key, entry in view.get("gangs", {}).items()},
        returning={pool: _return(entry) for pool, entry in view.get("returning", {}).items()},
    )


def _purchase(entry: Json) -> Purchase:
    seen = {key: (moment(since), pod) for key, (since, pod) in entry.get("seen", {}).items()}
    return Purchase(tuple(entry["classes"]), seen)


def _leaving(view: Json, *stages: str) -> frozenset[str]:
    """The nodes with a saga that stands there."""
    return frozenset(node for node, going in view.get("retirements", {}).items() if going["stage"] in stages)


def _cooling(view: Json, now: datetime) -> dict[str, str]:
    known = (view.get("epoch", 0), view.get("sequence", 0))
    entries = {node: Cooling(**entry) for node, entry in view.get("cooling", {}).items()}
    return {
        node: entry.reason for node, entry in entries.items() if moment(entry.until) > now and not entry.lifted(known)
    }


def _memory(entry: Json) -> FailureMemory:
    priority = Priority(entry["priority"]) if entry["priority"] else None
    until = moment(entry["until"])
    known = FailureMemory(entry["sku"], entry["zone"], priority, entry["code"], until, entry.get("pool", ""))
    more = {name: entry[name] for name in _TEXTS if entry.get(name)}
    numbers = tuple(entry["numbers"]) if entry.get("numbers") else None
    since = moment(entry["since"]) if entry.get("since") else None
    return replace(known, **more, numbers=numbers, since=since)


_TEXTS = ("subscription", "location", "quota", "detail")  # of a failure, written where they say something


def failure_entry(memory: FailureMemory) -> Json:
    """A failure as orders and the state carry it."""
    entry: Json = {
        "sku": memory.sku,
        "zone": memory.zone,
        "priority": memory.priority.value if memory.priority else "",
        "code": memory.code,
        "until": stamp(memory.until),
        "pool": memory.pool,
    }
    entry |= {name: text for name in _TEXTS if (text := getattr(memory, name))}
    if memory.since is not None:
        entry["since"] = stamp(memory.since)
    if memory.numbers is not None:
        entry["numbers"] = list(memory.numbers)
    return entry


def hold_entry(hold: GangHold) -> Json:
    """What is held for a gang, as orders and the state carry it."""
    times = {name: stamp(when) if (when := getattr(hold, name)) else "" for name in ("stranded", "given")}
    return {"asked": stamp(hold.asked), "pools": list(hold.pools), "tries": hold.tries, **times}


def _hold(entry: Json) -> GangHold:
    stranded, given = (moment(entry[name]) if entry[name] else None for name in ("stranded", "given"))
    return GangHold(moment(entry["asked"]), tuple(entry["pools"]), stranded, given, entry["tries"])


def return_entry(state: ReturnState) -> Json:
    """How the return to a Spot pool stands, as orders and the state carry it."""
    since = stamp(state.since) if state.since else ""
    times = {"pause": state.pause.total_seconds(), "next": stamp(state.next), "since": since}
    return {"batch": state.batch, "nodes": list(state.nodes), **times}


def _return(entry: Json) -> ReturnState:
    since = moment(entry["since"]) if entry["since"] else None
    pause = timedelta(seconds=entry["pause"])
    return ReturnState(entry["batch"], pause, moment(entry["next"]), since, tuple(entry["nodes"]))


def lesson_entry(lesson: Learnt) -> Json:
    """A lesson as orders and the state carry it."""
    seen = {} if lesson.seen is None else {"seen": stamp(lesson.seen)}
    return {
        **seen,
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
    seen = moment(entry["seen"]) if "seen" in entry else None
    return Learnt(entry["declared"], moment(entry["newest"]), entry["allocatable"], labels, lacking, taints, seen=seen)


def after(now: str, seconds: float) -> str:
    """The time that lies so many seconds later."""
    return stamp(moment(now) + timedelta(seconds=seconds))


def passed(deadline: str, now: str) -> bool:
    """Whether the deadline is over."""
    return moment(deadline) <= moment(now)
