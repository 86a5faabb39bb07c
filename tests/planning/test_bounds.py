"""What bounds a plan over several pools: quotas, mixes of Spot and on-demand, placement groups, headroom, cut-off."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.model import AzureScope, FailureMemory, Headroom, Mix, PlacementGroups, Priority, Upcoming, Usage
from shared.planning.plan import plan
from tests.builders import NOTHING, NOW, Ledger, bound, config, idle, node, pods, pool, shape, snapshot, timedelta

POD = shape(cpu=3000)  # one to a node of the builders' pools
SPOT = pool("spot", price=0.05, priority=Priority.SPOT)
REGULAR = pool("regular", price=0.20)
LATER = NOW + timedelta(minutes=5)


def usage(name, used, limit):
    return Usage("subscription", "westeurope", name, used, limit)


def planned(*pending, nodes=(), pools=(SPOT, REGULAR), ledger=NOTHING, **more):
    return plan(snapshot(*pending, nodes=nodes), replace(config(*pools), **more), ledger, NOW)


def added(made):
    return {delta.pool: delta.add for delta in made.deltas}


def left(made):
    return sum(len(group.pods) for group in made.unserved)


def test_a_quota_holds_for_all_pools_that_count_against_it():
    one, two = (replace(pool(name, price=price), quota_family="f") for name, price in (("one", 0.2), ("two", 0.3)))
    made = planned(pods("a", 5, POD), pools=[one, two], ledger=Ledger(usages=(usage("f", 10, 24),)))
    assert added(made) == {"one": 3}
    assert made.unserved[0].reasons == dict.fromkeys(
        ("one", "two"), "QuotaExceeded: f 2 of 24 vCPUs left are short of the 4 of a node"
    )


def refused(limit, used, quota="cores", ago=0.0, **more):
    """What a refusal for lack of quota is remembered as."""
    since, numbers = NOW - timedelta(minutes=ago), None if limit is None else (limit, used)
    place = {"subscription": "subscription", "location": "westeurope", "quota": quota}
    return FailureMemory(
        "", "", None, "OperationNotAllowed", LATER, **{**place, "numbers": numbers, "since": since, **more}
    )


def test_a_refusal_that_tells_how_much_is_left_lets_that_much_be_bought():
    made = planned(pods("a", 5, POD), pools=[REGULAR], ledger=Ledger(failures=(refused(24, 16),)))
    assert added(made) == {"regular": 2}
    assert left(made) == 3


def test_quota_that_was_freed_after_a_refusal_counts_as_soon_as_it_is_read():
    old, new = (replace(usage("cores", 0, 24), read_at=NOW - timedelta(minutes=ago)) for ago in (3, 0))
    spent = refused(24, 24, ago=2)
    assert added(planned(pods("a", 1, POD), pools=[REGULAR], ledger=Ledger(failures=(spent,), usages=(old,)))) == {}
    freed = Ledger(failures=(spent,), usages=(new,))
    assert added(planned(pods("a", 1, POD), pools=[REGULAR], ledger=freed)) == {"regular": 1}


def test_a_refusal_without_numbers_rules_out_all_that_count_against_the_quota_and_nobody_else():
    far = replace(pool("far", price=0.3), azure=AzureScope("subscription", "group", "northeurope"))
    made = planned(pods("a", 1, POD), pools=[REGULAR, far], ledger=Ledger(failures=(refused(None, None),)))
    assert added(made) == {"far": 1}
    made = planned(pods("a", 1, POD), pools=[REGULAR], ledger=Ledger(failures=(refused(None, None),)))
    reason = "RecentFailure: OperationNotAllowed for quota cores until 12:05:00Z"
    assert made.unserved[0].reasons == {"regular": reason}


@pytest.mark.parametrize(
    ("where", "bought"),
    [
        ({"subscription": "subscription", "location": "westeurope"}, {"far": 1}),
        ({"subscription": "subscription"}, {"foreign": 1}),
        ({"subscription": "another"}, {"regular": 1}),
    ],
)
def test_a_refusal_of_a_region_or_a_subscription_rules_out_all_pools_there(where, bought):
    far = replace(pool("far", price=0.3), azure=AzureScope("subscription", "group", "northeurope"))
    foreign = replace(pool("foreign", price=0.4), azure=AzureScope("elsewhere", "group", "westeurope"))
    closed = FailureMemory("", "", None, "ReadOnlyDisabledSubscription", LATER, **where)
    pools = [REGULAR, pool("second", price=0.25), far, foreign]
    assert added(planned(pods("a", 1, POD), pools=pools, ledger=Ledger(failures=(closed,)))) == bought


def test_spot_counts_against_its_own_quota_alone():
    usages = (usage("lowPriorityCores", 0, 4), usage("cores", 8, 8))
    made = planned(pods("a", 3, POD), ledger=Ledger(usages=usages))
    assert added(made) == {"spot": 1}
    assert made.unserved[0].reasons["spot"].startswith("QuotaExceeded: lowPriorityCores 0 of 4 vCPUs left")
    assert made.unserved[0].reasons["regular"].startswith("QuotaExceeded: cores 0 of 8 vCPUs left")


def test_a_usage_of_another_region_or_subscription_says_nothing():
    usages = (Usage("other", "westeurope", "cores", 9, 9), Usage("subscription", "northeurope", "cores", 9, 9))
    assert added(planned(pods("a", 2, POD), pools=[REGULAR], ledger=Ledger(usages=usages))) == {"regular": 2}


def test_a_pool_that_a_quota_bars_is_followed_by_its_fallback_not_by_price():
    pools = [replace(SPOT, fallback=("dear",)), REGULAR, pool("dear", price=0.4)]
    made = planned(pods("a", 2, POD), pools=pools, ledger=Ledger(usages=(usage("lowPriorityCores", 4, 4),)))
    assert added(made) == {"dear": 2}


def test_a_quota_that_lower_priorities_would_use_up_goes_to_the_higher_one():
    gpu = replace(pool("gpu", gpu=1, price=0.9), quota_family="f")
    plain = replace(pool("plain", price=0.1), quota_family="f")
    urgent, usual = pods("u", 1, shape(cpu=1000, gpu=1, priority=9)), pods("a", 3, POD)
    made = planned(urgent, usual, pools=[gpu, plain], ledger=Ledger(usages=(usage("f", 0, 8),)))
    assert added(made) == {"gpu": 1, "plain": 1}


@pytest.mark.parametrize(("groups", "most"), [(PlacementGroups.SINGLE, 100), (PlacementGroups.MANY_CUSTOM_IMAGE, 600)])
def test_placement_groups_cap_a_scale_set_whatever_its_maximum(groups, most):
    capped = replace(pool("set", maximum=5000), placement_groups=groups)
    made = planned(pods("a", most + 1, POD), pools=[capped])
    assert added(made) == {"set": most}
    assert made.unserved[0].reasons["set"].startswith(f"PoolFull: {most} of {most} nodes, as many as a ")


def test_the_share_of_spot_is_as_large_as_the_mix_allows_and_no_larger():
    made = planned(pods("a", 10, POD), mixes=(Mix(("spot", "regular"), spot_max_share=0.7),))
    assert added(made) == {"spot": 7, "regular": 3}


def test_the_floor_of_on_demand_comes_before_any_spot():
    mixes = (Mix(("spot", "regular"), on_demand_floor=3),)
    assert added(planned(pods("a", 2, POD), mixes=mixes)) == {"regular": 2}
    assert added(planned(pods("a", 5, POD), mixes=mixes)) == {"spot": 2, "regular": 3}


def test_nodes_that_stand_or_come_count_in_a_mix_and_those_that_go_do_not():
    mixes = (Mix(("spot", "regular"), on_demand_floor=2),)
    full = [node("r1", REGULAR, [bound("x", 1, POD)]), node("r2", REGULAR, [bound("y", 1, POD)])]
    assert added(planned(pods("a", 2, POD), nodes=full, mixes=mixes)) == {"spot": 2}
    going = Ledger(retiring=frozenset({"r2"}))
    assert added(planned(pods("a", 2, POD), nodes=full, mixes=mixes, ledger=going)) == {"spot": 1, "regular": 1}
    coming = Ledger(retiring=frozenset({"r2"}), upcoming=(Upcoming("regular", 1, LATER),))
    assert added(planned(pods("a", 3, POD), nodes=full, mixes=mixes, ledger=coming)) == {"spot": 2}


def test_pods_for_spot_alone_wait_for_on_demand_nodes_and_are_told_the_rule():
    spot = replace(SPOT, labels={"kind": "spot"})
    choosy = shape(cpu=3000, node_selector=(("kind", "spot"),))
    made = planned(pods("a", 2, choosy), pools=[spot, REGULAR], mixes=(Mix(("spot", "regular"), spot_max_share=0.5),))
    assert added(made) == {}
    told = "SpotShare: spot+regular have 0 Spot and 0 on-demand nodes, at most 50% Spot"
    assert made.unserved[0].reasons["spot"] == told


def test_an_on_demand_node_stays_while_the_mix_needs_it():
    mixes = (Mix(("spot", "regular"), spot_max_share=0.5),)
    busy = node("s1", SPOT, [bound("x", 1, POD)])
    made = planned(nodes=[busy, idle("r1", REGULAR)], mixes=mixes)
    assert made.retirements == ()
    assert made.kept["r1"].startswith("SpotShare: spot+regular would have 1 Spot and 0 on-demand nodes")
    assert [each.node for each in planned(nodes=[busy, idle("r1", REGULAR)]).retirements] == ["r1"]


def test_minimums_are_filled_within_the_mix():
    pools = [replace(SPOT, minimum=4), replace(REGULAR, minimum=2)]
    made = planned(pools=pools, mixes=(Mix(("spot", "regular"), spot_max_share=0.5),))
    assert made.top_up == {"spot": 2, "regular": 2}


def test_headroom_is_topped_up_last_and_says_what_it_costs():
    spare = replace(pool("general", maximum=3), headroom=2)
    made = planned(pods("a", 2, POD), pools=[spare])
    assert (added(made), made.top_up, made.headroom) == ({"general": 2}, {"general": 1}, {"general": 1})
    assert "pool general: headroom of 2 nodes, 0.400 per hour" in made.notes
    assert "pool general: headroom is 1 nodes short (PoolFull: 3 of 3 nodes)" in made.notes


def test_free_nodes_that_are_there_or_coming_are_headroom_and_stay():
    spare = replace(pool(), headroom=2)
    made = planned(nodes=[idle("n1", spare)], pools=[spare], ledger=Ledger(upcoming=(Upcoming("general", 1, LATER),)))
    assert (made.top_up, made.retirements) == ({}, ())
    assert made.kept == {"n1": "Headroom: one of 2 nodes kept free in general"}
    three = [idle(name, spare) for name in ("n1", "n2", "n3")]
    assert [each.node for each in planned(nodes=three, pools=[spare]).retirements] == ["n3"]


def test_pods_of_a_node_that_goes_are_not_planned_onto_headroom():
    spare = replace(pool(), headroom=1)
    made = planned(nodes=[idle("n1", spare), idle("n2", spare, [bound("a", 1, shape(cpu=500))])], pools=[spare])
    assert made.retirements == ()


def test_a_share_of_what_pods_ask_for_is_kept_free_in_the_cheapest_pool():
    busy = node("n1", REGULAR, [bound("x", 1, shape(cpu=4000))])
    made = planned(nodes=[busy], headroom=Headroom(50.0))
    assert (made.top_up, made.headroom) == ({"spot": 1}, {"spot": 1})
    assert made.notes == ("headroom of 50 %: 1 more nodes of pool spot, 0.050 per hour",)
    again = planned(nodes=[busy, idle("n2", SPOT)], headroom=Headroom(50.0))
    assert again.top_up == {}
    assert again.kept["n2"].startswith("Headroom: 50 % of cpu (2) would not stay free")


def test_pods_below_the_cutoff_cause_no_growth_but_take_what_is_left():
    low = pods("low", 2, shape(cpu=1000, priority=-11))
    made = planned(low, pods("a", 1, POD), nodes=[node("n1", REGULAR)], pools=[REGULAR])
    assert (added(made), left(made)) == ({}, 1)
    assert [(each.target, len(each.pods)) for each in made.fits_existing] == [("n1", 2)]
    told = "PriorityCutoff: priority -11 is below -10, such pods cause no growth"
    assert made.unserved[0].reasons == {"regular": told}
    assert added(planned(low, pools=[REGULAR], priority_cutoff=-100)) == {"regular": 1}


def test_pods_below_the_cutoff_need_no_other_place_when_their_node_goes():
    low = bound("low", 1, shape(cpu=1000, priority=-11))
    assert [each.node for each in planned(nodes=[idle("n1", REGULAR, [low])]).retirements] == ["n1"]
    assert planned(nodes=[idle("n1", REGULAR, [low])], priority_cutoff=-100).retirements == ()


@st.composite
def bounded_clusters(draw):
    pools = [
        replace(
            pool(
                f"p{number}",
                cpu=draw(st.sampled_from([2000, 4000, 8000])),
                price=draw(st.sampled_from([0.05, 0.1, 0.2, 0.4])),
                priority=draw(st.sampled_from(list(Priority))),
                maximum=draw(st.integers(0, 9)),
                minimum=0,
            ),
            quota_family=draw(st.sampled_from(["f", "g", ""])),
            headroom=draw(st.sampled_from([0, 0, 1, 2])),
        )
        for number in range(draw(st.integers(2, 4)))
    ]
    pools = [replace(each, minimum=draw(st.integers(0, min(2, each.maximum)))) for each in pools]
    usages = tuple(
        usage(name, draw(st.integers(0, 40)), draw(st.integers(0, 60)))
        for name in draw(st.lists(st.sampled_from(["f", "g", "cores", "lowPriorityCores"]), unique=True))
    )
    mix = Mix(
        tuple(each.name for each in pools[: draw(st.integers(2, len(pools)))]),
        draw(st.integers(0, 4)),
        draw(st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0])),
    )
    sizes = st.builds(
        lambda cpu, priority: shape(cpu=cpu, priority=priority), st.integers(100, 9000), st.integers(0, 1)
    )
    waiting = draw(st.lists(sizes, max_size=4, unique=True))
    pending = [pods(f"w{number}", draw(st.integers(1, 6)), each) for number, each in enumerate(waiting)]
    nodes = []
    for number in range(draw(st.integers(0, 4))):
        of, busy = draw(st.sampled_from(pools)), draw(st.booleans())
        made = node if busy else idle
        nodes.append(made(f"n{number}", of, [bound(f"r{number}", 1, shape(cpu=500))] if busy else []))
    settings_ = replace(config(*pools), mixes=(mix,), headroom=Headroom(draw(st.sampled_from([0.0, 20.0]))))
    return snapshot(*pending, nodes=nodes), settings_, Ledger(usages=usages)


def bought_of(made, config_):
    deltas = added(made)
    return {each.name: deltas.get(each.name, 0) + made.top_up.get(each.name, 0) for each in config_.pools}


@settings(max_examples=150, deadline=None)
@given(bounded_clusters())
def test_no_plan_exceeds_a_maximum_or_a_quota_or_breaks_a_mix(cluster):
    snapshot_, config_, ledger = cluster
    made = plan(snapshot_, config_, ledger, NOW)
    bought = bought_of(made, config_)
    there = {each.name: sum(n.pool == each.name for n in snapshot_.nodes) for each in config_.pools}
    gone = {each.name: sum(going.pool == each.name for going in made.retirements) for each in config_.pools}
    for each in config_.pools:
        assert bought[each.name] <= max(0, each.maximum - there[each.name])
    for known in ledger.usages:
        cores = sum(bought[each.name] * each.cores for each in config_.pools if known.name in each.quotas)
        assert cores <= max(0, known.limit - known.used)
    (mix,) = config_.mixes
    spots, regulars = (
        [each.name for each in config_.pools if each.name in mix.pools and (each.priority is Priority.SPOT) is spot]
        for spot in (True, False)
    )
    spot, regular = (sum(there[n] + bought[n] - gone[n] for n in names) for names in (spots, regulars))
    if any(bought[name] for name in spots) or (spot and any(gone[name] for name in regulars)):
        assert regular >= mix.on_demand_floor
        assert spot <= mix.spot_max_share * (spot + regular) + 1e-9


@settings(max_examples=60, deadline=None)
@given(bounded_clusters())
def test_bounds_that_nothing_comes_near_change_no_plan(cluster):
    snapshot_, config_, _ = cluster
    plain = replace(
        config_, mixes=(), headroom=Headroom(), pools=tuple(replace(each, headroom=0) for each in config_.pools)
    )
    wide = replace(plain, mixes=(replace(config_.mixes[0], on_demand_floor=0, spot_max_share=1.0),))
    roomy = Ledger(usages=tuple(usage(name, 0, 10**6) for name in ("f", "g", "cores", "lowPriorityCores")))
    assert plan(snapshot_, wide, roomy, NOW) == plan(snapshot_, plain, NOTHING, NOW)
