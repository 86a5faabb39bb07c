"""Trouble by chance: at a rate of 1 each kind strikes, is counted, and ends when it is told to."""

from __future__ import annotations

from typing import Any

import pytest

from local.arm import ArmLatencies, ArmStandIn, Fault, Quirks
from local.arm.trouble import ArmTrouble
from local.azure_transport import CONNECTION_LOST
from local.timeline import VirtualTimeline
from local.web import REFUSED
from shared.model import Priority
from tests.arm_stand_in.conftest import COMPUTE, Bare
from tests.builders import pool

SET = f"{COMPUTE}/virtualMachineScaleSets/gpu"
DAY = 86400.0


class Troubled(Bare):
    """The stand-in with a pool of one VM, and trouble."""

    def __init__(
        self,
        *,
        spot: bool = False,
        flexible: bool = False,
        zones: tuple[str, ...] = (),
        seed: int = 3,
        **rates: Any,
    ) -> None:
        self.timeline = VirtualTimeline()
        trouble = ArmTrouble(**rates)
        latencies = ArmLatencies.instant()
        self.arm = ArmStandIn(self.timeline, seed=seed, quirks=Quirks(), latencies=latencies, trouble=trouble)
        priority = Priority.SPOT if spot else Priority.REGULAR
        only = pool("gpu", minimum=1, zones=zones, priority=priority)
        self.pools(only, flexible=frozenset({"gpu"} if flexible else ()))
        self.counts = self.arm.cloud.chances.chances.counts

    def end(self) -> None:
        self.arm.cloud.chances.chances.end()

    def outcome(self, headers: dict[str, str]) -> str:
        self.advance(DAY)
        found = self.status(headers)
        return str(found["error"]["code"] if "error" in found else found["status"])


def test_without_rates_nothing_goes_wrong_and_nothing_is_drawn() -> None:
    calm = Troubled()
    assert calm.outcome(calm.resize("gpu", 20)) == "Succeeded"
    assert not calm.counts
    assert calm.arm.cloud.chances.chances.last is None


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("throttled", {429}),
        ("failing", {500, 502, 503, 504}),
        ("conflict", {409}),
        ("denied", {403}),
        ("refused", {409}),
    ],
)
def test_a_growth_is_refused_in_each_way(kind: str, status: set[int]) -> None:
    world = Troubled(**{kind: 1.0})
    answered, _, headers = world.ask("PATCH", SET, {"sku": {"capacity": 4}})
    assert answered in status
    assert ("retry-after" in headers) == (kind == "throttled")
    assert world.counts == {kind: 1}
    world.end()
    assert world.capacity("gpu") == 1


def test_reads_meet_no_conflicts() -> None:
    world = Troubled(conflict=1.0, denied=1.0, refused=1.0)
    assert world.ask("GET", SET)[0] == 200
    assert not world.counts


@pytest.mark.parametrize(("kind", "arrived"), [("unreached", False), ("lost", True)])
def test_a_connection_breaks_before_or_after_the_deed(kind: str, *, arrived: bool) -> None:
    world = Troubled(**{kind: 1.0})
    headers = world.ask("PATCH", SET, {"sku": {"capacity": 4}})[2]
    assert (headers[CONNECTION_LOST] == REFUSED) is not arrived
    world.end()
    assert (world.capacity("gpu") == 4) is arrived


def test_somebody_else_writes_first_so_that_the_etag_is_stale() -> None:
    world = Troubled(touched=1.0)
    etag = world.scale_set("gpu")["etag"]
    assert world.ask("PATCH", SET, {"sku": {"capacity": 4}}, **{"if-match": etag})[0] == 412
    world.end()
    etag = world.scale_set("gpu")["etag"]
    assert world.ask("PATCH", SET, {"sku": {"capacity": 4}}, **{"if-match": etag})[0] == 200


@pytest.mark.parametrize(
    ("zones", "spot", "codes"),
    [
        ((), False, {"AllocationFailed"}),
        ((), True, {"AllocationFailed", "SkuNotAvailable"}),
        (("1",), False, {"ZonalAllocationFailed", "OverconstrainedZonalAllocationRequest"}),
        (("1", "2"), False, {"AllocationFailed", "OverconstrainedAllocationRequest"}),
    ],
)
def test_a_shortage_has_the_codes_of_what_was_asked_for(zones: tuple[str, ...], codes: set[str], *, spot: bool) -> None:
    worlds = [Troubled(spot=spot, zones=zones, seed=seed, shortage=1.0) for seed in range(12)]
    assert {world.outcome(world.resize("gpu", 5)) for world in worlds} == codes


def test_a_shortage_gives_a_part_now_and_then() -> None:
    worlds = [Troubled(seed=seed, shortage=1.0) for seed in range(12)]
    for world in worlds:
        world.resize("gpu", 9)
        world.advance(DAY)
    came = [len(world.instances("gpu")) - 1 for world in worlds]
    assert min(came) == 0
    assert 0 < max(came) < 8


def test_a_preempted_growth_comes_all_the_same() -> None:
    world = Troubled(preempted=1.0)
    assert world.outcome(world.resize("gpu", 4)) == "OperationPreempted"
    states = [each["properties"]["provisioningState"] for each in world.instances("gpu")]
    assert states == ["Succeeded"] * 4


def test_a_vm_that_cannot_be_provisioned_is_there_and_failed() -> None:
    world = Troubled(provisioning=1.0)
    codes = {"OSProvisioningTimedOut", "NetworkingInternalOperationError", "InternalExecutionError"}
    assert world.outcome(world.resize("gpu", 3)) in codes
    states = [each["properties"]["provisioningState"] for each in world.instances("gpu")]
    assert states == ["Succeeded", "Failed", "Failed"]


def test_a_deletion_is_accepted_and_fails() -> None:
    world = Troubled(undeleted=1.0)
    headers = world.ask("POST", f"{SET}/delete", {"instanceIds": ["0"]})[2]
    assert world.outcome(headers) == "InternalExecutionError"
    assert len(world.instances("gpu")) == 1


def test_a_hanging_deletion_ends_with_the_trouble() -> None:
    world = Troubled(hanging=1.0)
    headers = world.ask("POST", f"{SET}/delete", {"instanceIds": ["0"]})[2]
    world.advance(1200.0)
    assert world.status(headers)["status"] == "InProgress"
    assert len(world.instances("gpu")) == 1
    world.end()
    world.advance(10.0)
    assert world.status(headers)["status"] == "Succeeded"
    assert not world.instances("gpu")


def test_a_hanging_deletion_ends_by_itself() -> None:
    world = Troubled(hanging=1.0)
    headers = world.ask("POST", f"{SET}/delete", {"instanceIds": ["0"]})[2]
    assert world.outcome(headers) == "Succeeded"
    world.end()
    world.advance(10.0)
    assert not world.instances("gpu")


@pytest.mark.parametrize("kind", ["nic", "disk"])
def test_things_stay_behind_when_their_vm_goes(kind: str) -> None:
    world = Troubled(flexible=True, **{f"leftover_{kind}": 1.0})
    world.ask("POST", f"{SET}/delete", {"instanceIds": ["*"]})
    world.advance(DAY)
    assert len(getattr(world.arm.truth.leaks(), f"{kind}s")) == 1


def test_late_machines_come_in_the_end() -> None:
    world = Troubled(late=1.0)
    headers = world.resize("gpu", 2)
    world.advance(50.0)
    assert world.status(headers)["status"] == "InProgress"
    assert world.outcome(headers) == "Succeeded"


def test_an_order_goes_before_chance() -> None:

    world = Troubled(throttled=1.0)
    world.arm.faults.add(Fault("scale_set.get", code="ServiceUnavailable"))
    assert [world.ask("GET", SET)[0] for _ in range(2)] == [503, 429]


def test_the_same_seed_brings_the_same_trouble() -> None:
    def told(seed: int) -> list[int]:
        world = Troubled(seed=seed, throttled=0.5)
        return [world.ask("GET", SET)[0] for _ in range(40)]

    assert told(1) == told(1)
    assert told(1) != told(2)
