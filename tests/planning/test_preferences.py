"""Preferences choose between what costs the same, and never cost money or leave a pod unserved."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.model import FailureMemory, Ledger, PodTerm, Preferences, Priority
from shared.model import PodSelector as Selector
from shared.planning.plan import plan
from shared.reading.pods import shape_of
from shared.wire.snapshot_codec import decode, encode
from tests.builders import NOW, bound, config, idle, needs, node, pods, pool, shape, snapshot

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
ZONES = [pool(f"zone-{n}", zones=(str(n),)) for n in (1, 2, 3)]
FAST = needs(("disk", "In", ("fast",)))
SPREAD = Preferences(spread=(ZONE,))
APART = Preferences(apart=((10, ZONE),))
TOGETHER = Preferences(near=((10, ZONE),))


def liking(term, cpu=2000, weight=10, **more):
    return shape(cpu=cpu, preferred=Preferences(nodes=((weight, term),)), **more)


def planned(*pending, pools, nodes=(), ledger=None):
    return plan(snapshot(*pending, nodes=nodes), config(*pools), ledger or Ledger(), NOW)


def added(made):
    return {delta.pool: delta.add for delta in made.deltas}


def targets(placements):
    return {each.target: len(each.pods) for each in placements}


def two(price=0.2, **more):
    return [pool("slow"), pool("fast", labels={"disk": "fast"}, price=price, **more)]


def test_of_two_pools_of_one_price_the_preferred_one_is_bought_from():
    assert added(planned(pods("a", 4, liking(FAST)), pools=two())) == {"fast": 2}
    assert added(planned(pods("a", 4, liking(FAST)), pools=two()[::-1])) == {"fast": 2}


def test_a_preference_is_worth_no_money():
    assert added(planned(pods("a", 4, liking(FAST)), pools=two(price=0.200001))) == {"slow": 2}


def test_a_spot_pool_of_the_same_price_is_no_equal():
    assert added(planned(pods("a", 2, liking(FAST)), pools=two(priority=Priority.SPOT))) == {"slow": 1}


def test_a_preferred_pool_that_is_full_leaves_nobody_out():
    made = planned(pods("a", 4, liking(FAST)), pools=two(maximum=1))
    assert added(made) == {"slow": 1, "fast": 1}


def test_a_preferred_pool_that_azure_refuses_is_not_bought_from():
    refused = FailureMemory("Standard_fast", "", Priority.REGULAR, "AllocationFailed", NOW.replace(hour=23))
    assert added(planned(pods("a", 2, liking(FAST)), pools=two(), ledger=Ledger(failures=(refused,)))) == {"slow": 1}


def test_a_preferred_pool_that_does_not_hold_the_others_on_the_node_is_no_alternative():
    smaller = two(memory=1)
    assert added(planned(pods("a", 1, liking(FAST, memory=2)), pools=smaller)) == {"slow": 1}


def test_the_heavier_preference_wins():
    either = Preferences(nodes=((10, FAST), (20, needs(("disk", "DoesNotExist", ())))))
    assert added(planned(pods("a", 2, shape(cpu=2000, preferred=either)), pools=two())) == {"slow": 1}


def test_a_fallback_stays_in_the_order_that_its_pool_names():
    pools = [pool("first", maximum=0, price=0.1, fallback=("slow", "fast")), *two()]
    assert added(planned(pods("a", 2, liking(FAST)), pools=pools)) == {"slow": 1}


@pytest.mark.parametrize("wish", [SPREAD, APART])
def test_nodes_are_spread_evenly_over_zones_of_one_price(wish):
    made = planned(pods("a", 12, shape(cpu=2000, preferred=wish)), pools=ZONES)
    assert added(made) == {"zone-1": 2, "zone-2": 2, "zone-3": 2}


def test_who_wants_to_be_together_gets_one_zone():
    there = node("n1", ZONES[1], [bound("a-old", 2, shape(cpu=2000, preferred=TOGETHER))])
    there = replace(there, labels={**there.labels, ZONE: "westeurope-2"})
    made = planned(pods("a", 4, shape(cpu=2000, preferred=TOGETHER)), pools=ZONES, nodes=[there])
    assert added(made) == {"zone-2": 2}


def test_pods_that_run_already_count_in_the_spread():
    of = shape(cpu=2000, preferred=SPREAD)
    full = [node(f"n{n}", ZONES[0], [bound(f"old-{n}", 2, of)]) for n in range(2)]
    there = [replace(each, labels={**each.labels, ZONE: "westeurope-1"}) for each in full]
    assert added(planned(pods("a", 8, of), pools=ZONES, nodes=there)) == {"zone-2": 2, "zone-3": 2}


def test_on_nodes_that_are_there_a_pod_goes_where_it_would_rather_be():
    labels = {"disk": "fast"}
    nodes = [
        node("a-fuller", holds=[bound("x", 2, shape(cpu=500))]),
        node("b", pool(labels=labels), [bound("y", 1, shape(cpu=500))]),
    ]
    assert targets(planned(pods("a", 1, liking(FAST)), pools=[pool()], nodes=nodes).fits_existing) == {"b": 1}
    assert targets(planned(pods("a", 1, shape(cpu=2000)), pools=[pool()], nodes=nodes).fits_existing) == {"a-fuller": 1}


def test_replicas_that_want_different_hosts_get_them_where_there_is_room():
    nodes = [node(f"n{n}", holds=[bound(f"x{n}", 1, shape(cpu=500))]) for n in range(3)]
    of = shape(cpu=500, preferred=Preferences(apart=((1, HOST),)))
    assert targets(planned(pods("a", 3, of), pools=[pool()], nodes=nodes).fits_existing) == {"n0": 1, "n1": 1, "n2": 1}


def test_a_node_that_is_idle_is_not_woken_by_a_preference():
    busy = node("busy", holds=[bound("x", 2, shape(cpu=500))])
    going = idle("idle", pool(labels={"disk": "fast"}), [bound("y", 1, shape(cpu=500))])
    made = planned(pods("a", 1, liking(FAST)), pools=[pool()], nodes=[busy, going])
    assert targets(made.fits_existing) == {"busy": 1}


def test_rules_come_before_preferences():
    term = PodTerm(Selector(("default",), ()), ZONE)
    strict = shape(cpu=2000, preferred=SPREAD, namespace="default", near=(term,))
    made = planned(pods("a", 8, strict), pools=ZONES)
    assert sum(added(made).values()) == 4
    assert len(added(made)) == 1


WISHES = st.builds(
    Preferences,
    nodes=st.sampled_from([(), ((10, FAST),), ((3, needs(("disk", "DoesNotExist", ()))), (1, FAST))]),
    near=st.sampled_from([(), ((5, ZONE),)]),
    apart=st.sampled_from([(), ((5, ZONE), (1, HOST))]),
    spread=st.sampled_from([(), (ZONE,), (HOST, ZONE)]),
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 7), st.sampled_from([300, 700, 1100, 2300]), WISHES), min_size=1, max_size=4),
    st.integers(0, 3),
    st.integers(1, 4),
)
def test_with_and_without_preferences_the_same_pods_are_served_at_the_same_price(classes, there, maximum):
    pools = [
        *(pool(f"zone-{n}", zones=(str(n),), maximum=maximum) for n in (1, 2)),
        pool("fast", labels={"disk": "fast"}, maximum=maximum),
        pool("dear", cpu=16000, price=0.7, maximum=maximum),
    ]
    nodes = [node(f"n{n}", pools[n % 3], [bound(f"x{n}", n + 1, shape(cpu=300))]) for n in range(there)]
    wishing = [
        pods(f"c{n}", count, shape(cpu=cpu, priority=n, preferred=wish)) for n, (count, cpu, wish) in enumerate(classes)
    ]
    indifferent = [replace(each, shape=replace(each.shape, preferred=None)) for each in wishing]
    made, plain = planned(*wishing, pools=pools, nodes=nodes), planned(*indifferent, pools=pools, nodes=nodes)
    assert made.cost_per_hour == plain.cost_per_hour
    assert sum(added(made).values()) == sum(added(plain).values())
    assert [set(each.pods) for each in made.unserved] == [set(each.pods) for each in plain.unserved]
    assert all(number <= maximum for number in added(made).values())
    of = {ref: each.shape for each in wishing for ref in each.pods}
    free = {each.name: each.allocatable["cpu"] - each.requested.get("cpu", 0) for each in nodes}
    for placed in made.fits_existing:
        assert sum(dict(of[ref].requests)["cpu"] for ref in placed.pods) <= free[placed.target]
    sizes = {each.name: each.allocatable["cpu"] for each in pools}
    for delta in made.deltas:
        for new in delta.nodes:
            assert sum(dict(of[ref].requests)["cpu"] for ref in new.pods) <= sizes[delta.pool]


def manifest(**spec):
    return {
        "metadata": {"name": "web-1", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"containers": [], **spec},
    }


def soft(selector, **more):
    return {"labelSelector": {"matchLabels": selector}, "topologyKey": ZONE, **more}


def test_preferences_are_read_where_they_are_about_the_pods_own_kind():
    own, other = {"app": "web"}, {"app": "database"}
    terms = [{"weight": 7, "podAffinityTerm": soft(own)}, {"weight": 9, "podAffinityTerm": soft(other)}]
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    affinity = {
        "nodeAffinity": {
            preferred: [
                {
                    "weight": 3,
                    "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["fast"]}]},
                },
                {"weight": 5, "preference": {}},
            ]
        },
        "podAntiAffinity": {preferred: terms},
        "podAffinity": {preferred: terms[1:]},
    }
    constraints = [
        soft(own, maxSkew=1, whenUnsatisfiable="ScheduleAnyway"),
        soft(other, maxSkew=1, whenUnsatisfiable="ScheduleAnyway"),
    ]
    found = shape_of(manifest(affinity=affinity, topologySpreadConstraints=constraints)).preferred
    assert found == Preferences(nodes=((3, FAST),), apart=((7, ZONE),), spread=(ZONE,))


def test_a_pod_that_prefers_nothing_has_no_preferences():
    hard = soft({"app": "web"}, maxSkew=1, whenUnsatisfiable="DoNotSchedule")
    assert shape_of(manifest()).preferred is None
    assert shape_of(manifest(topologySpreadConstraints=[hard])).preferred is None


@given(WISHES)
def test_a_snapshot_carries_preferences(wish):
    told = snapshot(pods("a", 2, shape(cpu=1, preferred=wish)), pods("b", 1, shape(cpu=1)))
    assert decode(encode(told)) == told
