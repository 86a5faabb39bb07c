"""The incremental view equals the projection of everything, whatever happened on the way."""

from __future__ import annotations

import random

import pytest

from exporter.cache import ClusterCache
from exporter.view import ClusterView
from shared.adapters.protocols import Json
from shared.reading.pods import is_pending_candidate, is_terminal
from shared.reading.projection import project
from shared.reading.storage import Kind
from shared.reading.volumes import Storage, storage_of
from shared.settings.config import parse_config
from tests.exporter.fakes import at, node, pod
from tests.exporter.harness import POOLS
from tests.reading import storage

CONFIG = parse_config(POOLS)


def daemon(name: str) -> Json:
    spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "100m"}}}]}
    return {"metadata": {"name": name, "namespace": "kube-system"}, "spec": {"template": {"spec": spec}}}


def apart(app: str) -> Json:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def told(item: Json, rules: Json, luck: random.Random) -> Json:
    """The pod with a label, and with rules about other pods."""
    meta = {**item["metadata"], "labels": {"app": luck.choice("abc")}}
    return {**item, "metadata": meta, "spec": {**item["spec"], **rules}}


def some_storage(cache: ClusterCache, luck: random.Random, version: int) -> None:
    """A claim, a volume or what belongs to them comes, changes or goes."""
    stamp = {"resourceVersion": str(version)}
    claim, volume, host = f"c{luck.randrange(3)}", f"pv{luck.randrange(3)}", f"n{luck.randrange(4)}"
    modes = [luck.choice(["ReadWriteOnce", "ReadWriteOncePod"])]
    item: Json = {}
    match kind := luck.choice(list(Kind)):
        case Kind.CLAIMS:
            item = storage.claim(claim, luck.choice(["", volume]), modes=modes)
        case Kind.VOLUMES:
            item = storage.volume(volume, luck.choice(["", "1", "2"]))
        case Kind.CLASSES:
            item = storage.storage_class(waits=luck.random() < 0.8)
        case Kind.CSI_NODES:
            item = storage.csi_node(host, luck.choice([None, 1, 4]))
        case Kind.ATTACHMENTS:
            item = storage.attachment(f"a{luck.randrange(3)}", host, volume)
        case Kind.CSI_DRIVERS:
            item = {"metadata": {"name": storage.DISK}, "spec": {"storageCapacity": luck.random() < 0.2}}
    if kind is Kind.CLAIMS:
        item["metadata"]["namespace"] = "work"
    item["metadata"] |= stamp
    cache.storage[kind].apply(luck.choice(["ADDED", "MODIFIED", "MODIFIED", "DELETED"]), item)
    if luck.random() < 0.02:
        cache.storage[kind].lose()
    elif luck.random() < 0.1:
        cache.storage[kind].replace([])


def some_change(cache: ClusterCache, luck: random.Random, version: int) -> None:
    stamp = {"resourceVersion": str(version)}
    name = f"x{luck.randrange(12)}"
    rules: Json = luck.choice([{}, {}, {}, apart(luck.choice("ab"))])
    if luck.random() < 0.5:
        rules = {**rules, "volumes": storage.uses(f"c{luck.randrange(3)}")}
    if luck.random() < 0.3:
        some_storage(cache, luck, version)
        return
    match luck.randrange(7):
        case 6:
            nominated = pod(name, cpu=luck.choice("123"), **stamp)
            nominated["status"]["nominatedNodeName"] = f"n{luck.randrange(4)}"
            cache.pods.apply("MODIFIED", told(nominated, rules, luck))
        case 0:
            cache.pods.apply("ADDED", told(pod(name, cpu=luck.choice("123"), **stamp), rules, luck))
        case 1:
            bound = pod(name, node=f"n{luck.randrange(4)}", cpu=luck.choice("123"), **stamp)
            cache.pods.apply("MODIFIED", told(bound, rules, luck))
        case 2:
            cache.pods.apply("MODIFIED", pod(name, node="n1", phase="Failed", **stamp))
        case 3:
            cache.pods.apply("DELETED", pod(name, **stamp))
        case 4:
            item = node(f"n{luck.randrange(4)}", ready=luck.random() < 0.8)
            cache.nodes.apply("ADDED", {**item, "metadata": {**item["metadata"], **stamp}})
        case _:
            cache.nodes.apply("DELETED", {"metadata": {"name": f"n{luck.randrange(4)}", **stamp}})


def known(cache: ClusterCache) -> Storage:
    """Everything that the cache holds of claims and volumes, read at once."""
    found = storage_of(filter(_counts, cache.pods.objects.values()), {}, cache.unread())
    for kind, table in cache.storage.items():
        for name, value in table.values.items():
            found.put(kind, name, value)
    return found


def _counts(item: Json) -> bool:
    return not is_terminal(item) and (bool(item["spec"].get("nodeName")) or is_pending_candidate(item))


@pytest.mark.parametrize("seed", range(30))
def test_the_view_equals_the_projection_of_the_whole_cache(seed: int) -> None:
    luck, cache = random.Random(seed), ClusterCache()
    view = ClusterView(cache)
    cache.daemon_sets.replace([daemon("b"), daemon("a")])
    for version in range(1, 120):
        some_change(cache, luck, version)
        if luck.random() < 0.3:
            view.refresh(CONFIG)
    view.refresh(CONFIG)
    whole = project(
        cluster="training",
        epoch=3,
        sequence=4,
        now=at(0),
        config=CONFIG,
        pods=cache.pods.objects.values(),
        nodes=cache.nodes.objects.values(),
        daemon_sets=cache.daemon_sets.objects.values(),
        storage=known(cache),
    )
    assert view.snapshot("training", 3, 4, at(0)) == whole


def test_only_what_changed_is_reported() -> None:
    cache = ClusterCache()
    view = ClusterView(cache)
    cache.nodes.replace([node("n1"), node("n2")])
    cache.pods.replace([pod("a"), pod("b", node="n1")])
    first = view.refresh(CONFIG)
    assert (first.appeared, [seen.name for seen in first.nodes]) == (("uid-a",), ["n1", "n2"])
    cache.pods.apply("MODIFIED", pod("a", node="n2"))
    second = view.refresh(CONFIG)
    assert (second.appeared, second.gone, [seen.name for seen in second.nodes]) == ((), ("uid-a",), ["n2"])
    third = view.refresh(CONFIG)
    assert (third.nodes, third.appeared, third.gone) == ((), (), ())


def test_another_configuration_projects_every_node_again() -> None:
    cache = ClusterCache()
    view = ClusterView(cache)
    cache.nodes.replace([node("n1"), node("n2")])
    view.refresh(CONFIG)
    assert len(view.refresh(parse_config(POOLS)).nodes) == 2


def test_a_successor_of_the_same_name_is_another_pod() -> None:
    cache = ClusterCache()
    view = ClusterView(cache)
    cache.pods.replace([pod("a")])
    view.refresh(CONFIG)
    cache.pods.apply("MODIFIED", pod("a", uid="second"))
    changes = view.refresh(CONFIG)
    assert (changes.appeared, changes.gone) == (("second",), ("uid-a",))


def test_a_malformed_object_is_left_out_and_holds_nothing_up() -> None:
    cache = ClusterCache()
    view = ClusterView(cache)
    cache.pods.replace([pod("bad", cpu="many"), pod("good"), pod("bound", node="n1", cpu="many")])
    cache.nodes.replace([node("n1"), node("n2")])
    cache.daemon_sets.replace([{"metadata": {"name": "broken"}, "spec": {}}])
    changes = view.refresh(CONFIG)
    snapshot = view.snapshot("training", 1, 1, at(0))
    assert changes.appeared == ("uid-good",)
    assert [seen.name for seen in snapshot.nodes] == ["n2"]
    assert [ref.name for group in snapshot.pending for ref in group.pods] == ["good"]
