"""Between "your node stays" and "its VM goes" the ledger lets one thing happen, whoever comes first."""

from __future__ import annotations

import pytest

from shared.state.ledger import RECALL_REASON, moment, planning_ledger, stamp
from shared.state.operations import apply
from tests.entities.test_ledger import NOW


class Entity:
    """A ledger with a leader and one retirement under way."""

    def __init__(self):
        self.state = None
        self.do("record", event="e", holder="h", lease=60, force=True)
        wish = {"op": "r1", "node": "n1", "pool": "p"}
        self.do("begin", holder="h", retirements=[wish], limit=5, spare={"p": 5})

    def do(self, operation, **order):
        self.state, answer = apply(self.state, operation, {"now": stamp(NOW), **order})
        return answer

    def recall(self):
        return self.do("begin", holder="h", recalls=["n1"], limit=5, spare={})["recalls"]

    def lock(self):
        return self.do("lock_pool", pool="p", holder="r1", seconds=60)

    def unlock(self, **noted):
        return self.do("unlock_pool", pool="p", holder="r1", **noted)

    @property
    def seen(self):
        return planning_ledger(self.state, moment(stamp(NOW)))


def test_a_node_that_drains_can_be_called_back_and_is_supply_from_then_on():
    entity = Entity()
    assert entity.seen.recallable == {"n1"}
    assert entity.recall() == [{"node": "n1", "op": "r1", "pool": "p"}]
    assert entity.recall() == [{"node": "n1", "op": "r1", "pool": "p"}]
    assert (entity.seen.retiring, entity.seen.recallable, entity.seen.recalled) == (set(), set(), {"n1"})


def test_a_saga_that_was_called_back_gets_no_lock_to_delete_with():
    entity = Entity()
    entity.recall()
    assert entity.lock() == {"granted": False, "recalled": True}


def test_a_node_whose_saga_has_the_lock_is_not_called_back():
    entity = Entity()
    assert entity.lock()["granted"]
    assert entity.recall() == []
    assert entity.seen.recallable == set()
    assert entity.seen.retiring == {"n1"}


@pytest.mark.parametrize(
    ("noted", "still"),
    [({"draining": "n1"}, True), ({}, False), ({"deleting": "n1"}, False)],
)
def test_after_the_lock_only_a_node_that_azure_surely_was_not_asked_about_can_be_called_back(noted, still):
    entity = Entity()
    entity.lock()
    entity.unlock(**noted)
    assert bool(entity.recall()) is still


def test_a_node_that_azure_takes_away_is_not_called_back():
    entity = Entity()
    entity.do("adopt", node="n2", op="e2", pool="p")
    assert entity.do("begin", holder="h", recalls=["n2"], limit=5, spare={})["recalls"] == []
    assert entity.seen.recallable == {"n1"}


def test_a_node_that_stayed_because_it_was_called_back_says_so_and_stays_supply():
    entity = Entity()
    entity.recall()
    entity.do("end_retirement", node="n1", op="r1", kept="somebody took our cordon off the node", cooldown=600)
    assert entity.seen.cooling == {"n1": RECALL_REASON}
    assert entity.seen.recalled == {"n1"}


def test_a_recall_frees_a_place_among_those_that_may_go_at_a_time():
    entity = Entity()
    wish = {"op": "r2", "node": "n2", "pool": "p"}
    assert entity.do("begin", holder="h", retirements=[wish], limit=1, spare={"p": 5})["retirements"] == []
    entity.recall()
    assert entity.do("begin", holder="h", retirements=[wish], limit=1, spare={"p": 5})["retirements"] == ["r2"]
