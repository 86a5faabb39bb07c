"""Whatever comes in, a plan or a reason comes out: never a trace, never a time-out."""

from datetime import timedelta

import pytest

from shared.model import HostPort
from shared.planning.plan import plan
from tests.builders import (
    GIB,
    NOTHING,
    NOW,
    Ledger,
    bound,
    config,
    idle,
    needs,
    node,
    pairs,
    pods,
    pool,
    shape,
    snapshot,
)
from tests.planning.checker import problems

HUGE = 2**63 - 1


def judged(snapshot_, config_=None, ledger=NOTHING):
    config_ = config_ or config()
    made = plan(snapshot_, config_, ledger, NOW)
    assert problems(snapshot_, config_, ledger, made) == []
    return made


@pytest.mark.parametrize("resource", ["cpu", "memory", "nvidia.com/gpu", "hugepages-2Mi", "example.com/nothing"])
def test_a_pod_larger_than_everything_gets_a_reason_everywhere(resource):
    made = judged(
        snapshot(pods("a", 3, shape(extra={resource: HUGE})), nodes=[node("n1")]), config(pool("a"), pool("b"))
    )
    assert set(made.unserved[0].reasons) == {"a", "b"}
    assert all(
        reason.startswith("NodeResourcesFit: needs") and f" {resource}, a new node has " in reason
        for reason in made.unserved[0].reasons.values()
    )


def test_huge_nodes_and_huge_pods_do_not_overflow():
    vast = pool(cpu=HUGE, memory=HUGE)
    made = plan(
        snapshot(pods("a", 5, shape(cpu=HUGE // 2)), pods("b", 5, shape(cpu=2**52))), config(vast), NOTHING, NOW
    )
    assert sum(each.add for each in made.deltas) == 5
    assert made.unserved[0].reasons["general"].startswith("NodeResourcesFit: amounts of 2**52")


def test_pods_that_ask_for_nothing_are_packed_by_places():
    made = judged(snapshot(pods("a", 250, shape())))
    assert [delta.add for delta in made.deltas] == [3]


def test_a_node_that_is_overcommitted_takes_nobody_who_asks_for_that():
    over = node("n1", requested={"cpu": HUGE, "memory": 0, "pods": 3})
    made = judged(snapshot(pods("a", 1, shape(cpu=1)), pods("b", 1, shape(memory=GIB)), nodes=[over]))
    assert [str(ref) for each in made.fits_existing for ref in each.pods] == ["default/b-0"]


def test_a_node_without_any_resources_takes_nobody():
    made = judged(snapshot(pods("a", 1, shape()), nodes=[node("n1", allocatable={})]))
    assert made.fits_existing == ()


def test_a_selector_that_contradicts_the_affinity_is_served_nowhere():
    torn = shape(node_selector=pairs(disk="ssd"), affinity=(needs(("disk", "NotIn", ("ssd",))),))
    made = judged(snapshot(pods("a", 1, torn)), config(pool("ssd", labels={"disk": "ssd"}), pool("hdd")))
    assert all(reason.startswith("NodeAffinity: ") for reason in made.unserved[0].reasons.values())


def test_ten_thousand_distinct_labels_are_no_trouble():
    pending = [pods(f"p{n}", 1, shape(cpu=100, node_selector=((f"key-{n}", "x"),))) for n in range(10_000)]
    made = plan(
        snapshot(*pending, nodes=[node(f"n{n}") for n in range(100)]), config(pool("a"), pool("b")), NOTHING, NOW
    )
    assert sum(len(each.pods) for each in made.unserved) == 10_000


def test_pods_that_each_name_their_own_of_many_nodes_find_it():
    nodes = [node(f"n{n}") for n in range(1500)]
    pending = [
        pods(f"p{n}", 1, shape(cpu=100, affinity=(needs(fields=[("metadata.name", "In", (f"n{n}",))]),)))
        for n in range(1500)
    ]
    made = plan(snapshot(*pending, nodes=nodes), config(), NOTHING, NOW)
    assert {each.target: [ref.name for ref in each.pods] for each in made.fits_existing} == {
        f"n{n}": [f"p{n}-0"] for n in range(1500)
    }


def test_very_many_host_ports_are_no_trouble():
    pending = [pods(f"p{n}", 2, shape(cpu=1, host_ports=(HostPort("", "TCP", 1000 + n),))) for n in range(500)]
    made = plan(snapshot(*pending), config(pool(shape={"cpu": 4000, "pods": 1000})), NOTHING, NOW)
    assert [delta.add for delta in made.deltas] == [2]


def test_very_many_priorities_are_no_trouble():
    pending = [pods(f"p{n}", 1, shape(cpu=2000, priority=n)) for n in range(300)]
    made = judged(snapshot(*pending), config(pool(maximum=2)))
    assert {ref.name for delta in made.deltas for each in delta.nodes for ref in each.pods} == {
        f"p{n}-0" for n in range(296, 300)
    }


def test_a_pool_that_its_reservations_eat_up_serves_nobody():
    made = judged(snapshot(pods("a", 1, shape(cpu=1))), config(pool(cpu=100, reserved={"cpu": 200})))
    assert made.unserved[0].reasons == {"general": "NodeResourcesFit: needs 1m cpu, a new node has 0"}


def test_a_node_from_the_future_is_just_young():
    made = judged(snapshot(pods("a", 1, shape()), nodes=[node("n1", created_at=NOW + timedelta(days=1))]))
    assert len(made.fits_existing) == 1


def test_five_hundred_idle_nodes_that_cannot_go_are_judged_at_once():
    full = shape(cpu=2500)
    nodes = [idle(f"n{n}", holds=[bound(f"a{n}", 1, full)]) for n in range(500)]
    made = plan(snapshot(nodes=nodes), config(), Ledger(), NOW)
    assert made.retirements == ()
    assert len(made.kept) == 500
