"""What the ledger makes of nodes that Azure takes away."""

from __future__ import annotations

from typing import Any

from shared.state.evictions import EVICTED_CODE, MEMORY, WINDOW
from shared.state.ledger import after
from shared.state.operations import apply
from tests.entities.test_departures import ready, take, with_nodes
from tests.entities.test_ledger import NOW

Json = dict[str, Any]
BEGAN = NOW.isoformat()
KIND = {"sku": "D4", "zone": "1", "pool": "spot"}


class Entity:
    """A ledger, and the time that passes between what is asked of it."""

    def __init__(self) -> None:
        self.state: Json | None = None
        self.now = BEGAN

    def do(self, operation: str, **order: Any) -> Json:
        self.state, answer = apply(self.state, operation, {"now": self.now, **order})
        return answer

    def adopt(self, node: str, seconds: float = 0.0, **more: Any) -> Json:
        self.now = after(self.now, seconds)
        return self.do("adopt", **{"node": node, "op": f"e-{node}", "pool": "spot", "kind": KIND, **more})

    @property
    def failures(self) -> list[Json]:
        return self.state["failures"] if self.state else []


def test_three_evictions_of_a_kind_within_the_window_are_remembered_for_a_while() -> None:
    entity = Entity()
    entity.adopt("n1")
    entity.adopt("n2", 100)
    assert entity.failures == []
    entity.adopt("n3", 100)
    (entry,) = entity.failures
    assert (entry["sku"], entry["zone"], entry["priority"], entry["code"]) == ("D4", "1", "Spot", EVICTED_CODE)
    assert entry["until"] == after(entity.now, MEMORY)


def test_evictions_that_are_far_apart_or_of_other_kinds_are_not() -> None:
    entity = Entity()
    entity.adopt("n1")
    entity.adopt("n2")
    entity.adopt("n3", WINDOW + 1)
    for zone in ("2", "3"):
        entity.adopt(f"z{zone}", kind={**KIND, "zone": zone})
    assert entity.failures == []


def test_one_that_is_told_again_does_not_count_again() -> None:
    entity = Entity()
    for _ in range(5):
        entity.adopt("n1")
    assert entity.failures == []


def test_a_retirement_gives_way_until_azure_may_have_been_asked_to_delete_the_vm() -> None:
    drains, waits, goes = with_nodes("n1"), with_nodes("n1"), with_nodes("n1")
    ready(waits, "n1")
    take(goes, ready(goes, "n1")["removal"])
    order = {"node": "n1", "op": "e-n1", "pool": "p"}
    assert [book.do("adopt", **order)["ok"] for book in (drains, waits, goes)] == [True, True, False]


def test_one_looks_for_all_until_it_begins() -> None:
    entity = Entity()
    assert [entity.adopt(f"n{n}", look=True)["look"] for n in range(4)] == [True, False, False, False]
    assert entity.do("unclaim", key="look")["ok"]
    assert entity.adopt("late", look=True)["look"]


def test_a_claim_that_nobody_came_back_for_ends() -> None:
    entity = Entity()
    assert entity.do("claim", key="clear:spot")["granted"]
    assert not entity.do("claim", key="clear:spot")["granted"]
    assert entity.do("claim", key="clear:other")["granted"]
    entity.now = after(entity.now, 61)
    assert entity.do("claim", key="clear:spot")["granted"]
