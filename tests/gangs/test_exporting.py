"""The exporter keeps gangs up to date, and lives well in clusters that have no such objects."""

from __future__ import annotations

import random

import pytest

from exporter.cache import ClusterCache
from exporter.reflector import optional
from exporter.view import ClusterView
from shared.adapters.errors import NotFound, Refused, Unreachable
from shared.adapters.pod_groups import pod_groups_of
from shared.adapters.protocols import Json
from shared.reading.gang_members import NATIVE, PATHS, VOLCANO
from shared.reading.projection import project
from shared.settings.config import parse_config
from tests.exporter.fakes import FakeCluster, at, node, pod
from tests.exporter.harness import POOLS, Rig

CONFIG = parse_config(POOLS)
NATIVE_PATH = PATHS[NATIVE]


def group(name: str, version: int, count: int) -> Json:
    meta = {"name": name, "namespace": "work", "resourceVersion": str(version)}
    return {"metadata": meta, "spec": {"schedulingPolicy": {"gang": {"minCount": count}}}}


def member(item: Json, luck: random.Random) -> Json:
    """The pod in one of two native groups, in a gang of our own annotations, or in none."""
    said = {"sluice.io/gang": luck.choice("uv"), "sluice.io/gang-min-member": luck.choice("23")}
    match luck.randrange(3):
        case 0:
            return {**item, "spec": {**item["spec"], "schedulingGroup": {"podGroupName": luck.choice("xy")}}}
        case 1:
            return {**item, "metadata": {**item["metadata"], "annotations": said}}
        case _:
            return item


def some_change(cache: ClusterCache, luck: random.Random, version: int) -> None:
    stamp = {"resourceVersion": str(version)}
    name, groups = f"p{luck.randrange(9)}", cache.pod_groups[NATIVE]
    match luck.randrange(6):
        case 0 | 1:
            cache.pods.apply("ADDED", member(pod(name, **stamp), luck))
        case 2:
            cache.pods.apply("MODIFIED", member(pod(name, node="n1", **stamp), luck))
        case 3:
            ended = luck.choice(["Succeeded", "Failed"])
            cache.pods.apply("MODIFIED", member(pod(name, node="n1", phase=ended, **stamp), luck))
        case 4:
            cache.pods.apply("DELETED", pod(name, **stamp))
        case _:
            kind = luck.choice(["ADDED", "ADDED", "DELETED"])
            groups.apply(kind, group(luck.choice("xy"), version, luck.randint(1, 4)))


@pytest.mark.parametrize("seed", range(20))
def test_the_view_equals_the_projection_of_the_whole_cache(seed: int) -> None:
    luck, cache = random.Random(seed), ClusterCache()
    view = ClusterView(cache)
    cache.nodes.replace([node("n1")])
    for version in range(1, 100):
        some_change(cache, luck, version)
        if luck.random() < 0.3:
            view.refresh(CONFIG)
            view.snapshot("training", 1, 1, at(0))
    view.refresh(CONFIG)
    whole = project(
        cluster="training",
        epoch=1,
        sequence=1,
        now=at(0),
        config=CONFIG,
        pods=cache.pods.objects.values(),
        nodes=cache.nodes.objects.values(),
        pod_groups={NATIVE: cache.pod_groups[NATIVE].objects.values()},
    )
    assert view.snapshot("training", 1, 1, at(0)) == whole


@pytest.mark.parametrize("error", [NotFound("404"), Refused("podgroups is forbidden")])
def test_an_api_that_is_not_served_or_not_allowed_counts_as_empty(error: Exception) -> None:
    cluster, cache = FakeCluster(), ClusterCache()
    reflector = optional(cluster, NATIVE_PATH, cache.pod_groups[NATIVE])
    cluster.fail = [error]
    assert reflector.sync_once(1) is False
    assert reflector.synced
    assert reflector.absent
    cluster.put(f"{NATIVE_PATH}/work/x", group("x", 0, 2))
    assert reflector.sync_once(1) is True
    assert reflector.absent == ""


def test_objects_whose_definition_is_taken_away_are_forgotten() -> None:
    cluster, cache = FakeCluster(), ClusterCache()
    reflector = optional(cluster, NATIVE_PATH, cache.pod_groups[NATIVE])
    cluster.put(f"{NATIVE_PATH}/work/x", group("x", 0, 2))
    reflector.sync_once(1)
    cluster.fail = [NotFound("404")]
    assert reflector.sync_once(1) is True
    assert cache.pod_groups[NATIVE].objects == {}


def test_an_outage_is_no_absence() -> None:
    cluster, cache = FakeCluster(), ClusterCache()
    reflector = optional(cluster, NATIVE_PATH, cache.pod_groups[NATIVE])
    cluster.fail = [Unreachable("reset")]
    with pytest.raises(Unreachable):
        reflector.sync_once(1)
    assert not reflector.synced


def test_only_groups_that_pods_belong_to_are_listed() -> None:
    cluster = FakeCluster()
    cluster.put(f"{NATIVE_PATH}/work/x", group("x", 0, 2))
    of_native = {**pod("a"), "spec": {**pod("a")["spec"], "schedulingGroup": {"podGroupName": "x"}}}
    assert pod_groups_of(cluster, [pod("a")]) == {}
    assert cluster.requests == []
    assert [item["metadata"]["name"] for item in pod_groups_of(cluster, [of_native])[NATIVE]] == ["x"]
    assert cluster.requests == [f"list {NATIVE_PATH}"]


def test_a_group_that_may_not_be_listed_leaves_the_reason_to_the_gang() -> None:
    cluster = FakeCluster()
    of_volcano = pod("a")
    of_volcano["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "x"}
    cluster.fail = [Refused("podgroups is forbidden")]
    assert pod_groups_of(cluster, [of_volcano]) == {}
    assert cluster.requests == [f"list {PATHS[VOLCANO]}"]


class Bare(FakeCluster):
    """A cluster without any of the group APIs."""

    def list(self, path: str, **selectors: str) -> tuple[list[Json], str]:
        if path in PATHS.values():
            self.requests.append(f"list {path}")
            raise NotFound(path)
        return super().list(path, **selectors)


def test_an_exporter_in_a_cluster_without_such_apis_announces_pods_and_asks_once_a_minute() -> None:
    rig = Rig(cluster=Bare())
    rig.cluster.put("/api/v1/namespaces/work/pods/a", pod("a"))
    rig.to(130)
    assert rig.topic.events
    assert rig.cluster.requests.count(f"list {NATIVE_PATH}") == 3
