"""While the API server does not answer: pods that were just seen get their nodes, and no node goes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import orjson
import pytest

from functions import retiring
from local.azure_transport import CONNECTION_LOST
from local.web import Handler, Request, Response
from shared.names import NODE_EVICTING
from tests.orchestrations.stage import POOLS, Stage

Json = dict[str, Any]


class Silent:
    """A door that answers nobody until it is opened again."""

    def __init__(self, inner: Handler) -> None:
        self.inner, self.shut, self.tries, self.shuts_after_write = inner, False, 0, False
        self.shuts_when: Callable[[], bool] = lambda: False

    def handle(self, request: Request) -> Response:
        self.shut = self.shut or self.shuts_when()
        if not self.shut:
            self.shut = self.shuts_after_write and request.method == "PATCH"
            return self.inner.handle(request)
        self.tries += 1
        return Response(503, {CONNECTION_LOST: "lost"})


SLOW = POOLS.replace("{idle_after: 10m}", "{idle_after: 10m, drain_timeout: 2m, utilization_below: 0.9}")
ROOM = POOLS.replace("price: 0.2\n", "price: 0.2\n    headroom: 1\n")
REASON = "no answer from"


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


def deletions(stage: Stage) -> list[str]:
    """What ARM was asked to delete."""
    return [path for method, path in stage.arm.writes if path.endswith("/delete") or method == "DELETE"]


def draining() -> tuple[Stage, Silent, str]:
    """A node whose drain has begun, and is held by a pod that takes its time to end."""
    stage, door = staged(SLOW)
    stage.submit(2, cpu="2")
    stage.submit(1, prefix="other", cpu="2", terminationGracePeriodSeconds=30)
    stage.run(2)
    stage.say(seconds=240)
    stage.finish("pod-1")
    stage.idle()
    while not (cordoned := [node for node in stage.nodes() if node["spec"].get("unschedulable")]):
        stage.run(0.5)
    return stage, door, cordoned[0]["metadata"]["name"]


def emptied() -> tuple[Stage, Silent]:
    """A node whose pod has ended, and which has been idle for long; nobody has said so yet."""
    stage, door = staged(SLOW)
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=240)
    stage.finish()
    stage.event()
    stage.run(660)
    return stage, door


def told(stage: Stage, question: str, node: str) -> Json:
    response = stage.host.handle(Request("GET", f"/api/{question}", {"node": node}, {}, b""))
    assert response.status == 200, response.body
    document: Json = orjson.loads(response.body)
    return document


def test_a_drain_pauses_with_the_reason_and_goes_on_though_its_time_would_be_over() -> None:
    stage, door, node = draining()
    door.shut = True
    stage.run(600)
    assert not deletions(stage)
    going = stage.status()["clusters"]["training"]["retirements"][node]
    assert going["kind"] == "paused"
    assert REASON in going["why"]
    explained = told(stage, "explain", node)
    assert "it is leaving: draining" in explained["verdict"]
    assert f"paused: {going['why']}" in explained["verdict"]
    paused = [each for each in told(stage, "history", node)["told"] if each["event"] == "paused"]
    assert len(paused) == 1
    assert REASON in paused[0]["why"]
    assert paused[0]["op"] == going["op"]
    door.shut = False
    stage.run(240)
    assert stage.machines()["spot"] == 1
    assert [view.output for view in stage.orchestrations("retire_node")] == [{"ok": True}]


def test_a_node_that_is_asked_for_meanwhile_stays_when_the_server_is_back() -> None:
    stage, door, node = draining()
    door.shut = True
    stage.run(600)
    stage.api.patch(
        f"/api/v1/nodes/{node}",
        {"metadata": {"annotations": {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}}},
    )
    door.shut = False
    stage.run(240)
    assert stage.machines()["spot"] == 2
    assert not deletions(stage)


def test_a_drained_node_is_not_deleted_unseen_and_is_when_it_can_be_seen() -> None:
    stage, door = emptied()
    door.shuts_when = lambda: any(going["stage"] == "removing" for going in stage.ledger()["retirements"].values())
    stage.say("sluice.node.idle", seconds=1800)
    (node,) = stage.nodes()
    going = stage.status()["clusters"]["training"]["retirements"][node["metadata"]["name"]]
    assert going["kind"] == "unseen"
    assert REASON in going["why"]
    assert not deletions(stage)
    door.shuts_when, door.shut = lambda: False, False
    stage.run(300)
    assert stage.machines()["spot"] == 0
    assert stage.nodes() == []


def test_after_a_long_pause_the_plan_is_out_of_date_and_the_node_goes_back_to_work() -> None:
    stage, door, node = draining()
    door.shut = True
    stage.run(1800)
    door.shut = False
    stage.run(70)
    assert stage.machines()["spot"] == 2
    assert not any(each["spec"].get("unschedulable") for each in stage.nodes())
    assert "its plan is out of date" in stage.status()["clusters"]["training"]["stayed"][node]["kept"]


def test_a_pause_ends_some_day_and_the_node_is_left_to_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retiring, "MOST_PAUSED", timedelta(hours=1))
    stage, door, node = draining()
    door.shut = True
    stage.run(3900)
    assert node not in stage.ledger()["retirements"]
    assert not deletions(stage)


def test_a_cordon_that_cannot_be_looked_after_pauses_too() -> None:
    stage, door = emptied()
    door.shuts_after_write = True  # the cordon is the last that is seen
    stage.say("sluice.node.idle", seconds=600)
    (node,) = stage.nodes()
    going = stage.status()["clusters"]["training"]["retirements"][node["metadata"]["name"]]
    assert going["kind"] == "paused"
    assert not deletions(stage)
    door.shut = door.shuts_after_write = False
    stage.run(300)
    assert stage.machines()["spot"] == 0
    assert stage.nodes() == []


@pytest.mark.parametrize(("age", "bought"), [(90, 1), (150, 0)])
def test_headroom_that_no_pod_waits_for_is_bought_by_a_young_snapshot_alone(age: float, bought: int) -> None:
    stage, door = staged(ROOM)
    event = stage.event()
    door.shut = True
    stage.run(age)
    stage.publisher.publish([event])
    stage.run(100)
    assert stage.machines()["regular"] == bought


def test_headroom_is_bought_by_an_old_snapshot_while_the_server_answers() -> None:
    stage, _ = staged(ROOM)
    event = stage.event()
    stage.run(150)
    stage.publisher.publish([event])
    stage.run(100)
    assert stage.machines()["regular"] == 1


def test_a_pod_cannot_be_explained_meanwhile_but_the_answer_says_why() -> None:
    stage, door = staged()
    stage.submit(1)
    stage.run(2)
    door.shut = True
    response = stage.host.handle(Request("GET", "/api/explain", {"pod": "default/pod-0"}, {}, b""))
    answer = orjson.loads(response.body)
    assert answer["verdict"] == "the API server does not answer, and it can't be looked at"
    assert REASON in answer["because"][0]


def test_an_eviction_that_nobody_can_act_on_is_cleared_up_when_the_server_is_back() -> None:
    stage, door = staged(timers=True)
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=240)
    (node,) = (each["metadata"]["name"] for each in stage.nodes())
    event = stage.event(NODE_EVICTING, {"nodes": [{"name": node, "evicting_at": stage.timeline.now().isoformat()}]})
    door.shut = True
    stage.stand.preempt(node)
    stage.publisher.publish([event])
    stage.run(400)
    assert door.tries > 0
    assert [each["metadata"]["name"] for each in stage.nodes()] == [node]
    door.shut = False
    stage.run(900)
    assert node not in [each["metadata"]["name"] for each in stage.nodes()]
    assert stage.ledger()["retirements"] == {}
    assert not stage.stand.arm.truth.leaks().nics
    assert not stage.stand.arm.truth.leaks().disks
