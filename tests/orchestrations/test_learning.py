"""What the first node of a pool teaches is in the ledger, and holds when the pool is empty again."""

from __future__ import annotations

from shared.names import CONFIG_CONTAINER
from tests.orchestrations.stage import POOLS, Stage

REAL = POOLS.replace("{cpu: 4, memory: 16Gi, pods: 30}", "{cpu: 3900m, memory: 16Gi, pods: 30}")


def test_the_second_burst_is_planned_with_what_the_first_one_taught() -> None:
    stage = Stage(REAL)
    stage.store.put(CONFIG_CONTAINER, "training.yaml", POOLS.encode())
    stage.submit(2, cpu="2")
    stage.run(2)
    stage.say(seconds=300)
    assert stage.machines()["spot"] == 1  # two pods of two cores, as the file promises
    stage.say(seconds=300)
    assert stage.machines()["spot"] == 2
    assert (
        "pool spot: nodes have 3900m cpu allocatable, the pools file promises 4"
        in stage.document("latest.json")["notes"]
    )
    stage.finish()
    stage.idle(seconds=600)
    assert stage.machines()["spot"] == 0
    assert stage.ledger()["learnt"]["spot"]["allocatable"]["cpu"] == 3900

    stage.submit(2, cpu="2", prefix="again")
    stage.run(2)
    stage.say(seconds=300)
    assert stage.machines()["spot"] == 2
    assert len(stage.bound("again")) == 2
