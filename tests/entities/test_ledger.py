"""The cluster's ledger: who plans, what is in flight, what Azure refused."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from shared.state.ledger import LedgerError, planning_ledger, stamp
from shared.state.operations import apply

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
Json = dict[str, Any]


class Book:
    """A ledger and a clock; `do` answers what the entity would."""

    def __init__(self) -> None:
        self.state: Json | None = None
        self.now = NOW

    def do(self, operation: str, **order: Any) -> Json:
        self.state, answer = apply(self.state, operation, {"now": stamp(self.now), **order})
        return answer

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def record(self, holder: str, sequence: int, **more: Any) -> Json:
        news = {"epoch": 1, "sequence": sequence, "snapshot": f"s{sequence}", "event": f"e{sequence}", **more}
        return self.do("record", holder=holder, lease=60, **news)

    def release(self, holder: str, generation: int, **more: Any) -> Json:
        return self.do("release", holder=holder, generation=generation, lease=60, **more)

    def lead(self, holder: str = "a", sequence: int = 1) -> int:
        generation: int = self.record(holder, sequence)["view"]["lead"]["generation"]
        return generation

    def begin(self, holder: str = "a", **more: Any) -> Json:
        order = {"growths": [], "retirements": [], "limit": 2, "spare": {"p": 5}, "join_timeout": 300, **more}
        return self.do("begin", holder=holder, **order)

    def grow(self, op: str = "g", add: int = 2) -> None:
        self.begin(growths=[{"op": op, "pool": "p", "add": add}])

    def conclude(self, op: str = "g", candidates: tuple[str, ...] = (), failures: tuple[Json, ...] = ()) -> Json:
        return self.do("conclude_growth", op=op, candidates=candidates, failures=failures, join_timeout=300)

    def upcoming(self) -> int:
        return sum(each.count for each in planning_ledger(self.state or {}).upcoming)


def leaving(node: str, op: str = "") -> Json:
    return {"op": op or f"r-{node}", "node": node, "pool": "p"}


def test_the_first_to_record_leads_and_the_others_follow() -> None:
    book = Book()
    assert book.record("a", 1)["role"] == "lead"
    assert book.record("b", 2)["role"] == "follow"


def test_a_leader_hears_of_what_came_in_meanwhile() -> None:
    book = Book()
    generation = book.lead()
    book.record("b", 2)
    answer = book.release("a", generation)
    assert answer["state"] == "again"
    assert answer["view"]["snapshot"] == "s2"
    assert book.release("a", answer["view"]["lead"]["generation"])["state"] == "done"


def test_an_expired_lead_is_taken_over_and_its_holder_is_told() -> None:
    book = Book()
    generation = book.lead()
    book.wait(61)
    assert book.record("b", 2)["role"] == "lead"
    assert book.release("a", generation)["state"] == "lost"


def test_a_leader_that_lost_its_lead_may_begin_nothing() -> None:
    book = Book()
    book.lead()
    book.wait(61)
    book.record("b", 2)
    answer = book.begin("a", growths=[{"op": "g", "pool": "p", "add": 1}])
    assert answer["growths"] == []
    assert book.upcoming() == 0


def test_an_event_seen_before_leads_nobody() -> None:
    book = Book()
    book.release("a", book.lead())
    assert book.record("b", 1)["role"] == "seen"


def test_a_holder_that_asks_again_is_the_leader_still() -> None:
    book = Book()
    book.lead()
    assert book.record("a", 1)["role"] == "lead"


def test_older_news_change_nothing_whatever_their_epoch_says_of_time() -> None:
    book = Book()
    book.release("a", book.lead(sequence=7))
    assert book.record("b", 6)["role"] == "seen"
    assert book.state is not None
    assert book.state["snapshot"] == "s7"


def test_a_newer_epoch_wins_over_any_sequence() -> None:
    book = Book()
    book.release("a", book.lead(sequence=700))
    assert book.record("b", 1, epoch=2, event="x")["role"] == "lead"


def test_a_replan_needs_no_news() -> None:
    book = Book()
    book.release("a", book.lead())
    answer = book.do("record", event="replan:1", holder="b", lease=60, force=True)
    assert answer["role"] == "lead"
    assert answer["view"]["snapshot"] == "s1"


def test_a_growth_is_supply_from_its_beginning_until_each_of_its_instances_was_seen() -> None:
    book = Book()
    book.lead()
    book.grow(add=2)
    assert book.upcoming() == 2
    book.conclude(candidates=("1", "2"))
    assert book.upcoming() == 2
    book.do("settle", settled={"g": ["1"]})
    assert book.upcoming() == 1
    book.do("settle", settled={"g": ["2"]})
    assert book.upcoming() == 0
    assert book.state is not None
    assert book.state["growths"] == {}


def test_what_was_not_delivered_is_no_supply() -> None:
    book = Book()
    book.lead()
    book.grow(add=3)
    assert book.conclude(candidates=("1",))["claimed"] == ["1"]
    assert book.upcoming() == 1


def test_two_growths_never_claim_one_instance() -> None:
    book = Book()
    book.lead()
    book.grow("g", 1)
    book.grow("h", 1)
    assert book.conclude("g", ("1", "2"))["claimed"] == ["1"]
    assert book.conclude("h", ("1", "2"))["claimed"] == ["2"]


def test_an_instance_that_has_become_a_node_is_claimed_by_no_later_growth() -> None:
    book = Book()
    book.lead()
    book.grow("g", 1)
    book.conclude("g", ("1",))
    book.do("settle", settled={"g": ["1"]})
    book.grow("h", 1)
    assert book.conclude("h", ("1", "2"))["claimed"] == ["2"]


def test_a_growth_begun_or_concluded_twice_counts_once() -> None:
    book = Book()
    book.lead()
    book.grow(add=2)
    book.grow(add=2)
    assert book.upcoming() == 2
    book.conclude(candidates=("1", "2"))
    assert book.conclude(candidates=("3", "4"))["claimed"] == ["1", "2"]


def test_a_growth_leaves_by_its_deadline() -> None:
    book = Book()
    book.lead()
    book.grow()
    book.wait(301)
    book.do("tidy")
    assert book.upcoming() == 0


def test_the_time_to_join_counts_from_the_delivery() -> None:
    book = Book()
    book.lead()
    book.grow()
    book.wait(299)
    book.conclude(candidates=("1", "2"))
    book.wait(299)
    book.do("tidy")
    assert book.upcoming() == 2


def test_as_many_nodes_go_at_a_time_as_the_limit_says() -> None:
    book = Book()
    book.lead()
    answer = book.begin(retirements=[leaving("n1"), leaving("n2"), leaving("n3")])
    assert answer["retirements"] == ["r-n1", "r-n2"]
    assert "as many as may be" in answer["refused"]["n3"]


def test_a_node_that_only_waits_for_azure_holds_up_nobody() -> None:
    book = Book()
    book.lead()
    book.begin(retirements=[leaving("n1"), leaving("n2")])
    removal = book.do("depart", node="n1", op="r-n1", ready=True)["removal"]
    book.do("take_departing", pool="p", op=removal, most=10)
    book.do("note_departures", op=removal, deleting=["n1"])
    assert book.begin(retirements=[leaving("n3")])["retirements"] == ["r-n3"]


def test_no_retirement_takes_a_pool_below_its_minimum() -> None:
    book = Book()
    book.lead()
    answer = book.begin(retirements=[leaving("n1"), leaving("n2")], spare={"p": 1})
    assert answer["retirements"] == ["r-n1"]
    assert "minimum" in answer["refused"]["n2"]


def test_one_saga_per_node() -> None:
    book = Book()
    book.lead()
    book.begin(retirements=[leaving("n1", "x")])
    assert book.begin(retirements=[leaving("n1", "y")])["retirements"] == []
    assert book.begin(retirements=[leaving("n1", "x")])["retirements"] == ["x"]
    removal = book.do("depart", node="n1", op="x", ready=True)["removal"]
    book.do("take_departing", pool="p", op=removal, most=10)
    assert not book.do("adopt", node="n1", op="z", pool="p")["ok"]


def test_a_node_that_stayed_is_left_alone_for_a_while() -> None:
    book = Book()
    book.lead()
    book.begin(retirements=[leaving("n1")])
    book.do("end_retirement", node="n1", op="r-n1", kept="busy again", cooldown=600)
    assert "busy again" in book.begin(retirements=[leaving("n1")])["refused"]["n1"]
    book.wait(50)
    book.record("a", 2)
    book.wait(551)
    book.record("a", 3)
    assert book.begin(retirements=[leaving("n1")])["retirements"] == ["r-n1"]


def test_a_node_that_a_stale_plan_named_is_left_alone_until_there_are_news() -> None:
    book = Book()
    book.lead()
    book.begin(retirements=[leaving("n1")])
    book.do("end_retirement", node="n1", op="r-n1", kept="a pod has come", cooldown=600, stale=True)
    assert "a pod has come" in book.begin(retirements=[leaving("n1")])["refused"]["n1"]
    book.wait(5)
    book.record("newer", 2)
    assert book.begin(retirements=[leaving("n1")])["retirements"] == ["r-n1"]


def test_idle_nodes_that_had_to_wait_are_remembered_once() -> None:
    book = Book()
    book.release("a", book.lead(), idle_waiting=True)
    assert book.do("end_retirement", node="n1", op="r", gone="uid")["again"]
    assert not book.do("end_retirement", node="n2", op="r", gone="uid")["again"]


def test_a_pool_has_one_writer_until_its_lease_ends() -> None:
    book = Book()
    assert book.do("lock_pool", pool="p", holder="a", seconds=60)["granted"]
    assert not book.do("lock_pool", pool="p", holder="b", seconds=60)["granted"]
    assert book.do("lock_pool", pool="q", holder="b", seconds=60)["granted"]
    book.wait(60)
    assert book.do("lock_pool", pool="p", holder="b", seconds=60)["granted"]
    book.do("unlock_pool", pool="p", holder="a")
    assert not book.do("lock_pool", pool="p", holder="a", seconds=60)["granted"]


def test_the_lock_tells_of_growths_that_azure_is_still_busy_with() -> None:
    book = Book()
    book.lead()
    book.grow("g")
    book.grow("h")
    book.do("unlock_pool", pool="p", holder="g", target=2)
    assert book.do("lock_pool", pool="p", holder="h", seconds=60)["others"] == 1
    book.conclude("g", ("1", "2"))
    assert book.do("lock_pool", pool="p", holder="h", seconds=60)["others"] == 0


def test_the_longer_memory_of_a_failure_stays() -> None:
    book = Book()
    scope = {"sku": "s", "zone": "", "priority": "Spot", "code": "AllocationFailed"}
    book.do("remember_failure", failures=[{**scope, "until": stamp(NOW + timedelta(hours=1))}])
    book.do("remember_failure", failures=[{**scope, "until": stamp(NOW + timedelta(minutes=5))}])
    assert book.state is not None
    assert [entry["until"] for entry in book.state["failures"]] == [stamp(NOW + timedelta(hours=1))]
    book.wait(3601)
    book.do("tidy")
    assert book.state["failures"] == []


def test_an_unknown_operation_changes_nothing_and_is_named() -> None:
    with pytest.raises(LedgerError, match="'dance'"):
        apply(None, "dance", {})


def test_an_order_without_a_field_changes_nothing_and_names_it() -> None:
    book = Book()
    book.lead()
    before = book.state
    with pytest.raises(LedgerError, match="'join_timeout'"):
        book.do("begin", holder="a", growths=[{"op": "g", "pool": "p", "add": 1}])
    assert book.state == before


def test_state_of_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    book = Book()
    book.lead()
    assert book.state is not None
    state, _ = apply({**book.state, "colour": "blue"}, "tidy", {"now": stamp(NOW)})
    assert "colour" not in state
    assert state["snapshot"] == "s1"


def test_a_ledger_full_to_the_brim_stays_below_what_an_entity_may_hold() -> None:
    book = Book()
    book.lead()
    for number in range(300):
        book.record("a", number + 2, event=f"training-pods-unschedulable-{number:032}")
        node = f"aks-gpuspot-12345678-vmss{number:06}"
        book.begin(
            growths=[{"op": f"{number:010}", "pool": "gpu-spot-westeurope", "add": 10}],
            retirements=[{"op": f"{number + 5000:010}", "node": node, "pool": "gpu-spot-westeurope"}],
            limit=24,
            spare={"gpu-spot-westeurope": 1000},
        )
        names = tuple(f"gpu-spot_{number:04}{each:04}" for each in range(10))
        book.conclude(f"{number:010}", names)
        going = f"aks-gpuspot-12345678-vmss{number + 900:06}"
        book.do("end_retirement", node=going, op="x", kept="y" * 300, cooldown=600)
        book.do("end_retirement", node=going, op="x", gone="01234567-89ab-cdef-0123-456789abcdef")
        entry = {"sku": f"Standard_NC{number}s_v3", "zone": "1", "priority": "Spot", "code": "AllocationFailed"}
        book.do("remember_failure", failures=[{**entry, "pool": "", "until": stamp(NOW + timedelta(hours=1))}])
        book.do("lock_pool", pool=f"pool-{number % 20}", holder="x", seconds=120)
    assert len(orjson.dumps(book.state)) < 32_768


def test_hundreds_of_nodes_that_azure_takes_away_at_once_stay_below_it_too() -> None:
    book = Book()
    for number in range(600):
        node = f"gpu-spot-westeurope{number * 7919 % 65536:06x}"
        op = hashlib.sha256(node.encode()).hexdigest()[:10]
        book.do("adopt", node=node, op=op, pool="gpu-spot-westeurope")
        book.wait(0.137)
    assert len(orjson.dumps(book.state)) < 32_768
    view = book.do("tidy")["view"]
    assert len(orjson.dumps(view)) < 32_768
    assert len(planning_ledger(view).retiring) == 600


def test_a_thousand_instances_that_are_to_come_stay_below_it_too() -> None:
    book = Book()
    book.lead()
    for number in range(10):
        book.grow(f"{number:010}", add=100)
    for number in range(10):
        names = [hashlib.sha256(f"{number} {each}".encode()).hexdigest()[:8] for each in range(100)]
        book.conclude(f"{number:010}", tuple(f"gpu-spot-westeurope_{name}" for name in names))
    assert book.upcoming() == 1000
    assert len(orjson.dumps(book.state)) < 32_768


def test_an_instance_is_claimed_once_however_many_came_before_its_turn() -> None:
    """All were asked for at the same time, so each looks like a candidate to each; most are nodes before the last one
    is through with Azure."""
    book = Book()
    book.lead()
    ops = [f"g{number}" for number in range(6)]
    for op in ops:
        book.grow(op, add=100)
    everything = tuple(str(number) for number in range(600))
    claimed: list[str] = []
    for op in ops:
        mine = book.conclude(op, everything)["claimed"]
        claimed += mine
        book.do("settle", settled={op: mine})
    assert len(claimed) == 600
    assert len(set(claimed)) == 600


def test_a_growth_that_has_yet_to_write_goes_before_retirements_for_two_minutes_at_most() -> None:
    book = Book()
    book.lead()
    book.grow("g")
    assert not book.do("lock_pool", pool="p", holder="retirement", seconds=60)["granted"]
    assert book.do("lock_pool", pool="q", holder="retirement", seconds=60)["granted"]
    assert book.do("lock_pool", pool="p", holder="g", seconds=60)["granted"]
    book.do("unlock_pool", pool="p", holder="g", target=2)
    assert book.do("lock_pool", pool="p", holder="retirement", seconds=60)["granted"]
    book.do("unlock_pool", pool="p", holder="retirement")
    book.grow("dead")
    book.wait(121)
    assert book.do("lock_pool", pool="p", holder="retirement", seconds=60)["granted"]


def test_a_growth_that_could_not_ask_for_all_is_no_more_than_it_asked_for() -> None:
    book = Book()
    book.lead()
    book.grow("g", add=5)
    assert book.do("lock_pool", pool="p", holder="g", seconds=60)["granted"]
    entry = {"sku": "s", "zone": "", "priority": "", "code": "PoolIsFull", "until": stamp(NOW + timedelta(minutes=5))}
    book.do("unlock_pool", pool="p", holder="g", target=2, add=2, failures=[entry])
    assert book.upcoming() == 2
    assert [each.code for each in planning_ledger(book.state or {}).failures] == ["PoolIsFull"]


def test_a_growth_is_dropped_only_while_azure_was_not_asked() -> None:
    book = Book()
    book.lead()
    book.grow("g")
    assert book.do("drop_growth", op="g")["dropped"]
    assert book.upcoming() == 0
    book.grow("h")
    book.do("unlock_pool", pool="p", holder="h", target=2)
    assert not book.do("drop_growth", op="h")["dropped"]
    assert book.upcoming() == 2


def test_what_was_asked_for_in_vain_beside_others_is_told_to_the_next_writer_once() -> None:
    book = Book()
    book.lead()
    for op in ("g", "h"):
        book.grow(op, add=3)
        book.do("unlock_pool", pool="p", holder=op, target=3)
    book.conclude("g", ("1",))
    book.grow("i")
    assert book.do("lock_pool", pool="p", holder="i", seconds=60)["phantom"] == 2
    book.do("unlock_pool", pool="p", holder="i", target=4)
    book.conclude("h", ("2", "3", "4"))
    book.conclude("i", ())
    assert book.do("lock_pool", pool="p", holder="x", seconds=60)["phantom"] == 0, "nobody else was at work any more"


def test_single_machines_are_supply_of_the_zones_that_they_were_asked_for_in() -> None:
    book = Book()
    book.lead()
    book.begin(growths=[{"op": "g", "pool": "p", "add": 3, "kind": "vm", "zones": ["1", "2", "1"]}])

    def coming() -> dict[str, int]:
        return {each.zone: each.count for each in planning_ledger(book.state or {}).upcoming}

    assert coming() == {"1": 2, "2": 1}
    book.do("unlock_pool", pool="p", holder="g", target=2, add=2, zones=["1", "-", "1"])
    assert coming() == {"1": 2}, "zone 2 was refused"
    book.conclude("g", ("p-g-0", "p-g-2"))
    assert coming() == {"1": 2}
    book.do("settle", settled={"g": ["p-g-0"]})
    assert coming() == {"1": 1}
