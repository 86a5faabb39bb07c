"""A Spot node that Azure takes away: its pods leave in time, and a replacement is on its way."""

from __future__ import annotations

from datetime import timedelta

from shared.model import Snapshot
from shared.names import NODE_EVICTING
from shared.wire.events import make_event
from tests.orchestrations.stage import POOLS, Stage


def running(pods: int = 2, pools: str = POOLS) -> Stage:
    stage = Stage(pools)
    stage.submit(pods)
    stage.run(2)
    stage.say(seconds=200)
    assert len(stage.bound()) == pods
    return stage


def warn(stage: Stage, node: str) -> None:
    """The node agent's notice: it sees its own VM, and no cluster."""
    now = stage.timeline.now()
    going = now + timedelta(seconds=30)
    nothing = Snapshot("training", 0, 0, now, (), ())
    detail = {"nodes": [{"name": node, "evicting_at": going.isoformat()}]}
    stage.publisher.publish([make_event(NODE_EVICTING, nothing, subject=node, detail=detail).event])


def test_the_node_is_cordoned_and_its_pods_are_evicted_before_the_deadline() -> None:
    stage = running()
    node = next(pod["spec"]["nodeName"] for pod in stage.pods())
    stage.stand.preempt(node)
    warn(stage, node)
    stage.run(25)
    left = [pod for pod in stage.pods() if pod["spec"].get("nodeName") == node]
    assert all("deletionTimestamp" in pod["metadata"] for pod in left)
    found = next(each for each in stage.nodes() if each["metadata"]["name"] == node)
    assert found["spec"]["unschedulable"]


def test_a_replacement_is_bought_before_the_node_is_gone() -> None:
    stage = running()
    node = next(pod["spec"]["nodeName"] for pod in stage.pods())
    stage.stand.preempt(node)
    warn(stage, node)
    stage.run(10)
    assert sum(growth["add"] for growth in stage.ledger()["growths"].values()) == 1


def test_nothing_is_left_of_an_evicted_node() -> None:
    stage = running()
    node = next(pod["spec"]["nodeName"] for pod in stage.pods())
    stage.stand.preempt(node)
    warn(stage, node)
    stage.run(300)
    assert node not in [each["metadata"]["name"] for each in stage.nodes()]
    assert stage.ledger()["retirements"] == {}
    assert [view.status for view in stage.orchestrations("replace_evicted")] == ["Completed"]
    leaks = stage.stand.arm.truth.leaks()
    assert not leaks.nics
    assert not leaks.disks


def test_notices_that_come_twice_or_name_another_second_have_one_saga() -> None:
    stage = running()
    node = next(pod["spec"]["nodeName"] for pod in stage.pods())
    stage.stand.preempt(node)
    warn(stage, node)
    warn(stage, node)
    stage.run(5)
    warn(stage, node)
    stage.run(300)
    kinds = [view.output.get("kind") for view in stage.orchestrations("replace_evicted")]
    assert kinds == [None, "duplicate"]
    assert stage.machines()["spot"] == 2


def test_a_notice_that_is_withdrawn_puts_the_node_back_to_work() -> None:
    stage = running(1)
    node = stage.nodes()[0]["metadata"]["name"]
    warn(stage, node)
    stage.run(1500)
    found = next(each for each in stage.nodes() if each["metadata"]["name"] == node)
    assert not found["spec"].get("unschedulable")
    assert not any(taint["key"].startswith("sluice.io") for taint in found["spec"].get("taints", []))
    assert "still there" in stage.document(f"nodes/{node}.json")["kept"]


def test_the_exporters_own_event_starts_the_saga_as_well() -> None:
    stage = running(1)
    node = stage.nodes()[0]["metadata"]["name"]
    stage.stand.preempt(node)
    when = (stage.timeline.now() + timedelta(seconds=30)).isoformat()
    stage.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {"sluice.io/evicting-at": when}}})
    stage.say(NODE_EVICTING, {"nodes": [{"name": node, "evicting_at": when}]}, seconds=300)
    assert stage.machines()["spot"] == 1
    assert node not in [each["metadata"]["name"] for each in stage.nodes()]


def test_in_observe_an_eviction_is_watched_and_nothing_written() -> None:
    stage = running(1)
    stage.stand.set_pools_file(POOLS.replace("mode: act", "mode: observe"))
    stage.arm.writes.clear()
    stage.cluster.writes.clear()
    warn(stage, stage.nodes()[0]["metadata"]["name"])
    stage.run(120)
    assert stage.arm.writes == []
    assert stage.cluster.writes == []


def test_a_cordon_of_an_administrators_survives_a_notice_that_is_withdrawn() -> None:
    stage = running(1)
    node = stage.nodes()[0]["metadata"]["name"]
    stage.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    warn(stage, node)
    stage.run(1500)
    found = next(each for each in stage.nodes() if each["metadata"]["name"] == node)
    assert found["spec"]["unschedulable"]
    assert not [name for name in found["metadata"].get("annotations", {}) if name.startswith("sluice.io/")]


def test_a_second_notice_for_a_node_that_stayed_is_heard() -> None:
    stage = running(1)
    node = stage.nodes()[0]["metadata"]["name"]
    warn(stage, node)
    stage.run(1500)
    warn(stage, node)
    stage.run(20)
    assert len(stage.orchestrations("replace_evicted")) == 2


def test_one_more_notice_among_a_hundred_starts_one_more_saga() -> None:
    """An activity's answer has 32 kB: a look that named all that are going would not fit."""
    stage = running(120, POOLS.replace("max: 10", "max: 120"))
    *many, last = [node["metadata"]["name"] for node in stage.nodes()]
    for node in many:
        warn(stage, node)
    stage.run(5)
    warn(stage, last)
    stage.run(20)
    assert len(stage.orchestrations("replace_evicted")) == 120
