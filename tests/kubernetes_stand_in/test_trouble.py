"""An API server that clients have trouble with by chance, while its own controllers go on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from local.kube.controllers.kubelet import KUBELET_ANNOTATION
from local.kube.rest_transport import make_api
from local.kube.trouble import ClusterTrouble
from shared.adapters.errors import Expired, OutsideError, RetryLater, StaleWrite, Throttled, Unreachable
from tests.kubernetes_contract.targets import NODES, PODS, node, pod
from tests.kubernetes_stand_in.world import World


class Troubled(World):
    """`client` goes through the troubled door, `api` past it."""

    def __init__(self, **rates: Any) -> None:
        super().__init__(trouble=ClusterTrouble(**rates))
        self.misfortune = self.stand_in.misfortune
        self.client = make_api(self.misfortune.door(self.stand_in))


@pytest.mark.parametrize(
    ("kind", "error"),
    [("throttled", Throttled), ("failing", RetryLater), ("conflict", StaleWrite), ("lost", Unreachable)],
)
def test_each_kind_strikes_and_is_counted(kind: str, error: type[OutsideError]) -> None:
    world = Troubled(**{kind: 1.0})
    world.node("n")
    with pytest.raises(error) as raised:
        world.client.patch(f"{NODES}/n", {"metadata": {"labels": {"a": "b"}}})
    assert type(raised.value) is error
    assert world.misfortune.chances.counts == {kind: 1}
    assert ("a" in world.api.get(f"{NODES}/n")["metadata"]["labels"]) is (kind == "lost")


def test_a_throttled_answer_says_when_to_come_again() -> None:
    world = Troubled(throttled=1.0, retry_after=(7.0, 7.0))
    with pytest.raises(Throttled) as raised:
        world.client.list(PODS)
    assert raised.value.retry_after == 7


def test_reads_meet_no_conflicts() -> None:
    world = Troubled(conflict=1.0)
    world.node("n")
    assert world.client.get(f"{NODES}/n")["metadata"]["name"] == "n"


def test_a_watch_expires() -> None:
    world = Troubled(expired=1.0)
    version = world.client.list(PODS)[1]
    with pytest.raises(Expired):
        list(world.client.watch(PODS, version, timeout_seconds=10))


def test_an_outage_lasts_a_while_and_the_cluster_goes_on() -> None:
    world = Troubled(outages_per_hour=6.0, outage=(120.0, 120.0))
    world.node("n")
    while not world.misfortune.outages.down:
        world.run(10)
    with pytest.raises(Unreachable):
        world.client.create(PODS, pod("lost"))
    world.pod("inside")
    world.run(5)
    assert world.phase("inside") == "Running"
    world.run(120)
    assert [one["metadata"]["name"] for one in world.client.list(PODS)[0]] == ["inside"]


def test_an_outage_ends_with_the_trouble() -> None:
    world = Troubled(outages_per_hour=6.0, outage=(1e6, 1e6))
    world.run(3600)
    assert world.misfortune.outages.down
    world.misfortune.chances.end()
    world.run(10)
    assert world.client.list(PODS)[0] == []
    world.run(36000)
    assert world.misfortune.chances.counts["outage"] == 1


def test_containers_hang_past_their_grace_period() -> None:
    world = Troubled(stuck=1.0, stuck_for=(300.0, 300.0))
    world.node("n")
    world.pod("p")
    world.run(5)
    world.api.delete(f"{PODS}/p", grace_seconds=10)
    world.run(200)
    assert world.pods() == ["p"]
    world.run(200)
    assert world.pods() == []


def test_containers_that_hung_while_their_kubelet_was_silent_end_when_it_is_back() -> None:
    world = Troubled(stuck=1.0, stuck_for=(300.0, 300.0))
    world.node("n")
    world.pod("p")
    world.run(5)
    world.api.delete(f"{PODS}/p", grace_seconds=10)
    world.misfortune.rates = replace(world.misfortune.rates, stuck=0.0)
    kubelet = world.api.get(f"{NODES}/n")["metadata"]["annotations"][KUBELET_ANNOTATION]
    world.client.patch(f"{NODES}/n", {"metadata": {"annotations": {KUBELET_ANNOTATION: None}}})
    world.run(400)
    assert world.pods() == ["p"]
    world.client.patch(f"{NODES}/n", {"metadata": {"annotations": {KUBELET_ANNOTATION: kubelet}}})
    world.run(30)
    assert world.pods() == []


def test_hanging_containers_are_forgotten_by_force() -> None:
    world = Troubled(stuck=1.0)
    world.node("n")
    world.pod("p")
    world.run(5)
    world.api.delete(f"{PODS}/p", grace_seconds=10)
    world.api.delete(f"{PODS}/p", grace_seconds=0)
    assert world.pods() == []


def test_without_rates_the_door_changes_nothing() -> None:
    world = Troubled()
    world.client.create(NODES, node("n"))
    assert world.client.list(NODES)[0] == world.api.list(NODES)[0]
    assert not world.misfortune.chances.counts
