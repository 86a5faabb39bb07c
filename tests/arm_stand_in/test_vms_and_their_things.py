from typing import Any

import pytest

from tests.arm_stand_in.conftest import COMPUTE, GROUP, Bare

VM = f"{COMPUTE}/virtualMachines/solo-1"
NICS = f"{GROUP}/Microsoft.Network/networkInterfaces"
DISKS = f"{COMPUTE}/disks"


def body(nic: str | None = "Delete", disk: str | None = "Delete", **properties: Any) -> dict[str, Any]:
    configuration = {"name": "nic", "properties": {"deleteOption": nic} if nic else {}}
    return {
        "location": "westeurope",
        "properties": {
            "hardwareProfile": {"vmSize": "Standard_D2s_v5"},
            "storageProfile": {"osDisk": {"deleteOption": disk} if disk else {}},
            "networkProfile": {"networkInterfaceConfigurations": [configuration]},
            **properties,
        },
    }


def names(bare: Bare, path: str) -> list[str]:
    return [one["name"] for one in bare.ask("GET", path)[1]["value"]]


def test_a_vm_is_accepted_with_201_and_boots_later(bare: Bare) -> None:
    status, made, headers = bare.ask("PUT", VM, body())
    assert (status, made["properties"]["provisioningState"]) == (201, "Creating")
    bare.advance()
    assert bare.status(headers)["status"] == "Succeeded"
    view = bare.ask("GET", f"{VM}?$expand=instanceView")[1]["properties"]["instanceView"]
    assert [one["code"] for one in view["statuses"]] == ["ProvisioningState/succeeded", "PowerState/running"]


def test_the_instance_view_is_there_only_when_asked_for(bare: Bare) -> None:
    bare.ask("PUT", VM, body())
    assert "instanceView" not in bare.ask("GET", VM)[1]["properties"]
    assert bare.ask("GET", f"{COMPUTE}/virtualMachines?$expand=instanceView")[0] == 400


def test_a_vm_without_size_or_place_is_refused(bare: Bare) -> None:
    assert bare.ask("PUT", VM, {"location": "westeurope"})[0] == 400


@pytest.mark.parametrize(("option", "left"), [("Delete", 0), ("Detach", 1), (None, 1)])
def test_delete_option_decides_what_goes_with_a_vm_and_detach_is_the_default(
    bare: Bare, option: str | None, left: int
) -> None:
    bare.ask("PUT", VM, body(nic=option, disk=option))
    bare.advance()
    assert bare.ask("DELETE", VM)[0] == 202
    bare.advance()
    assert bare.ask("GET", VM)[0] == 404
    assert (len(names(bare, NICS)), len(names(bare, DISKS))) == (left, left)
    leaks = bare.arm.truth.leaks()
    assert (len(leaks.nics), len(leaks.disks)) == (left, left)


def test_deleting_what_is_not_there_is_204(bare: Bare) -> None:
    for path in (VM, f"{NICS}/n", f"{DISKS}/d"):
        assert bare.ask("DELETE", path)[0] == 204


def test_a_data_disk_follows_its_own_delete_option(bare: Bare) -> None:
    for name in ("stays", "goes"):
        bare.ask("PUT", f"{DISKS}/{name}", {"location": "westeurope"})
    disks = [
        {"lun": 0, "createOption": "Attach", "managedDisk": {"id": f"{DISKS}/stays"}},
        {"lun": 1, "createOption": "Attach", "deleteOption": "Delete", "managedDisk": {"id": f"{DISKS}/goes"}},
    ]
    bare.ask("PUT", VM, body(storageProfile={"osDisk": {"deleteOption": "Delete"}, "dataDisks": disks}))
    bare.advance()
    bare.ask("DELETE", VM)
    bare.advance()
    assert names(bare, DISKS) == ["stays"]


def test_disks_are_attached_and_detached_by_patching_the_vm(bare: Bare) -> None:
    bare.ask("PUT", f"{DISKS}/pv", {"location": "westeurope"})
    bare.ask("PUT", VM, body())
    bare.advance()
    disk = {"lun": 0, "createOption": "Attach", "managedDisk": {"id": f"{DISKS}/pv"}}
    bare.ask("PATCH", VM, {"properties": {"storageProfile": {"dataDisks": [disk]}}})
    assert bare.ask("GET", f"{DISKS}/pv")[1]["managedBy"] == VM
    assert bare.ask("DELETE", f"{DISKS}/pv")[0] == 409
    other = body(storageProfile={"dataDisks": [disk]})
    assert bare.ask("PUT", f"{COMPUTE}/virtualMachines/other", other)[0] == 409
    bare.ask("PATCH", VM, {"properties": {"storageProfile": {"dataDisks": []}}})
    assert "managedBy" not in bare.ask("GET", f"{DISKS}/pv")[1]
    assert bare.ask("DELETE", f"{DISKS}/pv")[0] == 200


def test_a_nic_in_use_cannot_be_deleted(bare: Bare) -> None:
    bare.ask("PUT", VM, body())
    (name,) = names(bare, NICS)
    status, answer, _ = bare.ask("DELETE", f"{NICS}/{name}")
    assert (status, answer["error"]["code"]) == (400, "NicInUse")


def test_a_nic_made_before_is_taken_and_left(bare: Bare) -> None:
    assert bare.ask("PUT", f"{NICS}/mine", {"location": "westeurope"})[0] == 201
    network = {"networkInterfaces": [{"id": f"{NICS}/mine"}]}
    bare.ask("PUT", VM, body(networkProfile=network))
    assert bare.ask("GET", f"{NICS}/mine")[1]["properties"]["virtualMachine"]["id"] == VM
    assert bare.ask("PUT", f"{COMPUTE}/virtualMachines/other", body(networkProfile=network))[0] == 400
    bare.advance()
    bare.ask("DELETE", VM)
    bare.advance()
    assert names(bare, NICS) == ["mine"]


def test_a_vm_under_way_or_going_takes_no_second_write(bare: Bare) -> None:
    bare.ask("PUT", VM, body())
    assert bare.ask("PUT", VM, body())[1]["error"]["code"] == "Conflict"
    bare.advance()
    assert bare.ask("PUT", VM, body())[0] == 200
    bare.ask("DELETE", VM)
    assert bare.ask("PATCH", VM, {"tags": {}})[0] == 409


def test_an_unnamed_os_disk_gets_azures_kind_of_name(bare: Bare) -> None:
    bare.ask("PUT", VM, body())
    assert names(bare, DISKS)[0].startswith("solo-1_OsDisk_1_")
