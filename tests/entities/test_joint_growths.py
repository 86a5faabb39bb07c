"""Growths of one agent pool that are asked for together."""

from __future__ import annotations

from typing import Any

from shared.state.ledger import ClusterLedger, planning_ledger
from tests.entities.test_ledger import Book, Json

ENDED = {"ok": True, "asked": True, "code": "", "message": ""}


def with_growths(**adds: int) -> Book:
    book = Book()
    book.lead()
    book.begin(growths=[{"op": op, "pool": "p", "add": add} for op, add in adds.items()])
    return book


def lead(book: Book, op: str, pool: str = "p") -> Json:
    return book.do("lead_growth", op=op, pool=pool, seconds=120)


def joint(book: Book, op: str, *company: str, **more: Any) -> Json:
    return book.do("note_joint", op=op, pool="p", company=list(company), join_timeout=300, **more)


def unlock(book: Book, op: str) -> None:
    book.do("unlock_pool", pool="p", holder=op)


def test_the_first_asks_for_all_that_are_waiting() -> None:
    book = with_growths(a=1, b=2, c=3)
    answer = lead(book, "a")
    assert (answer["state"], answer["add"], answer["company"]) == ("lead", 6, ["b", "c"])


def test_who_comes_later_waits_and_is_counted_at_the_next_look() -> None:
    book = with_growths(a=1)
    assert lead(book, "a")["add"] == 1
    book.begin(growths=[{"op": "b", "pool": "p", "add": 2}])
    assert lead(book, "b")["state"] == "wait"
    assert lead(book, "a")["add"] == 3


def test_while_one_waits_its_nodes_are_counted_on() -> None:
    book = with_growths(a=1, b=2)
    book.wait(250)
    for op in ("a", "b"):
        book.do("lead_growth", op=op, pool="p", seconds=120, join_timeout=300)
    book.wait(250)
    upcoming = planning_ledger(book.state or {}, book.now).upcoming
    assert [(each.count, each.deadline > book.now) for each in upcoming] == [(1, True), (2, True)]


def test_growths_of_another_pool_stay_out_of_it() -> None:
    book = with_growths(a=1)
    book.begin(growths=[{"op": "b", "pool": "other", "add": 2}])
    assert lead(book, "a")["company"] == []


def test_nobody_asks_again_for_what_was_taken_along() -> None:
    book = with_growths(a=1, b=2)
    lead(book, "a")
    joint(book, "a", "b")
    unlock(book, "a")
    assert lead(book, "b") == {"state": "carried", "asked": lead(book, "a")["asked"], "operation": None}
    assert lead(book, "a")["state"] == "sent"
    book.begin(growths=[{"op": "c", "pool": "p", "add": 4}])
    assert (lead(book, "c")["add"], lead(book, "c")["company"]) == (4, [])


def test_all_learn_how_the_operation_ended() -> None:
    book = with_growths(a=1, b=2, c=1)
    lead(book, "a")
    joint(book, "a", "b")
    book.do("end_joint", op="a", ended=ENDED)
    assert lead(book, "b")["operation"] == ENDED
    unlock(book, "a")
    assert lead(book, "c")["state"] == "lead"


def test_each_claims_its_own_instances() -> None:
    book = with_growths(a=1, b=2)
    lead(book, "a")
    joint(book, "a", "b")
    assert book.conclude("b", ("1", "2", "3"))["claimed"] == ["1", "2"]
    assert book.conclude("a", ("1", "2", "3"))["claimed"] == ["3"]
    assert lead(book, "a")["state"] == "over"


def test_a_growth_that_is_not_known_any_more_is_over() -> None:
    assert lead(with_growths(a=1), "z")["state"] == "over"


def test_time_begins_anew_for_those_that_waited() -> None:
    book = with_growths(a=1, b=1)
    book.wait(200)
    lead(book, "a")
    joint(book, "a", "b")
    book.wait(200)
    book.do("tidy")
    assert book.upcoming() == 2


def test_a_dead_leader_holds_nobody_up_for_long() -> None:
    book = with_growths(a=1, b=2)
    lead(book, "a")
    book.wait(121)
    answer = lead(book, "b")
    assert (answer["state"], answer["add"]) == ("lead", 3)


def test_a_state_from_before_agent_pools_is_read() -> None:
    book = with_growths(a=1)
    state = ClusterLedger.decode(book.state).encode()
    for growth in state["growths"].values():
        del growth["carrier"], growth["operation"]
    assert ClusterLedger.decode(state).growths["a"].carrier == ""
