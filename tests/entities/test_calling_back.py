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

    def depart(self, **more):
        return self.do("depart", node="n1", op="r1", ready=True, **more)

    def take(self, removal):
        return self.do("take_departing", pool="p", op=removal, most=10)["nodes"]

    @property
    def seen(self):
        return planning_ledger(self.state, moment(stamp(NOW)))


def test_a_node_that_drains_can_be_called_back_and_is_supply_from_then_on():
    entity = Entity()
    assert entity.seen.recallable == {"n1"}
    assert entity.recall() == [{"node": "n1", "op": "r1", "pool": "p"}]
    assert entity.recall() == [{"node": "n1", "op": "r1", "pool": "p"}]
    assert (entity.seen.retiring, entity.seen.recallable, entity.seen.recalled) == (set(), set(), {"n1"})


def test_a_node_that_was_called_back_is_taken_by_no_removal():
    entity = Entity()
    removal = entity.depart()["removal"]
    entity.recall()
    assert entity.take(removal) == []
    assert entity.depart() == {"state": "recalled"}


def test_a_node_that_waits_for_its_removal_can_be_called_back_and_one_that_was_taken_can_not():
    entity = Entity()
    removal = entity.depart()["removal"]
    assert entity.seen.recallable == {"n1"}
    assert [each["node"] for each in entity.take(removal)] == ["n1"]
    assert entity.recall() == []
    assert entity.seen.recallable == set()
    assert entity.seen.retiring == {"n1"}


@pytest.mark.parametrize(
    ("noted", "still"),
    [
        ({"ready": ["n1"]}, True),
        ({}, False),
        ({"deleting": ["n1"]}, False),
        ({"gone": ["n1"]}, False),
        ({"kept": {"n1": ["busy", "busy again"]}}, False),
    ],
)
def test_once_taken_only_a_node_that_azure_surely_was_not_asked_about_can_be_called_back(noted, still):
    entity = Entity()
    removal = entity.depart()["removal"]
    entity.take(removal)
    entity.do("note_departures", op=removal, **noted)
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
