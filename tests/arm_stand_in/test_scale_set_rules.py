import pytest

from local.arm import Fault
from shared.model import Priority
from tests.arm_stand_in.conftest import COMPUTE, GROUP, Bare
from tests.builders import pool

SET = f"{COMPUTE}/virtualMachineScaleSets/gpu"


def test_every_write_and_every_change_of_capacity_changes_the_etag(bare: Bare) -> None:
    bare.pools(pool("gpu"))
    etags = [bare.scale_set("gpu")["etag"]]
    for capacity in (1, 0):
        bare.resize("gpu", capacity)
        bare.advance()
        etags.append(bare.scale_set("gpu")["etag"])
    assert len(set(etags)) == 3


def test_a_write_under_an_old_etag_is_412(bare: Bare) -> None:
    bare.pools(pool("gpu"))
    assert bare.ask("PATCH", SET, {"sku": {"capacity": 1}}, if_match='"99"')[0] == 412
    assert bare.ask("PATCH", SET, {"sku": {"capacity": 1}}, if_match='"1"')[0] == 200


def test_a_patch_answers_200_with_operation_headers(bare: Bare) -> None:
    bare.pools(pool("gpu"))
    status, body, headers = bare.ask("PATCH", SET, {"sku": {"capacity": 2}})
    assert (status, body["sku"]["capacity"], body["properties"]["provisioningState"]) == (200, 2, "Updating")
    assert "azure-asyncoperation" in headers


def test_put_makes_a_set_and_if_none_match_keeps_an_existing_one(bare: Bare) -> None:
    body = {"location": "westeurope", "sku": {"name": "Standard_D2s_v5", "capacity": 1}}
    assert bare.ask("PUT", SET, body)[0] == 201
    assert bare.ask("PUT", SET, body, if_none_match="*")[0] == 412
    assert bare.ask("PUT", SET, body)[0] == 200
    assert bare.ask("PUT", f"{SET}2", {"location": "westeurope"})[0] == 400


def test_deleting_the_set_deletes_its_vms(bare: Bare) -> None:
    bare.pools(pool("gpu", minimum=2))
    assert bare.ask("DELETE", SET)[0] == 202
    bare.advance()
    assert bare.ask("GET", SET)[0] == 404
    assert bare.arm.truth.live_vms() == []
    assert bare.ask("DELETE", SET)[0] == 204


def test_instances_are_numbered_on_and_never_reused(bare: Bare) -> None:
    bare.pools(pool("gpu", minimum=2))
    bare.ask("POST", f"{SET}/delete", {"instanceIds": ["1"]})
    bare.advance()
    bare.resize("gpu", 2)
    bare.advance()
    assert [one["instanceId"] for one in bare.instances("gpu")] == ["0", "2"]
    assert bare.instances("gpu")[1]["properties"]["osProfile"]["computerName"] == "gpu000002"


def test_lowering_the_capacity_removes_the_newest(bare: Bare) -> None:
    bare.pools(pool("gpu", minimum=3))
    bare.resize("gpu", 1)
    bare.advance()
    assert [one["instanceId"] for one in bare.instances("gpu")] == ["0"]


def test_lowering_to_the_number_of_live_instances_removes_none(bare: Bare) -> None:
    bare.pools(pool("gpu"))
    bare.arm.faults.add(Fault("scale_set.update", code="AllocationFailed", stage="async", partial=2))
    bare.resize("gpu", 5)
    bare.advance()
    assert bare.capacity("gpu") == 5
    bare.resize("gpu", 2)
    bare.advance()
    assert (bare.capacity("gpu"), len(bare.instances("gpu"))) == (2, 2)


@pytest.mark.parametrize(("keeps", "capacity"), [(True, 5), (False, 2)])
def test_a_failed_growth_keeps_the_capacity_or_not_by_quirk(bare: Bare, keeps: bool, capacity: int) -> None:
    bare.quirks(failed_growth_keeps_capacity=keeps)
    bare.pools(pool("gpu"))
    bare.arm.faults.add(Fault("scale_set.update", code="AllocationFailed", stage="async", partial=2))
    headers = bare.resize("gpu", 5)
    bare.advance()
    assert bare.status(headers)["error"]["code"] == "AllocationFailed"
    assert bare.capacity("gpu") == capacity
    assert bare.scale_set("gpu")["properties"]["provisioningState"] == "Failed"


def test_a_failed_growth_may_leave_failed_instances_by_quirk(bare: Bare) -> None:
    bare.quirks(failed_growth_leaves_failed_instances=True)
    bare.pools(pool("gpu"))
    bare.arm.faults.add(Fault("scale_set.update", code="AllocationFailed", stage="async", partial=1))
    bare.resize("gpu", 3)
    bare.advance()
    states = [one["properties"]["provisioningState"] for one in bare.instances("gpu")]
    assert states == ["Succeeded", "Failed", "Failed"]


@pytest.mark.parametrize(("preempts", "status"), [(True, "Failed"), (False, "InProgress")])
def test_a_second_growth_preempts_the_first_or_not_by_quirk(bare: Bare, preempts: bool, status: str) -> None:
    bare.quirks(overlapping_growth_preempts=preempts)
    bare.pools(pool("gpu"))
    first = bare.resize("gpu", 2)
    second = bare.resize("gpu", 3)
    assert bare.status(first)["status"] == status
    bare.advance()
    assert bare.status(second)["status"] == "Succeeded"
    assert len(bare.instances("gpu")) == 3


@pytest.mark.parametrize("late", [True, False])
def test_a_deletion_lowers_the_capacity_at_once_or_when_gone_but_once_only(bare: Bare, late: bool) -> None:
    bare.quirks(capacity_drops_when_gone=late)
    bare.pools(pool("gpu", minimum=3))
    bare.ask("POST", f"{SET}/delete", {"instanceIds": ["0"]})
    assert bare.capacity("gpu") == (3 if late else 2)
    bare.ask("POST", f"{SET}/delete", {"instanceIds": ["0"]})
    bare.advance()
    assert bare.capacity("gpu") == 2
    bare.resize("gpu", 1)
    bare.advance()
    assert (bare.capacity("gpu"), len(bare.instances("gpu"))) == (1, 1)


def test_unknown_instance_ids_are_refused_by_name_or_ignored_by_quirk(bare: Bare) -> None:
    bare.pools(pool("gpu", minimum=1))
    status, body, _ = bare.ask("POST", f"{SET}/delete", {"instanceIds": ["0", "17"]})
    assert status == 400
    assert body["error"]["code"] in {"InvalidParameter", "InstanceIdsListInstanceIdNotActiveVM"}
    assert "instanceId 17 is not an active" in body["error"]["message"]
    bare.quirks(unknown_instance_ids_refused=False)
    assert bare.ask("POST", f"{SET}/delete", {"instanceIds": ["0", "17"]})[0] == 202
    assert bare.ask("POST", f"{SET}/delete", {})[0] == 400


def test_a_single_child_can_be_deleted_and_read(bare: Bare) -> None:
    bare.pools(pool("gpu", minimum=2))
    assert bare.ask("GET", f"{SET}/virtualMachines/1/instanceView")[1]["statuses"][1]["code"] == "PowerState/running"
    assert bare.ask("DELETE", f"{SET}/virtualMachines/1")[0] == 202
    assert bare.ask("DELETE", f"{SET}/virtualMachines/9")[0] == 204
    bare.advance()
    assert bare.ask("GET", f"{SET}/virtualMachines/1")[0] == 404
    assert bare.capacity("gpu") == 1


def test_children_in_deletion_are_still_listed_as_such(bare: Bare) -> None:
    bare.pools(pool("gpu", minimum=1))
    bare.ask("POST", f"{SET}/delete", {"instanceIds": ["*"]})
    assert bare.instances("gpu")[0]["properties"]["provisioningState"] == "Deleting"


def test_azure_chooses_the_zone_among_a_sets_zones(bare: Bare) -> None:
    bare.pools(pool("gpu", zones=("1", "3")))
    bare.resize("gpu", 12)
    assert {one["zones"][0] for one in bare.instances("gpu")} == {"1", "3"}


def test_a_flexible_sets_vms_are_resources_of_the_group(bare: Bare) -> None:
    bare.pools(pool("gpu"), flexible=frozenset({"gpu"}))
    bare.resize("gpu", 2)
    bare.advance()
    vms = bare.ask("GET", f"{COMPUTE}/virtualMachines")[1]["value"]
    assert all(one["properties"]["virtualMachineScaleSet"]["id"] == SET for one in vms)
    assert len(bare.ask("GET", f"{GROUP}/Microsoft.Network/networkInterfaces")[1]["value"]) == 2


@pytest.mark.parametrize(("lowers", "capacity"), [(True, 1), (False, 2)])
def test_deleting_a_flexible_vm_lowers_the_capacity_or_not_by_quirk(bare: Bare, lowers: bool, capacity: int) -> None:
    bare.quirks(flexible_deletion_lowers_capacity=lowers)
    bare.pools(pool("gpu", minimum=2), flexible=frozenset({"gpu"}))
    name = bare.ask("GET", f"{COMPUTE}/virtualMachines")[1]["value"][0]["name"]
    bare.ask("DELETE", f"{COMPUTE}/virtualMachines/{name}")
    bare.advance()
    assert bare.capacity("gpu") == capacity


def test_a_vm_may_join_a_flexible_set_in_a_zone_of_its_own_choice(bare: Bare) -> None:
    bare.pools(pool("gpu"), flexible=frozenset({"gpu"}))
    body = {
        "location": "westeurope",
        "zones": ["2"],
        "properties": {"hardwareProfile": {"vmSize": "Standard_D2s_v5"}, "virtualMachineScaleSet": {"id": SET}},
    }
    assert bare.ask("PUT", f"{COMPUTE}/virtualMachines/gpu-a", body)[0] == 201
    bare.advance()
    assert (bare.capacity("gpu"), bare.instances("gpu")[0]["zones"]) == (1, ["2"])


def test_quotas_are_checked_by_family_region_and_low_priority(bare: Bare) -> None:
    bare.pools(pool("od", sku="Standard_D4s_v5"), pool("spot", sku="Standard_D4s_v5", priority=Priority.SPOT))
    bare.arm.cloud.quota.set_limit("standardDSv5Family", 8)
    bare.arm.cloud.quota.set_limit("lowPriorityCores", 4)
    refusals = {}
    for name, capacity in (("od", 3), ("spot", 2)):
        status, body, _ = bare.ask(
            "PATCH", f"{COMPUTE}/virtualMachineScaleSets/{name}", {"sku": {"capacity": capacity}}
        )
        refusals[name] = (
            status,
            body["error"]["code"],
            body["error"]["message"].split("approved ")[1].split(" quota")[0],
        )
    assert refusals == {
        "od": (409, "OperationNotAllowed", "standardDSv5Family Cores"),
        "spot": (409, "OperationNotAllowed", "LowPriorityCores"),
    }
    bare.resize("od", 2)
    bare.resize("spot", 1)
    usages = bare.ask("GET", "/subscriptions/subscription/providers/Microsoft.Compute/locations/westeurope/usages")[1]
    used = {one["name"]["value"]: one["currentValue"] for one in usages["value"]}
    assert used == {"cores": 8, "lowPriorityCores": 4, "standardDSv5Family": 8}


def test_stock_runs_out_and_comes_back_with_deletions(bare: Bare) -> None:
    bare.quirks(partial_allocation=True, failed_growth_keeps_capacity=False)
    bare.pools(pool("gpu", zones=("1",)))
    bare.arm.set_stock(2, zone="1")
    headers = bare.resize("gpu", 3)
    bare.advance()
    assert bare.status(headers)["error"]["code"] == "ZonalAllocationFailed"
    bare.resize("gpu", 0)
    bare.advance()
    headers = bare.resize("gpu", 2)
    bare.advance()
    assert bare.status(headers)["status"] == "Succeeded"


def test_allocation_is_all_or_nothing_unless_the_quirk_says_otherwise(bare: Bare) -> None:
    bare.pools(pool("gpu"))
    bare.arm.set_stock(2)
    bare.resize("gpu", 3)
    bare.advance()
    assert bare.instances("gpu") == []


def test_sizes_are_listed_with_their_cores(bare: Bare) -> None:
    bare.pools(pool("gpu", sku="Standard_NC6s_v3", cpu=6000, gpu=1))
    path = "/subscriptions/subscription/providers/Microsoft.Compute/skus?$filter=location eq 'westeurope'"
    (size,) = bare.ask("GET", path)[1]["value"]
    capabilities = {one["name"]: one["value"] for one in size["capabilities"]}
    assert (size["name"], size["family"]) == ("Standard_NC6s_v3", "standardNCSv3Family")
    assert (capabilities["vCPUs"], capabilities["GPUs"]) == ("6", "1")
