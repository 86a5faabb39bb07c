"""Drained nodes of a pool are gathered for one deletion: who starts it, whom it takes, and what each saga is told."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from shared.state.departures import GATHERING
from shared.state.ledger import ClusterLedger
from tests.entities.test_ledger import Book

Json = dict[str, Any]


def with_nodes(*names: str, pool: str = "p") -> Book:
    book = Book()
    book.lead()
    wishes = [{"op": f"r-{name}", "node": name, "pool": pool} for name in names]
    assert len(book.begin(retirements=wishes, limit=len(names), spare={pool: len(names)})["retirements"]) == len(names)
    return book


def ready(book: Book, name: str, **more: Any) -> Json:
    answer: Json = book.do("depart", node=name, op=f"r-{name}", ready=True, **more)
    return answer


def ask(book: Book, name: str) -> Json:
    answer: Json = book.do("depart", node=name, op=f"r-{name}")
    return answer


def take(book: Book, removal: str, most: int = 10) -> list[str]:
    return [each["node"] for each in book.do("take_departing", pool="p", op=removal, most=most)["nodes"]]


def back(book: Book, removal: str, name: str) -> bool:
    """Azure was not asked, the pool being busy; returns whether this removal asks again."""
    answer: bool = book.do("note_departures", op=removal, ready=[name])["gathers"]
    return answer


def test_the_first_that_is_ready_starts_a_removal_and_the_others_wait_for_it() -> None:
    book = with_nodes("n1", "n2", "n3")
    first = ready(book, "n1")
    assert first["state"] == "lead"
    assert ready(book, "n2") == {"state": "wait"}
    assert take(book, first["removal"]) == ["n1", "n2"]


def test_one_that_comes_too_late_starts_another_removal() -> None:
    book = with_nodes("n1", "n2")
    first = ready(book, "n1")["removal"]
    take(book, first)
    book.wait(1)
    second = ready(book, "n2")
    assert second["state"] == "lead"
    assert take(book, second["removal"]) == ["n2"]


def test_a_lead_that_is_asked_twice_starts_the_same_removal() -> None:
    book = with_nodes("n1")
    assert ready(book, "n1") == ready(book, "n1")


def test_a_removal_takes_as_many_as_it_may_and_the_rest_is_for_another_one() -> None:
    book = with_nodes("n1", "n2", "n3")
    first = ready(book, "n1")["removal"]
    ready(book, "n2")
    ready(book, "n3")
    assert take(book, first, most=2) == ["n1", "n2"]
    book.wait(1)
    assert ask(book, "n3")["state"] == "lead"


def test_a_removal_that_asks_again_takes_those_it_has_and_those_that_came_since() -> None:
    book = with_nodes("n1", "n2")
    first = ready(book, "n1")["removal"]
    take(book, first)
    ready(book, "n2")
    assert take(book, first) == ["n1", "n2"]


def test_a_removal_that_died_is_replaced_after_its_lease() -> None:
    book = with_nodes("n1", "n2")
    ready(book, "n1")
    book.wait(GATHERING - 1)
    assert ready(book, "n2") == {"state": "wait"}
    book.wait(1)
    assert ask(book, "n2")["state"] == "lead"


def test_a_removal_whose_pool_is_busy_gathers_on_until_it_asks_again() -> None:
    book = with_nodes("n1", "n2")
    removal = ready(book, "n1")["removal"]
    take(book, removal)
    assert back(book, removal, "n1")
    book.wait(10)
    assert ask(book, "n1") == {"state": "wait"}
    assert ready(book, "n2") == {"state": "wait"}
    assert take(book, removal) == ["n1", "n2"]


def test_a_removal_whose_pool_is_busy_leaves_its_nodes_to_one_that_has_begun_meanwhile() -> None:
    book = with_nodes("n1", "n2")
    first = ready(book, "n1")["removal"]
    take(book, first)
    second = ready(book, "n2")["removal"]
    assert not back(book, first, "n1")
    assert ask(book, "n1") == {"state": "wait"}
    assert take(book, second) == ["n1", "n2"]


def test_a_removal_that_died_while_its_pool_was_busy_is_replaced_after_its_lease() -> None:
    book = with_nodes("n1")
    removal = ready(book, "n1")["removal"]
    take(book, removal)
    back(book, removal, "n1")
    book.wait(GATHERING)
    assert ask(book, "n1")["state"] == "lead"


def test_each_saga_is_told_what_became_of_its_own_node() -> None:
    book = with_nodes("n1", "n2", "n3")
    removal = ready(book, "n1")["removal"]
    ready(book, "n2")
    ready(book, "n3")
    take(book, removal)
    book.do("note_departures", op=removal, deleting=["n1", "n2"], kept={"n3": ["busy", "busy again: default/web"]})
    book.do("note_departures", op=removal, gone=["n1"])
    assert ask(book, "n1") == {"state": "gone"}
    assert ask(book, "n2") == {"state": "wait"}
    assert ask(book, "n3") == {"state": "kept", "kind": "busy", "why": "busy again: default/web"}


def test_a_removal_says_nothing_about_nodes_that_it_has_not_taken() -> None:
    book = with_nodes("n1", "n2")
    removal = ready(book, "n1")["removal"]
    take(book, removal)
    ready(book, "n2")
    book.do("note_departures", op=removal, gone=["n2"])
    assert ask(book, "n2")["state"] != "gone"


def test_one_that_was_kept_may_queue_again_by_force() -> None:
    book = with_nodes("n1")
    removal = ready(book, "n1")["removal"]
    take(book, removal)
    book.do("note_departures", op=removal, kept={"n1": ["undeleted", "the VM is still there"]})
    book.wait(10)
    again = ready(book, "n1", force=True)["removal"]
    assert book.do("take_departing", pool="p", op=again, most=10)["nodes"] == [
        {"node": "n1", "op": "r-n1", "force": True, "dead": False}
    ]


def test_a_saga_that_the_ledger_does_not_know_is_told_so() -> None:
    book = with_nodes("n1")
    assert book.do("depart", node="n1", op="another", ready=True) == {"state": "unknown"}
    assert book.do("depart", node="n9", op="r-n9", ready=True) == {"state": "unknown"}


def test_the_removal_knows_whether_other_nodes_of_the_pool_are_about_to_come() -> None:
    assert ready(with_nodes("n1", "n2"), "n1")["company"]
    assert not ready(with_nodes("n1"), "n1")["company"]


def test_nodes_that_are_gone_use_up_no_place_among_those_that_may_go_at_a_time() -> None:
    book = with_nodes("n1")
    removal = ready(book, "n1")["removal"]
    take(book, removal)
    book.do("note_departures", op=removal, gone=["n1"])
    wish = {"op": "r-n2", "node": "n2", "pool": "p"}
    assert book.begin(retirements=[wish], limit=1, spare={"p": 5})["retirements"] == ["r-n2"]


def test_a_ledger_from_before_there_were_removals_still_decodes() -> None:
    entry = {"op": "r", "pool": "p", "since": "2026-03-01T00:00:00+00:00", "stage": "draining"}
    ledger = ClusterLedger.decode({"retirements": {"n1": entry}})
    assert ledger.retirements["n1"].removal == ""
    assert ledger.gathering == {}


def test_leases_of_removals_end_with_time() -> None:
    book = with_nodes("n1")
    ready(book, "n1")
    book.now += timedelta(seconds=GATHERING)
    book.do("tidy")
    assert (book.state or {})["gathering"] == {}


def give_up(book: Book, node: str, limit: int = 2) -> Json:
    answer: Json = book.do("give_up", node=node, op=f"d-{node}", pool="p", limit=limit)
    return answer


def test_a_dead_node_is_taken_as_one_that_needs_no_guest() -> None:
    book = with_nodes("n1")
    assert give_up(book, "n2")["ok"]
    removal = book.do("depart", node="n2", op="d-n2", ready=True)["removal"]
    assert [each["dead"] for each in book.do("take_departing", pool="p", op=removal, most=10)["nodes"]] == [True]


def test_dead_nodes_count_among_those_that_may_go_at_a_time_and_have_one_saga_each() -> None:
    book = with_nodes("n1")
    assert not give_up(book, "n1")["ok"]
    assert give_up(book, "n2")["ok"]
    assert give_up(book, "n2")["ok"]
    assert not give_up(book, "n3")["ok"]


def test_who_turns_out_to_wait_beyond_that_limit_keeps_his_place_among_the_others() -> None:
    book = with_nodes("n1", "n2")
    for node in ("n1", "n2"):
        book.do("note_waiting", node=node, op=f"r-{node}")
    wish = {"op": "r-n3", "node": "n3", "pool": "p"}
    assert book.begin(retirements=[wish], limit=1, spare={"p": 5})["retirements"] == []
    assert book.begin(retirements=[wish], limit=2, spare={"p": 5})["retirements"] == ["r-n3"]


def test_nodes_that_wait_for_their_pods_have_a_limit_of_their_own() -> None:
    book = with_nodes("n1")
    wishes = [{"op": f"r-{node}", "node": node, "pool": "p", "waits": True} for node in ("n2", "n3")]
    assert book.begin(retirements=wishes, limit=1, spare={"p": 5})["retirements"] == []
    book.do("note_waiting", node="n1", op="r-n1")
    assert book.begin(retirements=wishes, limit=1, spare={"p": 5})["retirements"] == []
    assert book.begin(retirements=[{**wishes[0], "waits": False}], limit=1, spare={"p": 5})["retirements"] == ["r-n2"]
    book.do("note_waiting", node="n1", op="r-n1", over=True)
    assert (book.state or {})["retirements"]["n1"]["stage"] == "draining"
