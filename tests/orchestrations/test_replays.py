"""Every orchestration of a busy hour, replayed at every prefix of its history."""

from __future__ import annotations

import pytest

from local.arm.faults import Fault
from local.durable.replay import replay_prefixes
from tests.orchestrations.stage import Stage
from tests.orchestrations.test_eviction import warn

HISTORY = 100  # events: replaying is quadratic


@pytest.fixture(scope="module")
def busy() -> Stage:
    stage = Stage(timers=True)
    stage.stand.arm.faults.add(Fault("scale_set.update", "spot", code="AllocationFailed", stage="async", partial=1))
    stage.submit(4)
    stage.run(2)
    stage.say(seconds=300)
    warn(stage, stage.nodes()[0]["metadata"]["name"])
    stage.submit(1, prefix="more")
    stage.run(400)
    stage.finish()
    for _ in range(3):
        stage.idle(seconds=300)
    return stage


def test_each_of_them_asks_for_the_same_at_every_prefix(busy: Stage) -> None:
    replayed = [replay_prefixes(busy.host, view.id) for view in busy.host.instances()]
    assert sum(replayed) > 200


def test_no_history_grows_long(busy: Stage) -> None:
    longest = max(busy.host.instances(), key=lambda view: view.longest_history)
    assert longest.longest_history < HISTORY, longest.name


def test_every_kind_of_saga_was_there(busy: Stage) -> None:
    names = {view.name for view in busy.host.instances()}
    assert names >= {
        "admit",
        "grow_pool",
        "undo_growth",
        "await_operation",
        "retire_node",
        "replace_evicted",
        "look_again",
        "drain_node",
        "reconcile",
    }
