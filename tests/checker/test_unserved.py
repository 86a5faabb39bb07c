"""Pods that wait at the end: whose fault that is."""

from __future__ import annotations

import pytest

from local.arm.faults import Fault
from tests.checker.scene import GENERAL, SETS, Scene


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    for number in range(3):
        made.pod(f"task-{number}", cpu="3000m", nodeSelector={"sluice.io/pool": "general"})
    return made


def test_a_pod_that_a_pool_could_serve_is_found(scene: Scene):
    assert scene.verdict() == ["unserved"]


def refuse(scene: Scene, code: str, path: str = GENERAL) -> None:
    scene.stand_ins.arm.faults.add(Fault("scale_set.update", code=code))
    with pytest.raises(AssertionError):
        scene.azure("PATCH", path, {"sku": {"capacity": 3}})


def test_a_size_that_azure_does_not_offer_that_day_excuses(scene: Scene):
    refuse(scene, "SkuNotAvailable")
    assert scene.verdict() == []
    scene.wait(24 * 3600)
    assert scene.verdict() == ["unserved"]


def test_a_passing_shortage_does_not_excuse(scene: Scene):
    refuse(scene, "AllocationFailed")
    assert scene.verdict() == ["unserved"]


def test_what_is_not_offered_as_spot_may_be_had_on_demand(scene: Scene):
    refuse(scene, "SkuNotAvailable", f"{SETS}/spot")
    assert scene.verdict() == ["unserved"]


def test_a_growth_that_fails_in_the_end_is_a_refusal_too(scene: Scene):
    scene.stand_ins.arm.faults.add(Fault("scale_set.update", code="SkuNotAvailable", stage="async"))
    scene.azure("PATCH", GENERAL, {"sku": {"capacity": 3}})
    scene.wait(60)
    assert [refusal.code for refusal in scene.stand_ins.arm.truth.refusals] == ["SkuNotAvailable"]
    assert "unserved" not in scene.verdict()


@pytest.mark.parametrize(("members", "verdict"), [(1, []), (2, ["unserved"])])
def test_a_gang_whose_other_members_nobody_makes_again_waits_rightly(members: int, verdict: list[str]):
    scene, gang = Scene(), {"sluice.io/gang": "team", "sluice.io/gang-min-member": "2"}
    scene.pod("filler-0", cpu="3")
    scene.pod("filler-1", cpu="3")
    for number in range(members):
        scene.pod(f"team-{number}", cpu="3", annotations=gang)
    assert sorted(set(scene.verdict())) == verdict
