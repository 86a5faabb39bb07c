"""Watches: nothing is missed from a version on, and the end is orderly."""

from __future__ import annotations

from tests.kubernetes_contract.targets import CONFIG_MAPS, PODS, Target, pod


def _seen(cluster: Target, path: str, version: str, query: str = "") -> list[tuple[str, str]]:
    events = cluster.api.watch(path + query, version, timeout_seconds=1)
    return [(one["type"], one["object"]["metadata"].get("name", "")) for one in events]


def test_a_watch_tells_what_happened_since_its_version_in_order(cluster: Target) -> None:
    cluster.api.create(CONFIG_MAPS, {"metadata": {"name": "before"}})
    _, version = cluster.api.list(CONFIG_MAPS)
    cluster.api.create(CONFIG_MAPS, {"metadata": {"name": "c"}})
    cluster.api.patch(f"{CONFIG_MAPS}/c", {"data": {"a": "1"}})
    cluster.api.delete(f"{CONFIG_MAPS}/c")
    seen = [one for one in _seen(cluster, CONFIG_MAPS, version) if one[0] != "BOOKMARK"]
    assert seen == [("ADDED", "c"), ("MODIFIED", "c"), ("DELETED", "c")]


def test_a_watch_ends_with_a_bookmark_when_its_time_is_up(cluster: Target) -> None:
    _, version = cluster.api.list(CONFIG_MAPS)
    events = list(cluster.api.watch(CONFIG_MAPS, version, timeout_seconds=2))
    assert all(one["type"] == "BOOKMARK" for one in events)
    assert all(int(one["object"]["metadata"]["resourceVersion"]) >= int(version) for one in events)


def test_a_watch_resumes_after_the_last_version_seen(cluster: Target) -> None:
    first = cluster.api.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
    cluster.api.create(CONFIG_MAPS, {"metadata": {"name": "b"}})
    seen = _seen(cluster, CONFIG_MAPS, first["metadata"]["resourceVersion"])
    assert [one for one in seen if one[0] != "BOOKMARK"] == [("ADDED", "b")]


def test_watched_objects_are_complete_with_their_kind(cluster: Target) -> None:
    _, version = cluster.api.list(PODS)
    cluster.api.create(PODS, pod("a"))
    added = next(one for one in cluster.api.watch(PODS, version, timeout_seconds=2) if one["type"] == "ADDED")
    assert (added["object"]["kind"], added["object"]["apiVersion"]) == ("Pod", "v1")


def test_the_deleted_object_carries_the_version_of_its_deletion(cluster: Target) -> None:
    made = cluster.api.create(CONFIG_MAPS, {"metadata": {"name": "c"}})
    version = made["metadata"]["resourceVersion"]
    cluster.api.delete(f"{CONFIG_MAPS}/c")
    gone = next(one for one in cluster.api.watch(CONFIG_MAPS, version, timeout_seconds=2) if one["type"] == "DELETED")
    assert int(gone["object"]["metadata"]["resourceVersion"]) > int(version)
