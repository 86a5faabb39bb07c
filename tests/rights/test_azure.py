"""The app has the rights in Azure that it needs, and no other: each one is taken away once, and something breaks."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest

from local.roles import grants_of, read_roles
from local.simulation import driver
from local.simulation.worlds import draw_world
from shared.settings.config import parse_config
from tests.rights.azure_scenes import SCENES, Performance, Scene, perform, pools_file
from tests.rights.granted import INFRA, Right, app_rights, grants, rights, role_file, role_files

NAMES = [scene.name for scene in SCENES]


@cache
def recordings() -> dict[str, Performance]:
    """Each scene once, with every right that Terraform grants."""
    return {scene.name: perform(scene) for scene in SCENES}


def needing(right: Right) -> list[Scene]:
    """Scenes in which the right's role is given, and its action was asked for."""
    role, action = right
    given = [
        scene for scene in SCENES if role in {"linked", "quota"} or any(role in kinds for kinds in scene.kinds.values())
    ]
    return [scene for scene in given if action.lower() in recordings()[scene.name].demands]


@pytest.mark.parametrize("scene", SCENES, ids=NAMES)
def test_all_goes_well_with_the_rights_that_terraform_grants(scene: Scene) -> None:
    seen = recordings()[scene.name]
    assert seen.broken is None, seen.broken
    assert seen.lacked == set()


def test_no_right_is_granted_that_nothing_asks_for() -> None:
    assert [right for right in rights() if not needing(right)] == []


def test_the_page_about_roles_names_every_action_with_its_reason_and_a_scene_that_needs_it() -> None:
    told = {(file, action): (why, scene) for file, action, why, scene in page()}
    actions = {(file, action): why for file, role in role_files().items() for action, why in role["actions"].items()}
    assert {key: why for key, (why, _) in told.items()} == actions
    for (_, action), (_, scene) in told.items():
        assert action.lower() in recordings()[scene].demands


@pytest.mark.rights
@pytest.mark.parametrize("right", rights(), ids=": ".join)
def test_without_it_something_breaks_and_says_why(right: Right) -> None:
    played = {scene.name: perform(scene, without=right).broken for scene in needing(right)}
    broken = [str(each) for each in played.values() if each is not None]
    assert broken, f"{right[1]} was asked for by {sorted(played)}, and nothing broke without it"
    named = {scene for file, action, _, scene in page() if file == role_file(right[0]) and action == right[1]}
    assert named <= {name for name, each in played.items() if each is not None}, "infra/roles/README.md names another"
    told = [message for message in broken if f"the identity lacks {right[1]} on /subscriptions/" in message]
    assert told, f"nobody is told that {right[1]} is missing: {broken}"
    assert all("assign it a role with this action there" in message for message in told)


def test_the_assignments_are_those_that_rights_tf_makes() -> None:
    """`granted.grants` follows these expressions; whoever changes them changes it too."""
    text = app_rights()
    for part in (
        "for group, kinds in cluster.pool_groups",
        "{ role = kind, scope = group }",
        'for group, kinds in cluster.pool_groups : group if kinds != toset(["aks-nodes"])], cluster.linked_scopes)',
        '{ role = "linked", scope = scope }',
        '{ role = "quota", scope = id }',
        "merge(local.pool_rights, local.linked_rights, local.quota_rights)",
    ):
        assert _plain(part) in _plain(text), text


@pytest.mark.parametrize("scene", SCENES, ids=NAMES)
def test_the_worlds_of_the_simulator_are_played_with_no_other_rights(scene: Scene) -> None:
    config = parse_config(pools_file(scene.kind), to_act=True)
    theirs = {(each.scope, each.actions) for each in grants_of(config, read_roles())}
    assert theirs
    assert theirs <= {(each.scope, each.actions) for each in grants(scene.kinds)}


@pytest.mark.rights
def test_a_world_of_the_simulator_comes_to_nothing_without_a_right(monkeypatch: pytest.MonkeyPatch) -> None:
    less = {
        name: replace(
            role, actions={action: why for action, why in role.actions.items() if not action.endswith("write")}
        )
        for name, role in read_roles().items()
    }
    monkeypatch.setattr(driver, "_roles", lambda: less)
    assert any("unserved" in violation for violation in driver.play(draw_world(1)).violations)


def page() -> list[tuple[str, str, str, str]]:
    """(file, action, why, scene) of infra/roles/README.md."""
    found, file = [], ""
    for line in (INFRA / "roles" / "README.md").read_text().splitlines():
        file = line.removeprefix("## ").removesuffix(".json") if line.startswith("## ") else file
        row = re.fullmatch(r"\| `(Microsoft\.[^`]+)` \| (.+) \| (.+) \|", line)
        if row is not None:
            found.append((file, row[1], row[2], row[3]))
    return found


def _plain(text: str) -> str:
    return "".join(text.split()).replace("=", ":").replace('"', "")
