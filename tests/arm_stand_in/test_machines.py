from datetime import timedelta

import pytest

from local.arm import Fault, Machine
from shared.model import Priority
from tests.arm_stand_in.conftest import COMPUTE, Bare
from tests.builders import pool

SET = f"{COMPUTE}/virtualMachineScaleSets/gpu"
SPOT = pool("gpu", minimum=2, priority=Priority.SPOT)


class Diary:
    """What subscribers are told, in order."""

    def __init__(self, bare: Bare) -> None:
        self.told: list[tuple[str, str]] = []
        self.deadlines: list[float] = []
        now = bare.timeline.now

        def noticed(machine: Machine, not_before: object) -> None:
            self.told.append(("notice", machine.name))
            self.deadlines.append((not_before - now()).total_seconds())  # type: ignore[operator]  # always a datetime

        bare.arm.machines.subscribe(
            on_running=lambda machine: self.told.append(("running", machine.name)),
            on_deleting=lambda machine: self.told.append(("deleting", machine.name)),
            on_gone=lambda machine: self.told.append(("gone", machine.name)),
            on_preempt_notice=noticed,
        )


def test_a_machines_life_is_told_in_order(bare: Bare) -> None:
    bare.pools(pool("gpu"))
    diary = Diary(bare)
    bare.resize("gpu", 1)
    assert diary.told == []
    bare.advance()
    bare.ask("POST", f"{SET}/delete", {"instanceIds": ["0"]})
    bare.advance()
    assert diary.told == [("running", "gpu000000"), ("deleting", "gpu000000"), ("gone", "gpu000000")]


def test_machines_that_run_already_are_told_to_who_comes_later(bare: Bare) -> None:
    bare.pools(SPOT)
    assert Diary(bare).told == [("running", "gpu000000"), ("running", "gpu000001")]


def test_a_machine_knows_what_its_node_must_say(bare: Bare) -> None:
    seen: list[Machine] = []
    bare.pools(pool("gpu", sku="Standard_NC6s_v3", zones=("2",)))
    bare.arm.machines.subscribe(on_running=seen.append)
    bare.resize("gpu", 1)
    bare.advance()
    (machine,) = seen
    assert machine.provider_id == f"azure://{SET}/virtualMachines/0"
    assert (machine.pool, machine.sku, machine.zone, machine.priority) == ("gpu", "Standard_NC6s_v3", "2", "Regular")
    assert machine.tags["sluice-pool"] == "gpu"


def test_a_vm_deleted_before_it_booted_never_runs(bare: Bare) -> None:
    bare.pools(pool("gpu"))
    diary = Diary(bare)
    bare.resize("gpu", 1)
    bare.ask("POST", f"{SET}/delete", {"instanceIds": ["0"]})
    bare.advance()
    assert (diary.told, bare.instances("gpu")) == ([], [])


def test_a_machine_may_be_ordered_never_to_boot_though_azure_calls_it_fine(bare: Bare) -> None:
    bare.pools(pool("gpu"))
    diary = Diary(bare)
    bare.arm.faults.add(Fault("machine.boot", "gpu", stage="async"))
    bare.resize("gpu", 2)
    bare.advance()
    assert len(diary.told) == 1
    assert {one["properties"]["provisioningState"] for one in bare.instances("gpu")} == {"Succeeded"}


@pytest.mark.parametrize("late", [True, False])
def test_an_eviction_is_announced_thirty_seconds_before_and_lowers_the_capacity(bare: Bare, late: bool) -> None:
    bare.quirks(capacity_drops_when_gone=late)
    bare.pools(SPOT)
    diary = Diary(bare)
    diary.told.clear()
    machine = bare.arm.preempt("gpu000001")
    assert machine is not None
    assert (machine.name, diary.deadlines) == ("gpu000001", [30.0])
    bare.advance(29.0)
    assert diary.told == [("notice", "gpu000001")]
    bare.advance(10.0)
    assert diary.told == [("notice", "gpu000001"), ("deleting", "gpu000001"), ("gone", "gpu000001")]
    assert (bare.capacity("gpu"), len(bare.instances("gpu"))) == (1, 1)
    assert len(bare.arm.truth.evictions) == 1


def test_a_node_deleted_during_its_notice_is_not_evicted_as_well(bare: Bare) -> None:
    bare.pools(SPOT)
    bare.arm.preempt("gpu000000")
    bare.ask("POST", f"{SET}/delete", {"instanceIds": ["0"]})
    bare.advance(60.0)
    assert (bare.capacity("gpu"), bare.arm.truth.evictions) == (1, [])


def test_a_deallocated_vm_keeps_counting(bare: Bare) -> None:
    bare.pools(SPOT)
    diary = Diary(bare)
    for vm in bare.arm.truth.vms:
        vm.eviction_policy = "Deallocate"
    bare.arm.preempt("gpu000000")
    bare.advance(40.0)
    assert (bare.capacity("gpu"), len(bare.instances("gpu")), diary.told[-1]) == (2, 2, ("gone", "gpu000000"))


def test_only_spot_machines_are_evicted(bare: Bare) -> None:
    bare.pools(pool("gpu", minimum=1))
    assert bare.arm.preempt("gpu000000") is None
    assert bare.ask("POST", f"{SET}/virtualMachines/0/simulateEviction")[0] == 409


def test_simulate_eviction_is_204_and_evicts_after_the_notice(bare: Bare) -> None:
    bare.pools(SPOT)
    assert bare.ask("POST", f"{SET}/virtualMachines/0/simulateEviction")[0] == 204
    bare.advance(40.0)
    assert [one["instanceId"] for one in bare.instances("gpu")] == ["1"]


def test_vm_hours_count_from_creation_to_deletion(bare: Bare) -> None:
    bare.pools(pool("gpu", minimum=2))
    bare.timeline.run(bare.timeline.now() + timedelta(hours=3))
    bare.ask("POST", f"{SET}/delete", {"instanceIds": ["0"]})
    bare.timeline.run(bare.timeline.now() + timedelta(hours=1))
    assert bare.arm.truth.vm_hours()["gpu"] == pytest.approx(7.0, abs=0.01)


def test_accepted_writes_are_recorded_with_the_pools_maximum_and_the_quota_left(bare: Bare) -> None:
    bare.pools(pool("gpu", maximum=7))
    bare.arm.cloud.quota.set_limit("cores", 100)
    bare.resize("gpu", 3)
    (write,) = bare.arm.truth.writes
    assert (write.operation, write.resource, write.target, write.maximum) == ("scale_set.update", "gpu", 3, 7)
    assert write.quota_left == {"cores": 100}
    bare.ask("PATCH", SET, {"sku": {"capacity": 9}}, if_match='"0"')
    assert len(bare.arm.truth.writes) == 1


def test_requests_are_counted_by_name(bare: Bare) -> None:
    bare.pools(pool("gpu"))
    bare.resize("gpu", 1)
    bare.scale_set("gpu")
    assert bare.arm.truth.requests == {"scale_set.update": 1, "scale_set.get": 1}
    assert bare.arm.truth.methods == {"PATCH": 1, "GET": 1}
