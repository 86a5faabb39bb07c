"""Headroom that pods have moved into is bought anew, though nobody announces them."""

from __future__ import annotations

from tests.orchestrations.stage import POOLS, Stage


def test_the_sweep_buys_headroom_anew_once_pods_have_taken_it() -> None:
    stage = Stage(POOLS.replace("price: 0.2\n", "price: 0.2\n    headroom: 1\n"), timers=True)
    stage.run(1300)
    assert stage.machines() == {"spot": 0, "regular": 1}
    stage.submit(1)
    stage.run(700)
    assert len(stage.bound()) == 1
    assert stage.machines() == {"spot": 0, "regular": 2}
