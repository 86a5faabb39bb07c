"""Worlds by seed: what one holds, and that it is the same wherever it is played."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from local.simulation.driver import Outcome, play
from local.simulation.worlds import MOST_POOLS, RARE_SKU, draw_world
from shared.settings.config import parse_config

SEEDS = range(200)
SEED = 6  # a world of the usual size


@pytest.fixture(scope="module")
def played() -> Outcome:
    return play(draw_world(SEED))


def test_a_world_grows_shrinks_and_breaks_no_rule(played: Outcome):
    assert min(played.grown, played.retired) >= 10
    assert played.violations == ()


def test_a_world_is_the_same_in_another_process(played: Outcome):
    command = [sys.executable, "-m", "local.simulation", "--seed", str(SEED)]
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split()[-1] == played.digest


def test_a_world_is_the_same_when_it_is_played_again(played: Outcome):
    assert play(draw_world(SEED)) == played


def test_every_world_has_a_pools_file_that_is_in_order():
    for seed in SEEDS:
        pools = parse_config(draw_world(seed).text(), to_act=True).pools
        assert 2 <= sum(pool.sku != RARE_SKU for pool in pools) <= MOST_POOLS


def test_a_persistent_volume_is_in_every_world():
    assert min(draw_world(seed).volumes for seed in SEEDS) == 1


def test_some_worlds_are_calm_and_some_are_wild():
    troubles = sorted(len(draw_world(seed).outbreaks) for seed in SEEDS)
    assert troubles[10] <= 2
    assert troubles[-10] >= 10
