"""One poison event among a hundred, in one batch of the real topic stand-in to the real host: it is dead-lettered with
its reason, nothing is sent again, and no other event waits for it."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import orjson
import pytest

from local.web import Request
from shared.names import DEAD_LETTER_CONTAINER, snapshot_container
from shared.wire.events import LARGEST_SNAPSHOT
from tests.orchestrations.stage import Stage

Json = dict[str, Any]
Poison = Callable[[Stage, Json], Json]

ACCOUNT = "https://sluice.blob.core.windows.net"
PLACE = 41  # of the poison in its batch
LETTER = re.compile(r"SLUICE/\d{4}/\d{1,2}/\d{1,2}/\d{1,2}/[0-9a-f-]{36}\.json")


def data(event: Json, **changes: Any) -> Json:
    return {**event, "data": {**event["data"], **changes}}


def claim(stage: Stage, event: Json, blob: bytes, *, sha256: str = "", container: str = "") -> Json:
    """The event with a claim check for this blob, which lies where it says."""
    where = container or snapshot_container("training")
    stage.store.put(where, "claims/poison", blob)
    digest = sha256 or hashlib.sha256(blob).hexdigest()
    return data(event, snapshot={"address": f"{ACCOUNT}/{where}/claims/poison", "size": len(blob), "sha256": digest})


def bomb() -> bytes:
    """Little that becomes more than may be held in memory."""
    packer = zlib.compressobj(9)
    parts = [packer.compress(b" " * 2**20) for _ in range(LARGEST_SNAPSHOT // 2**20 + 1)]
    return b"".join([*parts, packer.flush()])


def other_snapshot(_: Stage, event: Json) -> Json:
    return data(event, epoch=event["data"]["epoch"] + 1)


KINDS: dict[str, tuple[str, Poison]] = {
    "data that is text": ("BadEvent", lambda _, event: {**event, "data": "{not json"}),
    "data in base64": (
        "BadEvent",
        lambda _, event: {**{k: v for k, v in event.items() if k != "data"}, "data_base64": "e30="},
    ),
    "no data": ("BadEvent", lambda _, event: {k: v for k, v in event.items() if k != "data"}),
    "unknown cluster": ("UnknownCluster", lambda _, event: {**event, "source": "/sluice/somebody"}),
    "foreign source": ("UnknownCluster", lambda _, event: {**event, "source": "https://elsewhere.example"}),
    "unknown type": ("BadEvent", lambda _, event: {**event, "type": "sluice.pods.dancing"}),
    "wrong schema": ("BadEvent", lambda _, event: data(event, schema=7)),
    "unknown field": ("BadEvent", lambda _, event: data(event, colour="red")),
    "id that is a path": ("BadEvent", lambda _, event: {**event, "id": "../../etc/passwd"}),
    "subject that is no text": ("BadEvent", lambda _, event: {**event, "subject": {"a": 1}}),
    "claim outside its container": (
        "ClaimRefused",
        lambda stage, event: claim(stage, event, zlib.compress(b"{}"), container="snapshots-other"),
    ),
    "claim that climbs": (
        "ClaimRefused",
        lambda _, event: data(
            event,
            snapshot={
                "address": f"{ACCOUNT}/snapshots-training/../config/training.yaml",
                "size": 9,
                "sha256": "0" * 64,
            },
        ),
    ),
    "hash mismatch": (
        "ClaimRefused",
        lambda stage, event: claim(stage, event, zlib.compress(b"{}"), sha256="0" * 64),
    ),
    "oversized decompression": ("BadSnapshot", lambda stage, event: claim(stage, event, bomb())),
    "claimed garbage": ("BadSnapshot", lambda stage, event: claim(stage, event, b"\x00garbage\xff")),
    "claimed text": ("BadSnapshot", lambda stage, event: claim(stage, event, zlib.compress(b"[1, 2"))),
    "snapshot garbage": ("BadSnapshot", lambda _, event: data(event, snapshot={"nodes": "many"})),
    "snapshot of another moment": ("BadSnapshot", other_snapshot),
}


def stage_of_one_batch() -> Stage:
    """The topic holds every event for the same time, so that all that is published together is one request."""
    stage = Stage()
    stage.stand.topic.options = replace(stage.stand.topic.options, delay=(0.25, 0.25))
    return stage


def admitted(stage: Stage) -> dict[str, datetime]:
    """When each event's orchestration was started, by the event's id."""
    return {view.id: view.created for view in stage.orchestrations("admit")}


def batches(stage: Stage) -> list[int]:
    """How many events each delivery will hold, filled while the topic delivers."""
    sizes: list[int] = []
    handle = stage.host.handle

    def counted(request: Request) -> Any:
        if request.method == "POST" and "EventGrid" in request.path:
            sizes.append(len(orjson.loads(request.body)))
        return handle(request)

    stage.stand.connect(counted)
    return sizes


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, datetime]:
    """The ninety-nine without the poison."""
    stage = stage_of_one_batch()
    stage.publisher.publish([stage.event() for _ in range(99)])
    stage.run(30)
    return admitted(stage)


@pytest.mark.parametrize("kind", KINDS)
def test_a_poison_event_is_put_aside_and_delays_nobody(kind: str, undisturbed: dict[str, datetime]) -> None:
    reason, poison = KINDS[kind]
    stage = stage_of_one_batch()
    sizes = batches(stage)
    good = [stage.event() for _ in range(99)]
    bad = poison(stage, {**good[0], "id": "poison"})
    stage.stand.topic.publish([*good[:PLACE], bad, *good[PLACE:]])
    stage.run(30)

    assert sizes == [100]
    assert admitted(stage) == undisturbed
    counters = stage.stand.topic.counters
    assert (counters.delivered, counters.attempts, counters.redeliveries) == (100, 100, 0)
    assert (counters.dead_lettered, counters.dropped) == (0, 0)

    (name,) = stage.store.list(DEAD_LETTER_CONTAINER)
    assert LETTER.fullmatch(name)
    (letter,) = orjson.loads(stage.store.get(DEAD_LETTER_CONTAINER, name).data)
    assert letter["reason"].startswith(f"{reason}: ")
    assert (letter["id"], letter["source"], letter["type"]) == (bad["id"], bad["source"], bad["type"])
    assert letter["deadletterreason"] == "UndeliverableDueToHttpBadRequest"
    assert (letter["deliveryattempts"], letter["lastdeliveryoutcome"]) == (1, "BadRequest")
    assert datetime.fromisoformat(letter["lastdeliveryattempttime"]) > datetime.fromisoformat(letter["publishtime"])
    assert stage.status()["dead_letters"] == 1


def test_a_batch_of_nothing_but_poison_is_put_aside_whole() -> None:
    stage = stage_of_one_batch()
    event = stage.event()
    stage.stand.topic.publish([poison(stage, {**event, "id": f"poison-{n}"}) for n, (_, poison) in _each()])
    stage.run(30)
    assert admitted(stage) == {}
    assert stage.stand.topic.counters.redeliveries == 0
    assert stage.status()["dead_letters"] == len(KINDS)


def _each() -> list[tuple[int, tuple[str, Poison]]]:
    return list(enumerate(KINDS.values()))


@pytest.mark.parametrize("time", ["yesterday", 5, {"at": 1}])
def test_a_time_that_is_none_is_refused_where_it_is_published(time: Any) -> None:
    stage = stage_of_one_batch()
    event = {**stage.event(), "time": time}
    body = orjson.dumps([event])
    headers = {"aeg-sas-key": "local", "content-type": "application/cloudevents-batch+json; charset=utf-8"}
    response = stage.stand.topic.handle(Request.of("POST", "/api/events?api-version=2018-01-01", headers, body))
    assert response.status == 400
    assert b"[0].time must be" in response.body


def test_what_the_worker_cannot_decode_fails_its_own_call_and_no_other() -> None:
    stage = stage_of_one_batch()
    event = stage.event()
    body = orjson.dumps([{**event, "id": "poison", "time": "yesterday"}, event])
    webhook = "/runtime/webhooks/EventGrid?functionName=ingest"
    response = stage.host.handle(Request.of("POST", webhook, {"aeg-event-type": "Notification"}, body))
    assert response.status == 500
    stage.errors.clear()
    stage.run(5)
    assert list(admitted(stage)) == [event["id"]]


def test_a_dead_letter_keeps_attributes_that_nobody_knows() -> None:
    stage = stage_of_one_batch()
    event = {name: value for name, value in stage.event().items() if name != "data"}
    stage.stand.topic.publish([{**event, "data_base64": "e30=", "tenant": "blue"}])
    stage.run(5)
    (name,) = stage.store.list(DEAD_LETTER_CONTAINER)
    (letter,) = orjson.loads(stage.store.get(DEAD_LETTER_CONTAINER, name).data)
    assert (letter["data_base64"], letter["tenant"]) == ("e30=", "blue")
