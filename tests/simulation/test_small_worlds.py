"""The whole system on virtual time, one thing that people rely on at a time."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from local.arm.faults import Fault
from local.arm.settings import ArmLatencies, Quirks
from local.event_grid import EventFaults
from local.system.report import report
from tests.simulation.worlds import (
    HOUR,
    ONE_POOL,
    QUICK,
    SPOT_FIRST,
    bound,
    deployment,
    running,
    submit,
    task,
    world,
    writes,
)


def test_a_burst_is_served_from_zero_and_the_pool_goes_back_to_zero():
    system = world()
    submit(system, *(task(f"task-{number}") for number in range(5)))
    assert system.run_until(system.settled, HOUR)
    figures = report(system.record())
    assert figures["pods"]["unserved"] == 0
    assert figures["nodes"] == {"created": 3, "deleted": 3, "peak": 3, "left": 0}
    assert figures["leaks"] == {"vms": 0, "nics": 0, "disks": 0, "nodes": 0}
    assert figures["violations"] == []


def test_a_pod_waits_for_the_boot_and_little_more():
    system = world()
    submit(system, task("only"))
    assert system.run_until(lambda: "only" in bound(system), HOUR)
    record = system.record()
    slowest_boot = 4.0 + 6.0 + 2.0  # Azure makes the VM, the VM boots, its kubelet becomes Ready
    assert record.pods[0].scheduled is not None
    assert record.pods[0].scheduled - record.pods[0].created <= slowest_boot + 10.0


def test_the_pool_keeps_its_minimum():
    system = world(ONE_POOL.replace("max: 10", "max: 10, min: 1"))
    submit(system, task("one"), task("two"), task("three"))
    assert system.run_until(lambda: len(bound(system)) == 3, HOUR)
    assert system.run_until(system.settled, HOUR)
    assert system.stand_ins.machines_now() == {"general": 1}
    assert system.record().violations == ()


def test_a_refused_allocation_falls_back_to_the_next_pool():
    system = world(SPOT_FIRST)
    system.stand_ins.arm.faults.add(Fault("scale_set.update", "spot", "AllocationFailed", stage="async"))
    submit(system, *(task(f"task-{number}") for number in range(4)))
    assert system.run_until(system.settled, HOUR)
    figures = report(system.record())
    assert figures["pods"]["unserved"] == 0
    assert figures["fallbacks"] == 1
    assert set(figures["vm_hours"]) == {"regular"}
    assert figures["violations"] == []


def test_an_evicted_spot_node_is_replaced_and_its_pods_run_again():
    system = world(SPOT_FIRST)
    submit(system, deployment("web", 2))
    assert system.run_until(lambda: running(system) == 2, HOUR)
    doomed = next(iter(bound(system).values()))
    assert system.stand_ins.preempt(doomed) is not None
    system.run_for(timedelta(minutes=5))
    assert running(system) == 2
    assert doomed not in bound(system).values()
    system.users.delete("/apis/apps/v1/namespaces/default/deployments/web")
    assert system.run_until(system.settled, HOUR)
    record = system.record()
    assert record.spot_evictions == 1
    assert record.violations == ()


def test_events_that_come_twice_late_or_out_of_order_change_nothing_but_time():
    faults = EventFaults(duplicate_rate=0.5, delay_rate=0.3, delay_seconds=(5.0, 60.0), reorder_rate=0.5)
    system = world(behaviour=replace(QUICK, events=faults))
    for number in range(6):
        submit(system, task(f"task-{number}", seconds=90.0))
        system.run_for(timedelta(seconds=20))
    assert system.run_until(system.settled, HOUR)
    assert system.stand_ins.topic.counters.duplicated > 0
    record = system.record()
    assert all(pod.scheduled is not None for pod in record.pods)
    assert record.violations == ()


def test_lost_events_are_made_good_by_the_exporter_and_the_sweep():
    system = world(behaviour=replace(QUICK, events=EventFaults(loss_rate=0.7)))
    submit(system, *(task(f"task-{number}") for number in range(4)))
    assert system.run_until(system.settled, 3 * HOUR)
    assert system.stand_ins.topic.counters.lost > 0
    record = system.record()
    assert all(pod.scheduled is not None for pod in record.pods)
    assert record.violations == ()


def test_observing_writes_nothing_to_azure_or_to_the_cluster():
    system = world(ONE_POOL.replace("mode: act", "mode: observe").replace("max: 10", "max: 10, min: 1"))
    submit(system, *(task(f"task-{number}") for number in range(4)))
    system.run_for(timedelta(minutes=30))
    assert system.chronicle.counts["delivered"] > 0
    assert writes(system) == {}


def test_what_would_have_been_done_is_said_while_observing():
    system = world(ONE_POOL.replace("mode: act", "mode: observe"))
    submit(system, *(task(f"task-{number}") for number in range(4)))
    system.run_for(timedelta(minutes=2))
    said = system.stand_ins.blobs.containers["plans-small"]["latest.json"].data
    assert b'"deltas":{"general":2}' in said


def test_a_node_stays_while_a_task_on_it_must_run_to_its_end():
    system = world()
    keep = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    submit(system, task("long", cpu="500m", seconds=1800.0, **keep))
    submit(system, task("short", cpu="3000m"))
    assert system.run_until(system.settled, HOUR)
    record = system.record()
    assert len(record.machines) == 1
    assert all(pod.ended is not None and pod.scheduled is not None for pod in record.pods)
    assert record.violations == ()


def test_a_drained_deployment_moves_together_and_the_spare_node_goes():
    system = world()
    submit(system, deployment("web", 1, cpu="500m"), task("filler", cpu="3300m", seconds=300.0))
    submit(system, task("pusher", cpu="2000m", seconds=300.0))
    assert system.run_until(lambda: running(system) == 3, HOUR)
    assert len(set(bound(system).values())) == 2
    system.run_for(timedelta(minutes=20))
    assert system.stand_ins.machines_now() == {"general": 1}
    assert running(system) == 1
    system.users.delete("/apis/apps/v1/namespaces/default/deployments/web")
    assert system.run_until(system.settled, HOUR)
    assert system.record().violations == ()


def test_no_client_of_azure_ever_sleeps_inside_a_function():
    system = world()
    submit(system, task("only"))
    assert system.run_until(system.settled, HOUR)
    assert [transport.slept for inside in system.transports for transport in (inside.arm, inside.blobs)] == [0.0] * 4


@pytest.mark.parametrize("late", [False, True])
def test_a_pool_that_grows_while_a_node_goes_loses_no_other_node(late: bool):
    """Whether Azure lowers the capacity when it accepts a deletion, or when the machine is gone."""
    slow = replace(ArmLatencies.instant(), delete=(120.0, 120.0))
    system = world(behaviour=replace(QUICK, arm=slow, quirks=Quirks(capacity_drops_when_gone=late)))
    submit(system, task("long", cpu="3000m", seconds=1800.0), task("short", cpu="3000m", seconds=10.0))
    azure = system.stand_ins.arm.truth
    assert system.run_until(lambda: any(vm.deleting_at for vm in azure.vms), HOUR)
    submit(system, task("new", cpu="3000m", seconds=1800.0))
    system.run_for(timedelta(minutes=10))
    assert set(bound(system)) == {"long", "new"}
    assert len(azure.vms) == 3
    assert system.run_until(system.settled, HOUR)
    assert system.record().violations == ()


def test_a_capacity_that_fell_below_the_machines_there_costs_none_of_them():
    system = world()
    submit(system, *(task(f"task-{number}", cpu="3000m", seconds=600.0) for number in range(3)))
    assert system.run_until(lambda: len(bound(system)) == 3, HOUR)
    (group,) = system.stand_ins.arm.cloud.estate.groups.values()
    group.scale_sets["general"].capacity = 1
    submit(system, task("new", cpu="3000m", seconds=600.0))
    assert system.run_until(lambda: "new" in bound(system), HOUR)
    assert len(bound(system)) == 4
    assert system.run_until(system.settled, HOUR)
    assert system.record().violations == ()
