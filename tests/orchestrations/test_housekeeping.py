"""What nobody waits for is done in the sweep all the same: leftovers, old blobs and histories, and what hangs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import orjson
import pytest

from functions import housekeeping
from local.arm.faults import Fault
from local.web import Request
from shared.names import plan_container, snapshot_container
from tests.orchestrations.stage import POOLS, Stage

GROUP = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/nodes/providers"
OURS = {"sluice-cluster": "training", "sluice-pool": "spot", "sluice-operation": "0a1b2c3d4e"}
HALF_HOUR = 1800.0


def put(stage: Stage, path: str, tags: dict[str, str], **properties: Any) -> None:
    body = {"location": "westeurope", "tags": tags, "properties": properties}
    request = Request("PUT", f"{GROUP}/{path}", {"api-version": "2024-05-01"}, {}, orjson.dumps(body))
    assert stage.stand.arm.handle(request).status in (200, 201)


def nic(stage: Stage, name: str = "lost", tags: dict[str, str] | None = None) -> None:
    put(stage, f"Microsoft.Network/networkInterfaces/{name}", OURS if tags is None else tags)


def disk(stage: Stage, name: str, tags: dict[str, str]) -> None:
    put(stage, f"Microsoft.Compute/disks/{name}", tags)


def there(stage: Stage) -> set[str]:
    truth = stage.stand.arm.truth
    return {each.name for each in [*truth.nics, *truth.disks] if each.deleted_at is None}


def test_a_nic_that_nothing_holds_goes_in_the_second_look_at_it() -> None:
    stage = Stage(timers=True)
    nic(stage)
    stage.run(HALF_HOUR + 60)
    assert there(stage) == {"lost"}
    stage.run(HALF_HOUR)
    assert there(stage) == set()


def test_two_looks_in_a_row_are_no_half_hour() -> None:
    stage = Stage()
    nic(stage)
    order = {"cluster": "training", "budgets": []}
    for number in range(3):
        stage.host.client_start("reconcile", order, f"look-{number}")
        stage.run(60)
    assert there(stage) == {"lost"}


@pytest.mark.parametrize(
    "tags",
    [
        {},
        {"sluice-cluster": "other", "sluice-pool": "spot", "sluice-operation": "x"},
        {**OURS, "kubernetes.io-created-for-pvc-name": "data"},
    ],
)
def test_what_is_not_ours_or_a_volume_s_is_never_touched(tags: dict[str, str]) -> None:
    stage = Stage(timers=True)
    nic(stage, "n", tags)
    disk(stage, "d", tags)
    stage.run(4 * HALF_HOUR)
    assert there(stage) == {"n", "d"}


def test_a_data_disk_goes_only_when_it_was_made_with_a_vm_of_ours() -> None:
    stage = Stage(timers=True)
    disk(stage, "made-with-vm", OURS)
    disk(stage, "no-operation", {name: value for name, value in OURS.items() if name != "sluice-operation"})
    stage.run(3 * HALF_HOUR)
    assert there(stage) == {"no-operation"}


def address(stage: Stage, name: str, tags: dict[str, str], holder: str = "") -> None:
    held = {"ipConfiguration": {"id": holder}} if holder else {}
    put(stage, f"Microsoft.Network/publicIPAddresses/{name}", tags, **held)


def test_a_public_ip_goes_only_when_it_was_made_with_a_vm_of_ours_and_nothing_holds_it() -> None:
    solo = "  - {name: solo, kind: vm, sku: Standard_D4s_v5, max: 2, price: 1, template: vm.json}\nscale_down"
    stage = Stage(POOLS.replace("scale_down", solo), timers=True)
    ours = {**OURS, "sluice-pool": "solo"}
    address(stage, "lost", ours)
    address(stage, "held", ours, "/subscriptions/s/nic/ipConfigurations/a")
    address(stage, "no-operation", {name: value for name, value in ours.items() if name != "sluice-operation"})
    stage.run(3 * HALF_HOUR)
    group = stage.stand.arm.cloud.estate.group(GROUP.split("/")[2], "nodes")
    assert sorted(group.addresses) == ["held", "no-operation"]


def test_without_the_right_to_list_public_ips_all_else_still_goes_and_people_are_told() -> None:
    solo = "  - {name: solo, kind: vm, sku: Standard_D4s_v5, max: 2, price: 1, template: vm.json}\nscale_down"
    stage = Stage(POOLS.replace("scale_down", solo), timers=True)
    stage.stand.arm.faults.add(Fault("ip.list", code="AuthorizationFailed", status=403, times=99))
    nic(stage, "lost", {**OURS, "sluice-pool": "solo"})
    stage.run(2 * HALF_HOUR + 60)
    assert there(stage) == set()
    (lacking,) = stage.status()["clusters"]["training"]["lacking"]
    assert "listing ips of nodes: AuthorizationFailed" in lacking["what"]


def test_what_azure_will_not_delete_keeps_nothing_else_from_going() -> None:
    stage = Stage(timers=True)
    nic(stage, "a")
    nic(stage, "b")
    stage.stand.arm.faults.add(Fault("nic.delete", "a", code="AuthorizationFailed", status=403, times=9))
    stage.run(3 * HALF_HOUR)
    assert there(stage) == {"a"}


def test_a_leftover_s_end_is_in_the_trail() -> None:
    stage = Stage(timers=True)
    nic(stage)
    stage.run(3 * HALF_HOUR)
    (name,) = stage.store.list(plan_container("training"), "trail/growths/spot/")
    said = stage.document(name)
    assert said["event"] == "cleared"
    assert said["resource"].endswith("/networkInterfaces/lost")


def test_blobs_past_their_time_are_deleted_but_never_the_newest_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "SLACK", timedelta())
    monkeypatch.setattr(housekeeping, "SNAPSHOTS_KEPT", timedelta(minutes=10))
    monkeypatch.setitem(housekeeping.KEPT, "acted/", timedelta(hours=1))
    stage = Stage(timers=True)
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=200)
    stage.store.put(snapshot_container("training"), "claims/old.json", b"{}")
    for name in ("acted/old.json", "trail/nodes/n/old.json"):
        stage.store.put(plan_container("training"), name, b"{}")
    newest = stage.ledger()["snapshot"]
    stage.run(2100)
    assert stage.store.list(snapshot_container("training")) == [newest]
    assert "acted/old.json" in stage.store.list(plan_container("training"))
    stage.run(3600)
    left = stage.store.list(plan_container("training"))
    assert "acted/old.json" not in left
    assert "trail/nodes/n/old.json" in left
    assert "latest.json" in left


def test_histories_are_forgotten_after_their_time_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "HISTORIES_KEPT", timedelta(hours=2))
    stage = Stage(timers=True)
    stage.host.client_start("take_pool", wanted(), "mine")
    stage.run(3700)
    assert stage.host.instance("mine").status == "Completed"
    stage.run(3600)
    assert not stage.host.instances("mine")


def wanted() -> dict[str, Any]:
    return {"cluster": "training", "pool": "spot", "holder": "x", "seconds": 60.0}


def test_an_orchestration_that_hangs_is_reported_with_what_to_do_until_it_is_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(housekeeping.BOUNDS, "take_pool", timedelta(minutes=2))
    stage = Stage(timers=True)
    stage.run(57 * 60)
    lock = {**wanted(), "holder": "somebody", "seconds": 3600.0, "now": stage.timeline.now().isoformat()}
    stage.host.signal("cluster", "training", "lock_pool", lock)
    stage.run(1)
    stage.host.client_start("take_pool", wanted(), "hangs")
    stage.run(200)
    (told,) = stage.status()["clusters"]["training"]["stuck"]
    assert (told["id"], told["name"]) == ("hangs", "take_pool")
    assert "orchestration hangs (take_pool) runs since 2026-01-01T00:57:01" in caplog.text
    stage.run(3600)
    assert stage.status()["clusters"]["training"]["stuck"] == []


def test_trouble_with_housekeeping_holds_up_no_sweep(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any) -> int:
        raise RuntimeError("the task hub is busy")

    monkeypatch.setattr(housekeeping, "purged", broken)
    stage = Stage(timers=True)
    stage.submit(2)
    stage.run(3900)
    assert len(stage.bound()) == 2
    assert "housekeeping: purge failed" in caplog.text
