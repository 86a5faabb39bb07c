"""A node that we cordoned to let it go is called back before another one is bought."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.model import Ledger, Taint, Upcoming
from shared.names import CORDONED_BEFORE_ANNOTATION, RETIRE_OPERATION_ANNOTATION, RETIRING_TAINT
from shared.planning.plan import plan
from tests.builders import NOW, bound, config, idle, node, pods, pool, shape, snapshot

SMALL = shape(cpu=1000)
OURS = {RETIRE_OPERATION_ANNOTATION: "op-1"}


def going(name="n1", holds=(), **more):
    """A node with our cordon on it."""
    fields = {
        "unschedulable": True,
        "annotations": OURS,
        "taints": (
            Taint(RETIRING_TAINT, "op-1", "NoSchedule"),
            Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"),
        ),
    }
    return idle(name, holds=holds, **(fields | more))


def draining(*names, **more):
    return Ledger(retiring=frozenset(names), recallable=frozenset(names), **more)


def planned(*pending, nodes, ledger, pools=None):
    return plan(snapshot(*pending, nodes=nodes), config(*(pools or [pool()])), ledger, NOW)


def targets(placements):
    return {each.target: len(each.pods) for each in placements}


def test_a_node_on_its_way_out_is_called_back_instead_of_buying_one():
    made = planned(pods("a", 3, SMALL), nodes=[going()], ledger=draining("n1"))
    assert targets(made.reuse) == {"n1": 3}
    assert made.deltas == ()
    assert made.fits_existing == ()
    assert made.kept == {"n1": "pending pods are planned onto it"}


def test_what_is_still_on_it_keeps_its_room():
    full = going(holds=[bound("x", 3, SMALL)])
    made = planned(pods("a", 3, SMALL), nodes=[full], ledger=draining("n1"))
    assert targets(made.reuse) == {}
    assert [delta.add for delta in made.deltas] == [1]
    some = planned(pods("a", 5, SMALL), nodes=[full], ledger=draining("n1"))
    assert (targets(some.reuse), [delta.add for delta in some.deltas]) == ({"n1": 1}, [1])


def test_room_that_is_there_or_coming_goes_first():
    there = planned(pods("a", 3, SMALL), nodes=[going(), node("n2")], ledger=draining("n1"))
    assert (targets(there.fits_existing), there.reuse) == ({"n2": 3}, ())
    soon = (Upcoming("general", 1, NOW + timedelta(minutes=5)),)
    coming = planned(pods("a", 3, SMALL), nodes=[going()], ledger=draining("n1", upcoming=soon))
    assert (targets(coming.fits_upcoming), coming.reuse) == ({"general": 3}, ())


def test_no_more_nodes_are_called_back_than_are_needed():
    nodes = [going(f"n{n}") for n in range(4)]
    made = planned(pods("a", 6, SMALL), nodes=nodes, ledger=draining("n0", "n1", "n2", "n3"))
    assert sum(targets(made.reuse).values()) == 6
    assert len(made.reuse) == 2


def test_a_pool_that_can_grow_no_more_is_helped_too():
    made = planned(pods("a", 3, SMALL), nodes=[going()], ledger=draining("n1"), pools=[pool(maximum=1)])
    assert targets(made.reuse) == {"n1": 3}
    assert made.unserved == ()


@pytest.mark.parametrize(
    "whose",
    [
        {"annotations": {}},
        {"annotations": {**OURS, CORDONED_BEFORE_ANNOTATION: "true"}},
        {"evicting_at": NOW + timedelta(seconds=30)},
        {"ready": False},
        {"pool": "gone-from-the-file"},
    ],
)
def test_a_node_that_others_want_gone_is_not_called_back(whose):
    made = planned(pods("a", 3, SMALL), nodes=[going(**whose)], ledger=draining("n1"))
    assert made.reuse == ()
    assert [delta.add for delta in made.deltas] == [1]


def test_a_node_past_the_point_of_no_return_is_bought_for():
    gone_too_far = Ledger(retiring=frozenset({"n1"}), deleting=frozenset({"n1"}))
    made = planned(pods("a", 3, SMALL), nodes=[going()], ledger=gone_too_far)
    assert made.reuse == ()
    assert [delta.add for delta in made.deltas] == [1]


def test_a_node_that_was_called_back_is_room_though_an_older_snapshot_shows_it_cordoned():
    made = planned(pods("a", 3, SMALL), nodes=[going()], ledger=Ledger(recalled=frozenset({"n1"})))
    assert targets(made.fits_existing) == {"n1": 3}
    administrators = replace(going(), annotations={})
    assert planned(pods("a", 3, SMALL), nodes=[administrators], ledger=Ledger(recalled=frozenset({"n1"}))).deltas


def test_a_saga_that_has_not_cordoned_its_node_yet_can_be_told_to_stop():
    made = planned(pods("a", 3, SMALL), nodes=[idle("n1")], ledger=draining("n1"))
    assert targets(made.reuse) == {"n1": 3}


def test_a_pod_that_must_not_go_there_does_not_call_it_back():
    elsewhere = shape(cpu=1000, node_selector=(("disk", "fast"),))
    pools = [pool(), pool("fast", labels={"disk": "fast"})]
    made = planned(pods("a", 1, elsewhere), nodes=[going()], ledger=draining("n1"), pools=pools)
    assert (made.reuse, [delta.pool for delta in made.deltas]) == ((), ["fast"])


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 6), st.sampled_from([300, 900, 1700, 2600])), min_size=1, max_size=4),
    st.lists(st.integers(0, 3), max_size=4),
    st.sets(st.integers(0, 3)),
    st.integers(0, 6),
)
def test_calling_back_serves_no_fewer_pods_at_no_higher_price(classes, loads, too_far, maximum):
    pending = [pods(f"c{n}", number, shape(cpu=cpu, priority=n)) for n, (number, cpu) in enumerate(classes)]
    nodes = [going(f"n{n}", [bound(f"x{n}", load, SMALL)] if load else []) for n, load in enumerate(loads)]
    names = frozenset(each.name for each in nodes)
    ledger = Ledger(retiring=names, recallable=names - {f"n{n}" for n in too_far})
    pools = [pool(maximum=maximum), pool("dear", cpu=8000, price=0.5, maximum=2)]
    made = planned(*pending, nodes=nodes, ledger=ledger, pools=pools)
    without = planned(*pending, nodes=nodes, ledger=replace(ledger, recallable=frozenset()), pools=pools)

    def left(decided):
        return sum(len(group.pods) for group in decided.unserved)

    assert (left(made), made.cost_per_hour) <= (left(without), without.cost_per_hour)
    assert set(targets(made.reuse)) <= ledger.recallable
    of = {ref: each.shape for each in pending for ref in each.pods}
    free = {each.name: each.allocatable["cpu"] - each.requested.get("cpu", 0) for each in nodes}
    for placed in made.reuse:
        assert sum(dict(of[ref].requests)["cpu"] for ref in placed.pods) <= free[placed.target]
    named = [ref for each in (*made.reuse, *made.fits_existing, *made.unserved) for ref in each.pods]
    named += [ref for delta in made.deltas for new in delta.nodes for ref in new.pods]
    assert sorted(map(str, named)) == sorted(map(str, of))
