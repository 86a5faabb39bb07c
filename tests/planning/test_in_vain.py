"""No mistake is bought twice: what came is held against the pods that it was bought for."""

from dataclasses import replace

import pytest

from shared.model import Gang, PodClass, Purchase, Taint, Vain
from shared.nodes.starting import STARTING_TAINT
from shared.planning.in_vain import SETTLING, class_key
from shared.planning.plan import plan
from tests.builders import (
    GPU,
    NOW,
    Ledger,
    Movability,
    bound,
    config,
    node,
    pods,
    pool,
    refs,
    shape,
    snapshot,
    timedelta,
)

FAST = {"disk": "fast"}
POOL = pool(labels=FAST)
POD = shape(cpu=3000, node_selector=(("disk", "fast"),))
OTHER = shape(cpu=3000)
A_WHILE_AGO = NOW - SETTLING
YOUNG = {"created_at": NOW - timedelta(minutes=2)}
SURPRISE = Taint("maintenance", "", "NoSchedule")


def came(name="n1", of=POOL, labels=None, **more):
    """A node that joined two minutes ago and lacks the label it was bought for, unless `labels` say otherwise."""
    return node(name, of, **{**YOUNG, "labels": labels or {}, **more})


def bought(*names, seen=None, classes=(POD,), of=POOL):
    keys = tuple(class_key(each) for each in classes)
    return {f"{of.name}/{name}": Purchase(keys, dict.fromkeys(keys, seen) if seen else {}) for name in names}


def decided(*nodes, pending=None, ledger, pools=(POOL,)):
    waiting = pending or [pods("a", 2, POD)]
    return plan(snapshot(*waiting, nodes=nodes), config(*pools), ledger, NOW)


def why(made):
    return made.unserved[0].reasons[POOL.name] if made.unserved else ""


def test_nothing_is_bought_for_a_class_while_a_node_that_came_for_it_does_not_take_it():
    made = decided(came(), ledger=Ledger(bought=bought("n1")))
    assert made.deltas == ()
    assert why(made).startswith("Waits: node n1, bought for it, does not take it: NodeAffinity: needs label disk=fast")
    assert made.judged.seen == {"general/n1": {class_key(POD): (NOW, "uid-a-0")}}
    assert not made.judged.vain


def test_after_a_minute_it_is_a_mistake_and_the_difference_is_named():
    made = decided(came(), ledger=Ledger(bought=bought("n1", seen=(A_WHILE_AGO, "uid-a-0"))))
    assert made.deltas == ()
    assert why(made).startswith("BoughtInVain: node n1, bought for it, does not take it: NodeAffinity")
    assert "it has no label disk, the pools file promises disk=fast" in made.judged.vain[class_key(POD)]


def test_a_class_that_pauses_buys_nothing_until_the_pause_is_over():
    late = NOW + timedelta(minutes=5)
    made = decided(ledger=Ledger(vain={class_key(POD): Vain(late, "node n1 lacks it")}))
    assert made.deltas == ()
    assert why(made) == "BoughtInVain: node n1 lacks it; nothing is bought for it until 12:05:00Z"
    over = decided(ledger=Ledger(vain={class_key(POD): Vain(NOW, "node n1 lacks it")}))
    assert [delta.add for delta in over.deltas] == [2]


def test_another_class_goes_on_buying():
    made = decided(came(), pending=[pods("b", 2, OTHER)], ledger=Ledger(bought=bought("n1")))
    assert sum(delta.add for delta in made.deltas) == 1, "one has room on the node that came"


def test_pods_that_pause_take_what_room_there_is_elsewhere():
    good = came("n2", labels=FAST)
    made = decided(came(), good, ledger=Ledger(bought=bought("n1")))
    assert [(placed.target, len(placed.pods)) for placed in made.fits_existing] == [("n2", 1)]
    assert made.deltas == ()


def test_a_node_that_others_filled_is_no_mistake():
    full = came(labels=FAST, holds=[bound("b", 1, OTHER)])
    made = decided(full, pending=[pods("a", 1, POD)], ledger=Ledger(bought=bought("n1", seen=(A_WHILE_AGO, "uid-a-0"))))
    assert [delta.add for delta in made.deltas] == [1]
    assert not made.judged.vain


@pytest.mark.parametrize(
    "state",
    [
        {"unschedulable": True},
        {"evicting_at": NOW},
        {"taints": (Taint("node.kubernetes.io/disk-pressure", "", "NoSchedule"),)},
        {"ready": False, "created_at": NOW - timedelta(hours=1)},
    ],
)
def test_a_node_that_is_leaving_or_ill_is_no_mistake(state):
    node_ = came(labels=FAST, **state)
    made = decided(node_, pending=[pods("a", 1, POD)], ledger=Ledger(bought=bought("n1")))
    assert [delta.add for delta in made.deltas] == [1]


def test_a_node_that_is_retired_is_no_mistake():
    ledger = Ledger(bought=bought("n1"), retiring=frozenset({"n1"}))
    assert [delta.add for delta in decided(came(), pending=[pods("a", 1, POD)], ledger=ledger).deltas] == [1]


@pytest.mark.parametrize("state", [{"ready": False}, {"taints": (Taint(STARTING_TAINT, "", "NoSchedule"),)}])
def test_a_node_that_still_starts_is_waited_for_and_not_judged(state):
    made = decided(came(**state), ledger=Ledger(bought=bought("n1", seen=(A_WHILE_AGO, "uid-a-0"))))
    assert made.deltas == ()
    assert why(made) == "Waits: node n1, bought for it, has not finished starting"
    assert not made.judged.seen
    assert not made.judged.vain


def test_devices_that_are_still_awaited_are_no_mistake():
    gpus = pool("general", gpu=2)
    pod = shape(gpu=2)
    bare = node("n1", gpus, **YOUNG, allocatable={"cpu": 4000, "memory": 2**34, "pods": 110})
    ledger = Ledger(bought=bought("n1", classes=[pod], of=gpus))
    made = plan(snapshot(pods("a", 1, pod), nodes=[bare]), config(gpus), ledger, NOW)
    assert [placed.target for placed in made.fits_upcoming] == ["n1"]
    assert not made.judged.seen


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"labels": FAST, "taints": (SURPRISE,)},
            "does not tolerate maintenance:NoSchedule, which the pools file does",
        ),
        (
            {"labels": FAST, "allocatable": {"cpu": 2000, "memory": 2**34, "pods": 110}},
            "needs 3 cpu, it has 2, the pools file promises 4 cpu",
        ),
        (
            {"labels": FAST, "holds": [bound("d", 1, shape(cpu=2000), Movability.STAYS)]},
            "needs 3 cpu, it has 2",
        ),
    ],
)
def test_what_differs_is_told(change, told):
    made = decided(came(**change), ledger=Ledger(bought=bought("n1", seen=(A_WHILE_AGO, "uid-a-0"))))
    assert told in made.judged.vain[class_key(POD)]


def test_pods_that_came_later_start_the_clock_anew():
    made = decided(came(), ledger=Ledger(bought=bought("n1", seen=(A_WHILE_AGO, "uid-long-gone"))))
    assert made.deltas == ()
    assert not made.judged.vain
    assert made.judged.seen["general/n1"][class_key(POD)] == (NOW, "uid-a-0")


def test_an_empty_node_that_the_scheduler_passes_by_for_a_minute_is_a_mistake_too():
    empty = came(labels=FAST)
    first = decided(empty, pending=[pods("a", 3, POD)], ledger=Ledger(bought=bought("n1")))
    assert [delta.add for delta in first.deltas] == [2], "the scheduler may only be behind"
    assert first.judged.seen
    later = Ledger(bought=bought("n1", seen=(A_WHILE_AGO, "uid-a-0")))
    second = decided(empty, pending=[pods("a", 3, POD)], ledger=later)
    assert second.deltas == ()
    assert "the scheduler places no such pod there" in second.judged.vain[class_key(POD)]


def test_pods_of_a_node_that_azure_takes_are_not_waiting_in_vain():
    going = node("old", POOL, [bound("a", 1, POD)], evicting_at=NOW)
    ledger = Ledger(bought=bought("n1", seen=(A_WHILE_AGO, "uid-a-0")))
    made = plan(snapshot(nodes=[came(labels=FAST), going]), config(POOL), ledger, NOW)
    assert not made.judged.vain


def test_one_class_of_a_gang_holds_up_the_others():
    workers, chief = replace(POD, gang="default/job#worker"), replace(OTHER, gang="default/job#chief")
    seen = snapshot(pods("w", 2, workers), pods("c", 1, chief), nodes=[came()])
    seen = replace(seen, gangs=(Gang("default/job", 3, (("chief", 1), ("worker", 2))),))
    made = plan(seen, config(POOL), Ledger(bought=bought("n1", classes=[workers])), NOW)
    assert made.deltas == ()


def test_a_class_is_the_same_whoever_is_told_to_go_where():
    told = PodClass(POD, refs("a", 1), nominated="n1")
    assert class_key(told.shape) == class_key(replace(POD, labels=(("app", "a"),), namespace="default"))
    assert class_key(POD) != class_key(OTHER)
    assert class_key(POD) != class_key(replace(POD, requests=((GPU, 1),)))
