"""Pods that do not go when they are told to: their node is not taken from under them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from shared.names import RETIRE_OPERATION_ANNOTATION
from tests.e2e.cluster import eventually
from tests.e2e.conftest import Figures
from tests.e2e.control_plane.commands import STUBBORN
from tests.e2e.identities import FUNCTIONS, user_of
from tests.e2e.pools import REGULAR, pools_file
from tests.e2e.system import RealSystem
from tests.e2e.witness import is_cordoned
from tests.e2e.workloads import DEFAULT_PODS, deployment

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

Json = dict[str, Any]
GRACE_SECONDS = 6
FINALIZER = "example.com/held"


def test_a_pod_held_by_a_finalizer_keeps_its_node(start: Callable[[str], RealSystem], figures: Figures) -> None:
    system = start(pools_file(REGULAR, drain_timeout="8s"))
    held = deployment("held", 2, "200m")
    held["spec"]["template"]["metadata"]["finalizers"] = [FINALIZER]
    _on_two_idle_nodes(system, held)
    try:
        stayed = eventually("a drain was given up", lambda: system.status()["stayed"], 90)
        ((name, verdict),) = stayed.items()
        assert "drain timed out" in verdict["kept"]
        node = eventually("the node serves again", lambda: _uncordoned(system, name))
        assert RETIRE_OPERATION_ANNOTATION not in node["metadata"].get("annotations", {})
        assert any(is_cordoned(change.object) for change in system.witness.node(name))
        assert system.machines() == 2
        assert not system.audit.entries(resource="pods", verb="delete", user=user_of(FUNCTIONS))
        figures.add(f"kept: {verdict['kept']}")
    finally:
        _release(system, "held")


def test_a_pod_that_ignores_termination_has_its_grace_period(
    start: Callable[[str], RealSystem], figures: Figures
) -> None:
    system = start(pools_file(REGULAR))
    deaf = deployment("deaf", 2, "200m", terminationGracePeriodSeconds=GRACE_SECONDS)
    deaf["spec"]["template"]["metadata"]["labels"][STUBBORN] = "true"
    _on_two_idle_nodes(system, deaf)
    eventually("one node is gone", lambda: system.machines() == 1, 90)
    (evicted,) = system.audit.entries(user=user_of(FUNCTIONS), resource="pods/eviction", verb="create")
    deleted = min(write.at for write in system.writes() if "delete" in write.operation)
    waited = (deleted - evicted.at).total_seconds()
    assert waited >= GRACE_SECONDS - 1
    assert not system.audit.entries(resource="pods", verb="delete", user=user_of(FUNCTIONS))
    figures.add(f"the VM was deleted {waited:.1f} s after the eviction, the grace period is {GRACE_SECONDS} s")
    system.cluster.undeploy("deaf")
    system.go_home()


def _on_two_idle_nodes(system: RealSystem, body: Json) -> datetime:
    """Two nodes that hold nothing but the Deployment's two pods; returns since when."""
    app = body["metadata"]["name"]
    system.cluster.deploy(deployment("filler", 4, "1500m"))
    eventually("two nodes are full", lambda: len(system.cluster.running("filler")) == 4)
    system.cluster.deploy(body)
    eventually(f"{app} runs", lambda: len(system.cluster.running(app)) == 2)
    begun = datetime.now(UTC)
    system.cluster.undeploy("filler")
    return begun


def _uncordoned(system: RealSystem, name: str) -> Json | None:
    node = system.cluster.node(name)
    return None if node is None or is_cordoned(node) else node


def _release(system: RealSystem, app: str) -> None:
    """Whoever set the finalizer has done what it was for; no new pods come."""
    system.cluster.api.patch(f"/apis/apps/v1/namespaces/default/deployments/{app}", {"spec": {"replicas": 0}})

    def gone() -> bool:
        pods, _ = system.cluster.api.list(DEFAULT_PODS, label_selector=f"app={app}")
        for pod in pods:
            system.cluster.api.patch(f"{DEFAULT_PODS}/{pod['metadata']['name']}", {"metadata": {"finalizers": None}})
        return not pods

    eventually(f"the pods of {app} are gone", gone)
