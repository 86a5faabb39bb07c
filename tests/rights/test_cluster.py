"""Both accounts have the rights in a cluster that they need, and no other, as a real kube-apiserver understands the
chart: each is taken away once, and something breaks."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.e2e.control_plane.available import control_plane_or_skip
from tests.rights.chart import EXPORTER, FUNCTIONS, Right, rights
from tests.rights.cluster import Authorizer
from tests.rights.cluster_scenes import NAMESPACE, SCENES, Performance, Scene, perform

pytestmark = [pytest.mark.rights, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def authorizer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authorizer]:
    """A real API server that knows both accounts, and each of them again without each of its rights."""
    with control_plane_or_skip(directory=tmp_path_factory.mktemp("rights")) as plane:
        found = Authorizer(plane)
        granted = rights(NAMESPACE)
        for account in (EXPORTER, FUNCTIONS):
            mine = [right for right in granted if right.account == account]
            found.admit(account, mine)
            for right in mine:
                found.admit(user_without(right), [each for each in mine if each != right])
        yield found


@pytest.fixture(scope="module")
def recordings(authorizer: Authorizer) -> dict[str, Performance]:
    """Each scene once, with every right that the chart grants."""
    return {scene.name: performed(authorizer, scene, scene.account) for scene in SCENES}


def performed(authorizer: Authorizer, scene: Scene, user: str) -> Performance:
    return perform(scene, lambda asked: authorizer.allows(user, asked), user)


def user_without(right: Right) -> str:
    return f"{right.account}:without:{rights(NAMESPACE).index(right)}"


def needing(right: Right, recordings: dict[str, Performance]) -> list[Scene]:
    """Scenes of the account in which the right was asked for."""
    mine = [scene for scene in SCENES if scene.account == right.account]
    return [scene for scene in mine if any(asked.is_a_case_of(right) for asked in recordings[scene.name].asked)]


@pytest.mark.parametrize("scene", SCENES, ids=[scene.name for scene in SCENES])
def test_all_goes_well_with_the_rights_that_the_chart_grants(scene: Scene, recordings: dict[str, Performance]) -> None:
    seen = recordings[scene.name]
    assert seen.broken is None, seen.broken
    assert seen.refused == set()


def test_each_right_is_needed_and_its_lack_is_told(
    authorizer: Authorizer, recordings: dict[str, Performance], caplog: pytest.LogCaptureFixture
) -> None:
    failures = []
    for right in rights(NAMESPACE):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            played = [performed(authorizer, scene, user_without(right)) for scene in needing(right, recordings)]
        told = caplog.text + " ".join(str(each.broken) for each in played)
        if not played:
            failures.append(f"{right}: nothing asks for it")
        elif not any(each.broken for each in played):
            failures.append(f"{right}: nothing breaks without it")
        elif f'cannot {right.verb} resource "{right.resource}" in API group "{right.group}"' not in told:
            failures.append(f"{right}: nobody is told that it is missing")
    assert not failures, "; ".join(failures)
