"""What the functions make of a plan with gangs: nothing that is left out on the way may leave half a gang bought."""

from __future__ import annotations

import pytest

from shared.planning.gangs import withheld
from shared.planning.plan import plan
from tests.builders import NOTHING, NOW, config, pods, pool, shape
from tests.gangs.builders import gang, members, snapshot
from tests.orchestrations.stage import POOLS, Stage


def submit(stage: Stage, number: int, least: int, cpu: str = "3", name: str = "job", role: str = "") -> None:
    """Create pods of a gang by our own annotations."""
    said = {"sluice.io/gang": name, "sluice.io/gang-min-member": str(least)}
    if role:
        said["sluice.io/gang-role"] = role
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    for count in range(number):
        meta = {"name": f"{name}{role}-{count:02}", "namespace": "default", "annotations": said}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}
        stage.api.create("/api/v1/namespaces/default/pods", body)


def remove(stage: Stage, name: str) -> None:
    stage.api.delete(f"/api/v1/namespaces/default/pods/{name}", grace_seconds=0)


def test_a_gang_is_bought_whole_and_runs() -> None:
    stage = Stage()
    submit(stage, 12, 12)
    stage.run(2)
    stage.say(seconds=240)
    assert len(stage.bound("job")) == 12
    assert sum(stage.machines().values()) == 12


@pytest.mark.parametrize("gone", [0, 13, 29])
def test_one_member_that_is_gone_since_the_snapshot_keeps_the_whole_gang_from_being_bought(gone: int) -> None:
    stage = Stage(POOLS.replace("max: 10", "max: 40"))
    submit(stage, 30, 30)
    stage.run(2)
    event = stage.event()
    remove(stage, f"job-{gone:02}")
    stage.publisher.publish([event])
    stage.run(240)
    assert sum(stage.machines().values()) == 0
    reasons = stage.status()["clusters"]["training"]["plan"]["unserved"][0]["reasons"]
    assert set(reasons.values()) == {"Gang: 29 of 30 pods of default/job exist"}


def test_members_that_found_a_node_since_the_snapshot_count() -> None:
    stage = Stage()
    stage.submit(1, prefix="holder")
    stage.run(2)
    stage.say(seconds=240)
    submit(stage, 4, 4)
    stage.run(2)
    event = stage.event()
    stage.finish("holder")
    stage.run(5)
    assert len(stage.bound("job")) == 1
    stage.publisher.publish([event])
    stage.run(240)
    assert len(stage.bound("job")) == 4


def test_a_gang_above_the_minimum_is_bought_without_the_member_that_is_gone() -> None:
    stage = Stage()
    submit(stage, 6, 4)
    stage.run(2)
    event = stage.event()
    remove(stage, "job-03")
    stage.publisher.publish([event])
    stage.run(240)
    assert len(stage.bound("job")) == 5
    assert sum(stage.machines().values()) == 5


def test_half_a_gang_is_not_bought_where_the_other_half_would_come_from_a_pool_that_only_observes() -> None:
    two_pools = POOLS.replace("max: 10", "max: 3").replace("priority: Regular", "priority: Regular\n    mode: observe")
    stage = Stage(two_pools)
    submit(stage, 5, 5)
    stage.run(2)
    stage.say(seconds=240)
    assert sum(stage.machines().values()) == 0
    stage.submit(1, cpu="1", prefix="single")
    stage.run(2)
    stage.say(seconds=240)
    assert stage.bound("single") == ["single-0"]
    assert sum(stage.machines().values()) == 1


SMALL, BIG = pool("small", maximum=2, price=0.1), pool("big", cpu=16000, price=0.9)


def narrowed(cluster, *acting: str):
    return withheld(plan(cluster, config(SMALL, BIG), NOTHING, NOW), cluster, acting)


def test_a_gang_that_would_be_bought_in_part_gets_a_reason() -> None:
    cluster = snapshot(members("job", 6, 4000), pods("x", 1, shape(9000)), gangs=[gang("job", 6)])
    (held,) = narrowed(cluster, "small").gangs
    assert held.problem == "default/job would need nodes of pool big, which only observes"
    again = plan(narrowed(cluster, "small"), config(SMALL, BIG), NOTHING, NOW)
    assert {ref.name for each in again.deltas for node in each.nodes for ref in node.pods} == {"x-0"}


def test_members_above_the_minimum_that_are_not_bought_leave_the_gang_whole() -> None:
    cluster = snapshot(members("job", 6, 4000), gangs=[gang("job", 2)])
    assert narrowed(cluster, "small") is cluster


def test_where_every_pool_acts_nothing_is_withheld() -> None:
    cluster = snapshot(members("job", 6, 4000), gangs=[gang("job", 6)])
    assert narrowed(cluster, "small", "big") is cluster
