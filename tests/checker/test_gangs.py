"""A gang that cannot start keeps no nodes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checker.scene import GENERAL, POOLS, Scene

JOBS = "/apis/batch/v1/namespaces/default/jobs"


@pytest.fixture
def scene() -> Scene:
    return Scene(POOLS.replace(", max: 6, min: 2", ", max: 6"))


def gang(scene: Scene, pods: int, cpu: str = "3") -> None:
    container = {"name": "main", "image": "main", "resources": {"requests": {"cpu": cpu}}}
    annotations = {"sluice.io/gang": "team", "sluice.io/gang-min-member": str(pods), "sluice.io/run-seconds": "90000"}
    spec: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
    template = {"metadata": {"annotations": annotations}, "spec": spec}
    body = {"metadata": {"name": "team"}, "spec": {"parallelism": pods, "completions": pods, "template": template}}
    scene.users.create(JOBS, body)
    scene.wait(5)


def buy(scene: Scene, nodes: int) -> None:
    scene.azure("PATCH", GENERAL, {"sku": {"capacity": nodes}})
    scene.wait(60)


def in_part(scene: Scene) -> bool:
    return "gang-in-part" in scene.verdict()


def test_nodes_kept_for_a_part_of_a_gang_are_found(scene: Scene):
    gang(scene, 3)
    buy(scene, 2)
    scene.wait(31 * 60)
    assert in_part(scene)


def test_a_gang_may_wait_for_its_fallback_for_a_while(scene: Scene):
    gang(scene, 3)
    buy(scene, 2)
    scene.wait(20 * 60)
    assert not in_part(scene)


def test_a_gang_that_has_all_it_needs_is_served(scene: Scene):
    gang(scene, 3)
    buy(scene, 3)
    scene.wait(31 * 60)
    assert not in_part(scene)


def test_nodes_that_stood_before_are_not_the_gangs(scene: Scene):
    buy(scene, 2)
    gang(scene, 3)
    scene.wait(31 * 60)
    assert not in_part(scene)


def test_nodes_that_serve_others_too_stay(scene: Scene):
    gang(scene, 3)
    buy(scene, 2)
    for number in range(2):
        scene.pod(f"other-{number}", cpu="1")
    scene.wait(31 * 60)
    assert not in_part(scene)


def test_members_that_nobody_would_make_anew_stay_where_they_are(scene: Scene):
    note = {"sluice.io/gang": "alone", "sluice.io/gang-min-member": "2"}
    scene.users.create(
        "/api/v1/namespaces/default/pods",
        {
            "metadata": {"name": "alone-0", "annotations": note},
            "spec": {"containers": [{"name": "main", "image": "main"}]},
        },
    )
    buy(scene, 1)
    scene.wait(31 * 60)
    assert not in_part(scene)
