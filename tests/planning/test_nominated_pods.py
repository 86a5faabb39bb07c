"""Pods that were told where to go: their room is theirs as long as they can have it, and never for longer."""

from dataclasses import replace

import pytest

from shared.model import HostPort
from shared.planning.plan import plan
from tests.builders import GIB, NOTHING, NOW, Movability, Taint, bound, config, idle, node, pods, pool, shape, snapshot

SMALL, LARGE = shape(cpu=1000), shape(cpu=3000)


def planned(*pending, nodes=(), pools=()):
    return plan(snapshot(*pending, nodes=nodes), config(*pools), NOTHING, NOW)


def told(prefix, number, of, where):
    return replace(pods(prefix, number, of), nominated=where)


def added(made):
    return {delta.pool: delta.add for delta in made.deltas}


def placed(made):
    return {each.target: sorted(str(pod) for pod in each.pods) for each in made.fits_existing}


def test_a_nominated_pod_with_room_is_no_demand():
    made = planned(told("a", 2, SMALL, "n1"), nodes=[node("n1")])
    assert (made.deltas, made.fits_existing, made.unserved) == ((), (), ())


def test_its_room_is_not_given_away():
    made = planned(told("a", 1, LARGE, "n1"), pods("b", 2, SMALL), nodes=[node("n1")])
    assert len(placed(made)["n1"]) == 1
    assert added(made) == {"general": 1}


def test_a_host_port_is_its_own_too():
    web = shape(cpu=100, host_ports=(HostPort("", "TCP", 80),))
    made = planned(told("a", 1, web, "n1"), pods("b", 1, web), nodes=[node("n1")])
    assert added(made) == {"general": 1}


@pytest.mark.parametrize(
    "nodes",
    [
        [],
        [node("n1", unschedulable=True)],
        [node("n1", ready=False)],
        [node("n1", evicting_at=NOW)],
        [node("n1", pool="", taints=(Taint("k", "v", "NoSchedule"),))],
        [node("n1", holds=[bound("x", 3, SMALL)])],
    ],
    ids=["gone", "cordoned", "not ready", "evicting", "tainted", "full"],
)
def test_it_is_demand_again_when_its_node_cannot_have_it(nodes):
    made = planned(told("a", 1, LARGE, "n1"), nodes=nodes)
    assert added(made)["general"] >= 1
    assert [str(pod) for delta in made.deltas for each in delta.nodes for pod in each.pods].count("default/a-0") == 1


def test_who_does_not_fit_any_more_is_demand_and_the_others_are_not():
    made = planned(told("a", 5, SMALL, "n1"), nodes=[node("n1")])
    assert added(made) == {"general": 1}
    assert sum(len(each.pods) for delta in made.deltas for each in delta.nodes) == 1


def test_the_higher_priority_has_the_room():
    high = shape(cpu=3000, priority=10)
    made = planned(told("low", 1, LARGE, "n1"), told("high", 1, high, "n1"), nodes=[node("n1")])
    assert [str(pod) for delta in made.deltas for each in delta.nodes for pod in each.pods] == ["default/low-0"]


def test_room_that_is_being_vacated_is_there_for_the_nominated_and_for_nobody_else():
    full = node("n1", holds=[bound("old", 1, LARGE, Movability.STAYS)], leaving={"cpu": 3000, "pods": 1})
    assert added(planned(told("a", 1, LARGE, "n1"), nodes=[full])) == {}
    assert added(planned(pods("a", 1, LARGE), nodes=[full])) == {"general": 1}


def test_a_node_that_pods_are_nominated_to_does_not_go():
    waiting, other = idle("n1"), idle("n2")
    made = planned(told("a", 1, SMALL, "n1"), nodes=[waiting, other])
    assert {going.node for going in made.retirements} == {"n2"}


def test_a_node_of_no_pool_of_ours_keeps_its_nominated_pods_too():
    foreign = replace(node("n1"), pool="")
    assert planned(told("a", 1, LARGE, "n1"), nodes=[foreign]).deltas == ()


def test_memory_counts_like_cpu():
    big = shape(cpu=100, memory=10 * GIB)
    made = planned(told("a", 2, big, "n1"), nodes=[node("n1")], pools=[pool()])
    assert added(made) == {"general": 1}
