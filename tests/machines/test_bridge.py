"""From machines to nodes: registration, silence, removal, and the word of an eviction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from local.kube.faults import Fault
from local.machines import BootTimes, MachinesBridge
from shared.adapters.protocols import Json
from shared.model import Config, Pool, PoolKind, Priority, Taint
from tests import builders
from tests.kubernetes_contract.targets import NODES, condition, is_ready
from tests.kubernetes_stand_in.world import World

PREFIX = "azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/general"
GPU = builders.GPU


@dataclass(frozen=True)
class Machine:
    provider_id: str = f"{PREFIX}/virtualMachines/0"
    name: str = "GENERAL000000"
    pool: str = "General"
    sku: str = "Standard_D4s_v5"
    zone: str = "2"
    location: str = "westeurope"
    priority: str = "Regular"
    tags: Mapping[str, str] = field(default_factory=dict)


class Machines:
    """Hands out the bridge's own listeners."""

    def subscribe(self, **listeners: Callable[..., None]) -> None:
        self.listeners = listeners


class Site(World):
    """A world with a bridge; machines boot in exactly 10 s."""

    def __init__(self, *pools: Pool, times: BootTimes | None = None, **more: Any) -> None:
        super().__init__(token="secret")
        machines = Machines()
        config: Config = builders.config(*pools)
        boot = times or BootTimes(boot=(10.0, 10.0), removal=(5.0, 5.0))
        MachinesBridge(self.timeline, machines, self.stand_in, config, boot=boot, **more)
        self.tell = machines.listeners

    def find(self, name: str = "general000000") -> Json:
        return self.api.get(f"{NODES}/{name}")

    def names(self) -> list[str]:
        return [one["metadata"]["name"] for one in self.api.list(NODES)[0]]


def test_a_node_registers_after_its_boot_time_and_gets_ready() -> None:
    site = Site()
    site.tell["on_running"](Machine())
    site.run(9.9)
    assert site.names() == []
    site.run(2)
    assert site.names() == ["general000000"]
    assert is_ready(site.find())


def test_a_node_says_where_it_runs_and_to_which_pool_it_belongs() -> None:
    site = Site(builders.pool(labels={"team": "a"}, taints=(Taint("sku", "gpu", "NoSchedule"),)))
    site.tell["on_running"](Machine())
    site.run(12)
    found = site.find()
    labels = found["metadata"]["labels"]
    assert found["spec"]["providerID"] == Machine().provider_id
    assert found["spec"]["taints"] == [{"key": "sku", "value": "gpu", "effect": "NoSchedule"}]
    expected = {
        "kubernetes.io/hostname": "general000000",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "Standard_D4s_v5",
        "topology.kubernetes.io/region": "westeurope",
        "topology.kubernetes.io/zone": "westeurope-2",
        "sluice.io/pool": "general",
        "team": "a",
    }
    assert expected.items() <= labels.items()


def test_a_machine_without_a_zone_is_labelled_with_a_fault_domain() -> None:
    site = Site()
    site.tell["on_running"](replace(Machine(), zone=""))
    site.run(12)
    assert site.find()["metadata"]["labels"]["topology.kubernetes.io/zone"] == "0"


def test_an_aks_spot_node_carries_the_labels_of_aks() -> None:
    site = Site(builders.pool(kind=PoolKind.AKS, priority=Priority.SPOT))
    site.tell["on_running"](Machine())
    site.run(12)
    labels = site.find()["metadata"]["labels"]
    assert labels["kubernetes.azure.com/agentpool"] == "general"
    assert labels["kubernetes.azure.com/scalesetpriority"] == "spot"
    assert site.find()["spec"]["taints"] == [
        {"key": "kubernetes.azure.com/scalesetpriority", "value": "spot", "effect": "NoSchedule"}
    ]


def test_capacity_is_the_pools_shape_and_allocatable_is_what_is_left() -> None:
    site = Site(builders.pool(reserved={"cpu": 180, "memory": builders.GIB}))
    site.tell["on_running"](Machine())
    site.run(12)
    status = site.find()["status"]
    assert (status["capacity"]["cpu"], status["allocatable"]["cpu"]) == ("4000m", "3820m")
    assert int(status["capacity"]["memory"]) - int(status["allocatable"]["memory"]) == builders.GIB


def test_gpus_may_appear_later_than_the_node() -> None:
    times = BootTimes(boot=(10.0, 10.0), gpu=(30.0, 30.0))
    site = Site(builders.pool(gpu=2), times=times)
    site.tell["on_running"](Machine())
    site.run(12)
    assert GPU not in site.find()["status"]["allocatable"]
    site.run(30)
    assert site.find()["status"]["allocatable"][GPU] == "2"
    assert is_ready(site.find())


def test_a_machine_of_no_pool_gets_no_node() -> None:
    site = Site()
    site.tell["on_running"](replace(Machine(), pool="stranger"))
    site.run(100)
    assert site.names() == []


def test_a_stand_alone_machine_belongs_to_the_pool_of_its_tag() -> None:
    site = Site(builders.pool("solo", kind=PoolKind.VM))
    site.tell["on_running"](replace(Machine(), name="solo-x1", pool="solo-x1", tags={"sluice-pool": "solo"}))
    site.run(12)
    assert site.find("solo-x1")["metadata"]["labels"]["sluice.io/pool"] == "solo"


def test_a_machine_that_goes_before_it_booted_leaves_no_node() -> None:
    site = Site()
    site.tell["on_running"](Machine())
    site.run(5)
    site.tell["on_gone"](Machine())
    site.run(100)
    assert site.names() == []


def test_the_node_of_a_machine_that_is_gone_stays_and_is_lost() -> None:
    site = Site()
    site.tell["on_running"](Machine())
    site.run(12)
    site.tell["on_gone"](Machine())
    site.run(300)
    assert condition(site.find(), "Ready")["status"] == "Unknown"


def test_a_cloud_controller_deletes_the_node_of_a_machine_that_is_gone() -> None:
    site = Site(cloud_controller=True)
    site.tell["on_running"](Machine())
    site.run(12)
    site.tell["on_gone"](Machine())
    site.run(4)
    assert site.names() == ["general000000"]
    site.run(2)
    assert site.names() == []


def test_a_new_machine_of_an_old_name_is_another_node() -> None:
    site = Site()
    site.tell["on_running"](Machine())
    site.run(12)
    first = site.find()
    site.tell["on_gone"](Machine())
    site.tell["on_running"](replace(Machine(), provider_id=f"{PREFIX}/virtualMachines/7"))
    site.run(100)
    second = site.find()
    assert second["spec"]["providerID"].endswith("/7")
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert is_ready(second)


def test_a_machine_that_is_started_again_revives_its_node() -> None:
    site = Site()
    site.tell["on_running"](Machine())
    site.run(12)
    before = site.find()
    site.tell["on_gone"](Machine())
    site.run(100)
    site.tell["on_running"](Machine())
    site.run(20)
    assert is_ready(site.find())
    assert site.find()["metadata"]["uid"] == before["metadata"]["uid"]


def test_a_spot_notice_is_a_condition_and_an_hour() -> None:
    site = Site()
    site.tell["on_running"](Machine())
    site.run(12)
    not_before = site.timeline.now() + timedelta(seconds=30)
    site.tell["on_preempt_notice"](Machine(), not_before)
    found = site.find()
    assert condition(found, "VMEventScheduled")["status"] == "True"
    assert found["metadata"]["annotations"]["sluice.io/evicting-at"] == not_before.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert is_ready(found)


def test_an_api_server_in_trouble_delays_a_node_but_does_not_lose_it(caplog: pytest.LogCaptureFixture) -> None:
    site = Site()
    site.stand_in.faults.add(Fault(method="POST", path=NODES, code=503, times=3))
    site.tell["on_running"](Machine())
    site.run(20)
    assert site.names() == ["general000000"]
    assert caplog.records == []


def test_a_node_that_was_deleted_meanwhile_is_nobodys_trouble() -> None:
    site = Site()
    site.tell["on_running"](Machine())
    site.run(12)
    site.api.delete(f"{NODES}/general000000")
    site.tell["on_preempt_notice"](Machine(), site.timeline.now())
    site.tell["on_gone"](Machine())
    site.run(100)
    assert site.names() == []
