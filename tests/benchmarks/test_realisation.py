from collections import Counter

import numpy as np
import pytest

from bench import workloads
from bench.realise import Bought, Cluster, NeverBound, realise, score


def workload(*kinds, pools=workloads.ONE_POOL):
    return {"name": "small", "pools": pools, "pods": list(kinds)}


def one_more(_rest):
    return Bought({"d8": 1})


def nothing(_rest):
    return Bought({})


def test_a_plan_that_only_one_order_fills_costs_more_once_it_is_real():
    big = workloads.pod("big", 4000, 16 * 1024, 2)
    small = workloads.pod("small", 2000, 8 * 1024, 4)
    stood = [sum(realise(workload(big, small), Bought({"d8": 2}), one_more, seed).values()) for seed in range(20)]
    assert min(stood) == 2
    assert max(stood) > 2


def test_nodes_that_suffice_in_any_order_are_all_that_is_bought():
    assert realise(workload(workloads.pod("same", 1000, 1024, 16)), Bought({"d8": 2}), nothing) == {"d8": 2}


def test_pods_without_a_place_are_what_more_is_asked_for():
    asked = []

    def more(rest):
        asked.append([(kind["name"], kind["count"]) for kind in rest["pods"]])
        return Bought({"d8": 1})

    assert realise(workload(workloads.pod("same", 4000, 1024, 3)), Bought({"d8": 1}), more) == {"d8": 2}
    assert asked == [[("same", 1)]]


def test_pods_that_nobody_buys_for_are_an_error_not_a_price():
    with pytest.raises(NeverBound, match="2 pods of small"):
        realise(workload(workloads.pod("same", 4000, 1024, 2)), Bought({}), nothing)


def test_pods_that_must_be_apart_are_one_to_a_node():
    apart = workloads.pod("apart", 100, 100, 3, anti_hostname=True)
    assert realise(workload(apart), Bought({"d8": 1}), one_more) == {"d8": 3}


def test_a_spread_app_lets_no_node_run_ahead():
    cluster = Cluster(workload(workloads.pod("spread", 100, 100, 9, spread_hostname=1)), seed=1)
    cluster.add(Bought({"d8": 3}))
    assert all(cluster.bind(0) for _ in range(9))
    assert Counter(cluster._held[0].tolist()) == {3: 3}


def test_a_new_empty_node_holds_back_the_others_of_a_spread_app():
    cluster = Cluster(workload(workloads.pod("spread", 8000, 100, 4, spread_hostname=1)), seed=1)
    cluster.add(Bought({"d8": 1}))
    assert cluster.bind(0)
    cluster.add(Bought({"d8": 1}))
    assert cluster.bind(0)
    assert not cluster.bind(0)


def test_the_emptier_node_is_preferred():
    room = np.array([[8000, 32768], [8000, 32768]])
    emptier, fuller = score(np.array([[1000, 4096], [4000, 16384]]), room)
    assert emptier > fuller


def test_the_same_seed_places_in_the_same_way():
    b = workloads.make("b-2000")
    nodes = Bought({"d16": 120, "t4x4": 80, "v100x1": 20, "a100x1": 20, "e8": 150})
    more = Bought({"d16": 40, "t4x4": 40, "a100x1": 20, "v100x1": 20})
    assert realise(b, nodes, lambda _: more, 5) == realise(b, nodes, lambda _: more, 5)


BIG = workloads.pod("big", 4000, 16 * 1024, 2)
SMALL = workloads.pod("small", 2000, 8 * 1024, 4)


def test_pods_that_are_told_their_nodes_fill_them_as_planned():
    told = Bought.for_pods([("d8", {"big": 1, "small": 2})] * 2)
    for seed in range(20):
        cluster = Cluster(workload(BIG, SMALL), seed, lost=0.0)
        cluster.add(told)
        pods = np.random.default_rng(seed).permutation([0, 0, 1, 1, 1, 1]).tolist()
        assert all(cluster.bind(kind, home) for kind, home in zip(pods, cluster.homes(pods), strict=True))


def test_who_was_told_nothing_keeps_off_the_room_of_the_others():
    cluster = Cluster(workload(BIG, SMALL), seed=1, lost=0.0)
    cluster.add(Bought.for_pods([("d8", {"big": 1})]))
    pods = [1, 1, 1, 0]
    homes = cluster.homes(pods)
    assert homes == [None, None, None, 0]
    bound = [cluster.bind(kind, home) for kind, home in zip(pods, homes, strict=True)]
    assert bound == [True, True, False, True]


def test_a_share_of_the_nominations_is_lost():
    same = workloads.pod("same", 10, 10, 5000)
    cluster = Cluster(workload(same), seed=1)
    cluster.add(Bought.for_pods([("d8", {"same": 100})] * 50))
    homes = cluster.homes([0] * 5000)
    assert 0.01 < homes.count(None) / len(homes) < 0.03


def test_a_home_that_the_rules_forbid_is_no_home():
    spread = workloads.pod("spread", 100, 100, 3, spread_hostname=1)
    cluster = Cluster(workload(spread), seed=1, lost=0.0)
    cluster.add(Bought.for_pods([("d8", {"spread": 2}), ("d8", {"spread": 1})]))
    assert sorted(cluster.homes([0] * 3)) == [0, 0, 1]
    assert cluster.bind(0, 0)
    assert cluster.bind(0, 0)  # a second one there is too many as long as the other node has none
    assert cluster._held[0].tolist() == [1, 1]
