"""What the ledger remembers of nodes that came, and how long a class of pods pauses."""

from __future__ import annotations

from datetime import timedelta

import orjson
import pytest

from shared.state.ledger import moment, planning_ledger, stamp
from shared.state.purchases import BOUGHT_LIMIT
from tests.entities.test_ledger import NOW, Book, Json

CLASS = "abcd1234"


def grown(book: Book, instances: tuple[str, ...] = ("1",), op: str = "g") -> None:
    book.begin(growths=[{"op": op, "pool": "p", "add": len(instances), "classes": [CLASS]}])
    book.conclude(op, instances)
    book.do("settle", settled={op: list(instances)})


def judged(book: Book, **found: Json) -> None:
    book.release("a", 1, judged={"seen": {}, "vain": {}, **found})


def pause(book: Book) -> float:
    until = planning_ledger(book.state or {}).vain[CLASS].until
    return (until - book.now).total_seconds()


def leading() -> Book:
    book = Book()
    book.lead()
    return book


def test_nodes_are_remembered_by_the_classes_that_they_were_bought_for() -> None:
    book = leading()
    grown(book, ("1", "2"))
    assert {node: each.classes for node, each in planning_ledger(book.state or {}).bought.items()} == {
        "p/1": (CLASS,),
        "p/2": (CLASS,),
    }


def test_what_looks_like_a_mistake_is_kept_until_the_next_plan_says_otherwise() -> None:
    book = leading()
    grown(book)
    judged(book, seen={"p/1": {CLASS: [stamp(NOW), "uid"]}})
    assert planning_ledger(book.state or {}).bought["p/1"].seen == {CLASS: (NOW, "uid")}
    judged(book)
    assert planning_ledger(book.state or {}).bought["p/1"].seen == {}


def test_each_mistake_doubles_the_pause_up_to_an_hour() -> None:
    book = leading()
    pauses = []
    for _ in range(6):
        judged(book, vain={CLASS: "it differs"})
        pauses.append(pause(book))
        book.wait(pauses[-1] + 60)
    assert pauses == [300, 600, 1200, 2400, 3600, 3600]


def test_a_mistake_told_twice_counts_once() -> None:
    book = leading()
    judged(book, vain={CLASS: "it differs"})
    book.wait(10)
    judged(book, vain={CLASS: "it differs"})
    assert pause(book) == 290


def test_a_mistake_that_was_judged_is_not_judged_again() -> None:
    book = leading()
    grown(book)
    judged(book, vain={CLASS: "it differs"})
    assert planning_ledger(book.state or {}).bought == {}


@pytest.mark.parametrize(("hours", "seconds"), [(1, 600), (3, 300)])
def test_after_two_hours_without_another_the_first_pause_is_short_again(hours: int, seconds: int) -> None:
    book = leading()
    judged(book, vain={CLASS: "it differs"})
    book.now = moment((book.state or {})["vain"][CLASS]["until"]) + timedelta(hours=hours)
    book.do("tidy")
    judged(book, vain={CLASS: "it differs"})
    assert pause(book) == seconds


def test_purchases_are_forgotten_in_time_and_number() -> None:
    book = leading()
    grown(book, tuple(str(number) for number in range(3 * BOUGHT_LIMIT)))
    assert len(planning_ledger(book.state or {}).bought) == BOUGHT_LIMIT
    book.wait(3 * 3600)
    book.do("tidy")
    assert planning_ledger(book.state or {}).bought == {}


def test_a_hundred_mistakes_fit_into_the_ledger() -> None:
    book = leading()
    for number in range(100):
        names = tuple(f"gpu-spot-westeurope_{number:04}{each:04}" for each in range(4))
        classes = [f"{number * 12 + each:08x}" for each in range(12)]
        book.begin(growths=[{"op": f"{number:010}", "pool": "gpu-spot-westeurope", "add": 4, "classes": classes}])
        book.conclude(f"{number:010}", names)
        book.do("settle", settled={f"{number:010}": list(names)})
        judged(book, vain={f"{number:08x}": f"{number} " * 80})
    assert len(orjson.dumps(book.state)) < 32_768


def test_a_state_from_before_is_read() -> None:
    book = leading()
    grown(book)
    state = {name: value for name, value in (book.state or {}).items() if name not in ("bought", "vain")}
    assert planning_ledger(state).bought == {}
