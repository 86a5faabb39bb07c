"""Azure takes a Spot node away and says so: its pods leave in time, and new room is asked for at once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.e2e.cluster import eventually
from tests.e2e.conftest import Figures
from tests.e2e.identities import FUNCTIONS, user_of
from tests.e2e.pools import REGULAR, SPOT, pools_file
from tests.e2e.system import RealSystem
from tests.e2e.witness import is_cordoned
from tests.e2e.workloads import deployment

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

NOTICE = 10.0


def test_a_noticed_eviction_cordons_replaces_and_clears_up(
    start: Callable[[str], RealSystem], figures: Figures
) -> None:
    system = start(pools_file(SPOT, REGULAR))
    system.cluster.deploy(deployment("web", 2, "3"))
    eventually("the web runs", lambda: len(system.cluster.running("web")) == 2)
    doomed = system.cluster.places("web")[0]
    noticed = datetime.now(UTC)
    assert system.azure.preempt(doomed, NOTICE) is not None
    replacement = eventually("new room is asked for", lambda: system.writes(since=noticed))[0]
    eventually("the web runs elsewhere", lambda: _elsewhere(system, doomed), NOTICE)
    moved = datetime.now(UTC)
    assert any(is_cordoned(change.object) for change in system.witness.node(doomed))
    evictions = system.audit.entries(user=user_of(FUNCTIONS), resource="pods/eviction", verb="create")
    assert [entry.code for entry in evictions] == [201]
    assert (moved - noticed).total_seconds() < NOTICE
    eventually("the Node is gone", lambda: system.cluster.node(doomed) is None, NOTICE + 30)
    assert len(system.truth.evictions) == 1
    figures.add(f"{(replacement.at - noticed).total_seconds():.2f} s from the notice to the accepted request for room")
    figures.add(f"{(moved - noticed).total_seconds():.1f} s from the notice until all pods ran elsewhere")
    system.cluster.undeploy("web")
    system.go_home()


def _elsewhere(system: RealSystem, doomed: str) -> bool:
    places = system.cluster.places("web")
    return len(places) == 2 and doomed not in places
