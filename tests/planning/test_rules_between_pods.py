"""Affinity, anti-affinity and spread between pods: what is bought for them, and what stays for their sake."""

from shared.model import DaemonShape, PodSelector, PodTerm, Requirement, Spread
from shared.packing.census import WAITS
from shared.planning.plan import plan
from tests.builders import GIB, NOTHING, NOW, bound, config, idle, node, pods, pool, shape, snapshot

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
BOX = {"cpu": 8000, "memory": 32 * GIB, "pods": 110}


def about(*apps):
    return PodSelector(("default",), (Requirement("app", "In", apps),))


def app(name, cpu=1000, **rules):
    return shape(cpu, namespace="default", labels=(("app", name),), **rules)


def apart(name, key=HOST, **more):
    return app(name, apart=(PodTerm(about(name), key),), **more)


def spread(name, key=HOST, skew=1, **more):
    return app(name, spread=(Spread(about(name), key, skew),), **more)


def zonal(zone, **more):
    return pool(f"in-{zone}", labels={ZONE: zone}, **more)


def planned(*pending, nodes=(), pools=(), daemons=()):
    return plan(snapshot(*pending, nodes=nodes, daemons=daemons), config(*pools), NOTHING, NOW)


def added(made):
    return {delta.pool: delta.add for delta in made.deltas}


def sizes(made):
    return sorted(len(each.pods) for delta in made.deltas for each in delta.nodes)


def targets(made):
    return {each.target: len(each.pods) for each in made.fits_existing}


def test_pods_kept_apart_by_host_get_a_node_each():
    assert sizes(planned(pods("a", 3, apart("a")))) == [1, 1, 1]


def test_a_spread_by_host_allows_as_many_to_a_node_as_its_skew():
    assert sizes(planned(pods("a", 6, spread("a", skew=2, cpu=100)))) == [2, 2, 2]


def test_pods_with_and_without_rules_share_nodes():
    made = planned(pods("a", 2, apart("a")), pods("b", 6, shape(1000)))
    assert added(made) == {"general": 2}


def test_many_apps_kept_apart_interleave_on_the_fewest_nodes():
    """Twenty apps of 100 pods, 16 pods to a node: 125 nodes are the least, and enough."""
    kinds = [(spread if n % 2 else apart)(f"app-{n}", cpu=500) for n in range(20)]
    made = planned(*(pods(f"p{n}", 100, each) for n, each in enumerate(kinds)), pools=[pool(shape=BOX, maximum=500)])
    assert added(made) == {"general": 125}


def test_what_runs_somewhere_keeps_newcomers_away_that_its_rules_name():
    loner = app("loner", apart=(PodTerm(about("web"), HOST),))
    made = planned(pods("web", 1, app("web")), nodes=[node("n1", holds=[bound("l", 1, loner)])])
    assert (targets(made), added(made)) == ({}, {"general": 1})


def test_anti_affinity_by_zone_counts_over_all_nodes_of_the_zone():
    there = node("n1", zonal("a"), holds=[bound("x", 1, apart("x", ZONE))])
    made = planned(pods("x", 2, apart("x", ZONE)), nodes=[there], pools=[zonal("a"), zonal("b")])
    assert added(made) == {"in-b": 1}
    reasons = made.unserved[0].reasons
    assert reasons["in-a"] == f"InterPodAffinity: required anti-affinity with a pod in its {ZONE}"


def test_affinity_by_zone_goes_where_the_company_is_though_it_is_dearer():
    there = node("n1", zonal("b"), holds=[bound("db", 4, app("db"))])
    near = app("web", near=(PodTerm(about("db"), ZONE),))
    made = planned(pods("w", 3, near), nodes=[there], pools=[zonal("a", price=0.1), zonal("b", price=0.3)])
    assert added(made) == {"in-b": 1}


def test_company_that_is_nowhere_is_a_reason():
    near = app("web", near=(PodTerm(about("db"), ZONE),))
    made = planned(pods("w", 1, near), pools=[zonal("a")])
    expected = f"InterPodAffinity: no pod that required affinity asks for is in its {ZONE}"
    assert made.unserved[0].reasons == {"in-a": expected}


def test_a_group_that_wants_its_own_company_starts_anywhere_and_stays_together():
    group = app("g", near=(PodTerm(about("g"), ZONE),))
    made = planned(pods("g", 12, group), pools=[zonal("a", price=0.3), zonal("b", price=0.1)])
    assert added(made) == {"in-b": 3}


def test_a_group_on_one_host_gets_a_node_that_holds_all_of_it():
    group = app("g", near=(PodTerm(about("g"), HOST),))
    made = planned(pods("g", 6, group), pools=[pool("small", price=0.1), pool("large", cpu=8000, price=0.5)])
    assert (added(made), sizes(made)) == ({"large": 1}, [6])


def test_a_spread_over_zones_is_bought_evenly():
    made = planned(pods("s", 9, spread("s", ZONE)), pools=[zonal(zone) for zone in "abc"])
    assert added(made) == {"in-a": 1, "in-b": 1, "in-c": 1}
    assert sizes(made) == [3, 3, 3]


def test_a_large_spread_over_zones_is_even_and_packed():
    pools = [zonal(zone, shape=BOX, maximum=500) for zone in "abc"]
    made = planned(pods("s", 3000, spread("s", ZONE)), pools=pools)
    assert added(made) == {"in-a": 125, "in-b": 125, "in-c": 125}


def test_a_spread_fills_the_zone_that_lags_behind():
    there = [node("a1", zonal("a"), holds=[bound("s", 3, spread("s", ZONE))]), node("b1", zonal("b"))]
    made = planned(pods("t", 3, spread("s", ZONE)), nodes=there, pools=[zonal("a"), zonal("b")])
    assert targets(made) == {"b1": 3}


def test_a_spread_over_a_pool_of_several_zones_is_refused_with_the_remedy():
    made = planned(pods("s", 1, spread("s", ZONE)), pools=[pool("anywhere", zones=("1", "2"))])
    assert made.unserved[0].reasons == {"anywhere": "ZoneNotChoosable: one pool per zone serves it"}


def test_a_spread_counts_nodes_that_take_no_pods():
    closed = node("closed", zonal("b"), unschedulable=True)
    made = planned(pods("s", 3, spread("s", ZONE)), nodes=[closed], pools=[zonal("a")])
    assert sum(sizes(made)) == 1
    assert made.unserved[0].reasons["in-a"].startswith(f"PodTopologySpread: its {ZONE} has 1 such pods, the poorest 0")


def test_a_pod_that_is_being_deleted_counts_for_no_spread():
    leaving = app("s", leaving=True)
    made = planned(pods("s", 1, spread("s")), nodes=[node("n1", holds=[bound("old", 1, leaving)]), node("n2")])
    assert sum(targets(made).values()) == 1


def test_daemon_pods_of_a_new_node_count_too():
    agent = DaemonShape("agent", app("agent", cpu=100))
    made = planned(pods("a", 1, app("a", apart=(PodTerm(about("agent"), HOST),))), daemons=[agent])
    assert made.unserved[0].reasons == {"general": f"InterPodAffinity: required anti-affinity with a pod in its {HOST}"}


def test_who_would_upset_the_rules_of_others_waits_for_them_and_is_served_by_the_next_plan():
    """With two zones demanded and one there, the zone holds one pod that counts; any other might come first."""
    choosy = app("s", spread=(Spread(about("s"), ZONE, 1, min_domains=2),), priority=1)
    waiting, only = pods("b", 1, app("s")), zonal("a")
    made = planned(pods("s", 1, choosy), waiting, pools=[only])
    assert made.unserved[0].reasons == {"in-a": WAITS}
    later = planned(waiting, nodes=[node("n1", only, holds=[bound("s", 1, choosy)])], pools=[only])
    assert targets(later) == {"n1": 1}


def test_a_node_goes_only_if_rules_let_its_pods_move():
    lonely = apart("a")
    held = planned(
        nodes=[idle("n1", holds=[bound("a", 1, lonely)]), node("n2", holds=[bound("b", 1, lonely)])],
    )
    assert held.kept == {"n1": "default/a-0: fits no node that stays"}
    free = planned(
        nodes=[idle("n1", holds=[bound("a", 1, lonely)]), node("n2", holds=[bound("b", 1, lonely)]), node("n3")],
    )
    assert [(each.node, each.moves[0].target) for each in free.retirements] == [("n1", "n3")]


def test_pods_planned_onto_a_node_count_when_others_are_to_move_there():
    lonely = apart("a")
    made = planned(
        pods("new", 1, lonely),
        nodes=[idle("n1", holds=[bound("a", 1, lonely)]), node("n2", holds=[bound("x", 1, shape(1000))])],
    )
    assert targets(made) == {"n2": 1}
    assert made.kept == {"n1": "default/a-0: fits no node that stays"}
