"""The first real nodes of a pool correct what the pools file promises of the next ones."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.model import DaemonShape, Ledger, Taint
from shared.planning.plan import plan
from shared.state.ledger import ClusterLedger, lesson_entry, planning_ledger, stamp
from shared.state.operations import apply
from tests.builders import (
    GIB,
    GPU,
    LONG_AGO,
    NOW,
    bound,
    config,
    node,
    pairs,
    pods,
    pool,
    shape,
    snapshot,
)

FULL = [bound("x", 1, shape(cpu=3000, memory=12 * GIB))]
HALF = shape(cpu=2000)


def planned(*pending, nodes=(), pools=None, ledger=None, daemons=()):
    cluster = snapshot(*pending, nodes=nodes, daemons=daemons)
    return plan(cluster, config(*(pools or [pool()])), ledger or Ledger(), NOW)


def added(made):
    return {delta.pool: delta.add for delta in made.deltas}


def real(name="n1", of=None, **more):
    """A full node whose kubelet keeps 180m of its four cores."""
    return node(name, of, FULL, **({"allocatable": {"cpu": 3820, "memory": 15 * GIB, "pods": 110}} | more))


def remembering(made):
    return Ledger(learnt=made.learnt)


def test_new_nodes_are_planned_with_the_room_that_real_ones_have():
    halves = pods("a", 4, HALF)
    assert added(planned(halves)) == {"general": 2}
    assert added(planned(halves, nodes=[real()])) == {"general": 4}


def test_what_was_learnt_stays_when_the_pool_is_empty_again():
    ledger = remembering(planned(nodes=[real()]))
    assert added(planned(pods("a", 4, HALF), ledger=ledger)) == {"general": 4}


def later(ledger, **passed):
    when = timedelta(**passed)
    return Ledger(learnt={name: replace(each, seen=each.seen - when) for name, each in ledger.learnt.items()})


@pytest.mark.parametrize(
    "trouble",
    [
        {"taints": (Taint("example.com/not-yet", "", "NoSchedule"),)},
        {"allocatable": {"cpu": 2500, "memory": 15 * GIB, "pods": 110}},
    ],
)
def test_a_lesson_that_shuts_pods_out_is_doubted_two_hours_after_its_nodes_went(trouble):
    young = {**trouble, "created_at": NOW - timedelta(hours=1)}
    ledger = remembering(planned(nodes=[real(**young)]))
    large = pods("a", 1, shape(cpu=3000))
    assert added(planned(large, ledger=later(ledger, minutes=119))) == {}
    assert added(planned(large, ledger=later(ledger, minutes=121))) == {"general": 1}
    again = remembering(planned(nodes=[real(**young)], ledger=later(ledger, minutes=121)))
    assert added(planned(large, ledger=later(again, minutes=119))) == {}


@pytest.mark.parametrize(("nodes", "hours", "bought"), [(2, 1.9, {}), (2, 2.1, {"general": 1}), (3, 2.1, {})])
def test_what_shuts_pods_out_of_one_or_two_standing_nodes_is_doubted_and_of_three_believed(nodes, hours, bought):
    taint, made = Taint("example.com/not-yet", "", "NoSchedule"), NOW - timedelta(hours=hours)
    standing = [real(f"n{number}", taints=(taint,), created_at=made) for number in range(nodes)]
    assert added(planned(pods("a", 1, HALF), nodes=standing)) == bought


def test_a_lesson_about_a_little_room_is_not_doubted():
    ledger = later(remembering(planned(nodes=[real()])), days=3)
    assert added(planned(pods("a", 4, HALF), ledger=ledger)) == {"general": 4}


def test_another_promise_of_the_pools_file_voids_the_lesson():
    ledger = remembering(planned(nodes=[real()]))
    assert added(planned(pods("a", 4, HALF), pools=[pool(cpu=4200)], ledger=ledger)) == {"general": 2}


def test_drift_is_told_once_for_each_resource():
    made = planned(nodes=[real("n1"), real("n2")])
    assert made.notes == (
        "pool general: nodes have 3820m cpu allocatable, the pools file promises 4",
        "pool general: nodes have 15Gi memory allocatable, the pools file promises 16Gi",
    )


def test_a_promise_that_is_kept_is_not_worth_a_word():
    almost = {"cpu": 4000, "memory": 16 * GIB - 9, "pods": 110, "ephemeral-storage": GIB}
    assert planned(nodes=[real(allocatable=almost)]).notes == ()


def test_a_resource_that_nobody_promised_serves_pods():
    fuse = {"cpu": 4000, "memory": 16 * GIB, "pods": 110, "smarter-devices/fuse": 20}
    wants = pods("a", 1, shape(cpu=2000, extra={"smarter-devices/fuse": 1}))
    assert added(planned(wants)) == {}
    made = planned(wants, nodes=[real(allocatable=fuse)])
    assert added(made) == {"general": 1}
    assert made.notes == ("pool general: nodes have 20 smarter-devices/fuse allocatable, the pools file promises none",)


def test_labels_of_real_nodes_can_be_asked_for():
    wants = pods("a", 1, shape(cpu=2000, node_selector=pairs(agentpool="general")))
    labels = {"sluice.io/pool": "general", "agentpool": "general"}
    assert added(planned(wants, nodes=[real(labels=labels)])) == {"general": 1}


def test_a_promised_label_that_real_nodes_lack_serves_nobody():
    promised = pool(labels={"disk": "fast"})
    wants = pods("a", 1, shape(cpu=2000, node_selector=pairs(disk="fast")))
    assert added(planned(wants, pools=[promised])) == {"general": 1}
    made = planned(wants, pools=[promised], nodes=[real(labels={"sluice.io/pool": "general"})])
    assert added(made) == {}
    assert "pool general: nodes lack labels that the pools file promises: disk=fast" in made.notes


def test_one_nodes_own_labels_are_not_taken_for_the_pools():
    own = {"kubernetes.io/hostname": "n1", "topology.kubernetes.io/zone": "westeurope-1", "vm": "n1"}
    made = planned(nodes=[real(labels={"sluice.io/pool": "general", **own})], pools=[pool(zones=("1", "2"))])
    assert made.learnt["general"].labels == ()


@pytest.mark.parametrize(
    ("zones", "values", "known"),
    [
        ((), ("westeurope-1",), False),
        ((), ("westeurope-1", "westeurope-1"), True),
        ((), ("westeurope-1", "westeurope-2"), False),
        ((), ("0", "0"), False),
        (("2",), ("elsewhere-2",), True),
        (("1", "2"), ("westeurope-1", "westeurope-1"), False),
    ],
)
def test_a_zone_is_learnt_only_where_the_next_node_will_have_it_too(zones, values, known):
    key = "topology.kubernetes.io/zone"
    nodes = [real(f"n{n}", labels={"sluice.io/pool": "general", key: zone}) for n, zone in enumerate(values)]
    made = planned(nodes=nodes, pools=[pool(zones=zones)])
    assert (key in dict(made.learnt["general"].labels)) is known


def test_taints_of_real_nodes_keep_pods_away():
    tainted = real(taints=(Taint("sku", "gpu", "NoSchedule"),), created_at=NOW - timedelta(hours=1))
    made = planned(pods("a", 1, HALF), nodes=[tainted])
    assert added(made) == {}
    assert "TaintToleration" in made.unserved[0].reasons["general"]
    assert made.notes[-1] == (
        "pool general: nodes have the taints sku=gpu:NoSchedule, the pools file promises no taints"
    )


@pytest.mark.parametrize(
    "key",
    [
        "node.kubernetes.io/disk-pressure",
        "sluice.io/retiring",
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
    ],
)
def test_a_nodes_passing_condition_is_no_lesson(key):
    made = planned(pods("a", 1, HALF), nodes=[real(taints=(Taint(key, "", "NoSchedule"),))])
    assert added(made) == {"general": 1}


@pytest.mark.parametrize(
    "trouble",
    [
        {"ready": False},
        {"unschedulable": True},
        {"evicting_at": NOW},
        {"taints": (Taint("node.kubernetes.io/not-ready", "", "NoSchedule"),)},
        {"allocatable": {}},
        {"allocatable": {"cpu": 1000, "memory": 15 * GIB, "pods": 110}},
        {"labels": {"node.kubernetes.io/instance-type": "Standard_other"}},
    ],
)
def test_a_node_in_trouble_or_of_another_size_teaches_nothing(trouble):
    assert planned(nodes=[real(**trouble)]).learnt == {}


def test_a_node_that_retires_teaches_nothing():
    assert planned(nodes=[real()], ledger=Ledger(retiring=frozenset({"n1"}))).learnt == {}


def test_of_nodes_made_together_the_least_room_counts():
    roomy = real("n2", allocatable={"cpu": 3900, "memory": 16 * GIB, "pods": 100})
    made = planned(nodes=[real("n1"), roomy])
    assert made.learnt["general"].allocatable == {"cpu": 3820, "memory": 15 * GIB, "pods": 100}


def test_newer_nodes_tell_more_of_the_next_one_than_old_ones():
    new = real("n2", created_at=NOW - timedelta(hours=1), allocatable={"cpu": 4000, "memory": 16 * GIB, "pods": 110})
    made = planned(nodes=[real("n1"), new])
    assert made.learnt["general"].allocatable["cpu"] == 4000
    old_ones_left = planned(nodes=[real("n1")], ledger=remembering(made))
    assert old_ones_left.learnt["general"].allocatable["cpu"] == 4000


def test_daemon_sets_are_counted_on_what_was_learnt():
    agent, waiting = DaemonShape("agent", shape(cpu=1000)), pods("a", 2, shape(cpu=1500))
    assert added(planned(waiting, daemons=[agent])) == {"general": 1}
    assert added(planned(waiting, nodes=[real()], daemons=[agent])) == {"general": 2}


def test_one_node_without_its_gpus_teaches_nothing_wrong():
    gpu = pool("gpu", gpu=4)
    sick = real("n1", gpu, allocatable={"cpu": 4000, "memory": 16 * GIB, "pods": 110, GPU: 3})
    made = planned(pods("train", 1, shape(gpu=4)), nodes=[sick], pools=[gpu])
    assert made.learnt == {}
    assert added(made) == {"gpu": 1}


def test_two_nodes_without_their_gpus_stop_the_buying_while_they_stand():
    gpu = pool("gpu", gpu=4)
    train = pods("train", 1, shape(gpu=4))
    made = planned(train, nodes=sick_pair(gpu, minutes=60), pools=[gpu])
    assert added(made) == {}
    assert GPU in made.unserved[0].reasons["gpu"]
    assert not made.learnt["gpu"].lasting


def test_two_nodes_without_their_gpus_that_a_minimum_keeps_do_not_shut_the_pool_for_good():
    gpu = pool("gpu", gpu=4, minimum=2)
    train = pods("train", 1, shape(gpu=4))
    assert added(planned(train, nodes=sick_pair(gpu, minutes=119), pools=[gpu])) == {}
    assert added(planned(train, nodes=sick_pair(gpu, minutes=121), pools=[gpu])) == {"gpu": 1}


def sick_pair(gpu, minutes):
    made, none = NOW - timedelta(minutes=minutes), {"cpu": 4000, "memory": 16 * GIB, "pods": 110}
    return [real(name, gpu, allocatable=none, created_at=made) for name in ("n1", "n2")]


def test_a_sound_node_outweighs_any_number_of_sick_ones():
    gpu = pool("gpu", gpu=1)
    none = {"cpu": 4000, "memory": 16 * GIB, "pods": 110}
    sick = [real(f"n{n}", gpu, allocatable=none) for n in range(3)]
    sound = real("n9", gpu, allocatable=none | {GPU: 1}, created_at=LONG_AGO - timedelta(days=9))
    made = planned(pods("train", 1, shape(gpu=1)), nodes=[*sick, sound], pools=[gpu])
    assert made.learnt["gpu"].allocatable[GPU] == 1


def told(state, lessons):
    return apply(state, "release", {"holder": "", "now": stamp(NOW), "generation": 0, "lease": 60, "learnt": lessons})[
        0
    ]


def test_the_ledger_gives_back_what_it_was_told():
    odd = {"taints": (Taint("a", "b", "NoExecute"),), "labels": {"c": "d"}, "created_at": NOW - timedelta(hours=1)}
    lesson = planned(nodes=[real(**odd)]).learnt["general"]
    state = told(None, {"general": lesson_entry(lesson)})
    assert planning_ledger(ClusterLedger.decode(state).view()).learnt == {"general": lesson}


def test_the_ledger_keeps_the_newest_lesson():
    lesson = lesson_entry(planned(nodes=[real()]).learnt["general"])
    older = {**lesson, "newest": stamp(LONG_AGO - timedelta(days=1)), "allocatable": {}}
    assert told(told(None, {"general": lesson}), {"general": older})["learnt"] == {"general": lesson}
    elsewhere = {**older, "declared": "another promise"}
    assert told(told(None, {"general": lesson}), {"general": elsewhere})["learnt"] == {"general": elsewhere}


@settings(deadline=None, max_examples=15)
@given(st.integers(1, 60), st.integers(0, 32))
def test_what_the_ledger_remembers_of_pools_is_bounded_and_the_latest_stays(number, labels):
    lesson = lesson_entry(planned(nodes=[real()]).learnt["general"])
    state = None
    for n in range(number):
        odd = {f"label-{n}-{each}": f"value-{n * each}" for each in range(labels)}
        state = told(state, {f"pool-{n}": {**lesson, "labels": odd}})
    ledger = ClusterLedger.decode(state)
    assert f"pool-{number - 1}" in ledger.learnt
    assert len(str(state)) < 20_000


@settings(deadline=None)
@given(st.permutations([real(f"n{n}", created_at=LONG_AGO + timedelta(minutes=25 * n)) for n in range(4)]))
def test_a_lesson_does_not_depend_on_the_order_of_the_nodes(nodes):
    cut = [each for each in nodes if each.name != "n2"]
    assert planned(nodes=cut).learnt == planned(nodes=sorted(cut, key=lambda each: each.name)).learnt
