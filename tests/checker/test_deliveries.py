"""What comes of events: an orchestration each, or a dead letter, and nothing twice."""

from __future__ import annotations

from datetime import timedelta

import pytest

from local.checker.deliveries import EVICTING
from tests.checker.scene import Scene
from tests.simulation.worlds import submit, task, world

LED = '{"role": "lead", "state": "done"}'
FOLLOWED = '{"role": "follow"}'


@pytest.fixture
def scene() -> Scene:
    return Scene()


def left(scene: Scene, accounted: str = "") -> list[str]:
    return list(scene.stand_ins.watch.deliveries.at_the_end(accounted))


def deliver(scene: Scene, identity: str, kind: str = "sluice.node.idle") -> None:
    scene.stand_ins.watch.deliveries.note("delivered", {"id": identity, "type": kind})


def test_an_event_of_which_nothing_comes_is_found(scene: Scene):
    deliver(scene, "event-1")
    assert left(scene) == ["event-lost: event-1 was delivered, and nothing came of it"]


def test_an_event_that_was_admitted_is_handled(scene: Scene):
    deliver(scene, "event-1")
    scene.stand_ins.watch.deliveries.note_end("admit", "event-1", FOLLOWED)
    assert left(scene) == []


def test_an_event_that_became_a_dead_letter_is_handled(scene: Scene):
    deliver(scene, "event-1")
    assert left(scene, accounted='[{"id":"event-1"}]') == []


def test_an_event_that_never_came_is_nobodys_fault(scene: Scene):
    scene.stand_ins.watch.deliveries.note("lost", {"id": "event-1", "type": "sluice.node.idle"})
    assert left(scene) == []


def test_an_eviction_needs_no_admission(scene: Scene):
    deliver(scene, "event-1", EVICTING)
    assert left(scene) == []


def test_planning_twice_for_one_event_is_found(scene: Scene):
    for output in (LED, FOLLOWED, LED):
        scene.stand_ins.watch.deliveries.note_end("admit", "event-1", output)
    assert scene.rules() == ["handled-twice"]


def test_an_event_that_comes_twice_and_is_planned_for_once_is_in_order(scene: Scene):
    for output in (LED, FOLLOWED, "no JSON"):
        scene.stand_ins.watch.deliveries.note_end("admit", "event-1", output)
    scene.stand_ins.watch.deliveries.note_end("grow_pool", "event-1", LED)
    assert scene.rules() == []


def test_the_whole_system_handles_what_it_is_told():
    system = world()
    submit(system, task("one"))
    system.run_until(system.settled, timedelta(hours=1))
    assert system.unhandled() == ()
    assert system.stand_ins.topic.counters.delivered > 0
    system.stand_ins.watch.deliveries.note("delivered", {"id": "forged", "type": "sluice.node.idle"})
    assert any("event-lost: forged" in line for line in system.record().violations)
