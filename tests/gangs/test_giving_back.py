"""Gangs that Azure delivers in part: held for the fallback, then given back, and tried again later."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from functions import planning, wishes
from local.arm.faults import Fault
from shared.model import GangHold, Ledger
from shared.planning.gang_holds import digest, give_back, holds_after, rested
from shared.planning.plan import plan
from tests.builders import NOW, bound, config, node, pods, pool, shape
from tests.gangs.builders import gang, members, named, snapshot
from tests.orchestrations.stage import POOLS, Stage

Json = dict[str, Any]
KEY = digest(named("job"))
ALONE = POOLS.replace("price: 0.2\n    max: 10", "price: 0.2\n    max: 2")  # no fallback for all of it


def submit(stage: Stage, number: int, least: int | None = None, name: str = "job", replicated: bool = True) -> None:
    """Create pods of a gang, of a controller that makes none anew."""
    said = {"sluice.io/gang": name, "sluice.io/gang-min-member": str(least or number)}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "3"}}}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"rs-{name}", "controller": True}
    for count in range(number):
        meta: Json = {"name": f"{name}-{count:02}", "namespace": "default", "annotations": said}
        if replicated:
            meta["ownerReferences"] = [owner]
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}
        stage.api.create("/api/v1/namespaces/default/pods", body)


def half(stage: Stage, *, zonal: int = 3) -> None:
    """Azure delivers so many, refuses the rest, and goes on refusing."""
    stage.stand.arm.faults.add(Fault("scale_set.update", "spot", code="AllocationFailed", stage="async", partial=zonal))


def minutes(stage: Stage, number: int) -> None:
    """The exporter says each minute what waits."""
    for _ in range(number):
        stage.say(seconds=60)


def started(pools: str = ALONE, number: int = 8) -> Stage:
    stage = Stage(pools)
    half(stage)
    submit(stage, number)
    stage.run(2)
    stage.say(seconds=100)
    return stage


def test_a_part_that_failed_is_served_by_the_fallback_within_the_hold() -> None:
    stage = started(POOLS)
    minutes(stage, 5)
    assert len(stage.bound("job")) == 8
    assert stage.machines() == {"spot": 3, "regular": 5}
    assert stage.ledger()["gangs"] == {}


def test_nodes_that_came_are_held_and_then_given_back_with_the_members_on_them() -> None:
    stage = started()
    assert stage.machines()["spot"] == 3
    minutes(stage, 3)
    assert len(stage.bound("job")) == 3  # the hold lasts
    minutes(stage, 25)
    assert stage.machines() == {"spot": 0, "regular": 0}
    assert stage.bound("job") == []
    assert stage.ledger()["retirements"] == {}


def test_a_gang_that_was_given_up_says_so_and_is_tried_again() -> None:
    stage = started()
    minutes(stage, 7)
    stage.finish("job")
    submit(stage, 8)
    minutes(stage, 1)
    (told,) = stage.status()["clusters"]["training"]["plan"]["unserved"]
    assert any("as the rest could not be had" in why for why in told["reasons"].values())
    minutes(stage, 65)
    assert len(stage.bound("job")) == 8
    assert stage.ledger()["gangs"] == {}


def test_members_that_nobody_would_make_anew_are_not_evicted() -> None:
    stage = Stage(ALONE)
    half(stage)
    submit(stage, 8, replicated=False)
    stage.run(2)
    stage.say(seconds=100)
    minutes(stage, 20)
    assert len(stage.bound("job")) == 3
    assert stage.machines()["spot"] == 3


@pytest.mark.usefixtures("_few_starts")
def test_a_gang_of_more_growths_than_one_plan_starts_is_bought_whole_all_the_same() -> None:
    stage = Stage(POOLS.replace("max: 10", "max: 30"))
    submit(stage, 14)
    stage.run(2)
    minutes(stage, 8)
    assert len(stage.bound("job")) == 14
    assert sum(stage.machines().values()) == 14
    assert stage.ledger()["gangs"] == {}


@pytest.fixture
def _few_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "MOST_STARTS", 2)
    monkeypatch.setattr(wishes, "SET_CHUNK", 2)


POOL = pool("p", maximum=4)
CONFIG = config(POOL, max_parallel_fraction=1.0)
ASKED = NOW - timedelta(minutes=10)
YOUNG = {"created_at": NOW - timedelta(minutes=8)}
MEMBER = shape(3000, gang=named("job"))


def held(stranded: float | None = 6.0, **more: Any) -> Ledger:
    since = NOW - timedelta(minutes=stranded) if stranded is not None else None
    return Ledger(gangs={KEY: GangHold(ASKED, ("p",), since, **more)})


def went(*nodes, ledger=None, waiting: int = 6, others=()) -> set[str]:
    seen = snapshot(members("job", waiting, 3000), *others, gangs=[gang("job", 8)], nodes=nodes)
    ledger = ledger or held()
    made, _ = give_back(plan(seen, CONFIG, ledger, NOW), seen, CONFIG, ledger, NOW)
    return {going.node for going in made.retirements}


def on(name: str, *holds, **more):
    return node(name, POOL, holds, **{**YOUNG, **more})


def test_empty_nodes_and_nodes_with_members_alone_go():
    assert went(on("empty"), on("member", bound("job", 1, MEMBER))) == {"empty", "member"}


def test_nodes_stay_while_the_hold_lasts():
    assert went(on("empty"), ledger=held(4.0)) == set()
    assert went(on("empty"), ledger=held(None)) == set()


def test_nodes_with_somebody_else_on_them_stay():
    assert went(on("shared", bound("job", 1, MEMBER), bound("web", 1, shape(100)))) == set()


def test_nodes_from_before_stay():
    assert went(on("old", bound("job", 1, MEMBER), created_at=ASKED - timedelta(minutes=1))) == set()


def test_a_node_that_waits_for_other_pods_stays():
    assert went(on("a"), on("b"), others=[pods("web", 1, shape(3000))]) in ({"a"}, {"b"})


def test_nothing_goes_once_the_gang_can_be_served():
    seen = snapshot(members("job", 4, 3000), gangs=[gang("job", 4)], nodes=[on("a"), on("b")])
    made, given = give_back(plan(seen, CONFIG, held(), NOW), seen, CONFIG, held(), NOW)
    assert (made.retirements, given) == ((), frozenset())


def test_the_pause_doubles_with_each_try_and_ends():
    seen = snapshot(members("job", 6, 3000), gangs=[gang("job", 8)])

    def waits(tries: int, ago: float) -> bool:
        ledger = held(given=NOW - timedelta(minutes=ago), tries=tries)
        return bool(rested(seen, ledger, NOW).gangs[0].problem)

    assert [waits(1, 9), waits(1, 11), waits(2, 19), waits(2, 21), waits(9, 119), waits(9, 121)] == [True, False] * 3


def test_a_gang_that_runs_whole_or_is_gone_is_forgotten():
    whole = snapshot(gangs=[gang("job", 1)], nodes=[on("a", bound("job", 1, MEMBER))])
    for seen in (whole, snapshot()):
        made = plan(seen, CONFIG, held(), NOW)
        assert holds_after(made, seen, held(), NOW, {"p"}) == {KEY: None}


def test_what_is_bought_for_a_gang_is_noted_with_its_pools():
    seen = snapshot(members("job", 2, 3000), gangs=[gang("job", 2)])
    made = plan(seen, CONFIG, Ledger(), NOW)
    assert holds_after(made, seen, Ledger(), NOW, {"p"}) == {KEY: GangHold(NOW, ("p",))}
    assert holds_after(made, seen, Ledger(), NOW, set()) == {}
