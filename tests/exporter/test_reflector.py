"""A table stays true to the API server over resumed, repeated, lost and expired watches."""

from __future__ import annotations

import pytest

from exporter.cache import NODES_PATH, PODS_PATH, ClusterCache
from exporter.reflector import FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS, Reflector, next_delay
from shared.adapters.errors import Refused, Throttled, Unreachable
from tests.exporter.fakes import FakeCluster, node, node_path, pod, pod_path


def watching(cluster: FakeCluster) -> tuple[Reflector, ClusterCache]:
    """A reflector of the pods that has made its first list."""
    cache = ClusterCache()
    reflector = Reflector(cluster, PODS_PATH, cache.pods)
    reflector.sync_once(1)
    return reflector, cache


def test_the_first_pass_lists_and_the_next_ones_watch_from_there() -> None:
    cluster = FakeCluster()
    cluster.put(pod_path("a"), pod("a"))
    reflector, cache = watching(cluster)
    assert reflector.synced
    assert set(cache.pods.objects) == {"work/a"}
    assert reflector.sync_once(1) is False
    cluster.put(pod_path("b"), pod("b"))
    assert reflector.sync_once(1) is True
    assert set(cache.pods.objects) == {"work/a", "work/b"}
    assert cluster.requests == [f"list {PODS_PATH}", f"watch {PODS_PATH}", f"watch {PODS_PATH}"]


def test_a_stream_that_broke_off_resumes_right_behind_its_last_event() -> None:
    cluster = FakeCluster()
    reflector, cache = watching(cluster)
    for name in "abc":
        cluster.put(pod_path(name), pod(name))
    cluster.break_stream_after, cluster.fail = 2, [Unreachable("reset")]
    with pytest.raises(Unreachable):
        reflector.sync_once(1)
    assert set(cache.pods.objects) == {"work/a", "work/b"}
    cluster.break_stream_after = None
    reflector.sync_once(1)
    assert set(cache.pods.objects) == {"work/a", "work/b", "work/c"}
    assert reflector.relists == 0


def test_an_expired_version_is_answered_by_a_new_list_that_also_finds_what_is_gone() -> None:
    cluster = FakeCluster()
    cluster.put(pod_path("stays"), pod("stays"))
    cluster.put(pod_path("goes"), pod("goes", node="n1"))
    reflector, cache = watching(cluster)
    cache.pods.changed.clear()
    cluster.remove(pod_path("goes"))
    cluster.put(pod_path("comes"), pod("comes"))
    cluster.compacted = cluster.version
    assert reflector.sync_once(1) is False
    assert reflector.sync_once(1) is True
    assert set(cache.pods.objects) == {"work/stays", "work/comes"}
    assert cache.pods.changed == {"work/goes", "work/comes"}
    assert cache.pods.on_node("n1") == []
    assert reflector.relists == 1


def test_a_bookmark_moves_the_resume_point_without_an_object() -> None:
    cluster = FakeCluster()
    reflector, cache = watching(cluster)
    cluster.put(node_path("n1"), node("n1"))
    reflector.sync_once(1)
    cluster.compacted = cluster.version
    cluster.put(pod_path("a"), pod("a"))
    assert reflector.sync_once(1) is True
    assert reflector.relists == 0
    assert set(cache.pods.objects) == {"work/a"}


def test_a_repeated_event_changes_nothing() -> None:
    cluster = FakeCluster()
    reflector, cache = watching(cluster)
    stamped = cluster.put(pod_path("a"), pod("a", node="n1"))
    reflector.sync_once(1)
    assert cache.pods.apply("ADDED", stamped) is False
    assert len(cache.pods.on_node("n1")) == 1


def test_an_overtaken_event_does_not_bring_the_past_back() -> None:
    cache, cluster = ClusterCache(), FakeCluster()
    old = cluster.put(pod_path("a"), pod("a"))
    new = cluster.put(pod_path("a"), pod("a", node="n1"))
    cache.pods.apply("MODIFIED", new)
    assert cache.pods.apply("MODIFIED", old) is False
    assert cache.pods.apply("DELETED", old) is False
    assert cache.pods.objects["work/a"]["spec"]["nodeName"] == "n1"


def test_a_deletion_of_something_unknown_is_no_change() -> None:
    assert ClusterCache().pods.apply("DELETED", pod("never-seen")) is False


def test_a_pod_moves_between_nodes_in_the_index_and_leaves_it_when_finished() -> None:
    cache = ClusterCache()
    cache.pods.apply("ADDED", pod("a", node="n1", resourceVersion="1"))
    assert [item["metadata"]["name"] for item in cache.pods.on_node("n1")] == ["a"]
    cache.pods.changed_nodes.clear()
    cache.pods.apply("MODIFIED", pod("a", node="n1", phase="Succeeded", resourceVersion="2"))
    assert cache.pods.on_node("n1") == []
    assert cache.pods.changed_nodes == {"n1"}


def test_managed_fields_are_not_kept() -> None:
    cache = ClusterCache()
    cache.nodes.apply("ADDED", {**node("n1"), "metadata": {"name": "n1", "managedFields": [{"manager": "kubelet"}]}})
    assert "managedFields" not in cache.nodes.objects["n1"]["metadata"]


def test_every_change_is_told_to_whoever_waits() -> None:
    cache, told = ClusterCache(), []
    cache.on_change = lambda: told.append(cache.dirty)
    cache.nodes.replace([node("n1")])
    cache.nodes.apply("DELETED", node("n1"))
    cache.nodes.apply("DELETED", node("n1"))
    assert told == [True, True]


def test_the_delay_doubles_up_to_its_limit_and_never_undercuts_the_server() -> None:
    assert [next_delay(count) for count in (1, 2, 3)] == [FIRST_DELAY_SECONDS * factor for factor in (1, 2, 4)]
    assert next_delay(100) == LONGEST_DELAY_SECONDS
    assert next_delay(1, retry_after=120) == 120


def test_failures_in_a_row_are_counted_and_forgotten_after_a_success() -> None:
    cluster = FakeCluster()
    reflector, _ = watching(cluster)
    cluster.fail = [Unreachable("down"), Throttled("slow down", retry_after=3)]
    for _ in range(2):
        with pytest.raises((Unreachable, Throttled)):
            reflector.sync_once(1)
    assert reflector.failures == 2
    reflector.sync_once(1)
    assert reflector.failures == 0


def test_a_missing_right_is_the_callers_to_report() -> None:
    cluster = FakeCluster()
    cluster.fail = [Refused("may not list nodes")]
    with pytest.raises(Refused):
        Reflector(cluster, NODES_PATH, ClusterCache().nodes).sync_once(1)
