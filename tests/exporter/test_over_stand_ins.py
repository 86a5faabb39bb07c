"""The exporter with the real kubernetes, Event Grid and storage clients, over the stand-ins, in virtual time."""

from __future__ import annotations

from datetime import timedelta

import orjson
from azure.core.credentials import AzureKeyCredential

from exporter.service import ExporterService
from local.azure_transport import HandlerTransport
from local.blob_storage import BlobStandIn
from local.event_grid import EventGridTopic, Subscription
from local.kube.rest_transport import make_api
from local.kube.stand_in import KubernetesStandIn
from local.timeline import Due, VirtualTimeline
from local.web import Request, Response
from shared.adapters.blobs import make_blob_store
from shared.adapters.event_grid import AzureEventPublisher
from shared.adapters.protocols import Json
from shared.names import NODE_IDLE, PODS_UNSCHEDULABLE
from shared.settings.config import parse_config
from shared.wire.events import parse_event, read_snapshot
from tests.exporter.fakes import node, pod
from tests.exporter.harness import POOLS

ACCOUNT = "http://blobs.stand-in/devstoreaccount1"
PODS = "/api/v1/namespaces/default/pods"


class World:
    """The stand-ins, an exporter called as it asks for and when the cluster changed, and what was delivered."""

    def __init__(self) -> None:
        self.timeline = VirtualTimeline()
        self.kube = KubernetesStandIn(self.timeline)
        self.kube.on_change(self._changed)
        self.topic = EventGridTopic(self.timeline)
        self.delivered: list[Json] = []
        self.topic.subscribe(Subscription("test", "http://functions/ingest", self._deliver, max_events_per_batch=100))
        self.api = make_api(self.kube)
        blobs = HandlerTransport(BlobStandIn(self.timeline), self.timeline)
        self.store = make_blob_store(ACCOUNT, None, transport=blobs)
        topic = HandlerTransport(self.topic, self.timeline)
        endpoint = "http://topic.stand-in/api/events"
        config = parse_config(POOLS)
        self.exporter = ExporterService(
            self.api,
            AzureEventPublisher(endpoint, AzureKeyCredential("local"), transport=topic),
            self.store,
            lambda: config,
            self.timeline.now,
            identity="exporter",
            account_url=ACCOUNT,
        )
        self._due: Due | None = None
        self._changed()

    def run(self, seconds: float) -> None:
        self.timeline.run(self.timeline.now() + timedelta(seconds=seconds))

    def pod(self, name: str, **fields: str) -> None:
        body = pod(name, **fields)
        owner = {"name": "app", "uid": "rs-1", "kind": "ReplicaSet", "apiVersion": "apps/v1", "controller": True}
        self.api.create(PODS, {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": body["spec"]})

    def of(self, kind: str) -> list[Json]:
        return [event for event in self.delivered if event["type"] == kind]

    def _changed(self) -> None:
        self._call_at(0.05)

    def _call_at(self, seconds: float) -> None:
        if self._due is not None:
            self._due.cancel()
        self._due = self.timeline.call_later(seconds, self._pass)

    def _pass(self) -> None:
        self._due = None
        self.exporter.poll()
        due = self.exporter.tick(self.timeline.now())
        if due is not None and self._due is None:
            self._call_at((due - self.timeline.now()).total_seconds())

    def _deliver(self, request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(200, {"WebHook-Allowed-Origin": "*"})
        self.delivered += orjson.loads(request.body)
        return Response(202)


def test_a_burst_that_fits_nowhere_arrives_as_one_event_with_its_pods() -> None:
    world = World()
    world.run(5)
    for number in range(25):
        world.pod(f"p{number}")
    world.run(10)
    (event,) = world.of(PODS_UNSCHEDULABLE)
    snapshot = read_snapshot(parse_event(event, {"training"}, account_url=ACCOUNT))
    assert [len(group.pods) for group in snapshot.pending] == [25]


def test_a_watch_that_expired_misses_nothing() -> None:
    world = World()
    world.run(5)
    world.pod("a")
    world.kube.compact()
    world.run(10)
    assert len(world.of(PODS_UNSCHEDULABLE)) == 1
    assert world.exporter.health(world.timeline.now()).figures["sluice_exporter_relists_total"] >= 1


def test_a_snapshot_too_large_for_an_event_is_found_in_the_clusters_own_container() -> None:
    world = World()
    world.run(5)
    for number in range(4000):
        world.pod(f"a-pod-whose-name-is-rather-long-and-says-nothing-{number}")
    world.run(30)
    parsed = parse_event(world.of(PODS_UNSCHEDULABLE)[-1], {"training"}, account_url=ACCOUNT)
    assert parsed.blob
    snapshot = read_snapshot(parsed, world.store.get("snapshots-training", parsed.blob).data)
    assert sum(len(group.pods) for group in snapshot.pending) == 4000


def test_an_empty_node_is_announced_as_idle_by_what_its_kubelet_says() -> None:
    world = World()
    created = world.api.create(
        "/api/v1/nodes", {**node("n1"), "metadata": {"name": "n1", "labels": {"sluice.io/pool": "cpu"}}}
    )
    world.api.patch("/api/v1/nodes/n1/status", {"status": node("n1")["status"]})
    world.run(700)
    assert created["metadata"]["uid"]
    assert [said["name"] for said in world.of(NODE_IDLE)[0]["data"]["detail"]["nodes"]] == ["n1"]


def test_a_successor_of_a_killed_exporter_publishes_under_a_higher_epoch() -> None:
    world = World()
    world.pod("a")
    world.run(5)
    first = world.of(PODS_UNSCHEDULABLE)[-1]["data"]["epoch"]
    successor = ExporterService(
        world.api,
        AzureEventPublisher(
            "http://topic.stand-in/api/events",
            AzureKeyCredential("local"),
            transport=HandlerTransport(world.topic, world.timeline),
        ),
        None,
        lambda: parse_config(POOLS),
        world.timeline.now,
        identity="exporter",
    )
    world.exporter = successor
    world.run(20)
    assert world.of(PODS_UNSCHEDULABLE)[-1]["data"]["epoch"] == first + 1
