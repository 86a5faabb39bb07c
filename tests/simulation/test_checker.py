"""The checker finds what it is for: each test does one forbidden thing by hand, past Sluice."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import orjson
import pytest

from local.arm.faults import Fault
from local.checker.evidence import OPT_OUTS, PoolFacts
from local.checker.rules import check
from local.kube.truth import BudgetState, EvictionRecord
from local.system.stand_ins import StandIns
from local.system.users import Users
from local.timeline import VirtualTimeline
from local.web import Request
from shared.settings.config import parse_config
from tests.simulation.worlds import ONE_POOL, QUICK, task

SET = (
    "/subscriptions/00000000-0000-4000-8000-000000000001/resourceGroups/sluice/providers/Microsoft.Compute"
    "/virtualMachineScaleSets/general"
)


class Bare:
    """Stand-ins without Sluice, with two nodes of a pool that may have three."""

    def __init__(self, *, flexible: bool = False) -> None:
        text = ONE_POOL.replace("max: 10", "max: 3, min: 2")
        self.timeline = VirtualTimeline()
        behaviour = replace(QUICK, flexible=frozenset({"general"} if flexible else ()))
        self.stand_ins = StandIns(self.timeline, text, parse_config(text), behaviour=behaviour)
        self.users = Users(self.timeline, self.stand_ins.cluster, self.stand_ins.cluster)
        self.wait(60)

    def wait(self, seconds: float) -> None:
        self.timeline.run(self.timeline.now() + timedelta(seconds=seconds))

    def submit(self, body: dict[str, Any]) -> str:
        """Returns the node that the pod runs on."""
        self.users.create("/api/v1/namespaces/default/pods", body)
        self.wait(10)
        pods = self.stand_ins.cluster.truth.pods.values()
        return next(pod.node for pod in pods if pod.name == body["metadata"]["name"])

    def azure(self, method: str, path: str, body: object = None, group: str = SET) -> None:
        data = b"" if body is None else orjson.dumps(body)
        response = self.stand_ins.arm.handle(Request(method, group + path, {"api-version": "1"}, {}, data))
        assert response.status < 300, response.body

    def evict(self, name: str) -> None:
        path = f"/api/v1/namespaces/default/pods/{name}/eviction"
        self.users.create(path, {"metadata": {"name": name, "namespace": "default"}})
        self.wait(40)

    def verdict(self, **told: tuple[str, ...]) -> list[str]:
        """The rules that were broken, by name."""
        return [violation.split()[1].rstrip(":") for violation in check(self.stand_ins.evidence(**told))]


@pytest.fixture
def bare() -> Bare:
    return Bare()


def test_a_quiet_run_has_no_violation(bare: Bare):
    bare.submit(task("one", seconds=5.0))
    bare.wait(120)
    assert bare.verdict() == []


def test_capacity_above_the_maximum_is_found(bare: Bare):
    bare.azure("PATCH", "", {"sku": {"capacity": 4}})
    bare.wait(60)
    assert "above-maximum" in bare.verdict()


def test_cores_above_the_quota_of_that_moment_are_found(bare: Bare, monkeypatch: pytest.MonkeyPatch):
    quota = bare.stand_ins.arm.cloud.quota
    quota.set_limit("cores", 7)  # below what stands, which is nobody's fault
    assert bare.verdict() == []
    monkeypatch.setattr(quota, "check", lambda *_, **__: None)
    bare.azure("PATCH", "", {"sku": {"capacity": 3}})
    quota.set_limit("cores", 100)
    assert "above-quota" in bare.verdict()


def test_a_machine_beyond_the_minimum_is_found(bare: Bare):
    bare.azure("PATCH", "", {"sku": {"capacity": 3}})
    bare.wait(60)
    assert bare.verdict() == ["left-over"]


def test_a_machine_deleted_under_a_running_pod_is_found(bare: Bare):
    node = bare.submit(task("working", seconds=None))
    bare.azure("DELETE", f"/virtualMachines/{int(node[-6:], 36)}")
    assert "not-drained" in bare.verdict()


def test_a_machine_deleted_after_its_pod_ended_is_in_order(bare: Bare):
    node = bare.submit(task("working", seconds=1.0))
    bare.azure("DELETE", f"/virtualMachines/{int(node[-6:], 36)}")
    assert "not-drained" not in bare.verdict()


def test_a_node_object_that_outlives_its_machine_is_found(bare: Bare):
    bare.azure("DELETE", "/virtualMachines/0")
    bare.wait(60)
    assert bare.verdict() == ["leaked-node"]


@pytest.mark.parametrize("kind", ["nic", "disk"])
def test_what_a_deleted_machine_leaves_behind_is_found(kind: str):
    bare = Bare(flexible=True)
    bare.stand_ins.arm.faults.add(Fault(f"{kind}.cleanup", stage="async"))
    bare.azure("DELETE", "", group=bare.stand_ins.arm.truth.vms[0].id)
    bare.wait(60)
    assert f"leaked-{kind}" in bare.verdict()


def test_a_deleted_volume_is_found(bare: Bare):
    disk = bare.stand_ins.attach_persistent_volume(bare.submit(task("one", seconds=1.0)), "pv-1")
    assert bare.verdict() == []
    vm = next(vm for vm in bare.stand_ins.arm.truth.live_vms() if vm.data_disks)
    vm.data_disks[0].delete_option = "Delete"
    bare.azure("DELETE", f"/virtualMachines/{vm.instance_id}")
    bare.wait(60)
    assert disk in {gone.id for gone in bare.stand_ins.arm.truth.persistent_volumes() if gone.deleted_at}
    assert "volume-deleted" in bare.verdict()


@pytest.mark.parametrize(("annotation", "word"), OPT_OUTS)
def test_an_eviction_against_a_pods_own_word_is_found(bare: Bare, annotation: str, word: str):
    bare.submit(task("kept", seconds=None, **{annotation: word}))
    bare.evict("kept")
    assert bare.verdict() == ["against-opt-out"]


def test_an_eviction_against_a_budget_and_a_second_one_are_found(bare: Bare):
    budget = BudgetState("web", allowed=0, desired=1, healthy=1, ready=1)
    record = EvictionRecord(bare.timeline.now(), "default", "web-1", "uid-1", "node", (budget,), "")
    for _ in range(2):
        bare.stand_ins.watch.nodes.note_record(record)
        bare.wait(1)
    assert bare.verdict() == ["against-budget", "evicted-twice", "against-budget"]


def test_a_budget_has_no_say_over_a_pod_that_is_not_healthy(bare: Bare):
    budget = BudgetState("web", allowed=0, desired=1, healthy=1, ready=1)
    record = EvictionRecord(bare.timeline.now(), "default", "web-1", "uid-1", "node", (budget,), "", healthy=False)
    bare.stand_ins.cluster.truth.evictions.append(record)
    assert bare.verdict() == []


def test_a_refused_eviction_is_in_order(bare: Bare):
    budget = BudgetState("web", allowed=0, desired=1, healthy=1, ready=1)
    record = EvictionRecord(bare.timeline.now(), "default", "web-1", "uid-1", "node", (budget,), "not now")
    bare.stand_ins.watch.nodes.note_record(record)
    assert bare.verdict() == []


def test_a_pod_that_waits_though_a_pool_could_take_it_is_found(bare: Bare):
    for number in range(4):
        bare.submit(task(f"task-{number}", cpu="3000m", seconds=None))
    assert bare.verdict() == ["unserved", "unserved"]


def test_a_pod_that_fits_no_node_is_nobodys_fault(bare: Bare):
    bare.submit(task("giant", cpu="64", seconds=None))
    assert bare.verdict() == []


def test_what_the_host_has_to_say_counts(bare: Bare):
    assert bare.verdict(orchestrations=("grow_pool grow:1 Failed: x",), host=("payload-size: admit",)) == [
        "orchestration",
        "host",
    ]


def test_a_dead_letter_counts(bare: Bare):
    bare.stand_ins.blobs.containers["dead-letters"] = dict(bare.stand_ins.blobs.containers["config"])
    assert bare.verdict() == ["dead-letter"]


def test_a_violation_names_its_virtual_time(bare: Bare):
    bare.azure("PATCH", "", {"sku": {"capacity": 4}})
    found = next(line for line in check(bare.stand_ins.evidence()) if "above-maximum" in line)
    assert found.startswith("t=60.0s above-maximum: ")
    assert "general" in found


def test_a_machine_that_stands_alone_belongs_to_the_pool_that_it_is_tagged_with(bare: Bare):
    vm = replace(bare.stand_ins.arm.truth.vms[0], scale_set=None, tags={"sluice-pool": "single"})
    single, other = (PoolFacts(name, "prefix", 0, 1, {}) for name in ("single", "other"))
    assert single.holds(vm)
    assert not other.holds(vm)
