"""A node that is coming is supply only until its deadline, and only for what it was bought for."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.model import Ledger, Taint
from shared.planning.devices import newly_failed
from shared.planning.plan import plan
from tests.builders import GPU, NOW, bound, config, idle, node, pods, pool, shape, snapshot

GPUS = pool("gpu", gpu=4)
WITHOUT = {name: amount for name, amount in GPUS.allocatable.items() if name != GPU}
TRAIN = pods("train", 1, shape(gpu=4))
WEB = pods("web", 1, shape(cpu=100))


def planned(*pending, nodes):
    return plan(snapshot(*pending, nodes=nodes), config(GPUS), Ledger(), NOW)


def aged(minutes, **more):
    return node("n1", GPUS, **({"created_at": NOW - timedelta(minutes=minutes), "allocatable": WITHOUT} | more))


def targets(placements):
    return {each.target: len(each.pods) for each in placements}


AWAY = tuple(Taint("node.kubernetes.io/unreachable", "", effect) for effect in ("NoSchedule", "NoExecute"))


@pytest.mark.parametrize(
    "more", [{}, {"ready": False}, {"ready": False, "taints": AWAY}, {"allocatable": {**WITHOUT, GPU: 0}}]
)
@pytest.mark.parametrize("minutes", [1, 14, 16, 24])
def test_gpus_that_were_promised_are_waited_for_also_over_a_restart(minutes, more):
    made = planned(TRAIN, nodes=[aged(minutes, **more)])
    assert targets(made.fits_upcoming) == {"n1": 1}
    assert made.deltas == ()


def test_devices_that_are_announced_one_by_one_are_waited_for():
    made = planned(TRAIN, nodes=[aged(5, allocatable={**WITHOUT, GPU: 3})])
    assert targets(made.fits_upcoming) == {"n1": 1}


def test_who_needs_no_gpu_can_run_there_already():
    made = planned(TRAIN, WEB, nodes=[aged(5)])
    assert targets(made.fits_upcoming) == {"n1": 1}
    assert targets(made.fits_existing) == {"n1": 1}


def test_after_its_deadline_a_node_without_its_gpus_is_no_supply_of_them_and_named():
    made = planned(TRAIN, WEB, nodes=[aged(25)])
    assert made.deltas == (), "the next one would have none either"
    reason = "RecentFailure: DevicesNeverAppeared for Standard_gpu Regular until 12:30:00Z"
    assert made.unserved[0].reasons == {"gpu": reason}
    assert targets(made.fits_existing) == {"n1": 1}
    assert made.notes == (f"node n1 of pool gpu has 0 {GPU} instead of 4, and counts with that",)


def test_a_node_that_loses_gpus_later_counts_with_those_it_has():
    worn = node("n1", GPUS, allocatable={**WITHOUT, GPU: 2})
    made = planned(TRAIN, pods("small", 1, shape(gpu=2)), nodes=[worn])
    assert targets(made.fits_existing) == {"n1": 1}
    assert [delta.add for delta in made.deltas] == [1]


def test_a_node_that_gets_its_gpus_late_is_not_retired_before():
    waited_for = idle("n1", GPUS, allocatable=WITHOUT, created_at=NOW - timedelta(minutes=12))
    assert planned(TRAIN, nodes=[waited_for]).kept == {"n1": "pending pods are planned onto it"}


def test_a_node_of_a_pool_without_extended_resources_is_waited_for_until_its_time_to_join():
    plain = pool()
    late = node("n1", plain, ready=False, created_at=NOW - timedelta(minutes=16))
    made = plan(snapshot(WEB, nodes=[late]), config(plain), Ledger(), NOW)
    assert [delta.add for delta in made.deltas] == [1]


def test_what_a_pool_cannot_give_its_nodes_is_bought_elsewhere():
    other = pool("other", gpu=4, price=9.0)
    made = plan(snapshot(TRAIN, nodes=[aged(25)]), config(GPUS, other), Ledger(), NOW)
    assert [delta.pool for delta in made.deltas] == ["other"]


def test_half_an_hour_later_it_is_tried_again():
    assert [delta.add for delta in planned(TRAIN, nodes=[aged(56)]).deltas] == [1]


def test_a_node_whose_gpus_never_came_goes_however_short_a_while_it_was_idle():
    (going,) = planned(TRAIN, nodes=[aged(26)]).retirements
    assert (going.node, going.reason) == ("n1", f"DevicesNeverAppeared: 0 of 4 {GPU} after 26 min")


@pytest.mark.parametrize(
    "more", [{"ready": False}, {"allocatable": {**WITHOUT, GPU: 1}}, {"created_at": NOW - timedelta(minutes=24)}]
)
def test_one_that_restarts_has_some_or_has_time_yet_does_not_go(more):
    assert planned(TRAIN, nodes=[aged(26, **more)]).retirements == ()


def test_a_younger_node_with_its_gpus_proves_the_pool_sound():
    sound = node("n2", GPUS, [bound("t", 1, shape(gpu=4))], created_at=NOW - timedelta(minutes=25))
    made = planned(TRAIN, nodes=[aged(26), sound])
    assert [delta.add for delta in made.deltas] == [1]
    assert [going.node for going in made.retirements] == ["n1"]


def test_it_is_remembered_while_it_is_news():
    found = [len(list(newly_failed(snapshot(nodes=[aged(minutes)]), config(GPUS), NOW))) for minutes in (24, 26, 40)]
    assert found == [0, 1, 0]
