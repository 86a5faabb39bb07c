"""Pending pods become nodes, on the real scheduler's own terms."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from local.arm.faults import Fault
from tests.e2e.cluster import eventually
from tests.e2e.conftest import Figures
from tests.e2e.pools import REGULAR, SPOT, pool, pools_file
from tests.e2e.system import RealSystem
from tests.e2e.workloads import apart_by_host, deployment

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

SMALL, LARGE = 120, 80
FALLBACK_SECONDS = 15.0


def test_a_burst_of_200_pods_is_bound(start: Callable[[str], RealSystem], figures: Figures) -> None:
    system = start(pools_file(pool("cpu", cpu=8, most=50)))
    begun = time.monotonic()
    system.cluster.deploy(deployment("small", SMALL, "900m"))
    system.cluster.deploy(deployment("large", LARGE, "1700m"))
    eventually("all pods run", lambda: _run(system, {"small": SMALL, "large": LARGE}), 120)
    seconds, machines = time.monotonic() - begun, system.machines()
    least = -(-(SMALL * 900 + LARGE * 1700) // 8000)
    figures.add(f"{SMALL + LARGE} pods ran {seconds:.1f} s after their birth, {(SMALL + LARGE) / seconds:.1f} pods/s")
    figures.add(f"{machines} nodes, no fewer than {least} could have done")
    assert machines <= least * 1.2  # the scheduler spreads what the plan has packed
    system.cluster.undeploy("small", "large")
    system.go_home()


def test_pods_wait_for_seconds_only_when_spot_cannot_be_had(
    start: Callable[[str], RealSystem], figures: Figures
) -> None:
    system = start(pools_file(SPOT, REGULAR))
    system.order(Fault("scale_set.update", "cpu-spot", "AllocationFailed", stage="async"))
    system.cluster.deploy(deployment("web", 4, "1500m"))
    eventually("the pods run", lambda: _run(system, {"web": 4}))
    assert system.azure.machines_now() == {"cpu-spot": 0, "cpu-regular": 2}
    assert system.writes()[0].resource == "cpu-spot"
    seconds = _fallback_seconds(system)
    figures.add(f"{seconds:.2f} s from AllocationFailed to the accepted request for on-demand nodes")
    assert seconds < FALLBACK_SECONDS
    system.cluster.undeploy("web")
    system.go_home()


def test_pods_that_keep_apart_get_a_node_each(start: Callable[[str], RealSystem]) -> None:
    system = start(pools_file(SPOT, REGULAR))
    system.cluster.deploy(deployment("apart", 3, "100m", affinity=apart_by_host("apart")))
    eventually("the pods run", lambda: _run(system, {"apart": 3}))
    assert len(set(system.cluster.places("apart"))) == system.machines() == 3
    system.cluster.undeploy("apart")
    system.go_home()


def test_a_rule_that_is_not_modelled_is_refused_by_name(start: Callable[[str], RealSystem]) -> None:
    system = start(pools_file(SPOT, REGULAR))
    claim = {"name": "device", "resourceClaimName": "nowhere"}
    system.cluster.deploy(deployment("claiming", 2, "1", resourceClaims=[claim]))
    system.cluster.deploy(deployment("plain", 2, "1"))
    eventually("the plain pods run", lambda: _run(system, {"plain": 2}))
    refused = eventually("the status names the others", lambda: system.status()["plan"].get("unserved"))
    assert {name.rsplit("-", 2)[0] for group in refused for name in group["pods"]} == {"default/claiming"}
    for group in refused:
        assert set(group["reasons"]) == {"cpu-spot", "cpu-regular"}
        assert all("NotModelled: DynamicResources" in reason for reason in group["reasons"].values())
    assert system.machines() == 1


def _run(system: RealSystem, wanted: dict[str, int]) -> bool:
    return all(len(system.cluster.running(app)) == count for app, count in wanted.items())


def _fallback_seconds(system: RealSystem) -> float:
    with system.timeline.lock:
        operations = list(system.azure.arm.cloud.operations.by_id.values())
    (failed,) = [one for one in operations if one.code == "AllocationFailed"]
    assert failed.ended_at is not None
    (accepted,) = [write for write in system.writes("cpu-regular") if write.target > 0 and write.at >= failed.ended_at]
    seconds: float = (accepted.at - failed.ended_at).total_seconds()
    return seconds
