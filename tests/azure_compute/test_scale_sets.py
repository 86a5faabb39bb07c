import base64
import threading
import uuid

import orjson
import pytest

from local.arm import Fault, Quirks
from shared.adapters.azure_parsing import scale_set_of
from shared.adapters.errors import CapacityMissing, NotFound, RetryLater, StaleWrite, Throttled
from shared.adapters.operation_tokens import unpack
from shared.model import Priority
from shared.provider_id import parse
from tests.azure_compute.world import World
from tests.builders import pool


def test_a_scale_set_is_read_with_its_size_and_etag(world: World) -> None:
    (gpu,) = world.pools(pool("gpu", minimum=2))
    found = world.compute.scale_set(gpu)
    assert (found.name, found.capacity, found.flexible) == ("gpu", 2, False)
    assert found.etag


def test_a_scale_set_that_is_not_there_is_not_found(world: World) -> None:
    with pytest.raises(NotFound, match="reading scale set gpu"):
        world.compute.scale_set(pool("gpu"))


def test_all_scale_sets_of_a_group_come_by_one_request(world: World) -> None:
    pools = world.pools(pool("a"), pool("b", minimum=1))
    found = world.compute.scale_sets([*pools, pool("missing")])
    assert {name: size.capacity for name, size in found.items()} == {"a": 0, "b": 1}
    assert world.arm.truth.requests == {"scale_set.list": 1}


def test_growth_is_started_by_one_call_and_asked_after_by_others(world: World) -> None:
    (gpu,) = world.pools(pool("gpu"))
    token = world.compute.begin_capacity(gpu, 3, world.compute.scale_set(gpu).etag)
    first = world.compute.poll(token)
    assert (first.done, first.retry_after) == (False, 10.0)
    world.advance()
    assert world.compute.poll(token).ok
    assert [one.provisioning_state for one in world.compute.instances(gpu)] == ["Succeeded"] * 3


def test_one_poll_is_one_request_and_no_thread_waits(quick: World) -> None:
    (gpu,) = quick.pools(pool("gpu"))
    threads = threading.active_count()
    token = quick.compute.begin_capacity(gpu, 3, "")
    quick.compute.poll(token)
    assert threading.active_count() == threads
    assert quick.arm.truth.requests == {"scale_set.update": 1, "operation.get": 1}


def test_a_growth_guarded_by_an_old_etag_is_stale(world: World) -> None:
    (gpu,) = world.pools(pool("gpu"))
    etag = world.compute.scale_set(gpu).etag
    world.compute.begin_capacity(gpu, 1, etag)
    with pytest.raises(StaleWrite):
        world.compute.begin_capacity(gpu, 2, etag)


def test_asking_for_what_is_there_already_ends_at_once(quick: World) -> None:
    (gpu,) = quick.pools(pool("gpu", minimum=2))
    assert quick.compute.poll(quick.compute.begin_capacity(gpu, 2, "")).ok


def test_a_failed_allocation_reports_azures_own_code(world: World) -> None:
    (gpu,) = world.pools(pool("gpu"))
    world.arm.faults.add(Fault("scale_set.update", "gpu", code="AllocationFailed", stage="async", partial=1))
    status = world.grow(gpu, 3)
    assert (status.done, status.ok, status.code) == (True, False, "AllocationFailed")
    assert "capacity" in status.message
    assert len(world.compute.instances(gpu)) == 1


def test_instances_that_failed_carry_the_code_of_their_failure(quick: World) -> None:
    quick.arm.cloud.quirks = Quirks(failed_growth_leaves_failed_instances=True)
    (gpu,) = quick.pools(pool("gpu"))
    quick.arm.faults.add(Fault("scale_set.update", code="ZonalAllocationFailed", stage="async"))
    quick.grow(gpu, 1)
    (failed,) = quick.compute.instances(gpu)
    assert (failed.provisioning_state, failed.failure) == ("Failed", "ZonalAllocationFailed")


def test_a_quota_refusal_is_missing_capacity_and_not_a_stale_write(world: World) -> None:
    (gpu,) = world.pools(pool("gpu", priority=Priority.SPOT))
    world.arm.cloud.quota.set_limit("lowPriorityCores", 10)
    with pytest.raises(CapacityMissing, match="Current Limit: 10, Current Usage: 0, Additional Required: 12") as caught:
        world.compute.begin_capacity(gpu, 3, "")
    assert (caught.value.code, caught.value.status) == ("OperationNotAllowed", 409)


def test_throttling_surfaces_with_the_servers_own_pause(world: World) -> None:
    (gpu,) = world.pools(pool("gpu"))
    world.arm.faults.add(Fault("scale_set.update", code="TooManyRequests", retry_after=17))
    with pytest.raises(Throttled) as caught:
        world.compute.begin_capacity(gpu, 1, "")
    assert caught.value.retry_after == 17
    assert world.slept == []


def test_a_reading_whose_answer_got_lost_is_asked_once_more(quick: World) -> None:
    (gpu,) = quick.pools(pool("gpu"))
    quick.arm.faults.add(Fault("scale_set.get", stage="lost"))
    assert quick.compute.scale_set(gpu).capacity == 0
    assert quick.slept == [0.2]


def test_a_write_whose_answer_got_lost_is_not_repeated(quick: World) -> None:
    (gpu,) = quick.pools(pool("gpu"))
    quick.arm.faults.add(Fault("scale_set.update", stage="lost"))
    with pytest.raises(RetryLater):
        quick.compute.begin_capacity(gpu, 2, "")
    assert quick.compute.scale_set(gpu).capacity == 2
    assert quick.arm.truth.requests["scale_set.update"] == 1


def test_provider_ids_are_those_of_the_cloud_provider(quick: World) -> None:
    (gpu,) = quick.pools(pool("gpu", minimum=1))
    (instance,) = quick.compute.instances(gpu)
    parsed = parse(instance.provider_id)
    assert parsed is not None
    assert (parsed.scale_set, parsed.instance_id, instance.name) == ("gpu", "0", "gpu000000")


def test_one_instance_is_read_by_its_id(world: World) -> None:
    (gpu,) = world.pools(pool("gpu", minimum=2))
    assert world.compute.instance(gpu, "1").instance_id == "1"
    with pytest.raises(NotFound):
        world.compute.instance(gpu, "7")


def test_deletion_by_id_lowers_the_capacity_and_takes_nic_and_os_disk_along(world: World) -> None:
    (gpu,) = world.pools(pool("gpu", minimum=3))
    token = world.compute.begin_delete(gpu, ["0", "2"])
    world.advance()
    assert world.compute.poll(token).ok
    assert [one.instance_id for one in world.compute.instances(gpu)] == ["1"]
    assert world.compute.scale_set(gpu).capacity == 1
    leaks = world.arm.truth.leaks()
    assert (leaks.nics, leaks.disks) == ((), ())


@pytest.mark.parametrize("refused", [True, False])
def test_ids_that_are_gone_already_are_no_error(quick: World, refused: bool) -> None:
    quick.arm.cloud.quirks = Quirks(unknown_instance_ids_refused=refused)
    (gpu,) = quick.pools(pool("gpu", minimum=2))
    token = quick.compute.begin_delete(gpu, ["0", "41"])
    quick.advance()
    assert quick.compute.poll(token).ok
    assert [one.instance_id for one in quick.compute.instances(gpu)] == ["1"]


def test_nothing_left_to_delete_makes_no_operation(quick: World) -> None:
    (gpu,) = quick.pools(pool("gpu"))
    assert quick.compute.begin_delete(gpu, ["5"]) == ""
    assert quick.compute.begin_delete(gpu, []) == ""


def test_long_lists_are_followed_through_all_pages(world: World) -> None:
    world.arm.cloud.page_size = 7
    (gpu,) = world.pools(pool("gpu", minimum=20))
    assert len(world.compute.instances(gpu)) == 20


def test_tokens_stay_small_even_with_azures_long_signed_urls(quick: World) -> None:
    quick.arm.cloud.operations.signature = "MIIHpTCC" + "".join(f"{n * 7919 % 99991:05d}Qx" for n in range(300))
    (gpu,) = quick.pools(pool("gpu"))
    token = quick.compute.begin_capacity(gpu, 2, "")
    assert len(token) < 4000
    quick.advance()
    assert quick.compute.poll(token).ok


def test_a_token_says_its_kind_and_another_process_can_ask_after_it(quick: World) -> None:
    (gpu,) = quick.pools(pool("gpu"))
    token = quick.compute.begin_capacity(gpu, 1, "")
    assert unpack(token)[0] == "capacity"


def test_a_flexible_set_is_grown_listed_and_shrunk_as_ordinary_vms(world: World) -> None:
    (mixed,) = world.pools(pool("mixed"), flexible=frozenset({"mixed"}))
    assert world.grow(mixed, 2).ok
    first, second = world.compute.instances(mixed)
    assert first.instance_id.startswith("mixed_")
    assert first.provider_id.endswith(f"/virtualMachines/{first.instance_id}")
    token = world.compute.begin_delete(mixed, [first.instance_id, second.instance_id])
    assert not world.compute.poll(token).done
    world.advance()
    assert world.compute.poll(token).ok
    assert world.compute.instances(mixed) == []
    assert world.arm.truth.leaks().nics == ()


def test_pools_of_one_name_in_two_clusters_do_not_take_each_other_for_flexible(quick: World) -> None:
    """A uniform set read as a Flexible one seems to be empty: its capacity would be given back, with its VMs."""
    mine, theirs = pool("gpu", resource="mine"), pool("gpu", resource="theirs")
    quick.pools(mine)
    quick.pools(theirs, flexible=frozenset({"gpu"}))
    quick.grow(mine, 2)
    quick.compute.scale_set(theirs)
    assert len(quick.compute.instances(mine)) == 2


def test_the_token_of_an_operation_has_nothing_random_in_it(quick: World) -> None:
    (gpu,) = quick.pools(pool("gpu"))
    kind, payload = unpack(quick.compute.begin_capacity(gpu, 1, ""))
    status_url = orjson.loads(base64.b64decode(payload))["data"]["response"]["headers"]["azure-asyncoperation"]
    request_id = orjson.loads(base64.b64decode(payload))["data"]["request"]["headers"]["x-ms-client-request-id"]
    assert (kind, request_id) == ("capacity", str(uuid.uuid5(uuid.NAMESPACE_URL, status_url)))


@pytest.mark.parametrize(
    ("properties", "single", "surplus", "changing"),
    [
        ({}, False, False, False),
        ({"singlePlacementGroup": True, "provisioningState": "Succeeded"}, True, False, False),
        ({"overprovision": True, "provisioningState": "Updating"}, False, True, True),
        ({"singlePlacementGroup": False, "overprovision": False, "provisioningState": "Failed"}, False, False, False),
    ],
)
def test_what_a_scale_set_says_of_itself_is_read(
    properties: dict[str, object], single: bool, surplus: bool, changing: bool
) -> None:
    found = scale_set_of({"name": "a", "sku": {"capacity": 2}, "properties": properties})
    assert (found.single_group, found.overprovisions, found.changing) == (single, surplus, changing)
