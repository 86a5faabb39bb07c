"""Why pods go where they go, what they cost there, and what would have been next best."""

from datetime import timedelta

import pytest

from shared.model import FailureMemory, Ledger, PodSelector, PodTerm, Requirement, Supply, Upcoming
from shared.planning.explaining import explain
from shared.planning.plan import plan
from tests.builders import GPU_TAINT, NOTHING, NOW, config, node, pairs, pods, pool, shape, snapshot

HALF = shape(cpu=2000)
APP = {"namespace": "default", "labels": pairs(app="a")}
APART = PodTerm(PodSelector(("default",), (Requirement("app", "In", ("a",)),)), "kubernetes.io/hostname")


def explained(*pending, pools=(), nodes=(), ledger=NOTHING, **more):
    seen, settings = snapshot(*pending, nodes=nodes), config(*pools)
    made = plan(seen, settings, ledger, NOW)
    return made, explain(made, seen, settings, ledger, NOW, **more)


def refused(name):
    return FailureMemory("", "", None, "AllocationFailed", NOW + timedelta(minutes=10), name)


def test_the_pool_whose_share_costs_least_is_named_with_the_runner_up():
    _, (why,) = explained(pods("a", 4, HALF), pools=[pool("small", price=0.2), pool("large", cpu=8000, price=0.5)])
    assert (why.pods, why.nodes, why.supply, why.target) == (4, 2, Supply.NEW, "small")
    assert why.why == "CheapestShare: its share of a node costs least there"
    assert (why.cost, why.share) == (0.4, 0.1)
    assert (why.runner_up, why.runner_up_share) == ("large", 0.125)


def test_a_pool_that_alone_takes_them_is_called_the_only_one():
    _, (why,) = explained(pods("a", 1, shape(gpu=1)), pools=[pool("cpu"), pool("gpu", gpu=1)])
    assert why.why == "OnlyPool: no other pool takes such pods"
    assert why.runner_up == ""


def test_a_fallback_names_the_pool_that_it_stands_in_for_and_why():
    pools = [
        pool("spot", price=0.1, fallback=("regular",)),
        pool("other", price=0.15),
        pool("regular", price=0.2),
    ]
    _, (why,) = explained(pods("a", 2, HALF), pools=pools, ledger=Ledger(failures=(refused("spot"),)))
    assert why.target == "regular"
    assert why.why == (
        "Fallback: it stands in for spot, RecentFailure: AllocationFailed for Standard_spot Regular until 12:10:00Z"
    )
    assert why.runner_up == "other"


def test_the_next_cheapest_names_the_cheaper_pool_that_is_full():
    pools = [pool("cheap", price=0.1, maximum=1), pool("dear", price=0.2)]
    _, found = explained(pods("a", 4, HALF), pools=pools)
    assert {why.target: why.why for why in found} == {
        "cheap": "CheapestShare: its share of a node costs least there",
        "dear": "NextCheapest: cheapest would be cheap, PoolFull: 1 of 1 nodes",
    }


def test_pods_of_one_node_split_its_price_by_their_shares():
    _, found = explained(pods("a", 1, shape(cpu=3000)), pods("b", 1, shape(cpu=500)))
    assert {str(why.example): why.cost for why in found} == pytest.approx(
        {"default/a-0": 0.2 * 6 / 7, "default/b-0": 0.2 / 7}, abs=1e-6
    )


def test_all_parts_sum_to_what_the_plan_costs():
    pending = [pods(f"p{n}", 5, shape(cpu=300 + 170 * n, memory=n * 2**30)) for n in range(12)]
    made, found = explained(
        *pending, pools=[pool("a"), pool("b", cpu=8000, price=0.37), pool("c", cpu=3000, price=0.16)]
    )
    assert sum(why.cost for why in found) == pytest.approx(made.cost_per_hour, abs=1e-4)
    assert sum(why.pods for why in found) == 60


def test_an_unknown_price_is_none_and_not_nothing():
    _, (why,) = explained(pods("a", 1, HALF), pools=[pool(price=None)])
    assert (why.cost, why.share) == (None, None)


def test_room_on_nodes_that_are_there_costs_nothing_and_they_are_counted():
    nodes = [node(f"n{n}") for n in range(3)]
    _, (why,) = explained(pods("a", 5, HALF), nodes=nodes)
    assert (why.supply, why.nodes, why.cost) == (Supply.THERE, 3, 0.0)
    assert why.why == "Room: n0 and 2 more have room for them"


def test_nodes_on_their_way_are_told_from_those_that_are_there():
    ledger = Ledger(upcoming=(Upcoming("general", 3, NOW + timedelta(minutes=5)),))
    _, (why,) = explained(pods("a", 5, HALF), ledger=ledger)
    assert (why.supply, why.target) == (Supply.COMING, "general")
    assert why.why.startswith("OnTheWay: ")


def test_pods_that_their_own_rules_divide_are_told_so():
    pools = [pool("cheap", price=0.1, labels={"zone": "1"}), pool("dear", price=0.3, labels={"zone": "2"})]
    apart = PodTerm(APART.selector, "zone")
    _, found = explained(pods("a", 2, shape(cpu=100, apart=(apart,), **APP)), pools=pools)
    assert [why.why.partition(":")[0] for why in found] == ["Rules", "CheapestShare"]


def test_nobody_is_explained_who_is_not_served():
    made, found = explained(pods("a", 3, HALF), pools=[pool(taints=(GPU_TAINT,))])
    assert made.unserved
    assert found == ()


def test_only_the_dearest_are_explained_however_many_classes_there_are():
    pending = [pods(f"p{n}", 1, shape(cpu=100 + n)) for n in range(200)]
    _, found = explained(*pending, most=10)
    assert len(found) == 10
    assert [why.cost for why in found] == sorted((why.cost for why in found), reverse=True)
