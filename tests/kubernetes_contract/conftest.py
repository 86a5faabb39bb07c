"""Every test of this folder runs over the stand-in, and with `-m e2e` over a real control plane."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes_contract.targets import RealTarget, StandInTarget, Target


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One real control plane for the whole run; its kubeconfig."""
    from tests.e2e.control_plane.available import control_plane_or_skip  # noqa: PLC0415 - only where it is wanted

    with control_plane_or_skip(directory=tmp_path_factory.mktemp("control-plane")) as plane:
        yield plane.kubeconfig


@pytest.fixture(params=["stand-in", pytest.param("real", marks=[pytest.mark.e2e, pytest.mark.timeout(300)])])
def cluster(request: pytest.FixtureRequest) -> Iterator[Target]:
    """An empty cluster with a scheduler and controllers, but no nodes."""
    target: Target = (
        StandInTarget() if request.param == "stand-in" else RealTarget(request.getfixturevalue("control_plane"))
    )
    yield target
    target.close()
