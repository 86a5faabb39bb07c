from bench import ours, workloads
from bench.check import faults
from bench.ours import Node

KEPT_APART = workloads.pod("apart", 500, 1024, 2, anti_hostname=True)
SPREAD = workloads.pod("spread", 500, 1024, 3, spread_hostname=1)
LARGE = workloads.pod("large", 5000, 1024, 2)


def found(kinds, nodes, unserved=0):
    return list(faults({"name": "small", "pools": workloads.TEN_POOLS, "pods": kinds}, nodes, unserved))


def test_our_own_plan_for_b_has_no_fault():
    workload = workloads.make("b-2000")
    result = ours.measure(workload, ours.first_plan, 1)
    assert list(faults(workload, result.nodes, result.unserved)) == []
    assert result.unserved == 0


def test_an_overfull_node_is_found():
    assert found([LARGE], [Node("d8", {"large": 2})]) == ["node 0 of d8: holds more cpu_m than it has"]


def test_pods_together_that_must_be_apart_are_found():
    assert "holds 2 pods of apart" in found([KEPT_APART], [Node("d8", {"apart": 2})])[0]


def test_an_uneven_spread_is_found():
    assert found([SPREAD], [Node("d8", {"spread": 3}), Node("d8", {"spread": 0})])[-1] == "spread is spread with skew 3"


def test_a_pod_where_it_may_not_go_is_found():
    assert found([LARGE], [Node("t4x1", {"large": 1}), Node("d8", {"large": 1})]) == ["node 0 of t4x1: takes no large"]


def test_pods_that_were_forgotten_or_planned_twice_are_found():
    assert found([LARGE], [Node("d8", {"large": 1})]) == ["1 pods planned and 0 unserved are not all pods"]
    thrice = [Node("d8", {"large": 1})] * 3
    assert "large is planned 3 times, and there are 2" in found([LARGE], thrice)


def test_empty_nodes_are_found():
    assert "node 0 of d8: is empty" in found([], [Node("d8", {})])
