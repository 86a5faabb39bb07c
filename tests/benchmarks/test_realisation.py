from collections import Counter

import numpy as np
import pytest

from bench import workloads
from bench.realise import Cluster, NeverBound, realise, score


def workload(*kinds, pools=workloads.ONE_POOL):
    return {"name": "small", "pools": pools, "pods": list(kinds)}


def one_more(_rest):
    return {"d8": 1}


def nothing(_rest):
    return {}


def test_a_plan_that_only_one_order_fills_costs_more_once_it_is_real():
    big = workloads.pod("big", 4000, 16 * 1024, 2)
    small = workloads.pod("small", 2000, 8 * 1024, 4)
    stood = [sum(realise(workload(big, small), {"d8": 2}, one_more, seed).values()) for seed in range(20)]
    assert min(stood) == 2
    assert max(stood) > 2


def test_nodes_that_suffice_in_any_order_are_all_that_is_bought():
    assert realise(workload(workloads.pod("same", 1000, 1024, 16)), {"d8": 2}, nothing) == {"d8": 2}


def test_pods_without_a_place_are_what_more_is_asked_for():
    asked = []

    def more(rest):
        asked.append([(kind["name"], kind["count"]) for kind in rest["pods"]])
        return {"d8": 1}

    assert realise(workload(workloads.pod("same", 4000, 1024, 3)), {"d8": 1}, more) == {"d8": 2}
    assert asked == [[("same", 1)]]


def test_pods_that_nobody_buys_for_are_an_error_not_a_price():
    with pytest.raises(NeverBound, match="2 pods of small"):
        realise(workload(workloads.pod("same", 4000, 1024, 2)), {}, nothing)


def test_pods_that_must_be_apart_are_one_to_a_node():
    apart = workloads.pod("apart", 100, 100, 3, anti_hostname=True)
    assert realise(workload(apart), {"d8": 1}, one_more) == {"d8": 3}


def test_a_spread_app_lets_no_node_run_ahead():
    cluster = Cluster(workload(workloads.pod("spread", 100, 100, 9, spread_hostname=1)), seed=1)
    cluster.add({"d8": 3})
    assert all(cluster.bind(0) for _ in range(9))
    assert Counter(cluster._held[0].tolist()) == {3: 3}


def test_a_new_empty_node_holds_back_the_others_of_a_spread_app():
    cluster = Cluster(workload(workloads.pod("spread", 8000, 100, 4, spread_hostname=1)), seed=1)
    cluster.add({"d8": 1})
    assert cluster.bind(0)
    cluster.add({"d8": 1})
    assert cluster.bind(0)
    assert not cluster.bind(0)


def test_the_emptier_node_is_preferred():
    room = np.array([[8000, 32768], [8000, 32768]])
    emptier, fuller = score(np.array([[1000, 4096], [4000, 16384]]), room)
    assert emptier > fuller


def test_the_same_seed_places_in_the_same_way():
    b = workloads.make("b-2000")
    nodes = {"d16": 120, "t4x4": 80, "v100x1": 20, "a100x1": 20, "e8": 150}
    more = {"d16": 40, "t4x4": 40, "a100x1": 20, "v100x1": 20}
    assert realise(b, nodes, lambda _: more, 5) == realise(b, nodes, lambda _: more, 5)
