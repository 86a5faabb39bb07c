"""Nodes with pods that must run to their end: they may go once these have ended, and count among themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.model import Drain, Movability, NodeView
from shared.planning.plan import plan
from shared.planning.replacing import with_replacements
from shared.reading.projection import project_node
from shared.wire.snapshot_codec import decode, encode
from tests.builders import NOTHING, NOW, Ledger, bound, config, idle, node, pool, shape, snapshot
from tests.reading.builders import owned, pod

RUN = shape(cpu=1000)
WAITS = Movability.WAITS


def training(name: str, of: Movability = WAITS, why: str = "") -> NodeView:
    return idle(name, holds=[bound(f"run-{name}", 1, RUN, of, why)])


def planned(*nodes: NodeView, ledger: Ledger = NOTHING, share: float = 0.5):
    return plan(snapshot(nodes=nodes), config(max_parallel_fraction=share), ledger, NOW)


def test_a_node_may_go_whose_pods_only_have_to_end_and_no_place_is_looked_for() -> None:
    made = planned(training("n1"))
    assert [(each.node, each.moves) for each in made.retirements] == [("n1", ())]


def test_others_on_it_still_need_a_place() -> None:
    crowded = replace(training("n1"), bound=(*training("n1").bound, bound("web", 1, shape(cpu=2000))))
    assert planned(crowded).kept == {"n1": "default/web-0: fits no node that stays"}


def test_nodes_that_wait_use_up_no_place_of_those_that_go() -> None:
    ledger = Ledger(retiring=frozenset({"n1"}), waiting=frozenset({"n1"}))
    made = planned(training("n1"), idle("n2"), ledger=ledger)
    assert [each.node for each in made.retirements] == ["n2"]


def test_those_that_wait_beyond_their_limit_use_up_places_of_the_others() -> None:
    ledger = Ledger(retiring=frozenset({"n1", "n2"}), waiting=frozenset({"n1", "n2"}))
    made = planned(training("n1"), idle("n3"), ledger=ledger)
    assert made.kept == {"n3": "DisruptionBudget: 1 of 1 retirements are under way"}


def test_no_more_nodes_wait_than_may_go_at_a_time() -> None:
    ledger = Ledger(retiring=frozenset({"n1"}), waiting=frozenset({"n1"}))
    made = planned(training("n1"), training("n2"), ledger=ledger)
    assert made.kept == {"n2": "DisruptionBudget: 1 of 1 nodes wait for their pods to end"}


def test_a_busy_node_with_such_a_pod_does_not_give_way_to_a_cheaper_one() -> None:
    large, small = pool("large", cpu=16_000, price=0.8), pool("small", cpu=4000, price=0.2)
    of = config(large, small, max_parallel_fraction=1.0, replace_saving=0.2)
    for what, bought in ((WAITS, {}), (Movability.MOVES, {"small": 1})):
        web, run = bound("web", 1, RUN), bound("run", 1, RUN, what)
        seen = snapshot(nodes=[node("dear", large, [web, run])])
        made = with_replacements(plan(seen, of, NOTHING, NOW), seen, of, NOTHING, NOW)
        assert made.replacements == bought


@pytest.mark.parametrize(("why", "bought"), [("", 1), ("BarePod: no controller would make it again", 0)])
def test_where_azure_takes_the_node_a_run_that_is_made_again_needs_another_place(why: str, bought: int) -> None:
    made = planned(replace(training("n1", WAITS, why), idle_since=None, evicting_at=NOW))
    assert sum(delta.add for delta in made.deltas) == bought


def test_a_snapshot_carries_it() -> None:
    seen = snapshot(nodes=[training("n1", WAITS, "BarePod")])
    assert decode(encode(seen)) == seen


def test_the_pools_setting_decides_over_the_pods_on_its_nodes() -> None:
    job = pod(meta=owned("Job"), restartPolicy="Never", nodeName="n1")
    raw = {"metadata": {"name": "n1", "labels": {"sluice.io/pool": "general"}}, "status": {"allocatable": {"cpu": "4"}}}
    for drain, what in ((Drain.EVICT, Movability.MOVES), (Drain.WAIT, WAITS)):
        view = project_node(raw, [job], config(pool(drain=drain)))
        assert [each.movability for each in view.bound] == [what]
