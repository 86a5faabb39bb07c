"""A person's pause holds from the next step on, and what was begun reaches a safe state."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from local.web import Request, Response
from tests.orchestrations.stage import POOLS, Stage

Json = dict[str, Any]
HELD = {"spec": {"terminationGracePeriodSeconds": 600}}


def pull(stage: Stage, lever: str, cluster: str = "training", **order: object) -> Response:
    query = {"cluster": cluster} if cluster else {}
    return stage.host.handle(Request("POST", f"/api/{lever}", query, {}, orjson.dumps(order)))


def told(response: Response, status: int = 200) -> Json:
    assert response.status == status, response.body
    document: Json = orjson.loads(response.body)
    return document


def growing(seconds: float = 0.0) -> Stage:
    stage = Stage(timers=True)
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=seconds)
    return stage


def draining() -> Stage:
    """An idle node with a pod that takes its time."""
    stage = Stage(POOLS.replace("{idle_after: 10m}", "{idle_after: 1m}"), timers=True)
    stage.submit(2, terminationGracePeriodSeconds=600)
    stage.submit(2, cpu="1", prefix="small", terminationGracePeriodSeconds=600)
    stage.run(2)
    stage.say(seconds=240)
    stage.finish()
    stage.idle(minutes=2, seconds=3)
    return stage


def test_nothing_is_asked_for_while_a_cluster_is_paused_and_all_of_it_after() -> None:
    stage = Stage(timers=True)
    told(pull(stage, "pause", by="ada", reason="upgrade"))
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=900)
    assert stage.arm.writes == []
    told(pull(stage, "resume", by="ada"))
    stage.run(120)
    assert len(stage.bound()) == 1


def test_the_status_says_who_has_paused_what_why_and_until_when() -> None:
    stage = Stage()
    told(pull(stage, "pause", pool="spot", by="ada", reason="price", seconds=7200))
    cluster = stage.status()["clusters"]["training"]
    entry = cluster["pauses"]["spot"]
    assert (entry["by"], entry["reason"]) == ("ada", "price")
    assert entry["until"] > entry["at"]
    assert (cluster["mode"], cluster["pools"]) == ("act", {"spot": "paused", "regular": "act"})


def test_a_paused_pool_leaves_its_demand_to_the_others() -> None:
    stage = Stage()
    told(pull(stage, "pause", pool="spot"))
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=200)
    assert stage.machines() == {"spot": 0, "regular": 1}


def test_a_pause_ends_by_itself() -> None:
    stage = Stage(timers=True)
    told(pull(stage, "pause", seconds=600))
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=590)
    assert stage.arm.writes == []
    stage.run(600)
    assert len(stage.bound()) == 1


def test_a_growth_that_has_not_written_yet_writes_no_more() -> None:
    stage = Stage()
    stage.submit(1)
    stage.run(2)
    stage.publisher.publish([stage.event()])
    told(pull(stage, "pause"))
    stage.run(300)
    assert stage.arm.writes == []
    assert stage.ledger()["growths"] == {}


def test_a_growth_that_was_asked_for_is_watched_to_its_end_and_its_node_is_used() -> None:
    stage = growing(seconds=5)
    assert stage.arm.writes
    told(pull(stage, "pause"))
    stage.run(300)
    assert len(stage.bound()) == 1
    assert [view.output["ok"] for view in stage.orchestrations("grow_pool")] == [True]


def test_a_drain_stops_and_its_node_is_opened_again() -> None:
    stage = draining()
    assert any(node["spec"].get("unschedulable") for node in stage.nodes())
    told(pull(stage, "pause", reason="hands off"))
    stage.run(60)
    assert not any(node["spec"].get("unschedulable") for node in stage.nodes())
    assert stage.ledger()["retirements"] == {}
    assert not [path for _, path in stage.arm.writes if path.endswith("/delete")]


def test_a_deletion_that_azure_was_asked_for_is_seen_through_to_the_node_object() -> None:
    stage = growing(seconds=200)
    stage.finish()
    stage.idle()
    while not any(path.endswith("/delete") for _, path in stage.arm.writes):
        stage.run(1)
    told(pull(stage, "pause"))
    stage.run(300)
    assert stage.machines()["spot"] == 0
    assert stage.nodes() == []
    assert not stage.stand.arm.truth.leaks().nics


def test_a_redelivered_pause_is_one_pause() -> None:
    stage = Stage()
    told(pull(stage, "pause", by="ada"))
    told(pull(stage, "pause", by="bob"))
    assert list(stage.status()["clusters"]["training"]["pauses"]) == ["*"]


def test_resuming_the_cluster_ends_the_pauses_of_its_pools_as_well() -> None:
    stage = Stage()
    told(pull(stage, "pause", pool="spot"))
    told(pull(stage, "pause"))
    assert sorted(told(pull(stage, "resume"))["ended"]) == ["*", "spot"]
    assert stage.status()["clusters"]["training"]["pauses"] == {}


@pytest.mark.parametrize(
    ("lever", "order", "status", "message"),
    [
        ("pause", {"pool": "gold"}, 400, "pool gold: cluster training has no pool of that name; it has: spot, regular"),
        ("pause", {"seconds": 5}, 400, "seconds: 5: give between 60 and 7776000, or leave it out"),
        ("pause", {"seconds": "2h"}, 400, "seconds: '2h' is no number of seconds"),
        ("pause", {"reason": "x" * 300}, 400, "give a text of at most 200 characters"),
        ("pause", {"how": "long"}, 400, "how: is unknown; there are by, pool, reason, seconds"),
        ("resume", {"pool": "spot"}, 409, "pool spot: is not paused"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(lever: str, order: Json, status: int, message: str) -> None:
    assert message in told(pull(Stage(), lever, **order), status)["error"]


def test_a_pool_cannot_be_resumed_while_its_cluster_is_paused() -> None:
    stage = Stage()
    told(pull(stage, "pause"))
    assert "its whole cluster is" in told(pull(stage, "resume", pool="spot"), 409)["error"]


def test_a_cluster_that_is_not_there_is_named_with_those_that_are() -> None:
    answer = told(pull(Stage(), "pause", cluster="prod"), 404)
    assert answer["error"] == "cluster prod: the app has no pools file of that name; the app has: training"


def test_the_cluster_may_be_left_out_where_there_is_one() -> None:
    assert told(pull(Stage(), "pause", cluster=""))["cluster"] == "training"
