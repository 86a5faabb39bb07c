"""The door: what comes in, what is refused, and that the bad ones delay none of the good ones."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from local.web import Request
from shared.names import DEAD_LETTER_CONTAINER, snapshot_container
from tests.orchestrations.stage import Stage

WEBHOOK = "/runtime/webhooks/EventGrid?functionName=ingest"


def deliver(stage: Stage, *events: Any) -> int:
    request = Request.of("POST", WEBHOOK, {"aeg-event-type": "Notification"}, orjson.dumps(list(events)))
    return stage.host.handle(request).status


def letters(stage: Stage) -> list[dict[str, Any]]:
    names = stage.store.list(DEAD_LETTER_CONTAINER)
    return [orjson.loads(stage.store.get(DEAD_LETTER_CONTAINER, name).data)[0] for name in names]


def test_an_event_is_stored_and_admitted_under_its_own_id() -> None:
    stage = Stage()
    event = stage.event()
    assert deliver(stage, event) == 202
    stage.run(5)
    assert stage.host.instance(event["id"]).name == "admit"
    assert len(stage.store.list(snapshot_container("training"))) == 1


def test_one_poison_event_among_a_hundred_is_put_aside_and_the_batch_succeeds() -> None:
    stage = Stage()
    good = [stage.event() for _ in range(99)]
    poison = {**good[0], "id": "poison", "data": {"schema": 7}}
    assert deliver(stage, *good[:50], poison, *good[50:]) == 202
    stage.run(5)
    assert len(stage.orchestrations("admit")) == 99
    assert [letter["id"] for letter in letters(stage)] == ["poison"]
    assert "BadEvent" in letters(stage)[0]["reason"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"source": "/sluice/somebody"}, "UnknownCluster"),
        ({"source": "/elsewhere"}, "UnknownCluster"),
        ({"type": "sluice.pods.dancing"}, "BadEvent"),
        ({"id": "../../etc"}, "BadEvent"),
        ({"data": None}, "BadEvent"),
        ({"data": []}, "BadEvent"),
    ],
)
def test_an_event_that_is_wrong_is_told_its_reason(change: dict[str, Any], reason: str) -> None:
    stage = Stage()
    assert deliver(stage, {**stage.event(), **change}) == 202
    assert letters(stage)[0]["reason"].startswith(reason)
    assert stage.orchestrations("admit") == []


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("https://evil.example/snapshots-training/x", "ClaimRefused"),
        ("https://sluice.blob.core.windows.net/snapshots-training/../config/training.yaml", "ClaimRefused"),
        ("https://sluice.blob.core.windows.net/snapshots-training/claims/none", "ClaimRefused"),
    ],
)
def test_a_claim_that_leads_elsewhere_or_nowhere_is_refused(address: str, reason: str) -> None:
    stage = Stage()
    event = stage.event()
    event["data"]["snapshot"] = {"address": address, "size": 10, "sha256": "0" * 64}
    assert deliver(stage, event) == 202
    assert letters(stage)[0]["reason"].startswith(reason)


def test_an_event_of_another_schema_is_refused_and_kept() -> None:
    stage = Stage()
    foreign = {"id": "1", "eventType": "Microsoft.Storage.BlobCreated", "subject": "s", "topic": "t", "data": {}}
    foreign |= {"eventTime": "2026-01-01T00:00:00Z", "dataVersion": "1"}
    assert deliver(stage, foreign) == 202
    assert len(letters(stage)) == 1


def test_refusing_an_event_twice_keeps_one_letter() -> None:
    stage = Stage()
    event = {**stage.event(), "type": "other"}
    deliver(stage, event)
    deliver(stage, event)
    assert len(letters(stage)) == 1


def test_dead_letters_are_counted_by_status() -> None:
    stage = Stage()
    deliver(stage, {**stage.event(), "type": "other"})
    assert stage.status()["dead_letters"] == 1


def test_storage_that_cannot_be_reached_is_cured_by_a_redelivery() -> None:
    stage = Stage()
    event = stage.event()
    real = stage.host.index.event_grid["ingest"]
    assert real is not None
    handle = stage.stand.blobs.handle
    broken = Broken(handle)
    stage.stand.blobs.handle = broken.handle  # type: ignore[method-assign]  # the storage is away
    assert deliver(stage, event) == 500
    stage.errors.clear()
    broken.away = False
    assert deliver(stage, event) == 202
    stage.run(5)
    assert len(stage.orchestrations("admit")) == 1


class Broken:
    def __init__(self, handle: Any) -> None:
        self.away = True
        self._handle = handle

    def handle(self, request: Request) -> Any:
        from local.web import Response  # noqa: PLC0415 - beside its one use

        return Response(503) if self.away else self._handle(request)
