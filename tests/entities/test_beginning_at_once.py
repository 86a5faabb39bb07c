"""What the ledger settles in one breath, since every further question costs a second's fraction on the way to Azure."""

from __future__ import annotations

from typing import Any

from tests.entities.test_ledger import Book

Json = dict[str, Any]


def begun(book: Book, *wishes: tuple[str, str]) -> Json:
    growths = [{"op": op, "pool": pool, "add": 2} for op, pool in wishes]
    fields = {"growths": growths, "retirements": [], "recalls": [], "limit": 1, "spare": {}, "join_timeout": 900}
    return book.do("begin", holder="a", lock_seconds=120, **fields)


def fell_short(book: Book, op: str = "g", claimed: tuple[str, ...] = ()) -> Json:
    news = {"event": f"replan:{op}", "holder": f"replan:{op}", "lease": 60, "force": True}
    return book.do("conclude_growth", op=op, add=2, candidates=list(claimed), failures=[], join_timeout=900, news=news)


def test_a_new_growth_has_its_pools_lock_from_the_beginning() -> None:
    book = Book()
    book.lead()
    locks = begun(book, ("g", "spot"), ("h", "regular"))["locks"]
    assert {op: lock["others"] for op, lock in locks.items()} == {"g": 0, "h": 0}
    assert not book.do("lock_pool", pool="spot", holder="other", seconds=60)["granted"]
    assert book.do("lock_pool", pool="spot", holder="g", seconds=60)["granted"]


def test_of_two_growths_of_one_pool_the_first_has_the_lock() -> None:
    book = Book()
    book.lead()
    assert list(begun(book, ("g", "spot"), ("h", "spot"))["locks"]) == ["g"]


def test_a_growth_that_is_begun_again_takes_no_lock_a_second_time() -> None:
    book = Book()
    book.lead()
    begun(book, ("g", "spot"))
    book.do("unlock_pool", pool="spot", holder="g", target=2)
    again = begun(book, ("g", "spot"))
    assert (again["growths"], again["locks"]) == (["g"], {})
    assert book.do("lock_pool", pool="spot", holder="other", seconds=60)["granted"]


def test_who_concludes_a_growth_that_fell_short_leads_the_next_plan() -> None:
    book = Book()
    generation = book.lead()
    begun(book, ("g", "spot"))
    book.release("a", generation)
    admission = fell_short(book)["admission"]
    assert admission["role"] == "lead"
    assert admission["view"]["lead"]["holder"] == "replan:g"


def test_while_somebody_leads_a_growth_that_fell_short_is_news_to_him() -> None:
    book = Book()
    generation = book.lead()
    begun(book, ("g", "spot"))
    assert fell_short(book)["admission"]["role"] == "follow"
    assert book.release("a", generation)["state"] == "again"


def test_a_growth_that_was_delivered_asks_for_no_other_plan() -> None:
    book = Book()
    book.lead()
    begun(book, ("g", "spot"))
    answer = fell_short(book, claimed=("0", "1"))
    assert answer["claimed"] == ["0", "1"]
    assert "admission" not in answer
