"""The doctor and an AKS cluster with agent pools: its pools, the roles on both of its resource groups, its network."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from local.arm.state import AgentPool
from local.doctor.clocks import Clocks
from local.doctor.examination import Keys, examine
from local.doctor.findings import Finding, Status
from local.doctor.installation import Installation
from local.doctor.probing_azure import OperatorsArm
from local.doctor.target import Target
from local.http_server import serve
from local.system.installation import ShownInstallation
from local.system.stand_ins import StandIns
from local.timeline import VirtualTimeline
from shared.settings.config import parse_config

POOLS = """
cluster: training
mode: act
azure:
  {subscription: 00000000-0000-0000-0000-000000000001, resource_group: aks, location: westeurope, aks_cluster: prod}
pools:
  - {name: web, kind: aks, sku: Standard_D4s_v5, price: 0.2, max: 10, labels: {team: web}, taints: ["a=b:NoSchedule"]}
  - {name: spot, kind: aks, sku: Standard_D4s_v5, priority: Spot, price: 0.05, max: 10}
"""


class Aks:
    def __init__(self) -> None:
        timeline = VirtualTimeline()
        self.config = parse_config(POOLS, to_act=True)
        self.stand = StandIns(timeline, POOLS, self.config)
        self.shown = ShownInstallation(self.stand)
        self.server = serve(self.stand.arm, lock=timeline.lock)
        self._now = timeline.now

    def findings(self) -> list[Finding]:
        target = Target(installation=Installation(app_url="", **self.shown.outputs()), config=self.config)
        clocks = Clocks(self._now)
        return list(examine(target, OperatorsArm(self.server.url, lambda _: None, login=False), clocks, Keys()))

    def bad(self) -> list[tuple[str, str]]:
        return [(each.check, each.message) for each in self.findings() if each.bad and each.check != "subscription"]

    def pool(self, name: str) -> AgentPool:
        clusters = self.stand.arm.cloud.estate.group("00000000-0000-0000-0000-000000000001", "aks").clusters
        return clusters["prod"].pools[name]


@pytest.fixture
def aks() -> Iterator[Aks]:
    made = Aks()
    yield made
    made.server.close()


def test_agent_pools_as_the_file_says_are_well(aks: Aks) -> None:
    assert aks.bad() == []
    found = {(each.check, each.subject.rpartition("/")[2]) for each in aks.findings() if each.status is Status.OK}
    assert {("pool", "web"), ("pool", "spot"), ("rights", "aks (agent-pools)")} <= found
    assert ("rights", "MC_aks_prod_westeurope (agent-pool-machines)") in found


def test_a_pool_that_aks_scales_itself_is_told(aks: Aks) -> None:
    aks.pool("web").properties["enableAutoScaling"] = True
    ((check, message),) = aks.bad()
    assert check == "pool"
    assert "scaled by AKS itself" in message


def test_the_group_of_the_nodes_needs_a_role_of_its_own(aks: Aks) -> None:
    aks.shown.grants[:] = [grant for grant in aks.shown.grants if grant[0] != "agent-pool-machines"]
    ((check, message),) = aks.bad()
    assert check == "rights"
    assert "virtualMachineScaleSets/virtualMachines/read" in message


def test_a_pools_own_subnet_needs_a_right_to_join_it(aks: Aks) -> None:
    aks.pool("web").properties["vnetSubnetID"] = "/subscriptions/00000000-0000-0000-0000-000000000001/net/subnets/a"
    ((check, message),) = aks.bad()
    assert check == "rights"
    assert "subnets/join/action, which pool web needs" in message


def test_a_topic_without_a_subscription_waits_for_the_stage_wire(aks: Aks) -> None:
    (finding,) = [each for each in aks.findings() if each.check == "subscription"]
    assert finding.bad
    assert "apply the stage wire" in finding.remedy
