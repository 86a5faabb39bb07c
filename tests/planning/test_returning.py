"""Who may go back to Spot, how many at a time, and when not at all."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from shared.model import (
    Config,
    FailureMemory,
    Ledger,
    Mode,
    Movability,
    NodeView,
    Plan,
    Priority,
    ReturnState,
    Upcoming,
)
from shared.planning.plan import plan
from shared.planning.returning import FIRST_PAUSE, LONGEST_PAUSE, REASON, Changes, is_due, stand_ins, with_returns
from shared.state.ledger import planning_ledger, return_entry
from tests.builders import NOTHING, NOW, bound, config, node, pods, pool, shape, snapshot

SPOT = pool("spot", priority=Priority.SPOT, price=0.05, fallback=("regular",))
REGULAR = pool("regular", price=0.2)
CONFIG = config(SPOT, REGULAR)
LOAD = shape(3000)
LATER = NOW + timedelta(minutes=1)


def standing_in(number: int, *holds, **more) -> NodeView:
    return node(f"r{number}", REGULAR, holds or [bound(f"web-{number}", 1, LOAD)], **more)


def decided(
    *nodes: NodeView, settings: Config = CONFIG, ledger: Ledger = NOTHING, pending=(), gangs=(), now: datetime = NOW
) -> tuple[Plan, Changes]:
    seen = snapshot(*pending, nodes=nodes)
    made = plan(seen, settings, ledger, now)
    return with_returns(made, seen, settings, ledger, now)


def trying(nodes: tuple[str, ...], batch: int = 1, pause: float = 0.0, since: datetime | None = None) -> Ledger:
    began = since or NOW - timedelta(minutes=3)
    return Ledger(returning={"spot": ReturnState(batch, timedelta(minutes=pause), began, began, nodes)})


def test_the_first_try_is_one_node():
    made, after = decided(*(standing_in(n) for n in range(6)))
    assert made.replacements == {"spot": 1}
    assert after == {"spot": ReturnState(1, timedelta(0), NOW, NOW, ("r0",))}
    assert made.retirements == ()


def test_the_next_are_as_many_as_went_well_up_to_the_budget():
    six = [standing_in(n) for n in range(6)]
    ready = Ledger(returning={"spot": ReturnState(4, timedelta(0), NOW)})
    assert decided(*six, ledger=ready)[0].replacements == {"spot": 3}
    assert decided(*six, ledger=ready, settings=config(SPOT, REGULAR, max_parallel_fraction=1.0))[0].replacements == {
        "spot": 4
    }


def test_a_node_goes_only_once_its_pods_have_room_on_a_ready_one():
    fresh = NOW - timedelta(minutes=1)
    for new, expected in (
        ((), []),
        ((node("s1", SPOT, created_at=fresh, ready=False),), []),
        ((node("s1", SPOT, created_at=fresh),), [("r0", REASON)]),
    ):
        made, after = decided(standing_in(0), *new, ledger=trying(("r0",)))
        assert [(going.node, going.reason) for going in made.retirements] == expected
        assert after["spot"].nodes == ("r0",)


def test_what_was_bought_is_not_taken_for_idle_meanwhile():
    settings = config(SPOT, REGULAR, idle_after=60.0)
    new = node("s1", SPOT, created_at=NOW - timedelta(minutes=2), idle_since=NOW - timedelta(minutes=2))
    ledger = Ledger(retiring=frozenset({"r0"}), returning=trying(("r0",)).returning)
    made, _ = decided(standing_in(0), new, settings=settings, ledger=ledger)
    assert made.retirements == ()


def test_when_all_are_gone_the_next_batch_is_twice_as_large():
    _, after = decided(node("s1", SPOT, [bound("web-0", 1, LOAD)]), standing_in(5), ledger=trying(("r0",), pause=30.0))
    assert after["spot"] == ReturnState(2, timedelta(0), NOW)


REFUSED = FailureMemory(SPOT.sku, "", Priority.SPOT, "AllocationFailed", NOW + timedelta(hours=1))


@pytest.mark.parametrize(("before", "pause"), [(0, 30), (30, 60), (240, 480), (480, 480)])
def test_a_refusal_ends_the_try_and_doubles_the_pause(before, pause):
    ledger = Ledger(failures=(REFUSED,), returning=trying(("r0",), 4, before).returning)
    made, after = decided(standing_in(0), ledger=ledger)
    wait = timedelta(minutes=pause)
    assert after["spot"] == ReturnState(1, wait, NOW + wait)
    assert FIRST_PAUSE <= wait <= LONGEST_PAUSE
    assert (made.replacements, made.retirements) == ({}, ())


def test_an_eviction_from_the_pool_ends_the_try():
    taken = node("s0", SPOT, evicting_at=NOW + timedelta(seconds=20))
    _, after = decided(standing_in(0), taken, ledger=trying(("r0",)))
    assert after["spot"].pause == FIRST_PAUSE


def test_a_node_that_does_not_come_in_time_ends_the_try():
    _, after = decided(standing_in(0), ledger=trying(("r0",), since=NOW - timedelta(minutes=21)))
    assert after["spot"].pause == FIRST_PAUSE


def test_room_that_others_took_is_not_held_against_spot():
    since = NOW - timedelta(minutes=21)
    new = node("s1", SPOT, [bound("other", 1, LOAD)], created_at=NOW - timedelta(minutes=19))
    _, after = decided(standing_in(0), new, ledger=trying(("r0",), since=since))
    assert (after["spot"].pause, after["spot"].next) == (timedelta(0), NOW + FIRST_PAUSE)


def test_nobody_of_a_gang_and_nobody_who_waits_or_blocks_goes_back():
    member = shape(3000, gang="sluice:default/job")
    for held in (
        bound("job", 1, member),
        bound("run", 1, LOAD, Movability.WAITS, "runs to its end"),
        bound("bare", 1, LOAD, Movability.BLOCKS, "nobody would make it anew"),
    ):
        made, after = decided(standing_in(0, held))
        assert made.replacements == {}
        assert after["spot"].nodes == ()


def test_a_pod_that_spot_does_not_suit_stays():
    made, _ = decided(standing_in(0, bound("picky", 1, shape(3000, node_selector=(("sluice.io/pool", "regular"),)))))
    assert made.replacements == {}


@pytest.mark.parametrize(
    "settings",
    [
        config(SPOT, REGULAR, return_to_spot=False),
        config(SPOT, REGULAR, mode=Mode.GROW_ONLY),
        config(pool("spot", priority=Priority.SPOT, price=0.05), REGULAR),
        config(pool("spot", priority=Priority.SPOT, price=0.3, fallback=("regular",)), REGULAR),
    ],
)
def test_there_is_nothing_to_return_to(settings):
    assert not is_due({"regular"}, settings, NOTHING, NOW)


def test_it_is_looked_into_only_while_somebody_stands_in_and_nothing_is_remembered_against_spot():
    paused = Ledger(returning={"spot": ReturnState(1, FIRST_PAUSE, LATER)})
    assert is_due({"regular", ""}, CONFIG, NOTHING, NOW)
    assert not is_due({"spot", ""}, CONFIG, NOTHING, NOW)
    assert not is_due({"regular"}, CONFIG, Ledger(failures=(REFUSED,)), NOW)
    assert not is_due({"regular"}, CONFIG, paused, NOW)
    assert is_due({"regular"}, CONFIG, paused, LATER)


def test_fallbacks_of_fallbacks_stand_in_too():
    chain = config(
        SPOT, pool("regular", price=0.2, fallback=("last",)), pool("last", price=0.4), pool("other", price=1.0)
    )
    assert list(stand_ins(chain.pools[0], chain)) == ["regular", "last"]


def test_nothing_is_begun_while_nodes_come():
    ledger = Ledger(upcoming=(Upcoming("regular", 1, LATER),))
    assert decided(standing_in(0), ledger=ledger)[0].replacements == {}
    assert decided(standing_in(0), pending=[pods("new", 1, LOAD)])[0].replacements == {}


def test_a_node_at_its_pools_minimum_stays():
    settings = config(SPOT, pool("regular", price=0.2, minimum=1))
    assert decided(standing_in(0), settings=settings)[0].replacements == {}


def test_the_ledger_carries_it():
    for state in (ReturnState(2, FIRST_PAUSE, NOW, NOW, ("a", "b")), ReturnState(1, timedelta(0), NOW)):
        assert planning_ledger({"returning": {"spot": return_entry(state)}}).returning == {"spot": state}
