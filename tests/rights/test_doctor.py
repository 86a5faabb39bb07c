"""What the app tells the doctor of its rights is what a real kube-apiserver grants it by the chart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from functions.cluster_rights import NEEDED
from functions.examining import reviewed
from shared.adapters.kubernetes import KubernetesClusterApi
from shared.adapters.reaching import REFUSED
from tests.e2e.control_plane.available import control_plane_or_skip
from tests.e2e.control_plane.cluster import ControlPlane
from tests.e2e.identities import FUNCTIONS, token_of, write_kubeconfig

pytestmark = [pytest.mark.rights, pytest.mark.timeout(300)]
ROLE = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/sluice-{FUNCTIONS}"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with control_plane_or_skip(directory=tmp_path_factory.mktemp("doctor")) as running:
        yield running


@pytest.fixture(scope="module")
def admin(plane: ControlPlane) -> KubernetesClusterApi:
    return KubernetesClusterApi.from_kubeconfig(str(plane.kubeconfig))


@pytest.fixture
def app(plane: ControlPlane, admin: KubernetesClusterApi, tmp_path: Path) -> KubernetesClusterApi:
    path = write_kubeconfig(plane, token_of(admin, FUNCTIONS), tmp_path / "app")
    return KubernetesClusterApi.from_kubeconfig(str(path))


def test_with_the_charts_rights_nothing_is_missing(app: KubernetesClusterApi) -> None:
    server, rights = reviewed(app)
    assert server["obstacle"] == ""
    assert [right for right in rights if not right["allowed"]] == []
    assert len(rights) == len(NEEDED)


def test_a_right_that_was_taken_away_is_named(app: KubernetesClusterApi, admin: KubernetesClusterApi) -> None:
    role = admin.get(ROLE)
    kept = [rule for rule in role["rules"] if (rule["verbs"], rule["resources"]) != (["patch"], ["nodes"])]
    assert len(kept) == len(role["rules"]) - 1
    admin.replace(ROLE, {**role, "rules": kept})
    try:
        denied = [(right["verb"], right["resource"]) for right in reviewed(app)[1] if not right["allowed"]]
    finally:
        admin.patch(ROLE, {"rules": role["rules"]})
    assert denied == [("patch", "nodes")]


def test_who_is_not_known_to_the_server_is_told_so(plane: ControlPlane, tmp_path: Path) -> None:
    path = write_kubeconfig(plane, "of-nobody", tmp_path / "nobody")
    server, rights = reviewed(KubernetesClusterApi.from_kubeconfig(str(path)))
    assert (server["obstacle"], rights) == (REFUSED, [])
