"""Plans of random clusters hold before the real kube-scheduler; `make e2e-scheduler` looks at hundreds of them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.e2e.control_plane.available import control_plane_or_skip
from tests.e2e.scheduler.feasibility import disagreements
from tests.e2e.scheduler.hands import FLAGS, Hands
from tests.e2e.scheduler.realisation import realise

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

SEEDS = int(os.environ.get("SEEDS", "6"))
"""Clusters of each kind, about two seconds each."""
MOST_ROUNDS = 3


@pytest.fixture(scope="module")
def hands() -> Iterator[Hands]:
    """A control plane of its own: the nodes of these clusters never had a kubelet."""
    with control_plane_or_skip(flags=FLAGS) as plane:
        yield Hands(plane)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_is_planned_is_bound_and_what_is_refused_is_refused(hands: Hands, seed: int) -> None:
    assert disagreements(hands, seed) == []


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_plan_that_is_carried_over_comes_true(hands: Hands, seed: int) -> None:
    found = realise(hands, seed, carried=True)
    assert found is None or (not found.never_bound and found.rounds <= MOST_ROUNDS)
