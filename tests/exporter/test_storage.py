"""Claims and volumes in the exporter: kept small, looked at only where they matter, and missed by name."""

from __future__ import annotations

from exporter.cache import ClusterCache
from exporter.view import ClusterView
from shared.adapters.errors import Refused
from shared.adapters.protocols import Json
from shared.names import PODS_UNSCHEDULABLE
from shared.reading.storage import Claim, Kind
from shared.settings.config import parse_config
from tests.exporter.fakes import FakeCluster, at, node, pod, pod_path
from tests.exporter.harness import POOLS, Rig
from tests.reading import storage

CONFIG = parse_config(POOLS)


def claim(name: str = "c", volume: str = "", version: int = 1, **more: str) -> Json:
    item = storage.claim(name, volume)
    item["metadata"] |= {"namespace": "work", "resourceVersion": str(version), **more}
    return item


def claiming(name: str, *claims: str, on: str = "") -> Json:
    item = pod(name, node=on)
    return {**item, "spec": {**item["spec"], "volumes": storage.uses(*claims)}}


def seen(cache: ClusterCache) -> ClusterView:
    view = ClusterView(cache)
    view.refresh(CONFIG)
    return view


class WithoutRights(FakeCluster):
    """An API server that lets nobody read these."""

    def __init__(self, *kinds: Kind) -> None:
        super().__init__()
        self.forbidden = {kind.path for kind in kinds}

    def list(self, path: str, **selectors: str) -> tuple[list[Json], str]:
        if path in self.forbidden:
            raise Refused(f"list {path}: forbidden")
        return super().list(path, **selectors)


def not_modelled(rig: Rig) -> list[tuple[str, ...]]:
    return [each.shape.not_modelled for each in rig.last_snapshot().pending]


def test_a_right_that_is_missing_is_named_where_it_matters_and_asked_for_again() -> None:
    cluster = WithoutRights(Kind.VOLUMES)
    cluster.put(pod_path("p"), claiming("p", "c"))
    rig = Rig(cluster).to(10)
    assert not_modelled(rig) == [("VolumeBinding (no right to list persistentvolumes)",)]
    cluster.forbidden = set()
    assert not_modelled(rig.to(200)) == [()]


def test_a_claim_that_changes_in_nothing_that_matters_wakes_nobody() -> None:
    cache, woken = ClusterCache(), []
    cache.on_change = lambda: woken.append(True)
    table = cache.storage[Kind.CLAIMS]
    assert table.apply("ADDED", claim())
    assert not table.apply("MODIFIED", claim(version=2, generateName="other-"))
    assert table.apply("MODIFIED", claim("c", "pv-1", version=3))
    assert not table.apply("MODIFIED", claim(version=2))
    assert len(woken) == 2
    assert table.values["work/c"] == Claim("pv-1", bound=True, storage_class="managed")


def test_a_volume_concerns_its_pods_and_their_nodes_alone() -> None:
    cache = ClusterCache()
    cache.nodes.replace([node("n1"), node("n2")])
    cache.pods.replace([claiming("a", "c", on="n1"), claiming("b", "d", on="n2"), claiming("w", "d")])
    cache.storage[Kind.CLAIMS].replace([claim("c", "pv-c"), claim("d", "pv-d")])
    view = seen(cache)
    cache.storage[Kind.VOLUMES].apply("ADDED", storage.volume("pv-c", zone="westeurope-1"))
    assert [each.name for each in view.refresh(CONFIG).nodes] == ["n1"]
    cache.storage[Kind.CSI_NODES].apply("ADDED", storage.csi_node("n2"))
    assert [each.name for each in view.refresh(CONFIG).nodes] == ["n2"]


def test_a_pod_that_leaves_its_claim_lets_the_next_one_in() -> None:
    cache = ClusterCache()
    once = claim("c", "pv-c")
    once["spec"]["accessModes"] = ["ReadWriteOncePod"]
    cache.storage[Kind.CLAIMS].replace([once])
    cache.storage[Kind.VOLUMES].replace([storage.volume("pv-c")])
    cache.nodes.replace([node("n1")])
    cache.pods.replace([claiming("a", "c", on="n1"), claiming("w", "c")])
    view = seen(cache)
    assert view.snapshot("training", 1, 1, at(0)).pending[0].shape.volumes != ()
    cache.pods.apply("DELETED", claiming("a", "c", on="n1"))
    view.refresh(CONFIG)
    assert view.snapshot("training", 1, 1, at(0)).pending[0].shape.volumes == ()


def test_a_claim_that_is_bound_at_last_is_news_about_its_pod() -> None:
    cluster = FakeCluster()
    path = "/api/v1/namespaces/work/persistentvolumeclaims/c"
    cluster.put(path, claim("c"))
    cluster.put(pod_path("p"), claiming("p", "c"))
    rig = Rig(cluster).to(5)
    assert [seconds for seconds, _ in rig.published(PODS_UNSCHEDULABLE)] == [1.0]
    cluster.put("/api/v1/persistentvolumes/pv-1", storage.volume())
    cluster.put(path, claim("c", "pv-1"))
    rig.to(10)
    assert [seconds for seconds, _ in rig.published(PODS_UNSCHEDULABLE)] == [1.0, 6.0]
    assert rig.last_snapshot().pending[0].shape.volumes == ()
