import sys
from collections import Counter

import orjson
import pytest

from local.arm import Fault, Quirks
from local.web import Request
from shared.adapters.azure_errors import error_of
from shared.adapters.azure_polling import unpack
from shared.adapters.errors import CapacityMissing, NotFound, Occupied, Refused, Rejected, RetryLater, StaleWrite
from shared.model import Pool, PoolKind, Priority
from shared.provider_id import parse
from tests.azure_compute.world import GROUP, SCOPE, World
from tests.builders import pool

CLUSTER = "Microsoft.ContainerService/managedClusters/aks"


def agents(name: str = "np1", **fields: object) -> Pool:
    return pool(name, kind=PoolKind.AKS, azure=SCOPE, **fields)


def body_of(world: World, name: str = "np1") -> dict:
    answer = world.arm.handle(Request.of("GET", f"{GROUP}/{CLUSTER}/agentPools/{name}?api-version=1", {}, b""))
    return orjson.loads(answer.body)


def change(world: World, **properties: object) -> None:
    """Somebody else's write."""
    body = body_of(world)
    body["properties"] |= properties
    world.put(f"{CLUSTER}/agentPools/np1", orjson.dumps(body))


def delete(world: World, np1: Pool, *ids: str) -> None:
    token = world.compute.begin_delete(np1, ids)
    world.advance()
    assert world.compute.poll(token).ok


def test_an_agent_pool_is_read_with_its_count_and_etag(world: World) -> None:
    (np1,) = world.pools(agents(minimum=2))
    found = world.compute.scale_set(np1)
    assert (found.name, found.capacity, found.busy, found.unfit) == ("np1", 2, "", "")
    assert found.etag


def test_all_agent_pools_of_a_cluster_come_by_one_request_beside_the_scale_sets(world: World) -> None:
    pools = world.pools(agents("a"), agents("b", minimum=1), pool("set", minimum=3))
    found = world.compute.scale_sets([*pools, agents("missing")])
    assert {name: size.capacity for name, size in found.items()} == {"a": 0, "b": 1, "set": 3}
    assert world.arm.truth.requests == {"agent_pool.list": 1, "scale_set.list": 1}


def test_a_growth_changes_the_count_and_nothing_else(world: World) -> None:
    (np1,) = world.pools(agents(labels={"team": "a"}))
    change(world, nodeLabels={"set": "by somebody"})
    world.advance()
    before = body_of(world)
    assert world.grow(np1, 3).ok
    after = body_of(world)
    moving = {"count", "eTag"}
    assert {key: value for key, value in after["properties"].items() if key not in moving} == {
        key: value for key, value in before["properties"].items() if key not in moving
    }
    assert after["properties"]["count"] == 3


def test_machines_are_known_by_the_number_that_their_nodes_provider_id_has(world: World) -> None:
    (np1,) = world.pools(agents(minimum=2))
    found = world.compute.instances(np1)
    assert [one.instance_id for one in found] == ["0", "1"]
    machine = parse(found[1].provider_id)
    assert machine is not None
    assert (machine.deletion_id, machine.resource_group) == ("1", "mc_group_aks_westeurope")
    assert found[1].name.startswith("aks-np1-")
    assert found[1].name.endswith("-vmss000001")
    assert found[0].created_at is not None
    assert world.compute.instance(np1, "1") == found[1]
    with pytest.raises(NotFound):
        world.compute.instance(np1, "7")


def test_nics_and_disks_belong_to_aks_and_are_never_named(quick: World) -> None:
    (np1,) = quick.pools(agents(minimum=1))
    (machine,) = quick.compute.instances(np1)
    assert (machine.nics, machine.os_disk) == ((), "")
    assert quick.compute.leftovers([np1]) == []
    assert quick.arm.truth.disks


def test_a_pool_without_machines_has_no_instances(quick: World) -> None:
    (np1,) = quick.pools(agents())
    assert quick.compute.instances(np1) == []


def test_deletion_goes_by_machine_name_all_by_one_request_and_lowers_the_count(world: World) -> None:
    (np1,) = world.pools(agents(minimum=4))
    delete(world, np1, "0", "2")
    assert [one.instance_id for one in world.compute.instances(np1)] == ["1", "3"]
    assert world.compute.scale_set(np1).capacity == 2
    assert world.arm.truth.requests["agent_pool.delete_machines"] == 1
    assert world.arm.truth.chosen_by_azure == []
    assert world.arm.truth.leaks().disks == ()


def test_what_is_gone_already_is_no_error_and_no_request(quick: World) -> None:
    quick.arm.cloud.quirks = Quirks(aks_unknown_machine_refused=True)
    (np1,) = quick.pools(agents(minimum=2))
    delete(quick, np1, "0")
    assert quick.compute.begin_delete(np1, ["0"]) == ""
    delete(quick, np1, "0", "1")
    assert quick.compute.scale_set(np1).capacity == 0


def test_a_pool_that_aks_is_busy_with_takes_neither_growth_nor_deletion(world: World) -> None:
    (np1,) = world.pools(agents(minimum=2))
    world.arm.occupy("np1", 300)
    assert world.compute.scale_set(np1).busy == "Upgrading"
    for write in (
        lambda: world.compute.begin_capacity(np1, 3, ""),
        lambda: world.compute.begin_delete(np1, ["0"]),
    ):
        with pytest.raises(Occupied, match="Upgrading"):
            write()
    world.advance(301)
    assert world.grow(np1, 3).ok


def test_an_operation_that_begins_between_reading_and_writing_is_busy_too(quick: World) -> None:
    quick.arm.cloud.quirks = Quirks(aks_one_operation_per_cluster=True)
    np1, np2 = quick.pools(agents(minimum=1), agents("np2"))
    quick.compute.begin_capacity(np2, 1, "")
    assert quick.compute.scale_set(np1).busy == ""
    with pytest.raises(Occupied, match="in progress"):
        quick.compute.begin_capacity(np1, 2, "")
    with pytest.raises(Occupied, match="in progress"):
        quick.compute.begin_delete(np1, ["0"])


def test_a_write_of_somebody_elses_in_between_is_stale(world: World) -> None:
    (np1,) = world.pools(agents())
    read = world.compute.scale_set(np1)
    change(world, nodeLabels={"a": "b"})
    world.advance()
    with pytest.raises(StaleWrite) as caught:
        world.compute.begin_capacity(np1, 2, read.etag)
    assert not isinstance(caught.value, Occupied)
    assert world.compute.scale_set(np1).capacity == 0


def test_the_write_itself_bears_if_match(quick: World) -> None:
    (np1,) = quick.pools(agents())
    quick.arm.faults.add(Fault("agent_pool.update", code="PreconditionFailed"))
    with pytest.raises(StaleWrite):
        quick.compute.begin_capacity(np1, 2, "")


def test_a_count_below_the_machines_is_never_written(world: World) -> None:
    (np1,) = world.pools(agents(minimum=3))
    with pytest.raises(Rejected, match="they go by name"):
        world.compute.begin_capacity(np1, 2, "")
    assert world.arm.truth.requests["agent_pool.update"] == 0


def test_a_count_that_has_no_machines_can_be_given_back(world: World) -> None:
    world.arm.cloud.quirks = Quirks(aks_failed_scale_keeps_count=True)
    (np1,) = world.pools(agents(minimum=1))
    world.arm.faults.add(Fault("agent_pool.update", "np1", code="AllocationFailed", stage="async", partial=1))
    assert not world.grow(np1, 4).ok
    assert world.compute.scale_set(np1).capacity == 4
    assert world.grow(np1, 2).ok
    assert len(world.compute.instances(np1)) == world.compute.scale_set(np1).capacity == 2


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_failed_growth_tells_the_code_behind_it_and_leaves_the_pool_failed(world: World, wrapped: bool) -> None:
    world.arm.cloud.quirks = Quirks(aks_wraps_codes=wrapped)
    (np1,) = world.pools(agents())
    world.arm.faults.add(Fault("agent_pool.update", "np1", code="ZonalAllocationFailed", stage="async"))
    status = world.grow(np1, 3)
    assert (status.done, status.ok, status.code) == (True, False, "ZonalAllocationFailed")
    found = world.compute.scale_set(np1)
    assert (found.provisioning_state, found.busy) == ("Failed", "")


def test_a_quota_refusal_lies_wrapped_in_akss_own(world: World) -> None:
    (np1,) = world.pools(agents(priority=Priority.SPOT))
    world.arm.cloud.quota.set_limit("lowPriorityCores", 10)
    with pytest.raises(CapacityMissing, match="Current Limit: 10, Current Usage: 0, Additional Required: 12"):
        world.compute.begin_capacity(np1, 3, "")


def test_what_aks_scales_itself_is_not_touched_and_the_reason_names_the_remedy(world: World) -> None:
    (np1,) = world.pools(agents(minimum=1))
    change(world, enableAutoScaling=True, minCount=1, maxCount=5)
    world.advance()
    assert "disable-cluster-autoscaler" in world.compute.scale_set(np1).unfit
    with pytest.raises(Rejected, match="enableAutoScaling"):
        world.compute.begin_capacity(np1, 2, "")
    with pytest.raises(Rejected, match="enableAutoScaling"):
        world.compute.begin_delete(np1, ["0"])


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"type": "VirtualMachines"}, "of type VirtualMachines"),
        ({"mode": "System"}, "set min to 1 or more"),
        ({"powerState": {"code": "Stopped"}}, "is stopped"),
    ],
)
def test_pools_that_cannot_be_scaled_say_why(quick: World, properties: dict, words: str) -> None:
    (np1,) = quick.pools(agents())
    quick.arm.cloud.estate.group("subscription", "group").clusters["aks"].pools["np1"].properties |= properties
    assert words in quick.compute.scale_set(np1).unfit
    assert words in quick.compute.scale_sets([np1])["np1"].unfit


def test_one_poll_is_one_request_and_its_token_names_no_secret_of_the_body(quick: World) -> None:
    (np1,) = quick.pools(agents())
    token = quick.compute.begin_capacity(np1, 3, "")
    before = Counter(quick.arm.truth.requests)
    status = quick.compute.poll(token)
    assert (status.done, status.retry_after) == (False, 10.0)
    assert quick.arm.truth.requests - before == {"operation.get": 1}
    assert unpack(token)[0] == "agent-pool"
    assert len(token) < 1500


def test_a_write_whose_answer_got_lost_is_not_repeated(quick: World) -> None:
    (np1,) = quick.pools(agents())
    quick.arm.faults.add(Fault("agent_pool.update", stage="lost"))
    with pytest.raises(RetryLater):
        quick.compute.begin_capacity(np1, 2, "")
    assert quick.compute.scale_set(np1).capacity == 2
    assert quick.arm.truth.requests["agent_pool.update"] == 1


def test_the_scale_set_behind_a_pool_is_locked(quick: World) -> None:
    (np1,) = quick.pools(agents(minimum=1))
    (machine,) = quick.compute.instances(np1)
    parsed = parse(machine.provider_id)
    assert parsed is not None
    behind = pool("behind", resource=parsed.scale_set, azure=None)
    elsewhere = quick.compute._machines  # the other half of the adapter, as a mistaken caller would reach it
    quick.arm.cloud.estate.group("subscription", "group").scale_sets = quick.arm.cloud.estate.group(
        "subscription", parsed.resource_group
    ).scale_sets
    with pytest.raises(Refused):
        elsewhere.begin_capacity(behind, 0, "")


def test_without_an_agent_pool_the_package_is_not_imported(quick: World) -> None:
    (gpu,) = quick.pools(pool("gpu", minimum=1))
    loaded = {name for name in sys.modules if name.startswith("azure.mgmt.containerservice")}
    for name in loaded:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        assert quick.compute.scale_set(gpu).capacity == 1
        assert quick.compute.scale_sets([gpu])
        with pytest.raises(Rejected, match=r"azure-mgmt-containerservice==41\.8\.0: add it to requirements\.txt"):
            quick.compute.scale_set(agents())
    finally:
        for name in loaded:
            del sys.modules[name]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ('Reconcile failed: SubCode: X; OriginalError: Code="AllocationFailed" Message="no room"', "AllocationFailed"),
        ('Provisioning failed. Error: {"code": "QuotaExceeded", "message": "no"}', "QuotaExceeded"),
        ('Provisioning failed. Error: {"code": "Strange"}', "ReconcileVMSSAgentPoolFailed"),
    ],
)
def test_a_code_that_is_only_quoted_in_the_text_is_found(message: str, code: str) -> None:
    assert error_of({"error": {"code": "ReconcileVMSSAgentPoolFailed", "message": message}}) == (code, message)


def test_akss_own_check_of_the_quota_is_missing_capacity(quick: World) -> None:
    (np1,) = quick.pools(agents())
    text = "Insufficient vcpu quota requested 2, remaining 0 for family StandardDasv7Family for region eastus."
    quick.arm.faults.add(Fault("agent_pool.update", code="ErrCode_InsufficientVCPUQuota", message=text, status=400))
    with pytest.raises(CapacityMissing, match="remaining 0"):
        quick.compute.begin_capacity(np1, 1, "")
