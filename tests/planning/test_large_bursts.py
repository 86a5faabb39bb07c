"""Bursts of thousands: the price stays close to a bound that no packing can beat."""

from random import Random

import numpy as np

from shared.nodes.template_node import template_of
from shared.packing.axes import Axes
from shared.packing.market import Market, fitting, worths
from shared.planning.plan import plan
from tests.builders import GIB, GPU_TAINT, GPU_TOLERATION, NOTHING, NOW, config, pods, pool, shape, snapshot

POOLS = [
    pool("d2", 2000, 8 * GIB, price=0.096, maximum=5000),
    pool("d8", 8000, 32 * GIB, price=0.384, maximum=5000),
    pool("d16", 16000, 64 * GIB, price=0.768, maximum=5000),
    pool("f8", 8000, 16 * GIB, price=0.338, maximum=5000),
    pool("e8", 8000, 64 * GIB, price=0.504, maximum=5000),
    pool("t4", 8000, 56 * GIB, 1, price=0.752, maximum=5000, taints=(GPU_TAINT,)),
    pool("t4x4", 64000, 440 * GIB, 4, price=4.352, maximum=5000, taints=(GPU_TAINT,)),
]


def burst(kinds, counts, seed):
    rng = Random(seed)
    classes = []
    for n in range(kinds):
        gpu = rng.choice([0, 0, 0, 0, 1, 2])
        of = shape(
            rng.randint(1, 35) * 100, rng.randint(1, 12) * GIB, gpu, tolerations=(GPU_TOLERATION,) if gpu else ()
        )
        classes.append(pods(f"c{n}", rng.randint(1, counts), of))
    return classes


def least_price(classes):
    """The fluid bound: pods and nodes cut at will."""
    templates = [template_of(each, ()) for each in POOLS]
    rooms = [(each.free, ()) for each in templates]
    shapes = [each.shape for each in classes]
    axes = Axes(shapes, rooms)
    allowed = np.array([[not each.taints or bool(one.tolerations) for each in POOLS] for one in shapes])
    prices = np.array([each.price for each in POOLS])
    market = Market(axes.needs(shapes), axes.most(shapes), axes.rooms(rooms), prices, allowed)
    counts = np.array([len(each.pods) for each in classes])
    return float(worths(market, counts, fitting(market)) @ counts)


def test_ten_thousand_pods_of_sixty_kinds_cost_within_two_percent_of_the_bound():
    classes = burst(60, 350, seed=1)
    made = plan(snapshot(*classes), config(*POOLS), NOTHING, NOW)
    assert made.unserved == ()
    assert least_price(classes) <= made.cost_per_hour <= 1.02 * least_price(classes)


def test_hundreds_of_pods_without_two_alike_cost_within_five_percent_of_the_bound():
    classes = burst(400, 1, seed=2)
    made = plan(snapshot(*classes), config(*POOLS), NOTHING, NOW)
    assert made.unserved == ()
    assert made.cost_per_hour <= 1.05 * least_price(classes)


def test_equal_pods_fill_their_nodes():
    made = plan(snapshot(pods("same", 15_000, shape(500, GIB))), config(*POOLS[1:2]), NOTHING, NOW)
    assert [(delta.pool, delta.add) for delta in made.deltas] == [("d8", 938)]
