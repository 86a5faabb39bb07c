"""A node whose pods keep a gang at its minimum stays; members above the minimum may move."""

from __future__ import annotations

from shared.model import Ledger
from shared.planning.plan import plan
from tests.builders import NOTHING, NOW, bound, config, idle, node, pods, pool, shape
from tests.gangs.builders import gang, members, named, snapshot

POOL = pool(cpu=8000)
JOB = shape(1000, gang=named("job"))


def made(minimum, *nodes, ledger=NOTHING, gangs=None, pending=()):
    found = [gang("job", minimum)] if gangs is None else gangs
    return plan(snapshot(*pending, gangs=found, nodes=nodes), config(POOL, max_parallel_fraction=1.0), ledger, NOW)


def two_nodes():
    return idle("n1", POOL, [bound("a", 2, JOB)]), node("n2", POOL, [bound("b", 3, JOB)])


def test_a_node_whose_pods_a_gang_cannot_spare_stays_and_says_so():
    decided = made(5, *two_nodes())
    assert decided.retirements == ()
    assert decided.kept == {"n1": "Gang: moving 2 would leave 3 of 5 pods of default/job"}


def test_members_above_the_minimum_may_move():
    decided = made(3, *two_nodes())
    assert [going.node for going in decided.retirements] == ["n1"]


def test_nodes_that_could_each_go_alone_do_not_go_together():
    decided = made(4, *two_nodes(), idle("n3", POOL, [bound("c", 1, JOB)]))
    assert [going.node for going in decided.retirements] == ["n3"]
    assert decided.kept == {"n1": "Gang: moving 2 would leave 3 of 4 pods of default/job"}


def test_members_on_nodes_that_are_going_already_are_not_counted_on():
    decided = made(3, *two_nodes(), ledger=Ledger(retiring=frozenset({"n2"})))
    assert decided.kept["n1"] == "Gang: moving 2 would leave 0 of 3 pods of default/job"


def test_a_role_that_cannot_spare_its_pods_holds_the_node():
    servers = idle("n1", POOL, [bound("a", 1, shape(1000, gang=f"{named('job')}#ps"))])
    decided = made(0, servers, node("n2", POOL, [bound("b", 5, JOB)]), gangs=[gang("job", 2, ps=1)])
    assert decided.kept == {"n1": "Gang: moving 1 would leave 0 of 1 ps pods of default/job"}


def test_a_gang_of_which_nothing_is_known_is_left_alone():
    assert made(0, *two_nodes(), gangs=[]).kept == {"n1": "Gang: how many pods default/job needs is not known"}


def test_a_node_of_a_group_that_asks_for_nothing_may_go():
    assert [going.node for going in made(0, *two_nodes()).retirements] == ["n1"]


def test_a_node_that_a_gang_is_about_to_use_stays():
    decided = made(2, idle("n1", POOL), pending=[members("job", 2)])
    assert decided.kept == {"n1": "pending pods are planned onto it"}


def test_a_node_that_only_an_unserved_gang_would_use_may_go():
    waiting = [members("job", 2), pods("x", 1, shape(100))]
    decided = made(20, idle("n1", POOL), node("n2", POOL, [bound("b", 1, shape(100))]), pending=waiting)
    assert [going.node for going in decided.retirements] == ["n1"]
