"""Each rule about nodes and evictions fires on its violation, and is silent on what looks like it."""

from __future__ import annotations

import pytest

from local.checker.evidence import OPT_OUTS
from tests.checker.scene import NODES, PODS, SETS, SILENT, Scene

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.mark.parametrize("verb", ["PATCH", "DELETE"])
def test_writing_to_a_node_that_an_administrator_cordoned_is_found(scene: Scene, verb: str):
    scene.cordon("general000000")
    body = {"metadata": {"annotations": {"sluice.io/retire-operation": "x"}}} if verb == "PATCH" else None
    scene.sluice(verb, f"{NODES}/general000000", body)
    assert scene.rules() == ["cordoned-touched"]


def test_evicting_from_a_node_that_an_administrator_cordoned_is_found(scene: Scene):
    node = scene.pod("kept")
    scene.cordon(node)
    scene.evict("kept")
    assert scene.rules() == ["cordoned-touched"]


def test_deleting_the_vm_of_a_node_that_an_administrator_cordoned_is_found(scene: Scene):
    scene.cordon("general000000")
    scene.delete_vm("general000000")
    assert scene.rules() == ["cordoned-touched"]


def test_ones_own_cordon_is_no_administrators(scene: Scene):
    scene.cordon("general000000", by="sluice")
    scene.cordon("general000000", by="sluice", on=False)
    scene.delete_vm("general000000")
    assert scene.rules() == []


def test_a_cordon_that_was_lifted_binds_nobody(scene: Scene):
    scene.cordon("general000000")
    scene.cordon("general000000", on=False)
    scene.cordon("general000000", by="sluice")
    assert scene.rules() == []


def test_a_cordoned_node_that_azure_takes_may_be_cleared(scene: Scene):
    scene.azure("PATCH", f"{SETS}/spot", {"sku": {"capacity": 1}})
    scene.wait(30)
    (vm,) = [vm for vm in scene.stand_ins.arm.truth.live_vms() if vm.spot]
    node = vm.computer_name.lower()
    scene.cordon(node)
    scene.stand_ins.preempt(node)
    scene.sluice("PATCH", f"{NODES}/{node}", {"metadata": {"annotations": {"sluice.io/retire-operation": "x"}}})
    scene.wait(120)
    scene.sluice("DELETE", f"{NODES}/{node}")
    assert scene.rules() == []


def test_writing_to_a_node_of_no_pool_is_found(scene: Scene):
    scene.admin("POST", NODES, {"metadata": {"name": "system-0"}})
    scene.sluice("PATCH", f"{NODES}/system-0", {"metadata": {"labels": {"a": "b"}}})
    assert scene.rules() == ["stranger-touched"]


def test_the_node_of_a_vm_that_is_gone_may_be_deleted(scene: Scene):
    scene.delete_vm("general000000")
    scene.wait(30)
    scene.sluice("DELETE", f"{NODES}/general000000")
    assert scene.rules() == []


def test_a_node_deleted_under_its_pods_is_found(scene: Scene):
    scene.sluice("DELETE", f"{NODES}/{scene.pod('working')}")
    assert scene.rules() == ["not-drained"]


@pytest.mark.parametrize(("annotation", "word"), OPT_OUTS)
def test_an_eviction_against_a_pods_own_word_is_found(scene: Scene, annotation: str, word: str):
    scene.pod("kept", annotations={annotation: word})
    scene.evict("kept")
    assert scene.rules() == ["against-opt-out"]


def test_an_eviction_within_its_budget_is_in_order(scene: Scene):
    scene.pod("web")
    spec = {"minAvailable": 0, "selector": {"matchLabels": {"app": "web"}}}
    scene.admin("POST", BUDGETS, {"metadata": {"name": "web"}, "spec": spec})
    scene.wait(5)
    assert scene.evict("web").status == 201
    assert scene.rules() == []


def test_an_eviction_that_its_budget_forbids_is_refused_and_in_order(scene: Scene):
    scene.pod("web")
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    scene.admin("POST", BUDGETS, {"metadata": {"name": "web"}, "spec": spec})
    scene.wait(5)
    assert scene.evict("web").status == 429
    assert scene.rules() == []


def test_evicting_a_pod_twice_is_found(scene: Scene):
    scene.pod("slow", annotations={"sluice.io/stop-seconds": "100"}, terminationGracePeriodSeconds=200)
    scene.evict("slow")
    scene.evict("slow")
    assert scene.rules() == ["evicted-twice"]


def test_deleting_a_pod_past_the_eviction_api_is_found(scene: Scene):
    scene.pod("web")
    scene.sluice("DELETE", f"{PODS}/web")
    assert scene.rules() == ["past-budget"]


def test_a_pod_of_a_dead_node_may_be_deleted(scene: Scene):
    node = scene.pod("lost", tolerations=[{"operator": "Exists"}])
    scene.admin("PATCH", f"{NODES}/{node}", SILENT)
    scene.wait(240)
    scene.sluice("DELETE", f"{PODS}/lost")
    assert scene.rules() == []


def test_a_pod_that_is_going_anyway_may_be_told_again(scene: Scene):
    scene.pod("slow", annotations={"sluice.io/stop-seconds": "100"}, terminationGracePeriodSeconds=200)
    scene.admin("DELETE", f"{PODS}/slow")
    scene.sluice("DELETE", f"{PODS}/slow", {"gracePeriodSeconds": 0})
    assert scene.rules() == []


def test_what_others_do_to_pods_is_their_own_affair(scene: Scene):
    scene.pod("web")
    scene.admin("DELETE", f"{PODS}/web")
    assert scene.rules() == []
