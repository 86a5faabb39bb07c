from __future__ import annotations

import json
import string
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.model import (
    BoundPods,
    DaemonShape,
    HostPort,
    Movability,
    NodeSelectorTerm,
    NodeView,
    PodClass,
    PodRef,
    PodSelector,
    PodShape,
    PodTerm,
    Requirement,
    Snapshot,
    Spread,
    Taint,
    Toleration,
    VolumePlace,
)
from shared.wire.snapshot_codec import decode, encode, from_json, to_json

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
UUID = "0a1b2c3d-0000-4000-8000-0123456789ab"

text = st.text(string.ascii_letters + string.digits + "-./é~=", max_size=8)
amounts = st.dictionaries(text, st.integers(min_value=0, max_value=2**63 - 1), max_size=3)
labels = st.dictionaries(text, text, max_size=4)
times = st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - the strategy wants naive bounds
uids = st.one_of(text, st.uuids().map(str), st.uuids().map(lambda uid: str(uid).upper()))
refs = st.lists(st.builds(PodRef, text, text, uids), min_size=1, max_size=4).map(tuple)
requirements = st.lists(st.builds(Requirement, text, text, st.lists(text, max_size=2).map(tuple)), max_size=2).map(
    tuple
)
ports = st.lists(st.builds(HostPort, text, text, st.integers(1, 65535)), max_size=2).map(tuple)
selectors = st.builds(PodSelector, st.none() | st.lists(text, max_size=2).map(tuple), requirements)
terms = st.lists(st.builds(PodTerm, selectors, text), max_size=2).map(tuple)
counts = st.integers(1, 2**31)
spreads = st.builds(Spread, selectors, text, counts, counts, st.booleans(), st.booleans())
plain_shapes = st.builds(
    PodShape,
    requests=amounts.map(lambda found: tuple(found.items())),
    node_selector=labels.map(lambda found: tuple(found.items())),
    affinity=st.none() | st.lists(st.builds(NodeSelectorTerm, requirements, requirements), max_size=2).map(tuple),
    tolerations=st.lists(st.builds(Toleration, text, text, text, text), max_size=2).map(tuple),
    host_ports=ports,
    priority=st.integers(-(2**31), 2**31 - 1),
    not_modelled=st.lists(text, max_size=2).map(tuple),
)
ruled_shapes = st.builds(
    replace,
    plain_shapes,
    namespace=text.filter(bool),
    labels=labels.map(lambda found: tuple(found.items())),
    near=terms,
    apart=terms,
    spread=st.lists(spreads, max_size=2).map(tuple),
    leaving=st.booleans(),
)
places = st.builds(
    VolumePlace, text, st.lists(st.builds(NodeSelectorTerm, requirements, requirements), max_size=2).map(tuple)
)
shapes = st.builds(replace, plain_shapes | ruled_shapes, volumes=st.just(()) | st.lists(places, max_size=2).map(tuple))
nodes = st.builds(
    NodeView,
    name=text,
    uid=uids,
    provider_id=text,
    pool=text,
    labels=labels,
    taints=st.lists(st.builds(Taint, text, text, text), max_size=2).map(tuple),
    allocatable=amounts,
    requested=amounts,
    host_ports=ports,
    ready=st.booleans(),
    unschedulable=st.booleans(),
    created_at=times,
    bound=st.lists(st.builds(BoundPods, shapes, refs, st.sampled_from(Movability), text), max_size=2).map(tuple),
    idle_since=st.none() | times,
    evicting_at=st.none() | times,
    annotations=labels,
    leaving=amounts,
)
snapshots = st.builds(
    Snapshot,
    cluster=text,
    epoch=st.integers(0, 2**40),
    sequence=st.integers(0, 2**40),
    observed_at=times,
    pending=st.lists(st.builds(PodClass, shapes, refs, st.just("") | text), max_size=3).map(tuple),
    nodes=st.lists(nodes, max_size=3).map(tuple),
    daemons=st.lists(st.builds(DaemonShape, text, shapes), max_size=2).map(tuple),
)


def node(name="n", **more):
    fields = {
        "uid": UUID, "provider_id": "", "pool": "", "labels": {}, "taints": (), "allocatable": {"cpu": 1},
        "requested": {}, "host_ports": (), "ready": True, "unschedulable": False, "created_at": NOW,
    }  # fmt: skip
    return NodeView(name, **{**fields, **more})


def whole():
    shape = PodShape((("cpu", 1000),), affinity=(NodeSelectorTerm((Requirement("a", "In", ("b",)),), ()),))
    pods = (PodRef("ns", "a", UUID), PodRef("ns", "b", ""))
    full = node(
        labels={"zone": "1"}, bound=(BoundPods(shape, pods, Movability.MOVES),), taints=(Taint("k", "v", "NoExecute"),)
    )
    return Snapshot("c", 1, 2, NOW, (PodClass(shape, pods),), (full,), (DaemonShape("ns/d", shape),))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(snapshots)
def test_what_is_written_is_read_back(snapshot):
    assert decode(encode(snapshot)) == snapshot
    assert from_json(to_json(snapshot)) == snapshot


def test_a_time_of_another_zone_is_the_same_moment():
    berlin = timezone(timedelta(hours=1))
    snapshot = Snapshot("c", 1, 2, NOW.astimezone(berlin), (), ())
    assert decode(encode(snapshot)).observed_at == NOW


def test_a_time_without_a_zone_is_refused_when_written():
    with pytest.raises(ValueError, match="needs a zone"):
        encode(Snapshot("c", 1, 2, NOW.replace(tzinfo=None), (), ()))


def test_a_shape_is_written_once_however_often_it_is_used():
    document = to_json(whole())
    assert len(document["shapes"]) == 1


def test_a_shape_that_was_written_without_rules_between_pods_is_still_read():
    bare = Snapshot("c", 1, 2, NOW, (PodClass(PodShape((("cpu", 1),)), (PodRef("n", "p", UUID),)),), ())
    written = to_json(bare)
    assert len(written["shapes"][0]) == 7
    assert from_json(written) == bare


def test_a_snapshot_from_before_nominations_is_still_read():
    written = to_json(whole())
    assert [len(each) for each in written["pending"]] == [2]
    assert [len(each) for each in written["nodes"]] == [17]
    assert from_json(written) == whole()


def test_a_label_of_one_node_alone_does_not_keep_label_sets_from_being_shared():
    views = tuple(node(f"n{i}", labels={"zone": "1", "kubernetes.io/hostname": f"n{i}"}) for i in range(10))
    document = to_json(Snapshot("c", 1, 2, NOW, (), views))
    assert document["maps"].count({"zone": "1"}) == 1
    assert len(document["maps"]) < 5


def test_a_uuid_takes_23_characters():
    assert len(to_json(whole())["nodes"][0][1]) == 23


def test_fifteen_thousand_pods_take_less_than_50_bytes_each():
    shapes_of_50 = [PodShape((("cpu", count),)) for count in range(1, 51)]
    pending = tuple(
        PodClass(shape, tuple(PodRef("ns", f"job-{place}-{pod:03}", UUID) for pod in range(300)))
        for place, shape in enumerate(shapes_of_50)
    )
    assert len(encode(Snapshot("c", 1, 2, NOW, pending, ()))) < 50 * 15_000


def paths(value, path=()):
    """Every place in a JSON document."""
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from paths(child, (*path, key))


def changed(document, path, value):
    if not path:
        return value
    copy = orjson.loads(orjson.dumps(document))
    place = copy
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return copy


@pytest.mark.parametrize("intruder", [None, True, -1, 10**15, 1.5, "~", "x", [], [1], {}, {"x": []}], ids=repr)
def test_no_single_wrong_value_anywhere_is_more_than_a_clear_refusal(intruder):
    document = to_json(whole())
    for path in paths(document):
        try:
            read = from_json(changed(document, path, intruder))
        except ValueError as error:
            assert str(error).startswith("snapshot"), path  # noqa: PT017 - either outcome is right, not every value
        else:
            assert isinstance(read, Snapshot)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("format",), 2, r"snapshot\.format: must be the format 1, found 2"),
        (("epoch",), -1, r"snapshot\.epoch: must be a whole number"),
        (("observed_at",), "2026-01-01T00:00:00", "with its zone"),
        (("observed_at",), "today", "must be a time"),
        (("pending", 0, 0), 1, r"snapshot\.pending\[0\]\[0\]: must be a whole number from 0 to 0, found 1"),
        (("pending", 0, 1), [], "at least one pod"),
        (("pending", 0, 1, 0, 1), ["a"], "in pairs"),
        (("pending", 0, 1, 0, 1), ["a", "b"], "a uid"),
        (("pending", 0, 1, 0, 1), ["a", "~" + "!" * 22], "a uid"),
        (("nodes", 0), [], r"snapshot\.nodes\[0\]: must be a list of 17"),
        (("nodes", 0, 10), 1, "must be true or false"),
        (("nodes", 0, 13, 0, 2), "flies", "one of stays, moves, blocks"),
        (("shapes", 0, 0), {"cpu": -1}, r"snapshot\.shapes\[0\]\[0\]\.cpu"),
    ],
)
def test_a_refusal_names_path_and_value(path, value, message):
    with pytest.raises(ValueError, match=message):
        from_json(changed(to_json(whole()), path, value))


def test_missing_and_unknown_keys_are_refused():
    document = to_json(whole())
    with pytest.raises(ValueError, match=r"snapshot\.extra: is not known"):
        from_json({**document, "extra": 1})
    del document["nodes"]
    with pytest.raises(ValueError, match=r"snapshot\.nodes: is missing"):
        from_json(document)


@pytest.mark.parametrize("data", [b"", b"\xff", b"{", b"[" * 5000, b"nan"])
def test_what_is_no_json_is_refused(data):
    with pytest.raises(ValueError, match="snapshot: not JSON"):
        decode(data)


def test_the_document_is_plain_json():
    assert json.loads(json.dumps(to_json(whole()))) == to_json(whole())
