"""One seed, one run: whatever process it happens in."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

RUN = """
from tests.simulation.worlds import HOUR, SPOT_FIRST, bound, deployment, submit, task, world
system = world(SPOT_FIRST, seed=SEED)
submit(system, deployment("web", 3), *(task(f"task-{number}") for number in range(4)))
system.run_until(lambda: len(bound(system)) >= 5, HOUR)
system.stand_ins.preempt(sorted(bound(system).values())[0])
system.run_for(HOUR / 4)
print(system.chronicle.digest)
"""


def digest(seed: int, hash_seed: str) -> str:
    command = [sys.executable, "-c", RUN.replace("SEED", str(seed))]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def first() -> str:
    return digest(seed=7, hash_seed="1")


def test_the_same_seed_gives_the_same_hash_in_another_process(first: str):
    assert digest(seed=7, hash_seed="2") == first


def test_another_seed_gives_another_hash(first: str):
    assert digest(seed=8, hash_seed="1") != first
