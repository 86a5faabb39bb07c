"""The exporter as a whole: from what happens in a cluster to the events that the functions understand."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from exporter.lease import LeaseTerms
from shared.adapters.errors import Expired, Refused, Unreachable
from shared.names import NODE_EVICTING, NODE_IDLE, NODE_JOINED, PODS_UNSCHEDULABLE
from shared.settings.config import parse_config
from shared.wire.events import parse_event
from tests.exporter.fakes import FakeCluster, at, node, node_path, pod, pod_path
from tests.exporter.harness import POOLS, Rig

EVICTING = {"annotations": {"sluice.io/evicting-at": "2026-03-01T12:00:30Z"}}


def test_a_burst_of_unschedulable_pods_is_one_event_with_its_snapshot() -> None:
    rig = Rig()
    rig.to(5)
    for number in range(30):
        rig.cluster.put(pod_path(f"p{number}"), pod(f"p{number}", cpu="1" if number % 2 else "2"))
    rig.to(7)
    assert rig.published(PODS_UNSCHEDULABLE) == [(6, {"pods": 30, "classes": 2})]
    assert sum(len(group.pods) for group in rig.last_snapshot().pending) == 30


def test_every_event_passes_the_functions_own_checks() -> None:
    rig = Rig()
    rig.cluster.put(node_path("n1"), node("n1"))
    rig.cluster.put(pod_path("a"), pod("a"))
    rig.to(700)
    kinds = {parse_event(event, {"training"}).type for event in rig.topic.events}
    assert kinds == {PODS_UNSCHEDULABLE, NODE_IDLE, NODE_JOINED}


def test_a_pod_that_the_scheduler_places_in_time_is_never_announced() -> None:
    rig = Rig()
    rig.cluster.put(pod_path("a"), pod("a", unschedulable=False))
    rig.to(5)
    rig.cluster.put(pod_path("a"), pod("a", node="n1"))
    rig.to(100)
    assert rig.published(PODS_UNSCHEDULABLE) == []


def test_pods_that_still_wait_are_announced_every_minute_until_they_are_placed() -> None:
    rig = Rig()
    rig.cluster.put(pod_path("a"), pod("a"))
    rig.to(150)
    rig.cluster.put(pod_path("a"), pod("a", node="n1"))
    rig.to(500)
    assert [seconds for seconds, _ in rig.published(PODS_UNSCHEDULABLE)] == [1, 61, 121]


def test_pods_that_found_no_room_on_the_nodes_that_joined_are_announced_once_those_were_tried() -> None:
    rig = Rig()
    rig.to(5)
    for name in ("a", "b"):
        rig.cluster.put(pod_path(name), pod(name))
    rig.to(20)
    rig.cluster.put(node_path("n1"), node("n1", created=at(20)))
    rig.cluster.put(pod_path("a"), pod("a", node="n1"))
    rig.to(60)
    said = [(seconds, detail["pods"]) for seconds, detail in rig.published(PODS_UNSCHEDULABLE)]
    assert said == [(6, 2), (27, 1), (37, 1), (57, 1)]


def test_an_idle_node_is_announced_with_its_time_and_again_while_it_stays_idle() -> None:
    rig = Rig()
    rig.cluster.put(node_path("n1"), node("n1", providerID="azure:///x"))
    rig.cluster.put(pod_path("a"), pod("a", node="n1", cpu="3"))
    rig.to(50)
    rig.cluster.put(pod_path("a"), pod("a", node="n1", phase="Succeeded"))
    rig.to(1000)
    moments = [seconds for seconds, _ in rig.published(NODE_IDLE)]
    assert moments == [650, 950]
    (said,) = rig.published(NODE_IDLE)[0][1]["nodes"]
    assert said == {"name": "n1", "providerID": "azure:///x", "pool": "cpu", "idle_since": "2026-03-01T12:00:50Z"}
    assert rig.last_snapshot().nodes[0].idle_since == at(50)


def test_a_node_that_gets_a_pod_in_time_is_not_idle() -> None:
    rig = Rig()
    rig.cluster.put(node_path("n1"), node("n1"))
    rig.to(500)
    rig.cluster.put(pod_path("a"), pod("a", node="n1", cpu="3"))
    rig.to(2000)
    assert rig.published(NODE_IDLE) == []


def test_a_node_that_is_gone_is_forgotten() -> None:
    rig = Rig()
    rig.cluster.put(node_path("n1"), node("n1"))
    rig.to(650)
    rig.cluster.remove(node_path("n1"))
    rig.to(2000)
    assert len(rig.published(NODE_IDLE)) == 1
    assert rig.service.tick(rig.now) is not None


def test_a_node_that_took_until_its_gpus_could_be_there_is_announced_too() -> None:
    rig = Rig()
    rig.cluster.put(node_path("n1"), node("n1", ready=False, created=at(0)))
    rig.to(1200)
    rig.cluster.put(node_path("n1"), node("n1", created=at(0)))
    rig.to(1210)
    assert len(rig.published(NODE_JOINED)) == 1


def test_nodes_that_join_are_announced_once_they_are_ready() -> None:
    rig = Rig()
    rig.to(5)
    for name in ("n1", "n2"):
        rig.cluster.put(node_path(name), node(name, ready=False, created=at(5)))
    rig.to(40)
    for name in ("n1", "n2"):
        rig.cluster.put(node_path(name), node(name, created=at(5)))
    rig.to(100)
    ((seconds, detail),) = rig.published(NODE_JOINED)
    assert seconds == 42
    assert [said["name"] for said in detail["nodes"]] == ["n1", "n2"]


def test_an_eviction_is_announced_at_once_with_its_deadline() -> None:
    rig = Rig()
    rig.cluster.put(node_path("n1"), node("n1"))
    rig.to(5)
    doomed = node("n1")
    rig.cluster.put(node_path("n1"), {**doomed, "metadata": {**doomed["metadata"], **EVICTING}})
    rig.to(5)
    ((seconds, detail),) = rig.published(NODE_EVICTING)
    assert seconds == 5
    assert detail["nodes"][0]["evicting_at"] == "2026-03-01T12:00:30Z"


def test_events_are_numbered_within_their_epoch() -> None:
    rig = Rig()
    rig.cluster.put(node_path("n1"), node("n1"))
    rig.cluster.put(pod_path("a"), pod("a"))
    rig.to(200)
    orders = [(event["data"]["epoch"], event["data"]["sequence"]) for event in rig.topic.events]
    assert [sequence for _, sequence in orders] == list(range(1, len(orders) + 1))
    assert len({epoch for epoch, _ in orders}) == 1
    assert len({event["id"] for event in rig.topic.events}) == len(orders)


def test_a_restarted_exporter_goes_on_under_a_higher_epoch() -> None:
    rig = Rig()
    rig.cluster.put(pod_path("a"), pod("a"))
    rig.to(5)
    again = Rig(rig.cluster)
    again.to(5)
    first, second = rig.topic.events[-1]["data"], again.topic.events[-1]["data"]
    assert second["epoch"] == first["epoch"] + 1
    assert second["sequence"] == 1


def test_only_the_holder_publishes_and_the_next_one_says_everything_anew() -> None:
    first = Rig(identity="one")
    first.cluster.put(pod_path("a"), pod("a"))
    second = Rig(first.cluster, identity="two")
    for seconds in range(0, 20, 5):
        first.to(seconds)
        second.to(seconds)
    assert len(first.topic.events) == 1
    assert second.topic.events == []
    first.service.stop(at(20))
    second.to(30)
    assert [event["type"] for event in second.topic.events] == [PODS_UNSCHEDULABLE]
    assert second.topic.events[0]["data"]["epoch"] > first.topic.events[0]["data"]["epoch"]


def test_an_outage_of_the_topic_delays_the_event_and_loses_nothing() -> None:
    rig = Rig()
    rig.to(5)
    rig.topic.fail = [Unreachable("down")] * 3
    rig.cluster.put(pod_path("a"), pod("a"))
    rig.to(30)
    assert [seconds for seconds, _ in rig.published(PODS_UNSCHEDULABLE)] == [6]
    assert rig.topic.calls == 4
    figures = rig.service.health(rig.now).figures
    assert figures["sluice_exporter_publish_failures_total"] == 3
    assert figures['sluice_exporter_published_total{type="sluice.pods.unschedulable"}'] == 1


def test_an_outage_of_the_api_server_is_waited_out_and_the_watch_goes_on() -> None:
    rig = Rig()
    rig.to(5)
    rig.cluster.fail = [Unreachable("down")] * 3
    rig.service.poll()
    rig.cluster.put(pod_path("a"), pod("a"))
    rig.to(9)
    assert [seconds for seconds, _ in rig.published(PODS_UNSCHEDULABLE)] == [6.5]
    assert rig.service.health(rig.now).figures["sluice_exporter_relists_total"] == 0


def test_what_is_announced_while_the_api_server_is_silent_says_since_when_it_is() -> None:
    rig = Rig(terms=LeaseTerms(duration=3600.0, renew_every=1200.0, retry_every=600.0))
    rig.cluster.put(pod_path("a"), pod("a"))
    rig.to(30)
    rig.cluster.fail = [Unreachable("down")] * 300
    rig.to(125)
    rig.cluster.fail = []
    rig.to(185)
    observed = [event["data"]["observed_at"] for event in rig.topic.events if event["type"] == PODS_UNSCHEDULABLE]
    assert [datetime.fromisoformat(moment) - at(0) for moment in observed] == [
        timedelta(seconds=seconds) for seconds in (1, 30, 30, 181)
    ]


def test_nothing_is_announced_from_half_a_picture() -> None:
    cluster = FakeCluster()
    cluster.put(pod_path("a"), pod("a"))
    cluster.fail = [Refused("may not list pods")]
    rig = Rig(cluster)
    rig.to(20)
    assert rig.topic.events == []
    assert rig.service.health(rig.now).ready is False
    rig.to(40)
    assert len(rig.topic.events) == 1


def test_an_expired_watch_is_listed_anew_without_announcing_known_pods_again() -> None:
    rig = Rig()
    rig.cluster.put(pod_path("a"), pod("a"))
    rig.to(5)
    rig.cluster.fail = [Expired("too old")]
    rig.to(30)
    assert len(rig.published(PODS_UNSCHEDULABLE)) == 1
    assert rig.service.health(rig.now).figures["sluice_exporter_relists_total"] == 1


def test_new_thresholds_take_effect_with_the_idle_time_that_was() -> None:
    rig = Rig()
    rig.cluster.put(node_path("n1"), node("n1"))
    rig.to(120)
    rig.config = parse_config(POOLS.replace(b"10m", b"1m"))
    rig.to(121)
    assert [seconds for seconds, _ in rig.published(NODE_IDLE)] == [120]


def test_a_large_snapshot_is_stored_first_and_the_event_carries_its_claim() -> None:
    rig = Rig(account_url="https://account.blob.core.windows.net")
    for number in range(6000):
        rig.cluster.put(
            pod_path(f"pod-with-a-rather-long-name-{number:06}"), pod(f"pod-{number:06}", uid=f"{number:036}")
        )
    rig.to(5)
    (event,) = rig.topic.of(PODS_UNSCHEDULABLE)
    parsed = parse_event(event, {"training"}, account_url="https://account.blob.core.windows.net")
    assert list(rig.store.blobs) == [("snapshots-training", parsed.blob)]


def test_an_idle_exporter_asks_to_be_called_only_for_its_lease() -> None:
    rig = Rig()
    rig.to(1000)
    assert rig.ticks < 110


def test_what_waits_is_sent_before_a_stop_whatever_the_delay() -> None:
    rig = Rig()
    rig.to(5)
    rig.topic.fail = [Unreachable("down")] * 8
    rig.cluster.put(pod_path("a"), pod("a"))
    rig.to(20)
    assert rig.topic.events == []
    rig.topic.fail = []
    assert rig.service.drained(rig.now) is True
    assert len(rig.topic.events) == 1


@pytest.mark.parametrize("pool", ["cpu", "elsewhere"])
def test_only_nodes_of_our_pools_are_idle(pool: str) -> None:
    rig = Rig()
    rig.cluster.put(node_path("n1"), node("n1", pool=pool))
    rig.to(700)
    assert len(rig.published(NODE_IDLE)) == (1 if pool == "cpu" else 0)
    assert replace(rig.last_snapshot().nodes[0], idle_since=None).pool == ("cpu" if pool == "cpu" else "")
