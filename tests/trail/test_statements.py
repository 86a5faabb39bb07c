"""What was done to nodes and pods is stated once, where it is found by name."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from functions import trail
from functions.world import World
from shared.adapters.errors import RetryLater
from tests.trail.cabinet import AT, Cabinet, order, pod, world_of


def test_a_pods_eviction_is_found_under_its_name_and_under_its_nodes() -> None:
    world = world_of(Cabinet())
    trail.note_node(world, order(), trail.EVICTED, "the node is idle", rule="idle for 10m", pods=[pod("web-1")])
    (of_pod,) = trail.statements(world, "training", f"{trail.PODS}/default/web-1")
    (of_node,) = trail.statements(world, "training", f"{trail.NODES}/node-1")
    assert (of_pod["op"], of_pod["node"], of_pod["at"]) == ("op1", "node-1", AT)
    assert (of_pod["why"], of_pod["rule"], of_pod["uid"]) == ("the node is idle", "idle for 10m", "uid-web-1")
    assert of_node["pods"] == ["default/web-1"]


def test_the_same_statement_twice_is_one_and_the_first_stands() -> None:
    cabinet = Cabinet()
    for why in ("first", "second"):
        trail.note_node(world_of(cabinet), order(), trail.CORDONED, why)
    (only,) = trail.statements(world_of(cabinet), "training", f"{trail.NODES}/node-1")
    assert only["why"] == "first"


def test_a_pass_that_repeats_itself_sends_no_request() -> None:
    cabinet = Cabinet()
    world = world_of(cabinet)
    for _ in range(3):
        trail.note_node(world, order(), trail.HELD, "no", pods=[pod("web-1")])
    assert cabinet.puts == 2


def test_who_was_evicted_is_not_found_ending_as_well() -> None:
    world = world_of(Cabinet())
    trail.note_node(world, order(), trail.EVICTED, "idle", pods=[pod("web-1")])
    trail.note_node(world, order(), trail.ENDING, "found ending", pods=[pod("web-1")])
    assert [each["event"] for each in trail.statements(world, "training", f"{trail.PODS}/default/web-1")] == ["evicted"]


def test_two_pods_of_one_name_are_told_apart() -> None:
    world = world_of(Cabinet())
    for uid in ("a", "b"):
        trail.note_node(world, order(), trail.EVICTED, "idle", pods=[pod("web-0", uid)])
    found = trail.statements(world, "training", f"{trail.PODS}/default/web-0")
    assert sorted(each["uid"] for each in found) == ["a", "b"]


def test_a_growth_names_the_instances_that_came_of_it() -> None:
    world = world_of(Cabinet())
    trail.note_growth(world, order(), trail.ASKED, "for default/web-1")
    trail.note_growth(world, order(), trail.BOUGHT, "as asked", instances=["3", "4"])
    asked, bought = trail.statements(world, "training", f"{trail.GROWTHS}/spot")
    assert (asked["why"], bought["instances"], bought["number"]) == ("for default/web-1", ["3", "4"], 2)


def test_statements_come_in_order_of_time_and_of_the_saga() -> None:
    world = world_of(Cabinet())
    for event in (trail.GONE, trail.CORDONED, trail.DELETED):
        trail.note_node(world, order(), event, "idle")
    later = {**order(), "now": "2026-03-02T08:00:00+00:00", "op": "op0"}
    trail.note_node(world, later, trail.CORDONED, "again")
    told = [each["event"] for each in trail.statements(world, "training", f"{trail.NODES}/node-1")]
    assert told == ["cordoned", "deleted", "gone", "cordoned"]


def test_only_the_days_asked_for_are_read() -> None:
    cabinet = Cabinet()
    world = world_of(cabinet)
    trail.note_growth(world, order(), trail.ASKED, "for a")
    trail.note_growth(world, {**order(), "now": "2026-03-02T08:00:00+00:00"}, trail.ASKED, "for b")
    (found,) = trail.statements(world, "training", f"{trail.GROWTHS}/spot", ["2026-03-02"])
    assert found["why"] == "for b"
    assert cabinet.gets == 1


def test_a_store_that_refuses_holds_nobody_up_and_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    class Shut(Cabinet):
        def put(self, *_: Any, **__: Any) -> str:
            raise RetryLater("the store is busy")

    with caplog.at_level(logging.WARNING, logger="sluice"):
        trail.note_node(world_of(Shut()), order(), trail.CORDONED, "idle")
    assert "not in the trail: the store is busy" in caplog.text


def test_an_event_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="'vanished' is unknown"):
        trail.note_node(world_of(Cabinet()), order(), "vanished", "why")


def test_only_so_many_statements_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trail, "REMEMBERED", 2)
    world: World = world_of(Cabinet())
    for event in (trail.CORDONED, trail.DELETED, trail.GONE):
        trail.note_node(world, order(), event, "idle")
    assert len(world.stated) == 2
