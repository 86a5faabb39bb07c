"""The stand-in's scheduler beyond what the contract holds against the real one."""

from __future__ import annotations

import pytest

from tests.kubernetes_contract.targets import NODES, PODS, condition, node, pod
from tests.kubernetes_stand_in.world import World


def _message(world: World, name: str) -> str:
    return condition(world.get_pod(name), "PodScheduled")["message"]


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        (
            {
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
                ]
            },
            "topology spread constraints",
        ),
        (
            {
                "affinity": {
                    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "x"}]}
                }
            },
            "required pod affinity",
        ),
        ({"resourceClaims": [{"name": "gpu"}]}, "dynamic resource claims"),
        ({"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "first"}}]}, "VolumeBinding"),
        ({"volumes": [{"name": "d", "ephemeral": {"volumeClaimTemplate": {}}}]}, "VolumeBinding"),
    ],
)
def test_a_pod_that_uses_a_rule_which_is_not_simulated_waits_and_says_so(more: dict, rule: str) -> None:
    world = World()
    world.node("n")
    late = {"metadata": {"name": "late"}, "provisioner": "x", "volumeBindingMode": "WaitForFirstConsumer"}
    world.api.create("/apis/storage.k8s.io/v1/storageclasses", late)
    claim = {"metadata": {"name": "first"}, "spec": {"storageClassName": "late"}}
    world.api.create("/api/v1/namespaces/default/persistentvolumeclaims", claim)
    world.pod("p", **more)
    assert _message(world, "p") == f"0/1 nodes are available: not simulated: {rule}."


def test_higher_priority_is_served_first() -> None:
    world = World()
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    world.api.create(path, {"metadata": {"name": "high"}, "value": 1000})
    world.pod("low")
    world.pod("high", priorityClassName="high")
    world.node("n", "1")
    assert world.get_pod("high")["spec"]["nodeName"] == "n"
    assert "nodeName" not in world.get_pod("low")["spec"]


def test_equal_pods_are_served_in_the_order_of_arrival() -> None:
    world = World()
    for name in ("z", "a", "m"):
        world.pod(name)
    world.node("n", "2")
    bound = [record.pod[1] for record in world.stand_in.truth.bindings]
    assert bound == ["z", "a"]


def test_every_new_pod_that_fits_nowhere_is_told_at_once() -> None:
    world = World()
    world.node("n", "1")
    for number in range(20):
        world.api.create(PODS, pod(f"p{number}", "2"))
    world.run(0)
    reasons = {condition(one, "PodScheduled").get("reason") for one in world.api.list(PODS)[0]}
    assert reasons == {"Unschedulable"}


def test_a_node_that_does_not_help_causes_no_writes_to_waiting_pods() -> None:
    world = World()
    waiting = world.pod("big", "8")
    world.node("small", "4")
    assert world.get_pod("big")["metadata"]["resourceVersion"] == waiting["metadata"]["resourceVersion"]


def test_a_failure_is_an_event_that_is_counted_and_forgotten_after_an_hour() -> None:
    world = World()
    world.pod("p")
    (event,) = world.api.list("/api/v1/events")[0]
    assert (event["reason"], event["type"], event["involvedObject"]["name"]) == ("FailedScheduling", "Warning", "p")
    world.run(3601)
    world.pod("q")
    assert [one["involvedObject"]["name"] for one in world.api.list("/api/v1/events")[0]] == ["q"]


def test_a_bound_volume_ties_the_pod_to_its_zone() -> None:
    world = World()
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["2"]}]}]
    volume = {"metadata": {"name": "v"}, "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}
    world.node("one", labels={"zone": "1"})
    world.pod("p", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}])
    assert 'persistentvolumeclaim "c" not found' in _message(world, "p")
    world.api.create("/api/v1/persistentvolumes", volume)
    claim = {"metadata": {"name": "c"}, "spec": {"volumeName": "v"}}
    world.api.create("/api/v1/namespaces/default/persistentvolumeclaims", claim)
    world.run(0)
    assert "didn't match PersistentVolume's node affinity" in _message(world, "p")
    world.node("two", labels={"zone": "2"})
    assert world.get_pod("p")["spec"]["nodeName"] == "two"


def test_a_node_of_the_same_name_counts_the_pods_that_are_bound_to_it() -> None:
    world = World()
    world.node("n", "1")
    world.pod("p")
    world.api.delete(f"{NODES}/n")
    world.api.create(NODES, node("n", "1"))
    world.run(5)
    world.pod("q")
    assert "Insufficient cpu" in _message(world, "q")


def test_a_pending_pod_that_is_deleted_is_forgotten() -> None:
    world = World()
    world.pod("p")
    world.api.delete(f"{PODS}/p")
    assert world.stand_in.controllers.scheduler.waiting() == 0


def test_a_pod_as_a_whole_may_ask_for_more_than_its_containers() -> None:
    world = World()
    world.node("n", "4")
    world.pod("p", "1", resources={"requests": {"cpu": "3"}})
    world.pod("q", "2")
    assert "Insufficient cpu" in _message(world, "q")
