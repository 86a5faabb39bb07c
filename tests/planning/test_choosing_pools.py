"""Which pool serves whom: price, maximum, fallback, failure memory, mode, priority; and why a pool does not."""

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.model import FailureMemory, Mode, Priority, Upcoming
from shared.planning.plan import plan
from tests.builders import (
    GIB,
    GPU_TAINT,
    GPU_TOLERATION,
    NOTHING,
    NOW,
    Ledger,
    bound,
    config,
    node,
    pods,
    pool,
    shape,
    snapshot,
)

SPOT = pool("spot", price=0.05, priority=Priority.SPOT, fallback=("dear", "cheap"))
CHEAP = pool("cheap", price=0.20)
DEAR = pool("dear", price=0.30)
UNTIL = NOW + timedelta(minutes=10)
NO_SPOT = FailureMemory("Standard_spot", "", Priority.SPOT, "AllocationFailed", UNTIL)


def planned(*pending, nodes=(), pools=(), ledger=NOTHING):
    return plan(snapshot(*pending, nodes=nodes), config(*pools), ledger, NOW)


def added(made):
    return {delta.pool: delta.add for delta in made.deltas}


def only_reasons(made):
    assert len(made.unserved) == 1
    return made.unserved[0].reasons


def test_the_cheapest_pool_for_the_work_is_taken():
    small, large = pool("small", cpu=4000, price=0.20), pool("large", cpu=16000, memory=64 * GIB, price=0.70)
    assert added(planned(pods("a", 16, shape(cpu=1000)), pools=[small, large])) == {"large": 1}
    assert added(planned(pods("a", 4, shape(cpu=1000)), pools=[small, large])) == {"small": 1}


def test_memory_heavy_work_goes_where_memory_is_cheap():
    balanced, roomy = pool("balanced", memory=16 * GIB, price=0.20), pool("roomy", memory=64 * GIB, price=0.30)
    assert added(planned(pods("a", 8, shape(cpu=500, memory=8 * GIB)), pools=[balanced, roomy])) == {"roomy": 1}


def test_pods_without_gpus_stay_off_gpu_nodes_though_they_may_go_there():
    gpu = pool("gpu", cpu=8000, gpu=1, price=0.75)
    made = planned(pods("cpu", 20, shape(cpu=1000)), pods("gpu", 1, shape(cpu=1000, gpu=1)), pools=[gpu, CHEAP])
    assert added(made)["gpu"] == 1


def test_a_pool_never_grows_above_its_maximum():
    made = planned(
        pods("a", 100, shape(cpu=4000)),
        pools=[pool(maximum=5)],
        nodes=[node("n1", holds=[bound("x", 1, shape(cpu=4000))])],
        ledger=Ledger(upcoming=(Upcoming("general", 1, UNTIL),)),
    )
    assert added(made) == {"general": 3}
    assert sum(len(each.pods) for each in made.unserved) == 96
    assert only_reasons(made) == {"general": "PoolFull: 5 of 5 nodes"}


def test_a_pool_of_at_most_zero_nodes_says_so():
    assert only_reasons(planned(pods("a", 1, shape()), pools=[pool(maximum=0)])) == {
        "general": "PoolFull: 0 of 0 nodes"
    }


def test_what_a_full_pool_cannot_take_goes_to_the_next_one():
    made = planned(pods("a", 4, shape(cpu=4000)), pools=[pool("first", price=0.1, maximum=1), CHEAP])
    assert added(made) == {"first": 1, "cheap": 3}


def test_each_pool_says_why_it_does_not_serve():
    pools = [
        pool("tainted", taints=(GPU_TAINT,)),
        pool("small", cpu=1000),
        pool("paused", mode=Mode.PAUSED),
        SPOT,
        pool("full", maximum=0),
    ]
    made = planned(pods("a", 2, shape(cpu=2000)), pools=pools, ledger=Ledger(failures=(NO_SPOT,)))
    assert only_reasons(made) == {
        "tainted": "TaintToleration: does not tolerate sku=gpu:NoSchedule",
        "small": "NodeResourcesFit: needs 2 cpu, a new node has 1",
        "paused": "Paused",
        "spot": "RecentFailure: AllocationFailed for Standard_spot Spot until 12:10:00Z",
        "full": "PoolFull: 0 of 0 nodes",
    }


def test_a_rule_that_is_not_modelled_is_refused_on_every_pool_and_every_node():
    made = planned(pods("a", 1, shape(not_modelled=("VolumeBinding",))), nodes=[node("n1")], pools=[CHEAP, DEAR])
    assert made.fits_existing == ()
    assert only_reasons(made) == dict.fromkeys(("cheap", "dear"), "NotModelled: VolumeBinding")


def test_after_a_failure_the_fallbacks_come_first_in_their_order():
    made = planned(pods("a", 4, shape(cpu=1000)), pools=[SPOT, CHEAP, DEAR], ledger=Ledger(failures=(NO_SPOT,)))
    assert added(made) == {"dear": 1}


def test_when_one_fallback_is_full_the_next_one_follows():
    pools = [SPOT, CHEAP, pool("dear", price=0.30, maximum=1)]
    made = planned(pods("a", 12, shape(cpu=1000)), pools=pools, ledger=Ledger(failures=(NO_SPOT,)))
    assert added(made) == {"dear": 1, "cheap": 2}


def test_a_fallback_that_fails_too_is_followed_by_its_own():
    pools = [pool("spot", price=0.05, fallback=("second",)), pool("second", fallback=("dear",)), CHEAP, DEAR]
    failures = tuple(
        FailureMemory(f"Standard_{name}", "", None, "SkuNotAvailable", UNTIL) for name in ("spot", "second")
    )
    assert added(planned(pods("a", 1, shape()), pools=pools, ledger=Ledger(failures=failures))) == {"dear": 1}


def test_without_fallback_the_price_decides():
    pools = [pool("spot", price=0.05, priority=Priority.SPOT), CHEAP, DEAR]
    made = planned(pods("a", 1, shape()), pools=pools, ledger=Ledger(failures=(NO_SPOT,)))
    assert added(made) == {"cheap": 1}


@pytest.mark.parametrize(
    "memory",
    [
        FailureMemory("Standard_spot", "", Priority.SPOT, "AllocationFailed", NOW),
        FailureMemory("Standard_spot", "", Priority.REGULAR, "AllocationFailed", UNTIL),
        FailureMemory("Standard_other", "", None, "AllocationFailed", UNTIL),
        FailureMemory("Standard_spot", "3", None, "ZonalAllocationFailed", UNTIL),
        FailureMemory("", "", None, "AllocationFailed", UNTIL, pool="other"),
    ],
)
def test_a_failure_that_is_over_or_of_another_kind_bars_nothing(memory):
    assert added(planned(pods("a", 1, shape()), pools=[SPOT, CHEAP], ledger=Ledger(failures=(memory,)))) == {"spot": 1}


def test_a_pool_is_barred_once_all_its_zones_have_failed():
    zonal = pool("spot", price=0.05, zones=("1", "2"))
    one, two = (FailureMemory("Standard_spot", zone, None, "ZonalAllocationFailed", UNTIL) for zone in ("1", "2"))
    assert added(planned(pods("a", 1, shape()), pools=[zonal, CHEAP], ledger=Ledger(failures=(one,)))) == {"spot": 1}
    made = planned(pods("a", 1, shape()), pools=[zonal, CHEAP], ledger=Ledger(failures=(one, two)))
    assert added(made) == {"cheap": 1}


@pytest.mark.parametrize("price", [None, float("nan"), float("inf"), -1.0])
def test_a_pool_without_a_price_is_used_last_and_said(price):
    pools = [pool("unknown", cpu=64000, memory=256 * GIB, price=price), pool("known", price=9.0, maximum=1)]
    made = planned(pods("a", 2, shape(cpu=4000)), pools=pools)
    assert added(made) == {"known": 1, "unknown": 1}
    assert made.cost_per_hour == 9.0
    assert made.notes == ("pool unknown: price unknown, so it is used last and missing from the cost",)


def test_nodes_that_cost_nothing_come_first():
    assert added(planned(pods("a", 1, shape()), pools=[CHEAP, pool("own", price=0.0)])) == {"own": 1}


def test_higher_priority_is_served_first_when_room_is_short():
    low, high = pods("low", 4, shape(cpu=2000)), pods("high", 3, shape(cpu=1500, priority=100))
    made = planned(low, high, pools=[pool(maximum=1)], nodes=[node("n1", pool("foreign"))])
    served = {str(ref) for group in (*made.fits_existing, *made.deltas[0].nodes) for ref in group.pods}
    assert {f"default/high-{n}" for n in range(3)} <= served
    assert all(ref.name.startswith("low") for each in made.unserved for ref in each.pods)


def test_nodes_on_the_way_go_to_the_higher_priority_too():
    low, high = pods("low", 2, shape(cpu=4000)), pods("high", 1, shape(cpu=1000, priority=100))
    ledger = Ledger(upcoming=(Upcoming("general", 1, UNTIL),))
    made = planned(low, high, pools=[pool(maximum=1)], ledger=ledger)
    assert [str(ref) for each in made.fits_upcoming for ref in each.pods] == ["default/high-0"]


def test_a_pool_below_its_minimum_is_topped_up():
    made = planned(
        pools=[pool(minimum=3)], nodes=[node("n1")], ledger=Ledger(upcoming=(Upcoming("general", 1, UNTIL),))
    )
    assert made.top_up == {"general": 1}
    assert made.deltas == ()


def test_nodes_that_are_bought_anyway_count_towards_the_minimum():
    assert planned(pods("a", 2, shape(cpu=4000)), pools=[pool(minimum=3)]).top_up == {"general": 1}


def test_a_node_in_trouble_does_not_count_towards_the_minimum_but_towards_the_maximum():
    dead = node("n1", ready=False)
    assert planned(pools=[pool(minimum=1)], nodes=[dead]).top_up == {"general": 1}
    assert planned(pools=[pool(minimum=1, maximum=1)], nodes=[dead]).top_up == {}


def test_a_minimum_that_cannot_be_reached_is_noted():
    made = planned(pools=[pool("spot", minimum=2, priority=Priority.SPOT)], ledger=Ledger(failures=(NO_SPOT,)))
    assert made.top_up == {}
    assert made.notes[0].startswith("pool spot: below its minimum of 2 (RecentFailure: AllocationFailed")


def test_a_minimum_asks_again_in_the_next_sweep_though_the_memory_lasts() -> None:
    pools = [pool("spot", minimum=2, priority=Priority.SPOT)]

    def topped_up(age: timedelta) -> dict[str, int]:
        refused = replace(NO_SPOT, since=NOW - age)
        made = planned(pods("a", 1, shape(cpu=4000)), pools=pools, ledger=Ledger(failures=(refused,)))
        assert added(made) == {}
        return dict(made.top_up)

    assert topped_up(timedelta(minutes=1)) == {}
    assert topped_up(timedelta(minutes=5)) == {"spot": 2}


def test_tolerant_pods_prefer_what_is_cheap_and_others_stay_out():
    gpu = pool("gpu", gpu=1, price=0.01, taints=(GPU_TAINT,))
    tolerant, strict = pods("t", 1, shape(cpu=4000, tolerations=(GPU_TOLERATION,))), pods("s", 1, shape(cpu=4000))
    assert added(planned(tolerant, strict, pools=[gpu, CHEAP])) == {"gpu": 1, "cheap": 1}
