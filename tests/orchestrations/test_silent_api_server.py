"""While the API server does not answer: pods that were just seen get their nodes, and no node goes."""

from __future__ import annotations

from typing import Any

from local.azure_transport import CONNECTION_LOST
from local.web import Handler, Request, Response
from tests.orchestrations.stage import POOLS, Stage


class Silent:
    """A door that answers nobody until it is opened again."""

    def __init__(self, inner: Handler) -> None:
        self.inner, self.shut, self.tries, self.shuts_after_write = inner, False, 0, False

    def handle(self, request: Request) -> Response:
        if not self.shut:
            self.shut = self.shuts_after_write and request.method == "PATCH"
            return self.inner.handle(request)
        self.tries += 1
        return Response(503, {CONNECTION_LOST: "lost"})


def staged(pools: str = POOLS, **more: Any) -> tuple[Stage, Silent]:
    stage = Stage(pools, **more)
    door = Silent(stage.cluster._inner)
    stage.cluster._inner = door
    return stage, door


def test_nodes_are_bought_by_a_young_snapshot() -> None:
    stage, door = staged()
    stage.submit(1)
    stage.run(2)
    event = stage.event()
    door.shut = True
    stage.publisher.publish([event])
    stage.run(90)
    assert stage.machines()["spot"] == 1
    assert door.tries > 0
    assert any("API server did not answer" in note for note in stage.document("latest.json")["notes"])


def test_nothing_is_bought_by_an_old_one() -> None:
    stage, door = staged()
    stage.submit(1)
    stage.run(2)
    event = stage.event()
    door.shut = True
    stage.run(130)
    stage.publisher.publish([event])
    stage.run(200)
    assert stage.machines()["spot"] == 0


def test_no_node_is_drained_or_deleted_meanwhile_and_the_idle_one_goes_afterwards() -> None:
    stage, door = staged(timers=True)
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=200)
    stage.finish()
    stage.event()
    stage.run(660)
    event = stage.event("sluice.node.idle")
    door.shut = True
    stage.publisher.publish([event])
    stage.run(400)
    assert stage.machines()["spot"] == 1
    assert not [path for _, path in stage.arm.writes if path.endswith("/delete")]
    door.shut = False
    stage.run(1500)
    assert stage.machines()["spot"] == 0


def test_a_drain_that_loses_sight_of_the_cluster_deletes_nothing_and_leaves_no_cordon() -> None:
    stage, door = staged(POOLS.replace("{idle_after: 10m}", "{idle_after: 10m, drain_timeout: 2m}"), timers=True)
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=200)
    stage.finish()
    stage.event()
    stage.run(660)
    door.shuts_after_write = True
    stage.say("sluice.node.idle", seconds=600)
    assert door.tries > 0
    assert not [path for _, path in stage.arm.writes if path.endswith("/delete")]
    door.shut = door.shuts_after_write = False
    stage.submit(1, prefix="newcomer")
    stage.run(1200)
    assert stage.machines()["spot"] == 1
    assert stage.bound("newcomer") == ["newcomer-0"]
    assert not any(node["spec"].get("unschedulable") for node in stage.nodes())
