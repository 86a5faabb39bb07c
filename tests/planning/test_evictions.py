"""What announced evictions mean for a plan."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.model import NodeView, Pool, Priority
from shared.planning.evicted import with_evictions, without_withdrawn
from shared.planning.plan import plan
from tests.builders import NOTHING, NOW, bound, config, node, pool, shape, snapshot

SPOT = pool("spot", priority=Priority.SPOT, price=0.05)
REGULAR = pool("regular", price=0.2)
CONFIG = config(SPOT, REGULAR)
SOON = NOW + timedelta(seconds=25)


def going(number: int, of: Pool = SPOT, when: timedelta = timedelta(seconds=25), **more) -> NodeView:
    load = [bound(f"web-{number}", 1, shape(3000))]
    return node(f"{of.name}-{number}", of, load, evicting_at=NOW + when, **more)


def bought(*nodes: NodeView, settings=CONFIG) -> dict[str, int]:
    seen = snapshot(nodes=nodes)
    decided = plan(seen, settings, with_evictions(seen, settings, NOTHING, NOW), NOW)
    return {delta.pool: delta.add for delta in decided.deltas}


def test_one_or_two_evictions_are_replaced_by_the_same():
    assert bought(going(1), going(2)) == {"spot": 2}


def test_several_at_once_are_replaced_on_demand():
    assert bought(going(1), going(2), going(3)) == {"regular": 3}


def test_evictions_from_several_zones_say_nothing_about_one_of_them():
    zonal = pool("spot", priority=Priority.SPOT, price=0.05, zones=("1", "2", "3"))
    settings = config(zonal, REGULAR)
    nodes = [going(n, zonal, labels={"topology.kubernetes.io/zone": f"westeurope-{n}"}) for n in (1, 2, 3)]
    assert bought(*nodes, settings=settings) == {"spot": 3}


def test_a_pool_without_a_sku_is_remembered_itself():
    plain = pool("plain", priority=Priority.SPOT, price=0.01, sku="")
    other = pool("other", priority=Priority.SPOT, price=0.05, sku="")
    assert bought(*(going(n, plain) for n in (1, 2, 3)), settings=config(plain, other)) == {"other": 3}


@pytest.mark.parametrize(("since", "stays"), [(9, False), (11, True)])
def test_an_announcement_that_is_long_over_on_a_node_at_work_counts_as_withdrawn(since, stays):
    there = going(1, when=timedelta(minutes=-since))
    assert (bought(there) == {}) is stays
    (seen,) = without_withdrawn(snapshot(nodes=[there]), NOW).nodes
    assert (seen.evicting_at is None) is stays


def test_a_node_that_is_not_ready_is_not_taken_for_one_that_stayed():
    there = going(1, when=timedelta(minutes=-30), ready=False)
    assert bought(there) == {"spot": 1}
