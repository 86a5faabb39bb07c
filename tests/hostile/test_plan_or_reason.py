"""Whatever pods and pools ask, each pod ends on a node or with a reason for every pool, and the work stays bounded.

Nothing here looks at a clock: where the work is not bounded, a case outlasts the suite's time-out by far.
"""

import math
from collections import Counter
from dataclasses import replace

import pytest

from shared.model import HostPort, PodSelector, PodTerm, Requirement, Spread, Taint, Toleration
from shared.packing.rule_load import TOO_MANY_RULES
from shared.planning.explaining import explain
from shared.planning.plan import plan
from tests.builders import GIB, NOTHING, NOW, bound, config, needs, node, pairs, pods, pool, shape, snapshot

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
HUGE = 2**63 - 1


def planned(pending, pools=(), nodes=()):
    """The plan, after each pod was found in it once, each reason with its pool, and its explanation made."""
    seen, settings = snapshot(*pending, nodes=nodes), config(*pools)
    made = plan(seen, settings, NOTHING, NOW)
    places = [each.pods for each in (*made.fits_existing, *made.fits_upcoming, *made.unserved)]
    places += [each.pods for delta in made.deltas for each in delta.nodes]
    assert all(places)
    assert Counter(ref for refs in places for ref in refs) == Counter(ref for each in pending for ref in each.pods)
    names = {each.name for each in settings.pools}
    for each in made.unserved:
        assert set(each.reasons) == names
        assert all(each.reasons.values())
    assert math.isfinite(made.cost_per_hour)
    explain(made, seen, settings, NOTHING, NOW)
    return made


def bought(made):
    return sum(delta.add for delta in made.deltas)


def left(made):
    return sum(len(each.pods) for each in made.unserved)


def labelled(number, cpu=100, **rules):
    """A class of an app of its own."""
    return shape(cpu=cpu, namespace="default", labels=pairs(all="yes", app=f"a{number}"), **rules)


def those(**labels):
    return PodSelector(("default",), tuple(Requirement(key, "In", (value,)) for key, value in labels.items()))


def all_but(number):
    return PodSelector(("default",), (Requirement("app", "NotIn", (f"a{number}",)),))


EVERYONE = PodSelector(("default",), ())
ZONES = [pool(f"z{zone}", zones=(str(zone),), maximum=9000) for zone in (1, 2, 3)]


@pytest.mark.parametrize("price", [None, math.nan, math.inf, -math.inf, -1.0, 0.0, 1e-300, 1e300])
def test_a_price_that_is_none_or_absurd_stops_nothing(price):
    made = planned([pods("a", 9, shape(cpu=1000))], [pool("odd", price=price), pool("plain", maximum=1)])
    assert left(made) == 0
    assert bought(made) == 3


@pytest.mark.parametrize("amount", [0, -5, 1, 2**52, 2**53, HUGE])
@pytest.mark.parametrize("resource", ["cpu", "memory", "example.com/thing", "pods", ""])
def test_no_quantity_stops_the_plan(resource, amount):
    odd = shape(extra={resource: amount})
    planned([pods("odd", 3, odd), pods("plain", 3, shape(cpu=1000))], [pool(), pool("vast", cpu=HUGE, memory=HUGE)])


def test_pools_of_nothing_serve_nobody_and_say_so():
    nothing = pool("nothing", shape={"cpu": 0, "memory": 0, "pods": 0})
    made = planned([pods("a", 3, shape(cpu=1))], [nothing, pool("closed", maximum=0)])
    assert made.unserved[0].reasons == {
        "nothing": "NodeResourcesFit: needs 1m cpu, a new node has 0",
        "closed": "PoolFull: 0 of 0 nodes",
    }


def test_without_any_pool_pods_are_left_without_a_reason_to_give():
    made = plan(snapshot(pods("a", 2, shape(cpu=1))), replace(config(), pools=()), NOTHING, NOW)
    assert left(made) == 2


def test_a_hundred_thousand_pods_of_one_class_are_as_quick_as_one():
    made = planned([pods("a", 100_000, shape(cpu=100))], [pool(maximum=2000)])
    assert (bought(made), left(made)) == (2000, 20_000)


def test_a_thousand_pools_are_weighed_together():
    pools = [pool(f"p{n}", cpu=4000 + n, price=0.2 + n / 1000) for n in range(1000)]
    assert left(planned([pods(f"c{n}", 5, shape(cpu=100 + 37 * n)) for n in range(20)], pools)) == 0


def test_fallbacks_in_a_circle_end():
    pools = [
        pool("a", price=0.1, maximum=0, fallback=("b",)),
        pool("b", price=0.2, maximum=0, fallback=("c", "absent")),
        pool("c", price=0.3, maximum=0, fallback=("a", "c")),
        pool("d", price=0.4),
    ]
    made = planned([pods("x", 4, shape(cpu=1000))], pools)
    assert [delta.pool for delta in made.deltas] == ["d"]


def test_ten_thousand_selectors_and_tolerations_of_their_own():
    nodes = [node(f"n{n}", taints=(Taint(f"t{n}", "", "NoSchedule"),)) for n in range(1000)]
    pending = [
        pods(
            f"c{n}",
            1,
            shape(cpu=1, node_selector=((f"k{n}", "v"),), tolerations=(Toleration(f"t{n}", "Exists", "", ""),)),
        )
        for n in range(10_000)
    ]
    assert left(planned(pending, nodes=nodes)) == 10_000


def test_thousands_of_node_affinities_that_each_exclude_a_node_of_their_own():
    nodes = [node(f"n{n}") for n in range(1000)]
    pending = [pods(f"c{n}", 1, shape(cpu=1, affinity=(needs((HOST, "NotIn", (f"n{n}",))),))) for n in range(2000)]
    made = planned(pending, nodes=nodes)
    assert sum(len(each.pods) for each in made.fits_existing) == 2000


def test_selectors_that_contradict_themselves_are_served_nowhere():
    torn = shape(affinity=(needs(("disk", "In", ("a",)), ("disk", "NotIn", ("a",)), ("disk", "DoesNotExist", ())),))
    assert left(planned([pods("a", 3, torn)], [pool(labels={"disk": "a"}), pool("bare")])) == 3


def test_thousands_of_host_ports_on_many_addresses():
    pending = [
        pods(
            f"c{n}",
            2,
            shape(cpu=1, host_ports=(HostPort("", "TCP", 1000 + n % 250), HostPort(f"10.0.0.{n % 99}", "TCP", 9999))),
        )
        for n in range(500)
    ]
    assert left(planned(pending, [pool(shape={"cpu": 4000, "pods": 1000}, maximum=9000)])) == 0


def test_hundreds_of_classes_that_are_apart_from_everybody():
    apart = (PodTerm(EVERYONE, HOST),)
    made = planned([pods(f"c{n}", 1, labelled(n, apart=apart)) for n in range(600)], [pool(maximum=9000)])
    assert (bought(made), left(made)) == (600, 0)


def test_thousands_of_classes_that_are_each_apart_from_all_the_others_wait_in_part():
    pending = [pods(f"c{n}", 1, labelled(n, apart=(PodTerm(all_but(n), HOST),))) for n in range(3000)]
    made = planned(pending, [pool(maximum=9000)])
    assert bought(made) > 100
    assert {reason for each in made.unserved for reason in each.reasons.values()} == {TOO_MANY_RULES}


def test_of_too_many_rules_those_of_high_priority_are_weighed_first():
    pending = [pods(f"c{n}", 1, labelled(n, apart=(PodTerm(all_but(n), HOST),), priority=n)) for n in range(1200)]
    made = planned(pending, [pool(maximum=9000)])
    served = [ref.name for delta in made.deltas for each in delta.nodes for ref in each.pods]
    assert served
    assert {f"c{n}-0" for n in range(1199, 1199 - len(served), -1)} == set(served)


def test_pods_without_rules_are_served_beside_however_many_rules():
    pending = [pods(f"c{n}", 1, labelled(n, apart=(PodTerm(all_but(n), HOST),))) for n in range(1200)]
    made = planned([*pending, pods("plain", 10, shape(cpu=1000))], [pool(maximum=9000)])
    assert not any(ref.name.startswith("plain") for each in made.unserved for ref in each.pods)


def test_spreads_that_overlap_over_one_label():
    for key, pools in ((HOST, [pool(maximum=9000)]), (ZONE, ZONES)):
        pending = [
            pods(
                f"c{n}",
                10,
                labelled(n, spread=(Spread(those(app=f"a{n}"), key, 1), Spread(those(all="yes"), key, 2, 2))),
            )
            for n in range(50)
        ]
        assert left(planned(pending, pools)) < 100  # of 500; who is left waits for others to be bound


def test_a_spread_that_no_cluster_can_keep_is_told_for_each_pool():
    impossible = labelled(1, spread=(Spread(those(app="a1"), ZONE, 1, min_domains=9),))
    made = planned([pods("a", 12, impossible)], ZONES)
    assert left(made) == 9
    assert all(reason.startswith("PodTopologySpread: ") for reason in made.unserved[0].reasons.values())


def test_hundreds_of_topology_keys():
    keys = [f"topology-{n}" for n in range(200)]
    pools = [pool(f"p{n}", labels={key: str(n) for key in keys}, maximum=500) for n in range(3)]
    wide = labelled(0, spread=tuple(Spread(those(app="a0"), key, 1) for key in keys))
    single = [pods(f"c{n}", 5, labelled(n, spread=(Spread(those(app=f"a{n}"), keys[n], 1),))) for n in range(1, 200)]
    assert left(planned([pods("wide", 30, wide), *single], pools)) == 0


def test_a_pod_near_and_apart_from_its_own_kind_gets_one_node_and_a_reason():
    torn = labelled(1, near=(PodTerm(those(app="a1"), HOST),), apart=(PodTerm(those(app="a1"), HOST),))
    made = planned([pods("a", 500, torn)])
    assert (bought(made), left(made)) == (1, 499)
    assert made.unserved[0].reasons["general"].startswith("InterPodAffinity: ")


def test_pods_near_each_other_in_a_circle_or_near_nobody_wait():
    circle = [pods(f"c{n}", 3, labelled(n, near=(PodTerm(those(app=f"a{(n + 1) % 90}"), HOST),))) for n in range(90)]
    nobody = pods("nobody", 5000, labelled(999, near=(PodTerm(those(app="absent"), HOST),)))
    assert left(planned([*circle, nobody])) == 270 + 5000


def test_a_long_chain_of_pods_near_one_another_ends():
    chain = [pods(f"c{n}", 1, labelled(n, near=(PodTerm(those(app=f"a{n + 1}"), HOST),))) for n in range(200)]
    roomy = pool(shape={"cpu": 400_000, "memory": 900 * GIB, "pods": 5000})
    made = planned([*chain, pods("last", 1, labelled(200))], [roomy])
    assert bought(made) == 1


def test_newcomers_that_are_apart_from_thousands_who_run():
    nodes = [
        node(f"n{n}", holds=[bound(f"r{n}-{m}", 1, labelled(5000 + 10 * n + m)) for m in range(10)]) for n in range(200)
    ]
    pending = [pods(f"c{n}", 2, labelled(n, apart=(PodTerm(all_but(n), HOST),))) for n in range(100)]
    assert bought(planned(pending, [pool(maximum=9000)], nodes)) > 50


def test_thousands_of_pods_of_which_no_two_are_alike():
    pending = [pods(f"c{n}", 1, shape(cpu=100 + n % 1900, memory=GIB + 1000 * n)) for n in range(6000)]
    assert left(planned(pending, [pool(maximum=90_000), pool("large", cpu=16_000, price=0.75, maximum=90_000)])) == 0
