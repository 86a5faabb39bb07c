"""Nodes that come late, never, as less than promised, or twice."""

from __future__ import annotations

from typing import Any

from local.machines import BootTimes
from local.node_trouble import FINALIZER, SURPRISE_TAINT, NodeTrouble
from shared.adapters.protocols import Json
from tests import builders
from tests.kubernetes_contract.targets import NODES, condition, is_ready
from tests.machines.test_bridge import GPU, Machine, Site

NAME = "general000000"


def joined(*, gpu: int = 0, times: BootTimes | None = None, **rates: Any) -> Site:
    site = Site(builders.pool(gpu=gpu), times=times, trouble=NodeTrouble(**rates))
    site.tell["on_running"](Machine())
    site.run(12)
    return site


def allocatable(site: Site) -> Json:
    found: Json = site.find()["status"]["allocatable"]
    return found


def test_a_node_may_never_join() -> None:
    site = joined(never=1.0)
    site.run(36000)
    assert site.names() == []
    site.tell["on_deleting"](Machine())


def test_a_node_may_join_late() -> None:
    site = joined(late=1.0, late_by=(600.0, 600.0))
    site.run(590)
    assert site.names() == []
    site.run(20)
    assert site.names() == [NAME]


def test_gpus_may_never_appear() -> None:
    site = joined(gpu=2, without_gpus=1.0, times=BootTimes(boot=(10.0, 10.0), gpu=(30.0, 30.0)))
    site.run(7200)
    assert GPU not in allocatable(site)
    assert is_ready(site.find())


def test_gpus_may_appear_when_the_node_has_restarted() -> None:
    site = joined(gpu=2, gpus_after_restart=1.0, restart_after=(700.0, 700.0))
    site.run(690)
    assert GPU not in allocatable(site)
    site.run(63)
    assert condition(site.find(), "Ready")["status"] == "Unknown"
    site.run(60)
    assert allocatable(site)[GPU] == "2"
    assert is_ready(site.find())


def test_a_node_may_offer_less_than_its_pool_promises() -> None:
    site = joined(shrunken=1.0, shrink_by=(0.25, 0.25))
    assert allocatable(site)["cpu"] == "3000m"
    assert allocatable(site)["pods"] == "110"
    assert site.find()["status"]["capacity"]["cpu"] == "4000m"


def test_a_node_may_come_with_a_taint_that_nobody_announced() -> None:
    assert {"key": SURPRISE_TAINT, "effect": "NoSchedule"} in joined(tainted=1.0).find()["spec"]["taints"]


def test_a_node_may_fall_silent_and_come_back() -> None:
    site = joined(flapping=1.0, flap_after=(100.0, 100.0), flap_for=(90.0, 90.0))
    site.run(170)
    assert not is_ready(site.find())
    site.run(60)
    assert is_ready(site.find())


def test_a_node_object_may_be_made_anew_once() -> None:
    site = joined(recreated=1.0, recreate_after=(50.0, 50.0))
    first = site.find()["metadata"]["uid"]
    site.run(60)
    second = site.find()["metadata"]["uid"]
    assert second != first
    site.run(600)
    assert site.find()["metadata"]["uid"] == second
    assert is_ready(site.find())


def test_a_finalizer_holds_a_node_for_a_while() -> None:
    site = joined(finalized=1.0, finalize_for=(200.0, 200.0))
    assert site.find()["metadata"]["finalizers"] == [FINALIZER]
    site.api.delete(f"{NODES}/{NAME}")
    site.run(190)
    assert site.names() == [NAME]
    site.run(20)
    assert site.names() == []


def test_a_machine_that_goes_ends_all_its_trouble() -> None:
    site = joined(flapping=1.0, recreated=1.0, flap_after=(100.0, 100.0), flap_for=(5.0, 5.0))
    site.tell["on_deleting"](Machine())
    site.api.delete(f"{NODES}/{NAME}")
    site.run(3600)
    assert site.names() == []
