"""The ledger as a pure state machine.

The entity serialises operations but does not undo one that raises half-way, so `apply` works on a copy and returns the
new state only when the operation went through. Every operation may come twice: each names what it is about (event,
growth or retirement id), and finds it done. Time comes in with the order (`now`), never from a clock.
"""

from __future__ import annotations

from collections.abc import Callable

from shared.state.bulk import pack
from shared.state.departures import depart, note_departures, take_departing
from shared.state.evictions import adopt, claim, unclaim
from shared.state.growths import drop_growth, remember_failure
from shared.state.joint import end_joint, lead_growth, note_joint
from shared.state.leading import begin, conclude, record, release, settle
from shared.state.leavings import end_retirement, give_up, note_pause, note_waiting
from shared.state.ledger import BULKY, ClusterLedger, Json, LedgerError, passed
from shared.state.locks import lock_pool, unlock_pool
from shared.state.purchases import forget_purchases


def _tidy(ledger: ClusterLedger, order: Json) -> Json:
    """Drop what time has ended, and answer the view; an expired lead stays in it, for whoever takes over."""
    now = order["now"]
    ledger.growths = {op: g for op, g in ledger.growths.items() if not passed(g.deadline, now)}
    ledger.failures = [entry for entry in ledger.failures if not passed(entry["until"], now)]
    ledger.cooling = {node: entry for node, entry in ledger.cooling.items() if not passed(entry.until, now)}
    for leases in (ledger.locks, ledger.gathering):
        for pool in [pool for pool, lease in leases.items() if passed(lease.deadline, now)]:
            del leases[pool]
    forget_purchases(ledger, now)
    return {"ok": True, "view": ledger.answer()}


_OPERATIONS: dict[str, Callable[[ClusterLedger, Json], Json]] = {
    "record": record,
    "release": release,
    "settle": settle,
    "begin": begin,
    "adopt": adopt,
    "claim": claim,
    "unclaim": unclaim,
    "give_up": give_up,
    "note_waiting": note_waiting,
    "note_pause": note_pause,
    "depart": depart,
    "take_departing": take_departing,
    "note_departures": note_departures,
    "lock_pool": lock_pool,
    "unlock_pool": unlock_pool,
    "lead_growth": lead_growth,
    "note_joint": note_joint,
    "end_joint": end_joint,
    "conclude_growth": conclude,
    "drop_growth": drop_growth,
    "end_retirement": end_retirement,
    "remember_failure": remember_failure,
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
    return pack(ledger.encode(), BULKY), answer
