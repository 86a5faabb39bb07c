"""Native gangs (GangScheduling of Kubernetes 1.36): the real scheduler starts them whole, and so they are bought."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e import audit
from tests.e2e.cluster import eventually
from tests.e2e.conftest import Figures, Plane
from tests.e2e.control_plane.available import control_plane_or_skip
from tests.e2e.pools import pool, pools_file
from tests.e2e.system import RealSystem
from tests.e2e.workloads import DEFAULT_PODS, bare_pod, deployment

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

Json = dict[str, Any]
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
WORKERS = pool("workers", cpu=4, most=4, price=0.4, labels="{role: worker}")
SERVERS = pool("servers", cpu=2, most=2, price=0.1, labels="{role: ps}")


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A control plane that knows gangs."""
    folder = tmp_path_factory.mktemp("gangs")
    flags = {"kube-apiserver": audit.flags(folder / "audit")}
    with control_plane_or_skip(gangs=True, directory=folder / "control-plane", flags=flags) as control_plane:
        yield Plane(control_plane, audit.log_path(folder / "audit"))


def test_workers_and_parameter_servers_are_bought_together_once_all_of_them_are_there(
    start: Callable[[str], RealSystem], figures: Figures
) -> None:
    system = start(pools_file(WORKERS, SERVERS))
    gang(system, "job", 6)
    names = [*(f"worker-{number}" for number in range(4)), "ps-0"]
    for name in names:
        member(system, "job", name)
    system.sweep()
    assert system.writes() == []
    assert system.cluster.node_names() == []
    member(system, "job", "ps-1")
    eventually("all six run", lambda: all(runs(system, name) for name in [*names, "ps-1"]))
    assert system.azure.machines_now() == {"workers": 4, "servers": 1}
    figures.add("4 workers and 2 parameter servers over two pools, bought in one plan")
    over(system, "job", [*names, "ps-1"])


def test_a_gang_that_cannot_be_served_whole_buys_nothing_and_says_why(start: Callable[[str], RealSystem]) -> None:
    system = start(pools_file(WORKERS, SERVERS))
    gang(system, "big", 5)
    names = [f"worker-{number}" for number in range(5)]
    for name in names:
        member(system, "big", name)
    eventually("the reason is told", lambda: reasons(system))
    system.cluster.deploy(deployment("web", 1, "500m", nodeSelector={"role": "ps"}))
    eventually("others are served", lambda: system.cluster.running("web"))
    assert system.azure.machines_now() == {"workers": 0, "servers": 1}
    assert reasons(system)["workers"] == "Gang: 4 of 5 pods of default/big fit; PoolFull: 4 of 4 nodes"
    assert not any(runs(system, name) for name in names)
    system.cluster.undeploy("web")
    over(system, "big", names)


def gang(system: RealSystem, name: str, minimum: int) -> None:
    """Make a PodGroup."""
    spec = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    system.cluster.api.create(GROUPS, {"metadata": {"name": name}, "spec": spec})


def member(system: RealSystem, group: str, name: str) -> None:
    """A worker, one to a node, or a parameter server, two of which share one."""
    role, _, _ = name.partition("-")
    spec = {"nodeSelector": {"role": role}, "schedulingGroup": {"podGroupName": group}}
    system.cluster.api.create(DEFAULT_PODS, bare_pod(name, "3" if role == "worker" else "800m", **spec))


def runs(system: RealSystem, name: str) -> bool:
    pod: Json = system.cluster.api.get(f"{DEFAULT_PODS}/{name}")
    return bool(pod["status"].get("phase") == "Running")


def reasons(system: RealSystem) -> Json:
    """Why the gang is not served, as the app says."""
    unserved = system.status()["plan"].get("unserved", [])
    found: Json = next((group["reasons"] for group in unserved if "Gang: " in str(group["reasons"])), {})
    return found


def over(system: RealSystem, group: str, names: list[str]) -> None:
    """The job ends, and every node goes."""
    for name in names:
        system.cluster.api.delete(f"{DEFAULT_PODS}/{name}", grace_seconds=0)
    system.cluster.api.delete(f"{GROUPS}/{group}")
    system.go_home()
