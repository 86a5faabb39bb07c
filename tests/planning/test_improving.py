"""Improving a first plan: no dearer, nobody left out, always the same answer, and steady while nodes come."""

import math
import os
import subprocess
import sys
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from shared.model import Ledger, Spread, Upcoming
from shared.packing.allocation import Effort
from shared.packing.allowance import Allowance, JointLimit
from shared.packing.market import Market, Packer, fitting, worths
from shared.packing.repacking import Repacking
from shared.planning.plan import plan
from tests.builders import (
    GIB,
    GPU_TAINT,
    GPU_TOLERATION,
    NOTHING,
    NOW,
    config,
    node,
    pods,
    pool,
    shape,
    snapshot,
    timedelta,
)
from tests.planning.checker import problems
from tests.planning.test_large_bursts import POOLS, burst
from tests.planning.test_random_cases import clusters
from tests.planning.test_rules_between_pods import about

T4 = pool("t4", 8000, 56 * GIB, 1, price=0.752, taints=(GPU_TAINT,))
T4X4 = pool("t4x4", 64000, 440 * GIB, 4, price=4.352, taints=(GPU_TAINT,))


def gpus(name, number, each):
    return pods(name, number, shape(1000, GIB, each, tolerations=(GPU_TOLERATION,)))


def on_their_way(made):
    """What a ledger holds once a plan's nodes are asked for."""
    return Ledger(upcoming=tuple(Upcoming(each.pool, each.add, NOW + timedelta(minutes=5)) for each in made.deltas))


def left_out(made):
    """How many pods are not served."""
    return sum(len(each.pods) for each in made.unserved)


def market_of(kinds, seed=7):
    """Pods of so many kinds, one of each, and three sizes of nodes."""
    lots = np.random.default_rng(seed)
    needs = np.column_stack([np.ones(kinds), lots.integers(100, 6000, kinds), lots.integers(1, 24, kinds)]).astype(
        float
    )
    rooms = np.array([[110.0, 8000, 32], [110, 16000, 64], [110, 8000, 64]])
    most = np.full(kinds, 2**40)
    return Market(needs, most, rooms, np.array([0.384, 0.768, 0.504]), np.ones((kinds, 3), dtype=np.bool_))


def bought(market, allowance):
    """The heuristics' own answer for one pod of each class, the packer and what it went by."""
    counts = np.ones(len(market.needs), dtype=np.int64)
    worth = worths(market, counts, fitting(market))
    packer = Packer(market, counts, allowance, worth)
    return packer.take(fitting(market)), packer, worth


def plenty():
    return Allowance(np.full(3, 10_000))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters())
def test_improving_leaves_no_more_pods_out_costs_no_more_and_holds(case):
    cluster, pools, ledger = case
    first, improved = (plan(cluster, pools, ledger, NOW, effort) for effort in Effort)
    assert left_out(improved) <= left_out(first)
    if left_out(improved) == left_out(first):
        assert improved.cost_per_hour <= first.cost_per_hour + 1e-9
    assert problems(cluster, pools, ledger, improved) == []


@pytest.mark.parametrize("seed", range(4))
def test_improving_pays(seed):
    cluster, pools = snapshot(*burst(150, 2, seed)), config(*POOLS)
    first, improved = (plan(cluster, pools, NOTHING, NOW, effort) for effort in Effort)
    assert improved.cost_per_hour < first.cost_per_hour


def test_thousands_of_pods_without_two_alike_are_improved_without_a_warning():
    market = market_of(1500)
    bins, _, worth = bought(market, plenty())
    better = Repacking(market, fitting(market), plenty(), worth, budget=-1).improved(bins)
    assert sum(each.times for each in better) <= sum(each.times for each in bins)


def test_a_node_is_given_up_when_others_have_room_for_its_pods():
    made = plan(snapshot(gpus("pair", 1, 3), gpus("one", 1, 1)), config(T4, replace(T4X4, price=1.0)), NOTHING, NOW)
    assert [(each.pool, each.add) for each in made.deltas] == [("t4x4", 1)]


@pytest.mark.parametrize("seed", range(4))
def test_planning_again_while_the_nodes_are_on_their_way_buys_nothing(seed):
    cluster, pools = snapshot(*burst(60, 8, seed)), config(*POOLS)
    made = plan(cluster, pools, NOTHING, NOW)
    again = plan(cluster, pools, on_their_way(made), NOW)
    assert (again.deltas, again.unserved) == ((), ())


@pytest.mark.parametrize("seed", range(4))
def test_planning_again_while_empty_nodes_have_come_and_others_are_on_their_way_buys_nothing(seed):
    cluster, pools = snapshot(*burst(60, 8, seed)), config(*POOLS)
    made = plan(cluster, pools, NOTHING, NOW)
    there = [
        node(f"{each.pool}-{number}", pools.pool(each.pool)) for each in made.deltas for number in range(each.add // 2)
    ]
    rest = tuple(Upcoming(each.pool, each.add - each.add // 2, NOW + timedelta(minutes=5)) for each in made.deltas)
    again = plan(replace(cluster, nodes=tuple(there)), pools, Ledger(upcoming=rest), NOW)
    assert (again.deltas, again.unserved) == ((), ())


@pytest.mark.parametrize("seed", range(4))
def test_planning_again_serves_all_when_their_nodes_have_brought_pools_to_their_maximum(seed):
    cluster = snapshot(*burst(60, 8, seed))
    wanted = {each.pool: each.add for each in plan(cluster, config(*POOLS), NOTHING, NOW).deltas}
    pools = config(*(replace(each, maximum=wanted.get(each.name, 0) + 1) for each in POOLS))
    made = plan(cluster, pools, NOTHING, NOW)
    again = plan(cluster, pools, on_their_way(made), NOW)
    assert (again.deltas, again.unserved, made.unserved) == ((), (), ())


@pytest.mark.parametrize("seed", range(3))
def test_more_pods_while_nodes_are_on_their_way_cost_hardly_more_than_all_at_once(seed):
    classes, pools = burst(60, 8, seed), config(*POOLS)
    early = plan(snapshot(*classes[:40]), pools, NOTHING, NOW)
    late = plan(snapshot(*classes), pools, on_their_way(early), NOW)
    at_once = plan(snapshot(*classes), pools, NOTHING, NOW)
    assert early.cost_per_hour + late.cost_per_hour <= 1.06 * at_once.cost_per_hour


def test_classes_in_another_order_give_the_same_plan():
    classes = list({each.shape: each for each in burst(80, 6, seed=3)}.values())
    pools = config(*POOLS)
    made = plan(snapshot(*classes), pools, NOTHING, NOW)
    for seed in range(3):
        shuffled = Random(seed).sample(classes, len(classes))
        assert plan(snapshot(*shuffled), pools, NOTHING, NOW) == made


def test_another_hash_seed_gives_the_same_plan():
    script = (
        "from tests.planning.test_improving import *;"
        "print(plan(snapshot(*burst(60, 6, 5)), config(*POOLS), NOTHING, NOW).deltas)"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1


def test_pods_kept_apart_stay_apart_beside_others_that_are_packed_better():
    rule = Spread(selector=about("web"), topology_key="kubernetes.io/hostname", max_skew=1)
    spread = shape(500, GIB, namespace="default", labels=(("app", "web"),), spread=(rule,))
    cluster = snapshot(pods("web", 12, spread), *burst(120, 2, seed=4))
    first, improved = (plan(cluster, config(*POOLS), NOTHING, NOW, effort) for effort in Effort)
    assert improved.cost_per_hour < first.cost_per_hour
    for each in (new for delta in improved.deltas for new in delta.nodes):
        assert sum(ref.name.startswith("web-") for ref in each.pods) <= 1


def test_what_pools_may_have_together_bounds_what_is_packed_anew():
    market = market_of(120)
    bins, _, worth = bought(market, plenty())
    cores = JointLimit((8, 16, 8), sum((8, 16, 8)[each.kind] * each.times for each in bins))
    allowance = Allowance(np.full(3, 10_000), [cores])
    better = Repacking(market, fitting(market), allowance, worth).improved(bins)
    assert sum((8, 16, 8)[each.kind] * each.times for each in better) <= cores.left


def test_without_a_budget_nothing_is_packed_anew():
    market = market_of(200)
    bins, _, worth = bought(market, plenty())
    idle = Repacking(market, fitting(market), plenty(), worth, budget=-1)
    thorough = Repacking(market, fitting(market), plenty(), worth)
    assert idle.price(idle.improved(bins)) > thorough.price(thorough.improved(bins))
    assert idle.work < thorough.work


def test_the_work_of_a_first_plan_grows_no_faster_than_n_log_n_in_shapes():
    few, many = (bought(market_of(kinds), plenty())[1].work for kinds in (1000, 4000))
    assert many / few <= 4000 * math.log(4000) / (1000 * math.log(1000))
