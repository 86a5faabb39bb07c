"""In mode `observe` Sluice says what it would do, and does nothing; in mode `act` it does what it said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.cluster import NODES, eventually
from tests.e2e.conftest import Figures
from tests.e2e.identities import EXPORTER, FUNCTIONS, user_of
from tests.e2e.pools import pool, pools_file
from tests.e2e.system import RealSystem
from tests.e2e.workloads import deployment

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

POOLS = (
    pool("cpu-spot", price=0.05, priority="Spot", labels="{tier: spot}"),
    pool("cpu-regular", labels="{tier: regular}"),
)
ON_SPOT, ON_REGULAR = {"tier": "spot"}, {"tier": "regular"}
READS = {"GET", "HEAD"}


def test_observing_writes_nothing_and_says_what_acting_then_does(
    start: Callable[[str], RealSystem], figures: Figures
) -> None:
    system = start(pools_file(*POOLS, mode="observe"))
    idle = _nodes_of_somebody_else(system)
    requests, nodes = dict(system.truth.methods), _specs(system)
    system.cluster.deploy(deployment("batch", 3, "3", nodeSelector=ON_REGULAR))
    plan = eventually("the plan would buy nodes", lambda: _plan(system, "deltas"))
    assert (plan["mode"], plan["deltas"]) == ("observe", {"cpu-regular": 3})
    kept = eventually("the plan would retire idle nodes", lambda: _would_retire(system))
    assert set(kept) <= set(idle)
    system.sweep()
    assert _specs(system) == nodes
    assert system.azure.preempt(idle[0], 5.0) is not None
    eventually("the notice was looked at", lambda: any(name.startswith("evict:") for name in system.orchestrations()))
    eventually("nothing is under way", lambda: not system.unfinished())
    assert not _writes_beyond(system, requests)
    assert not system.audit.entries(user=user_of(FUNCTIONS))
    assert {entry.resource for entry in system.audit.entries(user=user_of(EXPORTER))} == {"leases"}
    figures.add(f"nothing written; would buy {plan['deltas']}, and retire {len(kept)} of {len(idle)} idle nodes")
    _act(system)
    eventually("what was planned is bought", lambda: system.azure.machines_now()["cpu-regular"] == 3)
    eventually("what was idle is gone", lambda: not system.azure.machines_now()["cpu-spot"], 90)
    system.cluster.undeploy("batch", "nudge")
    system.go_home()


def _act(system: RealSystem) -> None:
    """The owner is content with what was said. A new pod is a reason to look again at once."""
    system.azure.set_pools_file(pools_file(*POOLS, mode="act"))
    system.cluster.deploy(deployment("nudge", 1, "500m", nodeSelector=ON_REGULAR))


def _nodes_of_somebody_else(system: RealSystem) -> list[str]:
    system.scale_by_hand("cpu-spot", 3)
    eventually("three nodes serve", lambda: sum("taints" not in spec for spec in _specs(system).values()) == 3)
    return system.cluster.node_names()


def _specs(system: RealSystem) -> dict[str, Any]:
    """What somebody would have to write to in order to use, or not to use, a node."""
    return {node["metadata"]["name"]: node["spec"] for node in system.cluster.api.list(NODES)[0]}


def _writes_beyond(system: RealSystem, requests: dict[str, int]) -> dict[str, int]:
    """ARM requests other than reads, by method, since these were counted; refused ones too."""
    with system.timeline.lock:
        more = system.truth.methods - Counter(requests)
    return {name: count for name, count in more.items() if name not in READS}


def _plan(system: RealSystem, what: str) -> Any:
    plan = system.status()["plan"]
    return plan if plan.get(what) else None


def _would_retire(system: RealSystem) -> dict[str, str]:
    kept = system.status()["plan"].get("kept", {})
    return {name: why for name, why in kept.items() if why.startswith("Observe: would be retired")}
