"""Idle nodes go, and nothing that somebody needs goes with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from local import cli
from local.arm.state import Vm
from shared.names import RETIRE_OPERATION_ANNOTATION, RETIRING_TAINT
from tests.e2e.audit import Entry
from tests.e2e.cluster import eventually
from tests.e2e.conftest import Figures
from tests.e2e.identities import FUNCTIONS, user_of
from tests.e2e.pools import REGULAR, pool, pools_file
from tests.e2e.system import RealSystem
from tests.e2e.witness import is_cordoned
from tests.e2e.workloads import (
    ATTACHMENTS,
    BUDGETS,
    DEFAULT_PODS,
    attachment,
    bare_pod,
    budget,
    deployment,
)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

WEB = 4
DRAIN_SECONDS = 8


def test_a_drain_asks_the_eviction_api_and_keeps_to_the_budget(
    start: Callable[[str], RealSystem], figures: Figures
) -> None:
    system = start(pools_file(REGULAR))
    begun = _two_nodes_with_web(system, min_available=WEB - 1)
    eventually("one node is gone", lambda: system.machines() == 1, 90)
    eventually("the web is whole again", lambda: len(system.cluster.running("web")) == WEB)
    assert system.witness.fewest_ready("web", begun) == WEB - 1
    evictions = _evictions(system)
    granted, refused = (sum(entry.code == code for entry in evictions) for code in (201, 429))
    assert granted == WEB // 2
    assert not system.audit.entries(resource="pods", verb="delete")
    figures.add(f"{granted} evictions granted, {refused} refused by the budget, never fewer than {WEB - 1} pods ready")
    system.cluster.undeploy("web")
    system.go_home()


def test_a_budget_that_forbids_every_disruption_keeps_the_node(
    start: Callable[[str], RealSystem], figures: Figures
) -> None:
    system = start(pools_file(REGULAR, drain_timeout=f"{DRAIN_SECONDS}s"))
    begun = _two_nodes_with_web(system, min_available=WEB)
    stayed = eventually("a drain was given up", lambda: system.status()["stayed"])
    ((name, verdict),) = stayed.items()
    assert "drain timed out" in verdict["kept"]
    assert "a PodDisruptionBudget holds default/web-" in verdict["kept"]
    node = eventually("the node serves again", lambda: _uncordoned(system, name))
    assert RETIRE_OPERATION_ANNOTATION not in node["metadata"].get("annotations", {})
    assert RETIRING_TAINT not in [taint["key"] for taint in node["spec"].get("taints", [])]
    assert any(is_cordoned(change.object) for change in system.witness.node(name))
    assert system.witness.fewest_ready("web", begun) == WEB
    assert {entry.code for entry in _evictions(system)} == {429}
    assert system.machines() == 2
    figures.add(f"kept: {verdict['kept']}")


def test_bare_pods_and_local_storage_keep_their_nodes_and_status_says_so(
    start: Callable[[str], RealSystem], figures: Figures, capsys: pytest.CaptureFixture[str]
) -> None:
    system = start(pools_file(pool("left", labels="{side: left}"), pool("right", labels="{side: right}")))
    system.cluster.api.create(DEFAULT_PODS, bare_pod("bare", "1", nodeSelector={"side": "left"}))
    volumes = [{"name": "scratch", "emptyDir": {}}]
    system.cluster.deploy(deployment("local", 1, "1", nodeSelector={"side": "right"}, volumes=volumes))
    for side in ("left", "right"):
        system.cluster.deploy(deployment(f"busy-{side}", 1, "2", nodeSelector={"side": side}))
    apps = ("bare", "local", "busy-left", "busy-right")
    eventually("all run", lambda: all(system.cluster.running(app) for app in apps))
    (bare,), (local,) = system.cluster.places("bare"), system.cluster.places("local")
    system.cluster.undeploy("busy-left", "busy-right")
    reasons = {
        bare: "default/bare: BarePod: no controller would make it again",
        local: f"{_first_pod(system, 'local')}: LocalStorage: volume scratch",
    }
    eventually("the status names both nodes", lambda: reasons.items() <= system.kept().items())
    assert cli.main(["status", "--url", system.functions_url]) == 0
    told = capsys.readouterr().out
    assert all(why in told for why in reasons.values())
    assert not [write for write in system.writes() if "delete" in write.operation]
    assert not system.audit.entries(resource="nodes", user=user_of(FUNCTIONS))
    figures.add(f"kept: {reasons[bare]}; {reasons[local]}")
    system.cluster.undeploy("local")
    system.cluster.api.delete(f"{DEFAULT_PODS}/bare")
    system.go_home()


def test_all_of_a_vm_goes_but_never_the_disk_of_a_volume(start: Callable[[str], RealSystem], figures: Figures) -> None:
    system = start(pools_file(REGULAR))
    system.cluster.deploy(deployment("web", 1, "3"))
    eventually("the pod runs", lambda: system.cluster.running("web"))
    (node,) = system.cluster.places("web")
    disk = system.azure.attach_persistent_volume(node, "pvc-1")
    system.cluster.api.create(ATTACHMENTS, attachment("csi-1", node, "pvc-1"))
    vm = _vm(system, node)
    system.cluster.undeploy("web")
    eventually("the node is cordoned", lambda: is_cordoned(system.cluster.node(node) or {"spec": {}}))
    eventually("the volume was seen", lambda: _is_draining(system))
    assert system.machines() == 1
    system.cluster.api.delete(f"{ATTACHMENTS}/csi-1")
    system.go_home()
    assert vm.deleted_at is not None
    assert all(nic.deleted_at is not None for nic, _ in vm.nics)
    assert vm.os_disk is not None
    assert vm.os_disk.deleted_at is not None
    (volume,) = system.truth.persistent_volumes()
    assert volume.id == disk
    assert volume.deleted_at is None
    assert volume.held_by == ""
    figures.add("VM, NIC and OS disk are gone, the volume's disk is there and free")


def _two_nodes_with_web(system: RealSystem, *, min_available: int) -> datetime:
    """Two idle nodes with two pods of `web` each, under a budget; returns since when."""
    system.cluster.deploy(deployment("filler", 4, "1500m"))
    eventually("two nodes are full", lambda: len(system.cluster.running("filler")) == 4)
    system.cluster.deploy(deployment("web", WEB, "200m"))
    system.cluster.api.create(BUDGETS, budget("web", min_available))
    eventually("the web runs", lambda: len(system.cluster.running("web")) == WEB)
    assert list(Counter(system.cluster.places("web")).values()) == [WEB // 2, WEB // 2]
    eventually("the budget is counted", lambda: _healthy(system) == WEB)
    begun = datetime.now(UTC)
    system.cluster.undeploy("filler")
    return begun


def _healthy(system: RealSystem) -> int:
    count: int = system.cluster.api.get(f"{BUDGETS}/web").get("status", {}).get("currentHealthy", 0)
    return count


def _evictions(system: RealSystem) -> list[Entry]:
    return system.audit.entries(user=user_of(FUNCTIONS), resource="pods/eviction", verb="create")


def _uncordoned(system: RealSystem, name: str) -> dict[str, object] | None:
    node = system.cluster.node(name)
    return None if node is None or is_cordoned(node) else node


def _first_pod(system: RealSystem, app: str) -> str:
    return min(f"default/{pod['metadata']['name']}" for pod in system.cluster.pods(app))


def _vm(system: RealSystem, node: str) -> Vm:
    with system.timeline.lock:
        (found,) = [vm for vm in system.truth.live_vms() if vm.computer_name.lower() == node]
    return found


def _is_draining(system: RealSystem) -> bool:
    """A retirement that waits starts its drain as an orchestration of its own."""
    return any(line.startswith("retire:") and line.count(":") > 1 for line in system.unfinished())
