"""What the sagas state while nodes come and go, read back when all of it is over."""

from __future__ import annotations

from typing import Any

import orjson

from local.arm.faults import Fault
from local.web import Request
from tests.orchestrations.stage import POOLS, Stage

Json = dict[str, Any]


def history(stage: Stage, name: str) -> list[Json]:
    answer = stage.host.handle(Request("GET", "/api/history", {"name": name}, {}, b""))
    assert answer.status == 200, answer.body
    told: list[Json] = orjson.loads(answer.body)["told"]
    return told


def test_a_node_s_whole_life_is_told_when_it_is_gone() -> None:
    stage = Stage()
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=200)
    name = stage.nodes()[0]["metadata"]["name"]
    stage.finish()
    stage.idle(seconds=300)
    assert stage.nodes() == []
    told = history(stage, name)
    assert [each["event"] for each in told] == ["asked", "bought", "cordoned", "deleted", "gone"]
    assert told[0]["why"] == "for default/pod-0"
    assert told[2]["why"].startswith("idle for ")
    assert "idle_after" in told[2]["rule"]


def test_a_pod_that_gave_way_is_told_by_whom_and_by_which_rule() -> None:
    stage = Stage(POOLS.replace("{idle_after: 10m}", "{idle_after: 10m, max_parallel_fraction: 0.5}"))
    stage.submit(4)
    stage.submit(2, cpu="500m", prefix="small")
    stage.run(2)
    stage.say(seconds=240)
    for pod in stage.pods("pod"):
        if pod["metadata"]["name"] in ("pod-0", "pod-1"):
            stage.api.delete(f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}", grace_seconds=0)
    stage.idle(seconds=600)
    told = [each for name in ("small-0", "small-1") for each in history(stage, f"default/{name}")]
    evicted = [each for each in told if each["event"] == "evicted"]
    assert evicted, told
    assert all(each["node"] and each["op"] and each["why"] and each["rule"] for each in evicted)


def test_what_azure_refused_stands_beside_what_was_asked_of_it() -> None:
    stage = Stage()
    stage.stand.arm.faults.add(Fault("scale_set.update", "spot", "AllocationFailed", stage="async"))
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=200)
    names = stage.store.list("plans-training", "trail/growths/spot/")
    assert sorted(stage.document(name)["event"] for name in names) == ["asked", "refused"]
    (node,) = stage.nodes("regular")
    assert [each["event"] for each in history(stage, node["metadata"]["name"])] == ["asked", "bought"]


def test_a_node_that_azure_took_is_told_with_the_pods_that_left_it() -> None:
    stage = Stage()
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=200)
    name = stage.nodes()[0]["metadata"]["name"]
    machine = stage.stand.arm.preempt(name, 30.0)
    assert machine is not None
    when = stage.timeline.now().isoformat()
    stage.say("sluice.node.evicting", {"nodes": [{"name": name, "evicting_at": when}]}, seconds=300)
    told = history(stage, name)
    assert [each["event"] for each in told] == ["asked", "bought", "noticed", "evicted", "gone"]
    assert any(each["event"] == "evicted" and each["node"] == name for each in history(stage, "default/pod-0"))


def test_a_node_object_that_was_buried_is_told() -> None:
    stage = Stage(timers=True)
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=240)
    name = stage.nodes()[0]["metadata"]["name"]
    stage.stand.arm.preempt(name, 1.0)
    stage.run(900)
    assert history(stage, name)[-1]["event"] == "buried"


def test_an_observing_pool_says_afterwards_what_it_would_have_done() -> None:
    stage = Stage()
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=200)
    name = stage.nodes()[0]["metadata"]["name"]
    stage.stand.set_pools_file(POOLS.replace("mode: act", "mode: observe"))
    stage.submit(2, prefix="more")
    stage.run(2)
    for _ in range(3):
        stage.say(seconds=5)
    bought = [each for each in history(stage, "spot") if each["event"] == "would-buy"]
    assert [each["why"] for each in bought] == ["2 more, for default/more-0, default/more-1"]
    stage.finish("more")
    stage.finish()
    stage.idle()
    stage.run(5)
    assert history(stage, name)[-1]["event"] == "would-go"
    assert stage.machines()["spot"] == 1
