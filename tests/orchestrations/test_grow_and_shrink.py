"""One pool grows and shrinks, through everything: events, Event Grid, functions, SDKs, ARM, cluster."""

from __future__ import annotations

from tests.orchestrations.stage import Stage


def test_pods_without_room_get_nodes_and_the_nodes_go_when_they_are_idle() -> None:
    stage = Stage()
    stage.submit(3)
    stage.run(2)
    stage.say(seconds=300)
    assert len(stage.bound()) == 3
    assert stage.machines()["spot"] == 3
    stage.finish()
    stage.idle(seconds=600)
    assert stage.machines() == {"spot": 0, "regular": 0}
    assert stage.nodes() == []
