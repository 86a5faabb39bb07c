from __future__ import annotations

import json
import re
import zlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.model import PodClass, PodRef, PodShape, Snapshot
from shared.names import EVENT_TYPES, NODE_EVICTING, NODE_IDLE, PODS_UNSCHEDULABLE
from shared.wire.events import (
    LARGEST_EVENT,
    LARGEST_SNAPSHOT,
    ClaimCheck,
    EventProblem,
    dead_letter_blob,
    event_id,
    make_event,
    make_notice,
    parse_event,
    read_snapshot,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ACCOUNT = "https://sluice.blob.core.windows.net"
SMALL = Snapshot("c", 3, 7, NOW, (PodClass(PodShape((("cpu", 1000),)), (PodRef("ns", "p", "u"),)),), ())
LARGE = replace(
    SMALL,
    pending=(
        PodClass(
            PodShape((("cpu", 1000),)),
            tuple(PodRef("ns", f"pod-{i}", sha256(b"%d" % i).hexdigest()) for i in range(5000)),
        ),
    ),
)


def sent(snapshot=SMALL, kind=PODS_UNSCHEDULABLE, **more):
    """The event as it arrives, and the blob that was uploaded before it."""
    outgoing = make_event(kind, snapshot, subject="pods", detail={"pods": 1}, **more)
    return json.loads(json.dumps(outgoing.event)), outgoing.upload


def changed(body, *path, value):
    copy = json.loads(json.dumps(body))
    place = copy
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return copy


def refusal(body, **more):
    with pytest.raises(EventProblem) as caught:
        parse_event(body, {"c"}, **more)
    return caught.value


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_an_event_carries_its_snapshot_there_and_back(kind):
    body, upload = sent(kind=kind)
    event = parse_event(body, {"c"})
    assert upload is None
    assert read_snapshot(event) == SMALL
    assert (event.cluster, event.type, event.subject, event.blob) == ("c", kind, "pods", "")
    assert (event.data.epoch, event.data.sequence, event.data.observed_at, event.data.detail) == (
        3,
        7,
        NOW,
        {"pods": 1},
    )


def test_the_envelope_is_a_cloud_event():
    body, _ = sent()
    assert body["specversion"] == "1.0"
    assert body["source"] == "/sluice/c"
    assert body["time"] == "2026-01-02T03:04:05Z"
    assert body["datacontenttype"] == "application/json"


@pytest.mark.parametrize("account", ["", ACCOUNT, ACCOUNT + "/"])
def test_a_large_snapshot_goes_by_claim_check(account):
    body, upload = sent(LARGE, account_url=account)
    event = parse_event(body, {"c"}, account_url=account)
    assert len(json.dumps(body)) < 2000
    assert (upload.container, upload.name) == ("snapshots-c", event.blob)
    assert read_snapshot(event, upload.data) == LARGE


@pytest.mark.parametrize("pods", [1800, 1900, 2000, 2100, 2200, 2300])
def test_no_event_is_ever_larger_than_the_limit(pods):
    (group,) = LARGE.pending
    outgoing = make_event(
        PODS_UNSCHEDULABLE, replace(LARGE, pending=(replace(group, pods=group.pods[:pods]),)), subject="pods", detail={}
    )
    assert len(json.dumps(outgoing.event, separators=(",", ":"))) <= LARGEST_EVENT


def test_a_detail_that_is_too_large_by_itself_is_refused_where_it_is_made():
    with pytest.raises(ValueError, match="detail: makes the event"):
        make_event(PODS_UNSCHEDULABLE, SMALL, subject="pods", detail={"x": "y" * LARGEST_EVENT})


def test_equal_content_has_an_equal_id_and_any_other_another():
    first, _ = sent()
    again, _ = sent()
    others = [
        sent(replace(SMALL, sequence=8))[0],
        sent(replace(SMALL, epoch=4))[0],
        sent(replace(SMALL, pending=()))[0],
        sent(kind=NODE_IDLE)[0],
        sent(replace(SMALL, cluster="d"))[0],
    ]
    assert first["id"] == again["id"]
    assert len({first["id"], *(other["id"] for other in others)}) == 6


@given(st.sampled_from(EVENT_TYPES), st.binary(max_size=50), st.integers(1, 40))
def test_an_id_may_name_a_durable_instance(kind, content, length):
    found = event_id("a" * length, kind, content)
    assert re.fullmatch(r"[a-z][a-z0-9.-]{0,99}", found)


def test_text_and_bytes_make_the_same_id():
    assert event_id("c", NODE_IDLE, "é") == event_id("c", NODE_IDLE, "é".encode())


def test_a_notice_comes_without_a_snapshot():
    body = make_notice(NODE_EVICTING, "c", NOW, subject="nodes/n", detail={"event": "e-1"})
    event = parse_event(body, {"c"})
    assert read_snapshot(event) is None
    assert (event.subject, event.data.detail) == ("nodes/n", {"event": "e-1"})


def test_the_same_notice_heard_later_is_the_same_event():
    first = make_notice(NODE_EVICTING, "c", NOW, subject="nodes/n", detail={"event": "e-1"})
    later = make_notice(NODE_EVICTING, "c", NOW + timedelta(seconds=5), subject="nodes/n", detail={"event": "e-1"})
    assert first["id"] == later["id"]


def test_only_an_eviction_may_come_without_a_snapshot():
    body = make_notice(NODE_IDLE, "c", NOW, subject="nodes/n", detail={})
    assert "only a node.evicting event" in str(refusal(body))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("specversion",), "0.3", r"event.specversion: must be '1.0', found '0.3'"),
        (("id",), "", "event.id"),
        (("id",), "a/b", "event.id: must be 1 to 100 letters"),
        (("id",), "@a", "event.id"),
        (("id",), "a" * 101, "event.id"),
        (("id",), 7, "event.id: must be a text, found 7"),
        (("type",), "sluice.pods", "event.type: must be one of sluice.pods.unschedulable"),
        (("source",), 1, "event.source"),
        (("subject",), 1, "event.subject"),
        (("data",), "x", "event.data: must be a mapping"),
        (("data",), None, "event.data: must be a mapping"),
        (("data", "schema"), 2, "event.data.schema: must be 1, found 2"),
        (("data", "schema"), True, "event.data.schema"),
        (("data", "epoch"), -1, "event.data.epoch: must be a whole number"),
        (("data", "epoch"), True, "event.data.epoch"),
        (("data", "sequence"), 2**64, "event.data.sequence"),
        (("data", "observed_at"), "2026-01-01T00:00:00", "event.data.observed_at"),
        (("data", "detail"), [], "event.data.detail: must be a mapping"),
        (("data", "snapshot"), [], "event.data.snapshot: must be a mapping"),
        (("data", "snapshot"), {"address": "x"}, "event.data.snapshot.size: is missing"),
        (("data", "snapshot"), {"address": "x", "size": 0, "sha256": "0" * 64}, "snapshot.size"),
        (("data", "snapshot"), {"address": "x", "size": 2**40, "sha256": "0" * 64}, "snapshot.size"),
        (("data", "snapshot"), {"address": "x", "size": 1, "sha256": "0" * 63}, "snapshot.sha256"),
        (("data", "more"), 1, "event.data.more: is not known"),
    ],
)
def test_a_bad_event_is_refused_by_path_and_value(path, value, message):
    problem = refusal(changed(sent()[0], *path, value=value))
    assert problem.reason == "BadEvent"
    assert message in str(problem)
    assert len(problem.problems) == 1


@pytest.mark.parametrize("body", [None, 7, "x", [], {}])
def test_what_is_no_event_at_all_is_refused(body):
    assert refusal(body).reason == "BadEvent"


def test_everything_wrong_is_told_at_once():
    body = changed(changed(sent()[0], "type", value="x"), "data", "epoch", value=-1)
    del body["id"]
    assert {problem.split(":")[0] for problem in refusal(body).problems} == {
        "event.id",
        "event.type",
        "event.data.epoch",
    }


def test_attributes_of_others_are_let_be():
    body, _ = sent()
    assert parse_event({**body, "traceparent": "00-1"}, {"c"}).cluster == "c"


@pytest.mark.parametrize("source", ["/sluice/d", "c", "/sluice/", "/sluice/c/x", "/SLUICE/c", "/other/c"])
def test_only_a_configured_cluster_is_heard(source):
    problem = refusal(changed(sent()[0], "source", value=source))
    assert problem.reason == "UnknownCluster"
    assert repr(source) in str(problem)


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.example/snapshots-c/a.json",
        ACCOUNT + ".evil.example/snapshots-c/a.json",
        ACCOUNT + "@evil.example/snapshots-c/a.json",
        "http://sluice.blob.core.windows.net/snapshots-c/a.json",
        ACCOUNT + "/snapshots-d/a.json",
        ACCOUNT + "/snapshots-c/../snapshots-d/a.json",
        ACCOUNT + "/snapshots-c/%2e%2e/snapshots-d/a.json",
        ACCOUNT + "/snapshots-c/a..b",
        ACCOUNT + "/snapshots-c/a.json?sv=1&sig=x",
        ACCOUNT + "/snapshots-c/a.json#x",
        ACCOUNT + "/snapshots-c/",
        ACCOUNT + "/snapshots-c//a",
        ACCOUNT + "/snapshots-c/a\\b",
        ACCOUNT + "/snapshots-c/a\n",
        ACCOUNT + "/snapshots-cc/a",
        "snapshots-c/a.json",
        "",
    ],
)
def test_a_claim_may_point_nowhere_but_into_the_clusters_own_container(address):
    body = changed(sent(LARGE, account_url=ACCOUNT)[0], "data", "snapshot", "address", value=address)
    problem = refusal(body, account_url=ACCOUNT)
    assert problem.reason == "ClaimRefused"
    assert f"below {ACCOUNT}/snapshots-c/" in str(problem)


def test_without_an_account_only_a_bare_place_is_taken():
    body, _ = sent(LARGE, account_url=ACCOUNT)
    assert refusal(body).reason == "ClaimRefused"


def claiming(blob, **forged):
    """An event that claims this blob."""
    body, _ = sent(LARGE)
    claim = {"address": "snapshots-c/a", "size": len(blob), "sha256": sha256(blob).hexdigest(), **forged}
    return parse_event(changed(body, "data", "snapshot", value=claim), {"c"})


@pytest.mark.parametrize("forged", [{"size": 3}, {"sha256": "0" * 64}])
def test_a_blob_that_is_not_the_claimed_one_is_never_opened(forged):
    _, upload = sent(LARGE)
    with pytest.raises(EventProblem, match="ClaimRefused"):
        read_snapshot(claiming(upload.data, **forged), upload.data)


def test_a_missing_blob_is_not_the_claimed_one():
    with pytest.raises(EventProblem, match="has 0 bytes"):
        read_snapshot(claiming(b"x"))


@pytest.mark.parametrize(
    "blob",
    [
        b"not compressed",
        zlib.compress(b"{}")[:-3],
        zlib.compress(b"{}") + b"more",
        zlib.compress(b"{}"),
        zlib.compress(b"[" * 100_000),
    ],
)
def test_a_blob_that_holds_no_snapshot_is_refused(blob):
    with pytest.raises(EventProblem, match="BadSnapshot"):
        read_snapshot(claiming(blob), blob)


def test_decompression_stops_at_its_cap():
    packer = zlib.compressobj(9)
    chunk = b" " * 1_000_000
    blob = b"".join(packer.compress(chunk) for _ in range(LARGEST_SNAPSHOT // len(chunk) + 1)) + packer.flush()
    with pytest.raises(EventProblem, match="larger than"):
        read_snapshot(claiming(blob), blob)


@pytest.mark.parametrize("other", [{"cluster": "d"}, {"epoch": 4}, {"sequence": 8}])
def test_a_snapshot_of_another_cluster_or_order_is_refused(other):
    ours, _ = sent()
    theirs, _ = sent(replace(SMALL, **other))
    body = changed(ours, "data", "snapshot", value=theirs["data"]["snapshot"])
    with pytest.raises(EventProblem, match="BadSnapshot: snapshot: is of"):
        read_snapshot(parse_event(body, {"c"}))


def test_a_broken_inline_snapshot_is_refused_by_path():
    body = changed(sent()[0], "data", "snapshot", "nodes", value=7)
    with pytest.raises(EventProblem, match=r"BadSnapshot: snapshot\.nodes: must be a list"):
        read_snapshot(parse_event(body, {"c"}))


def test_a_claim_is_read_to_a_value():
    event = claiming(b"x")
    assert event.data.snapshot == ClaimCheck("snapshots-c/a", 1, sha256(b"x").hexdigest())


def test_a_dead_letter_lies_where_event_grid_would_put_it():
    body, _ = sent()
    name, content = dead_letter_blob(body, refusal(changed(body, "type", value="x")), NOW, subscription="sluice-ingest")
    assert re.fullmatch(r"SLUICE-INGEST/2026/1/2/3/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.json", name)
    (letter,) = json.loads(content)
    assert letter["id"] == body["id"]
    assert letter["data"] == body["data"]
    assert letter["deadletterreason"] == "UndeliverableDueToHttpBadRequest"
    assert (letter["deliveryattempts"], letter["lastdeliveryoutcome"]) == (1, "BadRequest")
    assert (letter["publishtime"], letter["lastdeliveryattempttime"]) == (body["time"], "2026-01-02T03:04:05Z")
    assert letter["reason"].startswith("BadEvent: event.type: must be one of")


def test_the_same_event_dead_letters_to_the_same_blob():
    body, _ = sent()
    first, again = (dead_letter_blob(body, "why", NOW + timedelta(minutes=minute))[0] for minute in (0, 30))
    assert first == again
    assert dead_letter_blob({**body, "id": "other"}, "why", NOW)[0] != first


@pytest.mark.parametrize(
    "poison", [None, 7, "x", [1], {}, {"x": float("nan")}, {"x": 10**400}, {"x": "\ud800"}, {1: 2}, {"x": {1, 2}}]
)
def test_any_poison_can_be_kept(poison):
    name, content = dead_letter_blob(poison, "why", NOW)
    assert name.startswith("SLUICE/2026/")
    (letter,) = json.loads(content)
    assert letter["reason"] == "why"


def test_endless_depth_can_be_kept():
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert json.loads(dead_letter_blob({"data": deep}, "why", NOW)[1])[0]["reason"] == "why"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(["specversion", "id", "source", "type", "subject", "data"]), values)
def test_any_value_in_any_attribute_is_taken_or_refused(name, value):
    try:
        found = parse_event({**sent()[0], name: value}, {"c"}).cluster
    except EventProblem as problem:
        found = problem.problems[0]
    assert found == "c" or found.startswith("event.")


@given(st.sampled_from(["schema", "epoch", "sequence", "observed_at", "snapshot", "detail"]), values)
def test_any_value_in_the_data_is_taken_or_refused(name, value):
    body, _ = sent()
    try:
        found = parse_event({**body, "data": {**body["data"], name: value}}, {"c"}).cluster
    except EventProblem as problem:
        found = problem.problems[0]
    assert found == "c" or found.startswith("event.data.")
