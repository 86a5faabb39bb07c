"""A gang is served whole, over whatever pools and nodes it takes, or not at all, and then its pods are told why."""

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.model import Mix, Mode, Movability, PodSelector, PodTerm, Priority, Requirement, Spread, Upcoming
from shared.planning.gangs import MOST_TRIALS
from shared.planning.plan import plan
from tests.builders import NOTHING, NOW, Ledger, bound, config, node, pods, pool, shape
from tests.gangs.builders import gang, members, named, served, snapshot, why

SMALL = pool("small", cpu=4000, maximum=2, price=0.1)
BIG = pool("big", cpu=16000, maximum=1, price=0.9)


def made(cluster, *pools, ledger=NOTHING):
    return plan(cluster, config(*(pools or (SMALL, BIG))), ledger, NOW)


def test_roles_of_one_gang_are_bought_over_several_pools_at_once():
    workers, servers = members("job", 8, 2000, "worker"), members("job", 2, 1000, "ps")
    decided = made(snapshot(workers, servers, gangs=[gang("job", 10, ps=2, worker=8)]))
    assert {delta.pool for delta in decided.deltas} == {"small", "big"}
    assert len(served(decided)) == 10
    assert decided.unserved == ()


def test_a_gang_that_does_not_fit_whole_buys_nothing():
    decided = made(snapshot(members("job", 13, 2000), gangs=[gang("job", 13)]))
    assert decided.deltas == ()
    assert decided.cost_per_hour == 0
    assert why(decided, "job2000-0") == {
        "small": "Gang: 12 of 13 pods of default/job fit; PoolFull: 2 of 2 nodes",
        "big": "Gang: 12 of 13 pods of default/job fit; PoolFull: 1 of 1 nodes",
    }


def test_every_pod_of_an_unserved_gang_is_told_of_the_role_that_fails_and_its_first_failing_predicate():
    cluster = snapshot(
        members("job", 2, 1000, "ps"), members("job", 4, 20000, "worker"), gangs=[gang("job", 6, ps=2, worker=4)]
    )
    decided = made(cluster)
    assert served(decided) == set()
    for name in ("jobps1000-1", "jobworker20000-3"):
        told = why(decided, name)
        assert set(told) == {"small", "big"}
        assert told["big"].startswith("Gang: 0 of 4 worker pods of default/job fit; NodeResourcesFit: ")
        assert "20" in told["big"]
        assert "16" in told["big"]


def test_a_gang_uses_nodes_that_are_there_nodes_that_are_coming_and_new_ones_together():
    there, coming = node("n1", SMALL), Ledger(upcoming=(Upcoming("small", 1, NOW + timedelta(minutes=5)),))
    cluster = snapshot(members("job", 7, 3000), gangs=[gang("job", 7)], nodes=[there])
    decided = made(cluster, replace(SMALL, maximum=3), BIG, ledger=coming)
    assert len(served(decided)) == 7
    assert [each.target for each in decided.fits_existing] == ["n1"]
    assert [each.target for each in decided.fits_upcoming] == ["small"]
    assert decided.deltas


def test_an_unserved_gang_takes_no_room_on_nodes_that_are_there():
    cluster = snapshot(members("job", 30, 3000), pods("x", 1, shape(3000)), gangs=[gang("job", 30)], nodes=[node("n1")])
    decided = made(cluster, pool(maximum=1))
    assert served(decided) == {"x-0"}


def test_members_that_run_count():
    running = node("n1", SMALL, [bound("r", 3, shape(1000, gang=named("job")))])
    decided = made(snapshot(members("job", 5), gangs=[gang("job", 8)], nodes=[running]))
    assert len(served(decided)) == 5
    short = made(snapshot(members("job", 5), gangs=[gang("job", 9)], nodes=[running]))
    assert served(short) == set()
    assert why(short, "job1000-0")["big"] == "Gang: 8 of 9 pods of default/job exist"


def test_a_gang_whose_pods_are_not_all_there_yet_waits():
    decided = made(snapshot(members("job", 3), gangs=[gang("job", 8)]))
    assert served(decided) == set()
    assert set(why(decided, "job1000-2").values()) == {"Gang: 3 of 8 pods of default/job exist"}


def test_a_role_whose_pods_are_not_all_there_yet_is_named():
    cluster = snapshot(members("job", 7, 1000, "worker"), members("job", 1, 500, "ps"), gangs=[gang("job", 8, ps=2)])
    assert set(why(made(cluster), "jobps500-0").values()) == {"Gang: 1 of 2 ps pods of default/job exist"}


def test_members_above_the_minimum_are_served_as_far_as_they_fit():
    decided = made(snapshot(members("job", 20, 2000), gangs=[gang("job", 8)]))
    assert len(served(decided)) == 12
    assert why(decided, "job2000-19") == {"small": "PoolFull: 2 of 2 nodes", "big": "PoolFull: 1 of 1 nodes"}


def test_members_above_the_minimum_do_not_take_the_room_that_another_gang_needs():
    first, second = members("a", 12, 2000), members("b", 4, 2000)
    decided = made(snapshot(first, second, gangs=[gang("a", 8), gang("b", 4)]))
    assert {name[0] for name in served(decided)} == {"a", "b"}
    assert len(served(decided)) == 12


def test_of_two_gangs_that_contend_the_more_urgent_one_is_served():
    decided = made(
        snapshot(members("a", 8, 2000), members("b", 8, 2000, priority=5), gangs=[gang("a", 8), gang("b", 8)])
    )
    assert served(decided) == {f"b2000-{n}" for n in range(8)}
    assert why(decided, "a2000-0")["big"] == "Gang: 4 of 8 pods of default/a fit; PoolFull: 1 of 1 nodes"


def test_of_two_gangs_of_equal_priority_one_is_served_and_not_half_of_each():
    decided = made(snapshot(members("a", 8, 2000), members("b", 8, 2000), gangs=[gang("a", 8), gang("b", 8)]))
    assert served(decided) == {f"a2000-{n}" for n in range(8)}


def test_single_pods_of_equal_priority_give_way_to_a_gang_and_fill_what_it_leaves():
    decided = made(snapshot(pods("x", 30, shape(1000)), members("job", 8, 2000), gangs=[gang("job", 8)]))
    assert {f"job2000-{n}" for n in range(8)} <= served(decided)
    assert len(served(decided)) == 16


def test_single_pods_of_higher_priority_do_not_give_way():
    urgent = pods("x", 24, shape(1000, priority=9))
    decided = made(snapshot(urgent, members("job", 8, 2000), gangs=[gang("job", 8)]))
    assert served(decided) == {f"x-{n}" for n in range(24)}


def test_a_hopeless_gang_does_not_change_the_plan_of_the_others():
    others = [members("job", 6, 2000), pods("x", 3, shape(1000))]
    alone = made(snapshot(*others, gangs=[gang("job", 6)]))
    hopeless = members("huge", 40, 2000, priority=100)
    beside = made(snapshot(*others, hopeless, gangs=[gang("job", 6), gang("huge", 40)]))
    assert beside.deltas == alone.deltas
    assert served(beside) == served(alone)


def test_a_gang_with_a_problem_is_told_it_and_nobody_else_suffers():
    cluster = snapshot(
        members("bad", 2), members("job", 2), gangs=[gang("bad", 0, "its minimum is not a number"), gang("job", 2)]
    )
    decided = made(cluster)
    assert set(why(decided, "bad1000-0").values()) == {"Gang: its minimum is not a number"}
    assert len(served(decided)) == 2


def test_a_gang_of_which_the_snapshot_says_nothing_is_not_guessed_at():
    assert set(why(made(snapshot(members("job", 2))), "job1000-0").values()) == {
        "Gang: the snapshot says nothing of it"
    }


def test_a_topology_rule_of_a_group_is_named_as_not_modelled():
    problem = "NotModelled: TopologyPlacement of PodGroup default/job by rack"
    decided = made(snapshot(members("job", 2), gangs=[gang("job", 0, problem)]))
    assert set(why(decided, "job1000-0").values()) == {problem}


def test_a_group_that_asks_for_nothing_is_served_as_far_as_it_goes():
    decided = made(snapshot(members("job", 20, 2000), gangs=[gang("job", 0)]))
    assert len(served(decided)) == 12


def test_a_gang_that_a_mix_keeps_out_is_not_told_of_amounts_that_nobody_asked_for():
    pools = config(pool("spot", price=0.05, priority=Priority.SPOT, maximum=20), pool("regular", price=0.2, maximum=5))
    mixed = replace(pools, mixes=(Mix(("spot", "regular"), 2, 0.7),))
    decided = plan(
        snapshot(members("small", 6, 3000), members("big", 30, 3000), gangs=[gang("small", 6), gang("big", 30)]),
        mixed,
        NOTHING,
        NOW,
    )
    assert served(decided) == {f"small3000-{number}" for number in range(6)}
    told = why(decided, "big3000-0")
    assert told["regular"].endswith("PoolFull: 5 of 5 nodes")
    assert "2**52" not in told["spot"]


def test_members_on_a_node_that_azure_takes_away_are_replaced_only_if_the_gang_stays_whole():
    job = shape(2000, gang=named("job"))
    going = node("n1", SMALL, [bound("job", 2, job)], evicting_at=NOW + timedelta(seconds=30))
    stays = node("n2", SMALL, [bound("other", 2, job)])
    cluster = snapshot(gangs=[gang("job", 4)], nodes=[going, stays])
    assert len(served(made(cluster, replace(SMALL, maximum=3)))) == 2
    assert made(cluster, replace(SMALL, maximum=2)).deltas == ()


def test_many_gangs_that_contend_end_in_a_plan_of_whole_gangs_and_a_reason_for_each_of_the_others():
    many = [(members(f"g{number:02}", 4, 2000), gang(f"g{number:02}", 4)) for number in range(3 * MOST_TRIALS)]
    decided = made(snapshot(*(each for each, _ in many), gangs=[each for _, each in many]))
    assert served(decided) == {f"g{number:02}2000-{n}" for number in range(3) for n in range(4)}
    assert all(
        reason.startswith(("Gang: ", "Waits: ")) for group in decided.unserved for reason in group.reasons.values()
    )


def test_a_gang_in_front_that_cannot_be_served_does_not_keep_those_behind_it_from_being_tried():
    stuck = [
        (members(f"a{number:02}", 8, 7000), gang(f"a{number:02}", 8, worker=0)) for number in range(2 * MOST_TRIALS)
    ]
    first, second = pool("a", cpu=8000, maximum=4), pool("b", cpu=8000, maximum=3)
    cluster = snapshot(
        *(each for each, _ in stuck), members("z", 2, 7000), gangs=[*(g for _, g in stuck), gang("z", 2)]
    )
    assert served(made(cluster, first, second)) == {"z7000-0", "z7000-1"}


@pytest.mark.parametrize("mode", [Mode.PAUSED])
def test_a_paused_pool_is_named_as_the_reason(mode):
    decided = made(snapshot(members("job", 2), gangs=[gang("job", 2)]), replace(SMALL, mode=mode))
    assert why(decided, "job1000-0") == {"small": "Gang: 0 of 2 pods of default/job fit; Paused"}


def test_a_pod_that_stays_on_an_evicting_node_still_counts():
    job = shape(2000, gang=named("job"))
    going = node("n1", SMALL, [bound("job", 1, job, Movability.BLOCKS, "local storage")], evicting_at=NOW)
    decided = made(snapshot(members("job", 1, 2000), gangs=[gang("job", 2)], nodes=[going]))
    assert len(served(decided)) == 1


APP = PodSelector(("default",), (Requirement("app", "In", ("x",)),))
BY_HOST, BY_ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def ruled(number, **rules):
    return members("job", number, 500, namespace="default", labels=(("app", "x"),), **rules)


def zone(name, most):
    return pool(name, cpu=1000, maximum=most, labels={BY_ZONE: name})


def test_members_that_keep_apart_need_a_node_each():
    apart = (PodTerm(APP, BY_HOST),)
    assert len(served(made(snapshot(ruled(3, apart=apart), gangs=[gang("job", 3)])))) == 3
    decided = made(snapshot(ruled(4, apart=apart), gangs=[gang("job", 4)]))
    assert decided.deltas == ()
    assert why(decided, "job500-0")["big"] == "Gang: 3 of 4 pods of default/job fit; PoolFull: 1 of 1 nodes"


def test_a_spread_that_keeps_one_member_out_keeps_all_out_and_is_named_with_its_figures():
    spread, zones = (Spread(APP, BY_ZONE, 1),), (zone("z1", 1), zone("z2", 5))
    assert len(served(made(snapshot(ruled(5, spread=spread), gangs=[gang("job", 5)]), *zones))) == 5
    decided = made(snapshot(ruled(6, spread=spread), gangs=[gang("job", 6)]), *zones)
    assert decided.deltas == ()
    told = why(decided, "job500-0")["z2"]
    assert told.startswith("Gang: 5 of 6 pods of default/job fit; PodTopologySpread: ")
    assert "maxSkew is 1" in told


def test_members_that_want_company_are_bought_in_one_zone():
    near, zones = (PodTerm(APP, BY_ZONE),), (zone("z1", 1), zone("z2", 5))
    decided = made(snapshot(ruled(9, near=near), gangs=[gang("job", 9)]), *zones)
    assert [(delta.pool, delta.add) for delta in decided.deltas] == [("z2", 5)]
    assert made(snapshot(ruled(11, near=near), gangs=[gang("job", 11)]), *zones).deltas == ()


def test_one_member_with_a_rule_that_is_not_modelled_keeps_the_others_from_being_bought():
    odd = members("job", 1, 600, not_modelled=("DynamicResources",))
    decided = made(snapshot(members("job", 2, 500), odd, gangs=[gang("job", 3)]))
    assert decided.deltas == ()
    assert why(decided, "job500-0")["big"] == "Gang: 2 of 3 pods of default/job fit; NotModelled: DynamicResources"
