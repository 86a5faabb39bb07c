"""Pools of single VMs over several zones: each VM is made where its pods need it."""

from dataclasses import replace

import pytest

from shared.model import FailureMemory, PodSelector, PoolKind, Requirement, Spread, Upcoming
from shared.planning.plan import plan
from tests.builders import NOTHING, NOW, Ledger, config, node, pods, pool, shape, snapshot, timedelta

ZONE = "topology.kubernetes.io/zone"
LATER = NOW + timedelta(minutes=5)
VMS = pool("vms", kind=PoolKind.VM, zones=("1", "2", "3"))
ANYWHERE = shape(cpu=3000)


def in_zone(number, **more):
    return shape(cpu=3000, node_selector=((ZONE, f"westeurope-{number}"),), **more)


def there(name, number, of=VMS, **more):
    return node(name, of, labels={ZONE: f"westeurope-{number}"}, **more)


def planned(*pending, nodes=(), pools=(VMS,), ledger=NOTHING, **more):
    return plan(snapshot(*pending, nodes=nodes), config(*pools, **more), ledger, NOW)


def zones(made):
    return {delta.pool: [each.zone for each in delta.nodes] for delta in made.deltas}


def test_pods_that_need_a_zone_are_bought_for_there():
    made = planned(pods("a", 1, in_zone(2)), pods("b", 2, in_zone(3)))
    assert {name: sorted(found) for name, found in zones(made).items()} == {"vms": ["2", "3", "3"]}
    assert made.unserved == ()


def test_pods_that_need_none_leave_the_zone_open():
    assert zones(planned(pods("a", 2, ANYWHERE))) == {"vms": ["", ""]}


def test_a_scale_set_over_several_zones_still_leaves_the_choice_to_azure():
    made = planned(pods("a", 1, in_zone(2)), pools=[replace(VMS, kind=PoolKind.VMSS)])
    assert made.unserved[0].reasons == {"vms": "ZoneNotChoosable: one pool per zone serves it"}


def test_the_maximum_holds_for_all_zones_together():
    small = replace(VMS, maximum=3)
    made = planned(pods("a", 2, in_zone(1)), pods("b", 2, in_zone(2)), nodes=[there("n", 3, small)], pools=[small])
    assert sum(map(len, zones(made).values())) == 2
    assert made.unserved[0].reasons == {"vms": "PoolFull: 3 of 3 nodes"}


def test_who_is_coming_to_a_zone_serves_who_needs_that_one():
    coming = Ledger(upcoming=(Upcoming("vms", 1, LATER, "2"),))
    made = planned(pods("a", 1, in_zone(2)), ledger=coming)
    assert (made.deltas, [placed.target for placed in made.fits_upcoming]) == ((), ["vms"])
    assert zones(planned(pods("a", 1, in_zone(3)), ledger=coming)) == {"vms": ["3"]}


def test_a_zone_that_azure_refused_is_left_out_and_the_others_serve_first():
    refused = FailureMemory("Standard_vms", "1", None, "ZonalAllocationFailed", LATER)
    pools = [replace(VMS, fallback=("dear",)), pool("dear", price=0.9)]
    made = planned(pods("a", 1, ANYWHERE), pools=pools, ledger=Ledger(failures=(refused,)))
    assert [delta.pool for delta in made.deltas] == ["vms"]
    needs_it = planned(pods("a", 1, in_zone(1)), ledger=Ledger(failures=(refused,)))
    assert needs_it.unserved[0].reasons["vms"].startswith("RecentFailure: ZonalAllocationFailed")


def test_spread_pods_get_nodes_in_each_zone():
    selector = PodSelector(("default",), (Requirement("app", "In", ("a",)),))
    spread = shape(cpu=3000, spread=(Spread(selector, ZONE, 1),), labels=(("app", "a"),), namespace="default")
    made = planned(pods("a", 3, spread))
    assert sorted(zones(made)["vms"]) == ["1", "2", "3"]


def test_an_idle_node_is_told_with_the_name_of_its_pool():
    empty = there("n1", 2, idle_since=NOW - timedelta(hours=1))
    (going,) = planned(nodes=[empty]).retirements
    assert (going.node, going.pool) == ("n1", "vms")


@pytest.mark.parametrize(("minimum", "gone"), [(1, 1), (2, 0)])
def test_the_minimum_is_kept_where_the_nodes_are(minimum, gone):
    some = replace(VMS, minimum=minimum)
    nodes = [there(f"n{number}", number, some, idle_since=NOW - timedelta(hours=1)) for number in (2, 3)]
    made = planned(nodes=nodes, pools=[some])
    assert (len(made.retirements), dict(made.top_up)) == (gone, {})


def test_a_minimum_that_is_not_reached_is_filled_up():
    assert dict(planned(pools=[replace(VMS, minimum=2)]).top_up) == {"vms": 2}


def test_who_is_coming_to_a_zone_counts_for_the_minimum_of_them_all():
    """Even where Azure has none left in the zones that would have been chosen."""
    coming = Ledger(upcoming=(Upcoming("vms", 1, LATER, "3"),))
    assert dict(planned(pools=[replace(VMS, minimum=2)], ledger=coming).top_up) == {"vms": 1}
    assert dict(planned(pools=[replace(VMS, minimum=1)], ledger=coming).top_up) == {}
