"""Which nodes may be opened, and who is nominated to them before."""

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.model import Mode
from shared.names import STARTING_TAINT
from shared.nodes.starting import can_open, openings
from shared.planning.plan import plan
from tests.builders import GPU, NOTHING, NOW, Taint, config, node, pods, pool, shape, snapshot

STARTING = Taint(STARTING_TAINT, "", "NoSchedule")
NOT_READY = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")
OWN = Taint("sku", "gpu", "NoSchedule")
YOUNG = {"created_at": NOW - timedelta(minutes=1)}
SMALL, LARGE = shape(cpu=1000), shape(cpu=3000)
MANY = 100


def starting(name, of=None, taints=(STARTING,), **more):
    return node(name, of, taints=taints, **(YOUNG | more))


def opened(*pending, nodes, pools=(), most=MANY, mode=Mode.ACT):
    file = config(*pools, mode=mode)
    seen = snapshot(*pending, nodes=nodes)
    return openings(seen, file, plan(seen, file, NOTHING, NOW), lambda each: each.mode is Mode.ACT, most)


def guests(found):
    return {each.node: sorted(str(guest.pod) for guest in each.guests) for each in found}


def test_a_starting_node_counts_as_if_it_were_open():
    seen = snapshot(pods("a", 4, SMALL), nodes=[starting("n1")])
    assert plan(seen, config(), NOTHING, NOW).deltas == ()


def test_pods_are_nominated_to_the_node_that_they_were_planned_for():
    found = opened(pods("large", 2, LARGE), pods("small", 2, SMALL), nodes=[starting("n1"), starting("n2")])
    assert sorted(name.split("-")[0] for name in guests(found)["n1"]) == ["default/large", "default/small"]
    assert sum(len(each.guests) for each in found) == 4


def test_the_place_of_the_taint_is_told():
    (found,) = opened(nodes=[starting("n1", pool(taints=(OWN,)), taints=(OWN, STARTING))], pools=[pool(taints=(OWN,))])
    assert found.taint == 1


def test_a_node_for_nobody_is_opened_too():
    assert guests(opened(nodes=[starting("n1")])) == {"n1": []}


@pytest.mark.parametrize(
    "closed",
    [
        starting("n1", ready=False),
        starting("n1", taints=(STARTING, NOT_READY)),
        node("n1", **YOUNG),
        starting("n1", replace(pool(), name="unknown")),
        starting("n1", replace(pool(), name="watched")),
    ],
    ids=["not ready", "not ready by its taint", "open", "of no pool", "of a pool that observes"],
)
def test_these_are_not_opened(closed):
    watched = pool("watched", mode=Mode.OBSERVE)
    assert opened(pods("a", 1, SMALL), nodes=[closed], pools=[pool(), watched]) == ()


def test_a_node_waits_for_the_devices_that_its_pool_promises():
    gpus = pool("gpus", gpu=2)
    without = {name: amount for name, amount in gpus.allocatable.items() if name != GPU}
    assert not can_open(starting("n1", gpus, allocatable=without), gpus)
    assert can_open(starting("n1", gpus), gpus)


def test_when_not_all_can_be_nominated_the_largest_are():
    found = opened(
        pods("small", 4, SMALL), pods("large", 3, LARGE), nodes=[starting(f"n{n}") for n in range(4)], most=3
    )
    assert sorted(name for names in guests(found).values() for name in names) == [
        "default/large-0", "default/large-1", "default/large-2",
    ]  # fmt: skip


def test_pods_that_are_all_alike_need_no_nomination():
    assert guests(opened(pods("same", 4, SMALL), nodes=[starting("n1")])) == {"n1": []}


def test_small_pods_find_a_place_by_themselves():
    tiny = shape(cpu=100)
    found = guests(opened(pods("large", 1, LARGE), pods("tiny", 9, tiny), nodes=[starting("n1")]))
    assert found == {"n1": ["default/large-0"]}


def test_a_nomination_to_a_node_that_is_gone_may_be_replaced_and_no_other():
    gone = replace(pods("gone", 1, SMALL), nominated="vanished")
    full = replace(pods("full", 1, LARGE), nominated="n2")
    two = starting("n2", requested={"cpu": 4000, "pods": 1})
    (guest,) = next(each.guests for each in opened(gone, full, nodes=[starting("n1"), two]) if each.node == "n1")
    assert (str(guest.pod), guest.instead_of) == ("default/gone-0", "vanished")
