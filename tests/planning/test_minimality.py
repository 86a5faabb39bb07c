"""Plans are not fat: on small cases an exact search over all ways to divide the pods says what the least price is."""

from random import Random

from shared.planning.plan import plan
from tests.builders import NOTHING, NOW, config, node, pairs, pods, pool, shape, snapshot

MOST_PODS = 8


def test_plans_for_a_few_pods_on_new_nodes_are_of_the_least_price():
    ratios = _ratios(room=False)
    assert len(ratios) > 150
    assert min(ratios) > 1 - 1e-9
    assert max(ratios) < 1 + 1e-9


def test_with_room_that_some_pods_but_not_all_can_take_nearly_all_plans_are_of_the_least_price():
    """Which of the pods take the room is not searched through; who can be served nowhere else comes first."""
    ratios = _ratios(room=True)
    assert len(ratios) > 150
    assert min(ratios) > 1 - 1e-9
    assert sum(ratio < 1 + 1e-9 for ratio in ratios) / len(ratios) >= 0.93
    assert max(ratios) <= 1.8
    assert sum(ratios) / len(ratios) <= 1.02


def _ratios(*, room):
    """The same cases in every run."""
    rng = Random(7)
    return [ratio for _ in range(300) if (ratio := _over_least(rng, room)) is not None]


def _over_least(rng, room):
    """The plan's price over the least one; None where nothing has to be bought."""
    kinds = [
        (rng.randint(6, 12), rng.randint(6, 12), rng.randint(2, 9), rng.choice(("a", "b")))
        for _ in range(rng.randint(1, 3))
    ]
    sizes = [
        (rng.randint(1, 6), rng.randint(1, 6), rng.choice(("", "", "a", "b"))) for _ in range(rng.randint(2, MOST_PODS))
    ]
    there = (rng.randint(0, 8), rng.randint(0, 8), "a") if room else None
    bought = _least(sizes, kinds, there)
    if not bought:  # None, too: somebody fits nowhere
        return None
    pools = [
        pool(f"p{n}", shape={"cpu": cpu, "memory": memory, "pods": 99}, price=price / 10, labels={"kind": kind})
        for n, (cpu, memory, price, kind) in enumerate(kinds)
    ]
    nodes = []
    if there:
        foreign = pool("foreign", shape={"cpu": there[0], "memory": there[1], "pods": 99}, labels={"kind": "a"})
        nodes = [node("there", foreign)]
    pending = [
        pods(f"c{n}", 1, shape(cpu, memory, node_selector=pairs(kind=kind) if kind else ()))
        for n, (cpu, memory, kind) in enumerate(sizes)
    ]
    made = plan(snapshot(*pending, nodes=nodes), config(*pools), NOTHING, NOW)
    assert made.unserved == ()
    return made.cost_per_hour / (bought / 10)


def _least(sizes, kinds, there):
    """The least price to serve all, by dynamic programming over sets of pods; None where it can't be done."""
    whole = (1 << len(sizes)) - 1
    alone = [_cheapest(_sum(sizes, each), kinds) for each in range(whole + 1)]
    least = [0.0] + [float("inf")] * whole
    for each in range(1, whole + 1):
        lowest, part = each & -each, each
        while part:
            if part & lowest and alone[part] is not None:  # the set with the first pod of those that are left
                least[each] = min(least[each], least[each ^ part] + alone[part])
            part = (part - 1) & each
    on_it = [0] + [
        each for each in range(1, whole + 1) if there and _cheapest(_sum(sizes, each), [(*there[:2], 0, there[2])]) == 0
    ]
    price = min(least[whole ^ each] for each in on_it)
    return None if price == float("inf") else price


def _sum(sizes, chosen):
    group = [size for number, size in enumerate(sizes) if chosen >> number & 1]
    return (
        sum(cpu for cpu, _, _ in group),
        sum(memory for _, memory, _ in group),
        {kind for _, _, kind in group if kind},
    )


def _cheapest(group, kinds):
    cpu, memory, wanted = group
    fits = [price for c, m, price, kind in kinds if cpu <= c and memory <= m and wanted <= {kind}]
    return min(fits, default=None)
