"""Azure takes a Spot node away and says so: its pods leave in time, and new room is asked for at once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from local.arm.faults import Fault
from tests.e2e.cluster import eventually
from tests.e2e.conftest import Figures
from tests.e2e.identities import FUNCTIONS, user_of
from tests.e2e.pools import REGULAR, SPOT, pool, pools_file
from tests.e2e.system import RealSystem
from tests.e2e.witness import is_cordoned
from tests.e2e.workloads import deployment

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

NOTICE = 10.0
MANY, LONG_NOTICE = 50, 30.0
SPOT_POOL, REGULAR_POOL = "cpu-spot", "cpu-regular"


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


def test_fifty_spot_nodes_that_go_at_once_are_replaced_on_demand(
    start: Callable[[str], RealSystem], figures: Figures
) -> None:
    spot = pool(SPOT_POOL, price=0.05, most=MANY + 10, priority="Spot", fallback=f"[{REGULAR_POOL}]")
    system = start(pools_file(spot, pool(REGULAR_POOL, most=MANY + 10)))
    system.cluster.deploy(deployment("web", MANY, "3"))
    eventually("the web runs", lambda: len(system.cluster.running("web")) == MANY, 150)
    doomed = frozenset(system.cluster.places("web"))
    assert len(doomed) == MANY
    system.order(Fault("scale_set.update", SPOT_POOL, "AllocationFailed", stage="async", times=None))
    noticed = datetime.now(UTC)
    for node in sorted(doomed):
        assert system.azure.preempt(node, LONG_NOTICE) is not None
    eventually("on-demand nodes are asked for", lambda: _asked_for(system, noticed) >= MANY, 90)
    asked = max(write.at for write in system.writes(REGULAR_POOL, since=noticed))
    eventually("the web runs elsewhere", lambda: _all_elsewhere(system, doomed), 120)
    moved = datetime.now(UTC)
    eventually("the evicted Nodes are gone", lambda: not doomed & frozenset(system.cluster.node_names()), 120)
    assert all(any(is_cordoned(change.object) for change in system.witness.node(node)) for node in doomed)
    assert len(system.truth.evictions) == MANY
    assert system.machines() == MANY
    assert not system.audit.entries(resource="pods", verb="delete", user=user_of(FUNCTIONS))
    figures.add(f"{(asked - noticed).total_seconds():.1f} s from {MANY} notices to {MANY} on-demand nodes asked for")
    figures.add(f"{(moved - noticed).total_seconds():.1f} s from the notices until all pods ran elsewhere")


def _asked_for(system: RealSystem, since: datetime) -> int:
    return max((write.target for write in system.writes(REGULAR_POOL, since=since)), default=0)


def _all_elsewhere(system: RealSystem, doomed: frozenset[str]) -> bool:
    places = system.cluster.places("web")
    return len(places) == MANY and not doomed & frozenset(places)


def _elsewhere(system: RealSystem, doomed: str) -> bool:
    places = system.cluster.places("web")
    return len(places) == 2 and doomed not in places
