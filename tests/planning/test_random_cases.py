"""Small random clusters, each plan judged by brute force."""

import itertools
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.model import DaemonShape, HostPort, Upcoming
from shared.planning.plan import plan
from tests.builders import (
    GPU_TAINT,
    GPU_TOLERATION,
    NOW,
    Ledger,
    bound,
    config,
    needs,
    node,
    pods,
    pool,
    shape,
    snapshot,
    timedelta,
)
from tests.planning.checker import node_holds, problems

# Hypothesis likes extremes; most of a cluster must fit for packing to have anything to do, hence the repeated entries.
LABELS = st.fixed_dictionaries({"disk": st.sampled_from("aab"), "team": st.sampled_from("aab")})
SELECTORS = st.sampled_from([(), (), (), (("disk", "a"),), (("disk", "b"), ("team", "a"))])
AFFINITIES = st.sampled_from(
    [None] * 5
    + [
        (needs(expression),)
        for expression in [
            ("disk", "In", ("a", "c")),
            ("team", "NotIn", ("b",)),
            ("sluice.io/pool", "Exists", ()),
            ("sluice.io/pool", "NotIn", ("pool-1",)),
            ("rack", "DoesNotExist", ()),
        ]
    ]
)
SHAPES = st.builds(
    lambda cpu, memory, gpu, selector, affinity, tolerant, port, priority: shape(
        cpu,
        memory,
        gpu,
        node_selector=selector,
        affinity=affinity,
        tolerations=(GPU_TOLERATION,) if tolerant else (),
        host_ports=port,
        priority=priority,
    ),
    st.sampled_from([0, 1, 1, 2, 2, 3, 4, 5, 7, 2**62]),
    st.sampled_from([0, 1, 1, 2, 2, 3, 4, 5, 7]),
    st.sampled_from([0, 0, 0, 0, 1, 2]),
    SELECTORS,
    AFFINITIES,
    st.sampled_from([True, True, False]),
    st.sampled_from([(), (), (HostPort("", "TCP", 80),), (HostPort("10.0.0.1", "TCP", 80),)]),
    st.sampled_from([0, 0, 10]),
)
POOLS = st.lists(
    st.builds(
        lambda cpu, memory, gpu, places, price, labels, tainted, most: {
            "shape": {"cpu": cpu, "memory": memory, "nvidia.com/gpu": gpu, "pods": places},
            "price": price,
            "labels": labels,
            "taints": (GPU_TAINT,) if tainted else (),
            "maximum": most,
        },
        st.integers(3, 16),
        st.integers(3, 16),
        st.sampled_from([0, 0, 1, 4]),
        st.integers(2, 6),
        st.none() | st.sampled_from([0.0, 0.1, 0.25, 1.0, float("nan")]),
        LABELS,
        st.sampled_from([False, False, True]),
        st.sampled_from([9, 9, 9, 3, 1, 0]),
    ),
    min_size=1,
    max_size=4,
).map(lambda fields: [pool(f"pool-{number}", **each) for number, each in enumerate(fields)])

MOSTLY = st.sampled_from([True, True, True, False])


@st.composite
def clusters(draw):
    pools = draw(POOLS)
    pending = [
        pods(f"p{number}", draw(st.integers(1, 8)), each)
        for number, each in enumerate(draw(st.lists(SHAPES, min_size=1, max_size=6, unique=True)))
    ]
    nodes = []
    for number in range(draw(st.integers(0, 4))):
        of = draw(st.sampled_from([*pools, pool("foreign", cpu=8, memory=8)]))
        running = [bound(f"r{number}", 1, draw(SHAPES))]
        if not node_holds({}, (), of.allocatable, [shape(extra=dict(running[0].shape.requests))]):
            running = []
        flags = {"ready": draw(MOSTLY), "unschedulable": not draw(MOSTLY), "host_ports": ()}
        nodes.append(node(f"n{number}", of, running, **flags))
    daemons = [DaemonShape("agent", shape(cpu=1, tolerations=(GPU_TOLERATION,)))] * draw(st.integers(0, 1))
    coming = draw(st.lists(st.sampled_from([each.name for each in pools]), max_size=2))
    upcoming = tuple(Upcoming(name, 1, NOW + timedelta(minutes=5)) for name in coming)
    return snapshot(*pending, nodes=nodes, daemons=daemons), config(*pools), Ledger(upcoming=upcoming)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(clusters())
def test_every_placement_holds_and_nobody_is_refused_who_could_be_served(cluster):
    snapshot_, config_, ledger = cluster
    assert problems(snapshot_, config_, ledger, plan(snapshot_, config_, ledger, NOW)) == []


def test_on_small_cases_the_price_is_the_least_of_all_ways_to_pack():
    """Brute force over all ways to split up to five pods; the cases are the same in every run."""
    rng = Random(1)
    ratios = [_price_over_least(rng) for _ in range(400)]
    assert min(ratios) > 0.999
    assert max(ratios) < 1.001


def _price_over_least(rng):
    sizes = [(rng.randint(1, 8), rng.randint(1, 8)) for _ in range(rng.randint(1, 5))]
    kinds = [(rng.randint(8, 12), rng.randint(8, 12), rng.randint(1, 9)) for _ in range(rng.randint(1, 3))]
    pools = [
        pool(f"pool-{n}", price=price / 10, shape={"cpu": cpu, "memory": memory, "pods": 9})
        for n, (cpu, memory, price) in enumerate(kinds)
    ]
    pending = [pods(f"p{n}", 1, shape(*size)) for n, size in enumerate(sizes)]
    made = plan(snapshot(*pending), config(*pools), Ledger(), NOW)
    assert made.unserved == ()
    return made.cost_per_hour / min(_price_of(split, kinds) for split in _splits(sizes))


def _splits(items):
    """All ways to divide the items into groups."""
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for size in range(len(rest) + 1):
        for chosen in itertools.combinations(range(len(rest)), size):
            group = [first, *(rest[n] for n in chosen)]
            for others in _splits([item for n, item in enumerate(rest) if n not in chosen]):
                yield [group, *others]


def _price_of(split, kinds):
    prices = [_cheapest(group, kinds) for group in split]
    return float("inf") if None in prices else sum(prices)


def _cheapest(group, kinds):
    cpu, memory = (sum(axis) for axis in zip(*group, strict=True))
    return min((price / 10 for c, m, price in kinds if c >= cpu and m >= memory), default=None)
