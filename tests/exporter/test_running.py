"""The process from its start to its stop, on threads, over doubles that wait instead of sleeping."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from exporter import main as process
from exporter.lease import LeaseTerms, lease_path
from exporter.node_agent import COMPUTE_URL
from exporter.runner import Runner
from shared.adapters.errors import Unreachable
from shared.adapters.protocols import Json
from shared.names import NODE_EVICTING
from shared.wire.events import parse_event
from tests.exporter.fakes import FakeCluster, FakeTopic, node, node_path, pod, pod_path
from tests.exporter.harness import POOLS, Rig

SECONDS = 10  # how long a test waits for another thread before it fails


class LiveCluster(FakeCluster):
    """Watches stay open until `close`, and say what happens as it happens."""

    def __init__(self) -> None:
        super().__init__()
        self._news = threading.Condition()
        self._closed = False

    def _write(self, kind: str, path: str, item: Json) -> Json:
        with self._news:
            self._news.notify_all()
            return super()._write(kind, path, item)

    def watch(self, path: str, resource_version: str, *, timeout_seconds: int) -> Iterator[Json]:
        seen = resource_version
        while not self._closed:
            events = list(super().watch(path, seen, timeout_seconds=timeout_seconds))
            yield from events
            seen = events[-1]["object"]["metadata"]["resourceVersion"]
            with self._news:
                self._news.wait_for(lambda seen=seen: self._closed or str(self.version) != seen, timeout=SECONDS)

    def close(self) -> None:
        with self._news:
            self._closed = True
            self._news.notify_all()


class LiveTopic(FakeTopic):
    """Tells when it took something."""

    def __init__(self) -> None:
        super().__init__()
        self.took = threading.Event()
        self.closed = False

    def publish(self, events: Sequence[Json]) -> None:
        super().publish(events)
        self.took.set()

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """A watch process on a thread: its cluster, topic, `stop` and the thread."""

    class Process:
        cluster, topic, code = LiveCluster(), LiveTopic(), -1
        ready, stop = threading.Event(), staticmethod(lambda: None)
        port = 0

    def take_stop(stop: Any) -> None:
        Process.stop = staticmethod(stop)
        Process.ready.set()

    class Served(process._Served):
        def __enter__(self) -> None:
            Process.port = self._server.port

    pools = tmp_path / "pools.yaml"
    pools.write_bytes(POOLS.replace(b"debounce: 1s", b"debounce: 0s"))
    monkeypatch.setattr(process, "_cluster_api", lambda settings: Process.cluster)
    monkeypatch.setattr(process, "AzureEventPublisher", lambda endpoint, credential: Process.topic)
    monkeypatch.setattr(process, "_on_signal", take_stop)
    monkeypatch.setattr(process, "_Served", Served)
    environment = {"SLUICE_TOPIC_ENDPOINT": "http://127.0.0.1:9/api/events", "SLUICE_TOPIC_KEY": "k"}

    def run() -> None:
        Process.code = process.main(["--pools", str(pools), "--port", "0"], environment)

    thread = threading.Thread(target=run)
    thread.start()
    assert Process.ready.wait(SECONDS)
    yield Process
    Process.stop()
    Process.cluster.close()
    thread.join(SECONDS)
    assert not thread.is_alive()
    assert (Process.code, Process.topic.closed) == (0, True)
    assert Process.cluster.get(lease_path(LeaseTerms()))["spec"]["holderIdentity"] == ""


def ask(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=SECONDS) as answer:
        return answer.read().decode()


def test_a_pod_that_cannot_be_scheduled_reaches_the_topic_and_a_stop_releases_the_lease(started: Any) -> None:
    started.cluster.put(node_path("n1"), node("n1"))
    started.cluster.put(pod_path("a"), pod("a"))
    assert started.topic.took.wait(SECONDS)
    assert parse_event(started.topic.events[0], {"training"}).data.detail == {"pods": 1, "classes": 1}
    assert ask(started.port, "/readyz") == "ok\n"
    assert ask(started.port, "/healthz") == "ok\n"
    assert "sluice_exporter_leader 1" in ask(started.port, "/metrics")


def test_what_the_topic_has_not_taken_yet_is_sent_at_the_stop() -> None:
    rig = Rig()
    rig.to(5)
    rig.topic.fail = [Unreachable("down")]
    rig.cluster.put(pod_path("a"), pod("a"))
    rig.to(6)
    runner = Runner(rig.service, lambda: rig.now)
    runner.stop()
    runner.run()
    assert len(rig.topic.events) == 1
    assert rig.service.leads is False


def test_a_watch_thread_that_ended_by_a_fault_of_ours_asks_for_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    monkeypatch.setattr(threading, "excepthook", lambda arguments: None)
    broken = rig.service.reflectors[0]
    monkeypatch.setattr(broken, "sync_once", lambda seconds: 1 / 0)
    runner = Runner(rig.service, lambda: rig.now)
    (thread, *_) = runner._threads
    thread.start()
    thread.join(SECONDS)
    assert runner.health().alive is False
    assert "watch /api/v1/pods" in runner.health().problem


def test_the_node_agent_learns_who_it_is_forwards_the_notice_and_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    topic, stops = LiveTopic(), []
    monkeypatch.setattr(process, "AzureEventPublisher", lambda endpoint, credential: topic)
    monkeypatch.setattr(process, "_on_signal", stops.append)
    resource = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/vm-1"

    def metadata(url: str) -> Json:
        if url == COMPUTE_URL:
            return {"name": "vm-1", "resourceId": resource}
        stops[0]()
        when = "Sun, 01 Mar 2026 12:00:30 GMT"
        return {"Events": [{"EventId": "e1", "EventType": "Preempt", "Resources": ["vm-1"], "NotBefore": when}]}

    monkeypatch.setattr(process, "fetch_metadata", metadata)
    environment = {"SLUICE_TOPIC_ENDPOINT": "http://127.0.0.1:9/api/events", "SLUICE_TOPIC_KEY": "k"}
    flags = ["node-agent", "--cluster", "training", "--node", "node-1", "--port", "0"]
    assert process.main(flags, environment) == 0
    (event,) = topic.events
    parsed = parse_event(event, {"training"})
    said = {
        "name": "node-1",
        "providerID": f"azure://{resource}",
        "evicting_at": "2026-03-01T12:00:30Z",
        "event": "e1",
    }
    assert (parsed.type, parsed.subject, parsed.data.epoch) == (NODE_EVICTING, "node-1", 0)
    assert parsed.data.detail == {"count": 1, "nodes": [said]}
