"""Which idle nodes can go, and why the others stay."""

from datetime import timedelta

import pytest

from shared.model import HostPort, Mode, Upcoming
from shared.planning.plan import plan
from tests.builders import (
    GIB,
    NOTHING,
    NOW,
    Ledger,
    Movability,
    bound,
    config,
    idle,
    node,
    pairs,
    pods,
    pool,
    shape,
    snapshot,
)

SMALL = shape(cpu=1000)


def planned(*nodes, pending=(), settings=None, ledger=NOTHING):
    return plan(snapshot(*pending, nodes=nodes), settings or config(), ledger, NOW)


def gone(made):
    return [each.node for each in made.retirements]


def test_an_empty_node_goes_once_it_has_been_idle_for_long_enough():
    since = NOW - timedelta(seconds=600)
    made = planned(idle("n1", idle_since=since))
    assert [(each.node, each.pool, each.reason) for each in made.retirements] == [("n1", "general", "idle for 10 min")]
    assert planned(idle("n1", idle_since=since + timedelta(seconds=1))).retirements == ()


def test_a_busy_node_is_no_candidate_at_all():
    made = planned(node("n1"))
    assert (made.retirements, made.kept) == ((), {})


def test_a_node_whose_pods_fit_elsewhere_goes_and_the_plan_says_where():
    made = planned(idle("n1", holds=[bound("a", 2, SMALL)]), node("n2", holds=[bound("b", 1, SMALL)]))
    assert gone(made) == ["n1"]
    assert [(each.target, len(each.pods)) for each in made.retirements[0].moves] == [("n2", 2)]


def test_a_node_whose_pods_fit_nowhere_else_stays():
    made = planned(idle("n1", holds=[bound("a", 2, SMALL)]), node("n2", holds=[bound("b", 3, SMALL)]))
    assert made.retirements == ()
    assert made.kept == {"n1": "default/a-1: fits no node that stays"}


def test_room_is_used_up_by_each_node_that_goes():
    candidates = [idle(f"n{n}", holds=[bound(f"a{n}", 3, SMALL)]) for n in range(3)]
    made = planned(*candidates, node("busy", holds=[bound("b", 1, SMALL)]))
    assert gone(made) == ["n0"]
    assert set(made.kept) == {"n1", "n2"}


def test_two_idle_nodes_can_become_one_but_not_none():
    made = planned(*(idle(f"n{n}", holds=[bound(f"a{n}", 1, SMALL)]) for n in range(2)))
    assert gone(made) == ["n0"]
    assert made.kept == {"n1": "pods of a node that goes are planned onto it"}


def test_labels_and_ports_are_minded_when_pods_move():
    ssd = shape(cpu=100, node_selector=pairs(disk="ssd"))
    web = shape(cpu=100, host_ports=(HostPort("", "TCP", 80),))
    ssd_pool = pool(labels={"disk": "ssd"})
    only_one = planned(idle("n1", ssd_pool, [bound("a", 1, ssd)]), node("n2"))
    assert only_one.kept == {"n1": "default/a-0: fits no node that stays"}
    taken = planned(idle("n1", holds=[bound("a", 1, web)]), node("n2", holds=[bound("b", 1, web)]))
    assert taken.kept == {"n1": "default/a-0: fits no node that stays"}
    assert gone(planned(idle("n1", ssd_pool, [bound("a", 1, ssd)]), node("n2", ssd_pool))) == ["n1"]


def test_room_that_pending_pods_are_to_take_is_not_counted_on():
    made = planned(
        idle("n1", holds=[bound("a", 2, SMALL)]),
        node("n2", holds=[bound("b", 1, SMALL)]),
        pending=[pods("p", 3, SMALL)],
    )
    assert made.retirements == ()


def test_a_node_that_pending_pods_are_planned_onto_stays():
    made = planned(idle("n1"), pending=[pods("p", 1, SMALL)])
    assert made.kept == {"n1": "pending pods are planned onto it"}


def test_room_that_the_pods_of_retiring_nodes_will_take_is_not_counted_on():
    nodes = [
        node("going", holds=[bound("g", 2, SMALL)]),
        idle("n1", holds=[bound("a", 2, SMALL)]),
        node("n2", holds=[bound("b", 1, SMALL)]),
    ]
    made = planned(*nodes, ledger=Ledger(retiring=frozenset({"going"})), settings=config(max_parallel_fraction=1.0))
    assert gone(made) == []
    assert gone(planned(*nodes, settings=config(max_parallel_fraction=1.0))) == ["n1"]


def test_daemon_pods_hold_nothing_back_and_blocking_pods_do():
    daemon = bound("agent", 1, SMALL, Movability.STAYS)
    assert gone(planned(idle("n1", holds=[daemon]))) == ["n1"]
    blocking = bound("bare", 1, SMALL, Movability.BLOCKS, "no controller would recreate it")
    made = planned(idle("n1", holds=[daemon, blocking]), node("n2"))
    assert made.kept == {"n1": "default/bare-0: no controller would recreate it"}


def test_a_pod_with_a_rule_that_is_not_modelled_keeps_its_node():
    made = planned(idle("n1", holds=[bound("a", 1, shape(not_modelled=("VolumeBinding",)))]), node("n2"))
    assert made.kept == {"n1": "default/a-0: NotModelled: VolumeBinding"}


def test_an_administrators_cordon_is_respected_and_our_own_is_none():
    made = planned(idle("n1", unschedulable=True))
    assert made.kept == {"n1": "cordoned by an administrator"}
    ours = idle("n1", unschedulable=True, annotations={"sluice.io/retire-operation": "op-1"})
    assert gone(planned(ours)) == ["n1"]


@pytest.mark.parametrize(
    "annotation", ["cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt"]
)
def test_a_node_can_be_kept_by_annotation(annotation):
    made = planned(idle("n1", annotations={annotation: "true"}))
    assert made.kept == {"n1": f"annotation {annotation}=true"}
    assert gone(planned(idle("n1", annotations={annotation: "false"}))) == ["n1"]


@pytest.mark.parametrize(
    ("file_mode", "pool_mode", "reason"),
    [
        (Mode.GROW_ONLY, Mode.ACT, "mode is grow-only"),
        (Mode.ACT, Mode.GROW_ONLY, "mode is grow-only"),
        (Mode.PAUSED, Mode.ACT, "mode is paused"),
        (Mode.OBSERVE, Mode.ACT, "Observe: would be retired, idle for 60 min"),
        (Mode.ACT, Mode.OBSERVE, "Observe: would be retired, idle for 60 min"),
    ],
)
def test_only_in_mode_act_does_a_node_go(file_mode, pool_mode, reason):
    made = planned(idle("n1"), settings=config(pool(mode=pool_mode), mode=file_mode))
    assert made.retirements == ()
    assert made.kept == {"n1": reason}


def test_a_pool_keeps_its_minimum():
    settings = config(pool(minimum=2), max_parallel_fraction=1.0)
    made = planned(*(idle(f"n{n}") for n in range(3)), settings=settings)
    assert gone(made) == ["n0"]
    assert made.kept["n1"] == "PoolMinimum: general has 2, its minimum"


def test_a_node_in_trouble_goes_even_at_the_minimum():
    made = planned(idle("dead", ready=False), node("n1"), settings=config(pool(minimum=1)))
    assert gone(made) == ["dead"]


def test_only_a_fraction_goes_at_once_and_what_is_under_way_counts():
    nodes = [idle(f"n{n}") for n in range(10)]
    settings = config(max_parallel_fraction=0.3)
    assert len(gone(planned(*nodes, settings=settings))) == 3
    under_way = Ledger(retiring=frozenset({"n8", "n9"}))
    made = planned(*nodes, settings=settings, ledger=under_way)
    assert len(gone(made)) == 1
    assert made.kept["n7"] == "DisruptionBudget: 3 of 3 retirements are under way"


def test_one_node_can_always_go():
    assert len(gone(planned(idle("n1"), idle("n2"), settings=config(max_parallel_fraction=0.1)))) == 1


def test_the_easiest_go_first_then_the_dearest():
    cheap, dear = pool("cheap", price=0.1), pool("dear", price=0.9)
    nodes = [
        idle("laden", dear, [bound("a", 1, SMALL)]),
        idle("empty-cheap", cheap),
        idle("empty-dear", dear),
        node("busy", cheap),
    ]
    made = planned(*nodes, settings=config(cheap, dear, max_parallel_fraction=0.75))
    assert gone(made) == ["empty-dear", "empty-cheap", "laden"]


def test_nodes_that_go_already_or_are_taken_away_are_no_candidates():
    evicting = idle("spot", evicting_at=NOW + timedelta(seconds=30))
    made = planned(evicting, idle("going"), ledger=Ledger(retiring=frozenset({"going"})))
    assert (made.retirements, made.kept) == ((), {})


def test_nodes_of_others_are_never_candidates():
    assert planned(idle("system-1", pool("system")), settings=config(pool("general"))).kept == {}


def test_pods_do_not_move_to_nodes_that_are_only_coming():
    ledger = Ledger(upcoming=(Upcoming("general", 3, NOW + timedelta(minutes=5)),))
    made = planned(idle("n1", holds=[bound("a", 1, shape(memory=GIB))]), ledger=ledger)
    assert made.kept == {"n1": "default/a-0: fits no node that stays"}
