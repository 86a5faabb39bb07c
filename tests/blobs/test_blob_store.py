from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from local.azure_transport import HandlerTransport
from local.blob_storage import ACCOUNT, BlobStandIn
from local.direct_blobs import DirectBlobStore
from local.http_server import serve
from local.timeline import VirtualTimeline
from local.web import Request
from shared.adapters.blobs import make_blob_store
from shared.adapters.errors import NotFound, StaleWrite, Unreachable
from shared.adapters.protocols import BlobStore


@pytest.fixture(params=["in process", "over http", "account as host", "without the SDK"])
def store(request: pytest.FixtureRequest) -> Iterator[BlobStore]:
    """The real client over each way to reach the stand-in, and the simulator's store that does without it."""
    timeline = VirtualTimeline()
    account = BlobStandIn(timeline)
    transport: Any = HandlerTransport(account, timeline)
    if request.param == "without the SDK":
        yield DirectBlobStore(account, timeline)
        return
    if request.param == "over http":
        with serve(account, lock=timeline.lock) as server:
            store = make_blob_store(f"{server.url}/{ACCOUNT}", None)
            yield store
            store.close()
        return
    url = f"https://{ACCOUNT}.blob.core.windows.net" if request.param == "account as host" else f"http://x/{ACCOUNT}"
    yield make_blob_store(url, None, transport=transport)


def test_what_was_put_is_got(store: BlobStore) -> None:
    etag = store.put("plans-a", "2026/plan 1.json", b"{}")
    blob = store.get("plans-a", "2026/plan 1.json")
    assert (blob.data, blob.etag) == (b"{}", etag)


def test_an_empty_blob_is_a_blob(store: BlobStore) -> None:
    store.put("plans-a", "empty", b"")
    assert store.get("plans-a", "empty").data == b""


def test_the_container_is_made_on_the_first_write_and_not_again(store: BlobStore) -> None:
    store.put("fresh", "a", b"1")
    store.put("fresh", "b", b"2")
    assert store.list("fresh") == ["a", "b"]


@pytest.mark.parametrize("container", ["there", "not-there"])
def test_a_missing_blob_is_not_found(store: BlobStore, container: str) -> None:
    store.put("there", "x", b"")
    with pytest.raises(NotFound, match=f"reading blob {container}/nothing"):
        store.get(container, "nothing")
    with pytest.raises(NotFound):
        store.get_if_changed(container, "nothing", '"0x1"')


def test_an_unchanged_blob_is_not_read_again(store: BlobStore) -> None:
    etag = store.put("config", "a.yaml", b"1")
    assert store.get_if_changed("config", "a.yaml", etag) is None
    store.put("config", "a.yaml", b"2")
    changed = store.get_if_changed("config", "a.yaml", etag)
    assert changed is not None
    assert changed.data == b"2"


def test_without_an_etag_everything_is_changed(store: BlobStore) -> None:
    store.put("config", "a.yaml", b"1")
    assert store.get_if_changed("config", "a.yaml", "") is not None


def test_a_guarded_write_goes_through_once(store: BlobStore) -> None:
    etag = store.put("c", "x", b"1")
    newer = store.put("c", "x", b"2", if_match=etag)
    with pytest.raises(StaleWrite):
        store.put("c", "x", b"3", if_match=etag)
    assert (store.get("c", "x").data, newer == etag) == (b"2", False)


def test_a_guarded_write_into_a_missing_container_is_stale(store: BlobStore) -> None:
    with pytest.raises(StaleWrite):
        store.put("gone", "x", b"1", if_match='"0x1"')
    assert store.list("gone") == []


def test_a_first_write_is_first_only_once(store: BlobStore) -> None:
    store.put("c", "x", b"1", if_absent=True)
    with pytest.raises(StaleWrite):
        store.put("c", "x", b"2", if_absent=True)
    assert store.get("c", "x").data == b"1"


def test_deleting_twice_is_deleting_once(store: BlobStore) -> None:
    store.put("c", "x", b"1")
    store.delete("c", "x")
    store.delete("c", "x")
    store.delete("never", "x")
    assert store.list("c") == []


def test_names_come_in_order_and_by_prefix(store: BlobStore) -> None:
    for name in ("b/2", "a/1", "b/1", "b & <c>"):
        store.put("c", name, b"")
    assert store.list("c") == ["a/1", "b & <c>", "b/1", "b/2"]
    assert store.list("c", "b/") == ["b/1", "b/2"]
    assert store.list("nowhere") == []


def test_a_host_that_does_not_resolve_is_unreachable() -> None:
    store = make_blob_store("http://x", None, transport=HandlerTransport(lambda _host: None, VirtualTimeline()))
    with pytest.raises(Unreachable, match="cannot resolve host 'x'"):
        store.get("c", "x")


def test_blobs_survive_their_process(tmp_path: Path) -> None:
    timeline = VirtualTimeline()
    first = BlobStandIn(timeline, directory=tmp_path)
    store = make_blob_store("http://x", None, transport=HandlerTransport(first, timeline))
    etag = store.put("config", "deep/a b.yaml", b"1\n2\n")
    store.put("config", "gone", b"")
    store.delete("config", "gone")
    second = BlobStandIn(timeline, directory=tmp_path)
    again = make_blob_store("http://x", None, transport=HandlerTransport(second, timeline))
    blob = again.get("config", "deep/a b.yaml")
    assert (blob.data, blob.etag, again.list("config")) == (b"1\n2\n", etag, ["deep/a b.yaml"])
    assert again.put("config", "deep/a b.yaml", b"3", if_match=etag) != etag


def test_long_lists_come_in_pages() -> None:
    timeline = VirtualTimeline()
    account = BlobStandIn(timeline)
    account.containers["c"] = {}
    store = make_blob_store("http://x", None, transport=HandlerTransport(account, timeline))
    for number in range(7):
        store.put("c", f"{number}", b"")
    first = account.handle(Request.of("GET", "/c?restype=container&comp=list&maxresults=3")).body.decode()
    assert "<NextMarker>3</NextMarker>" in first
    second = account.handle(Request.of("GET", "/c?restype=container&comp=list&maxresults=3&marker=3")).body.decode()
    assert [f"<Name>{number}</Name>" in second for number in range(7)] == [False] * 3 + [True] * 3 + [False]


def test_ranges_are_cut_to_the_blob() -> None:
    account = BlobStandIn(VirtualTimeline())
    account.handle(Request.of("PUT", "/c?restype=container"))
    account.handle(Request.of("PUT", "/c/x", {}, b"0123456789"))
    answer = account.handle(Request.of("GET", "/c/x", {"x-ms-range": "bytes=7-99"}))
    assert (answer.status, answer.body, answer.headers["content-range"]) == (206, b"789", "bytes 7-9/10")
    assert account.handle(Request.of("GET", "/c/x", {"range": "bytes=10-"})).status == 416


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/c/x", 405),
        ("PATCH", "/c", 405),
        ("HEAD", "/c/none", 404),
        ("HEAD", "/c/x", 200),
        ("DELETE", "/c", 202),
    ],
)
def test_other_verbs_have_their_answers(method: str, path: str, status: int) -> None:
    account = BlobStandIn(VirtualTimeline())
    account.handle(Request.of("PUT", "/c?restype=container"))
    account.handle(Request.of("PUT", "/c/x", {}, b"1"))
    assert account.handle(Request.of(method, path)).status == status


def test_old_blobs_are_found_by_when_they_were_written(store: BlobStore) -> None:
    written = VirtualTimeline().now()
    for name in ("b/1 & 2", "b/0", "a"):
        store.put("plans-a", name, b"1")
    assert store.older("plans-a", "b/", written + timedelta(seconds=1)) == ["b/0", "b/1 & 2"]
    assert store.older("plans-a", "b/", written) == []
    assert store.older("not-there", "", written + timedelta(days=1)) == []
