"""Where pending pods go: nodes that are there, nodes that are coming, nodes to buy."""

from datetime import timedelta

from shared.model import DaemonShape, HostPort, Upcoming
from shared.planning.plan import plan
from tests.builders import (
    GIB,
    GPU,
    NOTHING,
    NOW,
    Ledger,
    Movability,
    Taint,
    bound,
    config,
    idle,
    node,
    pairs,
    pods,
    pool,
    refs,
    shape,
    snapshot,
)

SMALL = shape(cpu=1000)


def planned(*pending, nodes=(), pools=(), ledger=NOTHING, daemons=()):
    return plan(snapshot(*pending, nodes=nodes, daemons=daemons), config(*pools), ledger, NOW)


def added(made):
    return {delta.pool: delta.add for delta in made.deltas}


def targets(placements):
    return {each.target: len(each.pods) for each in placements}


def soon(name, count):
    return Upcoming(name, count, NOW + timedelta(minutes=5))


def test_nothing_pending_plans_nothing():
    made = planned(nodes=[node("n1")])
    assert (made.deltas, made.fits_existing, made.unserved, made.cost_per_hour) == ((), (), (), 0.0)


def test_free_room_is_used_before_anything_is_bought():
    made = planned(pods("a", 4, SMALL), nodes=[node("n1")])
    assert targets(made.fits_existing) == {"n1": 4}
    assert made.deltas == ()


def test_what_is_left_over_is_bought_for():
    made = planned(pods("a", 9, SMALL), nodes=[node("n1")])
    assert targets(made.fits_existing) == {"n1": 4}
    assert added(made) == {"general": 2}
    assert made.cost_per_hour == 0.4


def test_the_fuller_node_is_filled_first_so_that_the_other_can_go():
    busy = node("busy", holds=[bound("x", 2, SMALL)])
    half = node("half", holds=[bound("y", 1, SMALL)])
    made = planned(pods("a", 2, SMALL), nodes=[half, busy])
    assert targets(made.fits_existing) == {"busy": 2}


def test_a_node_that_is_idle_is_filled_last():
    fuller_but_idle = idle("idle", holds=[bound("x", 2, SMALL)])
    made = planned(pods("a", 2, SMALL), nodes=[fuller_but_idle, node("busy", holds=[bound("y", 1, SMALL)])])
    assert targets(made.fits_existing) == {"busy": 2}


def test_nodes_in_trouble_cordoned_or_going_are_no_supply():
    nodes = [
        node("not-ready", ready=False),
        node("cordoned", unschedulable=True),
        node("evicting", evicting_at=NOW + timedelta(seconds=30)),
        node("retiring"),
    ]
    made = planned(pods("a", 4, SMALL), nodes=nodes, ledger=Ledger(retiring=frozenset({"retiring"})))
    assert made.fits_existing == ()
    assert added(made) == {"general": 1}


def test_a_node_of_no_pool_of_ours_counts_as_room_too():
    foreign = node("system-1", pool("system"), labels={"role": "system"})
    assert targets(planned(pods("a", 2, SMALL), nodes=[foreign]).fits_existing) == {"system-1": 2}


def test_nodes_asked_for_are_supply_until_their_deadline():
    waiting = pods("a", 8, SMALL)
    made = planned(waiting, ledger=Ledger(upcoming=(soon("general", 2),)))
    assert targets(made.fits_upcoming) == {"general": 8}
    assert made.deltas == ()
    late = Ledger(upcoming=(Upcoming("general", 2, NOW),))
    assert added(planned(waiting, ledger=late)) == {"general": 2}


def test_planning_again_while_the_nodes_are_on_the_way_buys_nothing_twice():
    pools = [pool("small", cpu=4000), pool("large", cpu=16000, memory=32 * GIB, price=0.75)]
    pending = [pods(f"c{n}", 3 + n * 2, shape(cpu=300 * n + 200, memory=(7 - n) * GIB // 2)) for n in range(7)]
    first = planned(*pending, pools=pools)
    again = planned(*pending, pools=pools, ledger=Ledger(upcoming=tuple(soon(k, n) for k, n in added(first).items())))
    assert added(first)
    assert again.deltas == ()
    assert sum(targets(again.fits_upcoming).values()) == sum(3 + n * 2 for n in range(7))
    by_name = {each.name: each for each in pools}
    joined = [
        node(f"{delta.pool}-{n}", by_name[delta.pool], created_at=NOW)
        for delta in first.deltas
        for n in range(delta.add)
    ]
    assert planned(*pending, pools=pools, nodes=joined).deltas == ()


def test_a_young_node_that_is_not_ready_yet_is_on_the_way():
    startup = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")
    young = node("n1", ready=False, created_at=NOW - timedelta(seconds=20), taints=(startup,))
    made = planned(pods("a", 4, SMALL), nodes=[young])
    assert targets(made.fits_upcoming) == {"n1": 4}
    assert made.deltas == ()


def test_a_young_node_with_a_taint_that_is_not_of_its_start_is_no_room():
    full_disk = Taint("node.kubernetes.io/disk-pressure", "", "NoSchedule")
    young = node("n1", created_at=NOW - timedelta(seconds=20), taints=(full_disk,))
    assert added(planned(pods("a", 4, SMALL), nodes=[young])) == {"general": 1}


def test_a_young_node_keeps_room_for_the_daemon_pods_that_will_still_come():
    agent = DaemonShape("agent", shape(cpu=1000))
    young = {"created_at": NOW - timedelta(seconds=20)}
    bare = node("n1", **young)
    assert targets(planned(pods("a", 4, SMALL), nodes=[bare], daemons=[agent]).fits_existing) == {"n1": 3}
    there = node("n1", holds=[bound("agent", 1, shape(cpu=1000), Movability.STAYS)], **young)
    assert targets(planned(pods("a", 4, SMALL), nodes=[there], daemons=[agent]).fits_existing) == {"n1": 3}


def test_a_node_that_never_gets_ready_is_bought_again_after_its_time():
    stuck = node("n1", ready=False, created_at=NOW - timedelta(seconds=901))
    assert added(planned(pods("a", 4, SMALL), nodes=[stuck])) == {"general": 1}


def test_a_young_node_counts_with_the_gpus_that_it_has_not_announced_yet():
    gpu = pool("gpu", gpu=2)
    allocatable = {name: amount for name, amount in gpu.allocatable.items() if name != GPU}
    train = pods("train", 2, shape(gpu=1))
    young = node("n1", gpu, created_at=NOW - timedelta(seconds=60), allocatable=allocatable)
    assert targets(planned(train, nodes=[young], pools=[gpu]).fits_upcoming) == {"n1": 2}
    broken = node("n1", gpu, allocatable=allocatable)
    assert added(planned(train, nodes=[broken], pools=[gpu])) == {"gpu": 1}


def test_host_ports_keep_pods_apart():
    web = shape(cpu=100, host_ports=(HostPort("", "TCP", 80),))
    taken = node("n1", holds=[bound("old", 1, web)])
    made = planned(pods("web", 3, web), nodes=[taken, node("n2")])
    assert targets(made.fits_existing) == {"n2": 1}
    assert added(made) == {"general": 2}


def test_two_classes_share_a_new_node():
    made = planned(pods("a", 1, shape(cpu=3000)), pods("b", 1, shape(cpu=1000)))
    assert [set(map(str, each.pods)) for each in made.deltas[0].nodes] == [{"default/a-0", "default/b-0"}]


def test_pods_on_a_node_that_azure_takes_away_are_planned_for_at_once():
    holds = [
        bound("moves", 2, SMALL),
        bound("agent", 1, shape(cpu=100), Movability.STAYS),
    ]
    evicting = node("spot-1", holds=holds, evicting_at=NOW + timedelta(seconds=30))
    made = planned(pods("a", 2, SMALL), nodes=[evicting])
    assert [sorted(map(str, each.pods)) for each in made.deltas[0].nodes] == [
        ["default/a-0", "default/a-1", "default/moves-0", "default/moves-1"]
    ]


def test_equal_shapes_of_two_groups_are_one_class():
    made = planned(pods("a", 2, SMALL), pods("b", 2, SMALL))
    assert added(made) == {"general": 1}
    assert set(made.deltas[0].nodes[0].pods) == {*refs("a", 2), *refs("b", 2)}


def test_the_plan_does_not_depend_on_the_order_of_the_snapshot():
    pending = [pods(f"c{n}", 2 + n % 3, shape(cpu=100 + 377 * n, memory=(17 - n) * GIB // 4)) for n in range(12)]
    nodes = [node(f"n{n}", holds=[bound(f"x{n}", n % 4, SMALL)] if n % 4 else []) for n in range(6)]
    pools = [pool("small"), pool("large", cpu=16000, memory=48 * GIB, price=0.7)]
    forward = planned(*pending, nodes=nodes, pools=pools)
    assert planned(*reversed(pending), nodes=nodes, pools=pools) == forward
    backward = planned(*pending, nodes=nodes[::-1], pools=pools)
    assert added(backward) == added(forward)


def test_a_pod_that_must_go_to_one_node_goes_there():
    here = shape(cpu=100, node_selector=pairs(**{"kubernetes.io/hostname": "n3"}))
    made = planned(pods("a", 1, here), nodes=[node(f"n{n}") for n in range(5)])
    assert targets(made.fits_existing) == {"n3": 1}
