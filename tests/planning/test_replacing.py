"""Busy nodes give way to cheaper ones, or to room that is there: bought first, then emptied, and never for nothing."""

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.model import Ledger, Mode, Movability, Priority, Upcoming
from shared.planning.plan import plan
from shared.planning.replacing import with_replacements
from tests.builders import NOTHING, NOW, bound, config, node, pods, pool, shape, snapshot

LARGE = pool("large", cpu=16_000, price=0.8)
SMALL = pool("small", cpu=4000, price=0.2)
MIDDLE = pool("middle", cpu=8000, price=0.4)
WIDE = pool("wide", cpu=10_000, price=0.5)
WEB = shape(cpu=3000)


def settings(*pools, saving=0.2, **more):
    made = config(*(pools or (LARGE, SMALL)), **{"max_parallel_fraction": 1.0} | more)
    return replace(made, scale_down=replace(made.scale_down, replace_saving=saving))


def exchanged(*nodes, of=None, pending=(), ledger=NOTHING):
    seen, of = snapshot(*pending, nodes=nodes), of or settings()
    return with_replacements(plan(seen, of, ledger, NOW), seen, of, ledger, NOW)


def two_thirds_full(number):
    return [node(f"m{n}", MIDDLE, [bound(f"w{n}", 1, shape(cpu=5000))]) for n in range(number)]


def half_empty(name="dear", holds=(), **more):
    return node(name, LARGE, holds or [bound(f"on-{name}", 1, WEB)], **more)


def test_a_cheaper_node_is_bought_before_the_dearer_one_goes():
    made = exchanged(half_empty())
    assert made.replacements == {"small": 1}
    assert made.retirements == ()
    assert made.notes == ("1 new of small for the pods of dear: 0.6 per hour less",)


def test_the_dearer_node_goes_once_the_cheaper_one_is_there():
    made = exchanged(half_empty(), node("cheap", SMALL))
    assert made.replacements == {}
    assert [(each.node, [move.target for move in each.moves]) for each in made.retirements] == [("dear", ["cheap"])]


def test_the_cheaper_node_is_kept_for_that_even_if_it_has_been_idle_for_long():
    made = exchanged(half_empty(), node("cheap", SMALL, idle_since=NOW - timedelta(hours=1)))
    assert [each.node for each in made.retirements] == ["dear"]


def test_nothing_is_exchanged_unless_asked_for():
    assert exchanged(half_empty(), of=settings(saving=0.0)).replacements == {}
    assert config().scale_down.replace_saving == 0.0


@pytest.mark.parametrize(("saving", "bought"), [(0.75, {"small": 1}), (0.76, {})])
def test_an_exchange_must_save_the_share_that_the_file_names(saving, bought):
    assert exchanged(half_empty(), of=settings(saving=saving)).replacements == bought


def test_several_nodes_can_give_way_together():
    of = settings(MIDDLE, WIDE)
    assert exchanged(*two_thirds_full(2), of=of).replacements == {"wide": 1}
    there = exchanged(*two_thirds_full(2), node("new", WIDE), of=of)
    assert {each.node for each in there.retirements} == {"m0", "m1"}


def test_a_node_whose_pods_fit_beside_others_just_goes():
    made = exchanged(half_empty(), node("roomy", SMALL, [bound("w", 1, shape(cpu=500))]))
    assert [each.node for each in made.retirements] == ["dear"]


def test_a_spare_node_that_is_no_cheaper_is_not_put_to_use():
    made = exchanged(half_empty(), node("other", LARGE))
    assert [each.node for each in made.retirements] == []


@pytest.mark.parametrize(
    "why",
    [
        {"created_at": NOW - timedelta(minutes=5)},
        {"ready": False},
        {"unschedulable": True},
        {"annotations": {"karpenter.sh/do-not-disrupt": "true"}},
        {"holds": [bound("bare", 1, WEB, Movability.BLOCKS, "BarePod: no controller would make it again")]},
        {"holds": [bound("odd", 1, shape(cpu=3000, not_modelled=("DynamicResources",)))]},
    ],
)
def test_a_node_that_may_not_be_emptied_is_not_replaced(why):
    made = exchanged(half_empty(**why))
    assert (made.replacements, made.retirements) == ({}, ())


def test_a_node_that_stayed_a_short_while_ago_is_left_alone():
    assert exchanged(half_empty(), ledger=Ledger(cooling={"dear": "drain timed out"})).replacements == {}


def test_a_pool_keeps_its_minimum():
    assert exchanged(half_empty(), of=settings(replace(LARGE, minimum=1), SMALL)).replacements == {}


def test_nothing_is_exchanged_while_nodes_come_or_go_or_pods_wait_for_some():
    coming = Ledger(upcoming=(Upcoming("small", 1, NOW + timedelta(minutes=5)),))
    assert exchanged(half_empty(), ledger=coming).replacements == {}
    assert exchanged(half_empty(), ledger=Ledger(retiring=frozenset({"other"}))).replacements == {}
    assert exchanged(half_empty(), pending=[pods("p", 9, shape(cpu=3500))]).replacements == {}


def test_on_demand_nodes_do_not_give_way_to_spot_ones_but_spot_ones_do():
    spot = replace(SMALL, priority=Priority.SPOT)
    assert exchanged(half_empty(), of=settings(LARGE, spot)).replacements == {}
    evictable = replace(LARGE, priority=Priority.SPOT)
    assert exchanged(half_empty(), of=settings(evictable, spot)).replacements == {"small": 1}


def test_nothing_is_bought_from_pools_that_may_not_grow_or_whose_price_is_unknown():
    for closed in (replace(SMALL, mode=Mode.OBSERVE), replace(SMALL, maximum=0), replace(SMALL, price=None)):
        assert exchanged(half_empty(), of=settings(LARGE, closed)).replacements == {}


def test_no_more_nodes_are_exchanged_at_once_than_may_go_at_once():
    assert exchanged(*two_thirds_full(4), of=settings(MIDDLE, WIDE)).replacements
    assert exchanged(*two_thirds_full(4), of=settings(MIDDLE, WIDE, max_parallel_fraction=0.25)).replacements == {}


def test_exchanges_come_to_an_end():
    """Plans are carried out until none has anything to exchange; the price falls with each."""
    pools = (LARGE, pool("middle", cpu=8000, price=0.36), SMALL)
    nodes = {f"n{n}": node(f"n{n}", LARGE, [bound(f"w{n}", 1 + n % 3, shape(cpu=1500))]) for n in range(6)}
    of, prices = settings(*pools), {each.name: each.price for each in pools}
    cost = [sum(prices[each.pool] for each in nodes.values())]
    for turn in range(30):
        made = exchanged(*nodes.values(), of=of)
        if not (made.replacements or made.retirements):
            break
        for name, number in made.replacements.items():
            of_pool = next(each for each in pools if each.name == name)
            nodes |= {f"new-{turn}-{n}": node(f"new-{turn}-{n}", of_pool) for n in range(number)}
        for going in made.retirements:
            groups = {ref: group for group in nodes.pop(going.node).bound for ref in group.pods}
            for move in going.moves:
                target, moved = nodes[move.target], groups[move.pods[0]]
                here = (*target.bound, replace(moved, pods=move.pods))
                owner = next(each for each in pools if each.name == target.pool)
                nodes[move.target] = node(move.target, owner, here)
        if made.retirements:
            cost.append(sum(prices[each.pool] for each in nodes.values()))
    else:
        pytest.fail("still exchanging")
    assert cost == sorted(cost, reverse=True)
    assert cost[-1] < cost[0]
