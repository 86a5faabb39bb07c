"""Azure promises to run an activity at least once: each of them, run twice every time, does what once does."""

from __future__ import annotations

import orjson
import pytest

from local.arm.faults import Fault
from local.arm.pools import vm_template
from local.arm.settings import Quirks
from local.durable.model import Faults
from local.machines import BootTimes
from local.system.stand_ins import Behaviour
from shared.names import CONFIG_CONTAINER
from tests.orchestrations.stage import POOLS, Stage
from tests.orchestrations.test_eviction import warn
from tests.orchestrations.test_single_machines import VMS

TWICE = Faults(rerun_activity_rate=1.0)


def grown(stage: Stage, pods: int) -> Stage:
    stage.submit(pods)
    stage.run(2)
    stage.say(seconds=400)
    assert len(stage.bound()) == pods
    return stage


@pytest.mark.parametrize("flexible", [frozenset(), frozenset({"spot"})])
def test_growing_and_shrinking(flexible: frozenset[str]) -> None:
    behaviour = Behaviour(quirks=Quirks(), boot=BootTimes(boot=(30.0, 30.0)), flexible=flexible)
    stage = grown(Stage(faults=TWICE, behaviour=behaviour), 3)
    assert stage.machines() == {"spot": 3, "regular": 0}
    stage.finish()
    stage.idle(seconds=900)
    assert stage.machines()["spot"] == 0
    assert stage.nodes() == []


def test_growing_and_shrinking_by_single_machines() -> None:
    stage = Stage(VMS, faults=TWICE)
    pool = stage.config.pool("spot")
    assert pool is not None
    stage.store.put(CONFIG_CONTAINER, "vm.json", orjson.dumps(vm_template(pool)))
    grown(stage, 3)
    assert stage.machines() == {"spot": 3, "regular": 0}
    stage.finish()
    stage.idle(seconds=900)
    assert stage.machines()["spot"] == 0


def test_falling_back() -> None:
    stage = Stage(faults=TWICE)
    stage.stand.arm.faults.add(Fault("scale_set.update", "spot", code="AllocationFailed", stage="async"))
    grown(stage, 3)
    assert stage.machines() == {"spot": 0, "regular": 3}


def test_an_eviction() -> None:
    stage = grown(Stage(faults=TWICE), 2)
    node = stage.nodes()[0]["metadata"]["name"]
    stage.stand.preempt(node)
    warn(stage, node)
    stage.run(400)
    assert node not in [each["metadata"]["name"] for each in stage.nodes()]
    assert stage.machines()["spot"] == 2


def test_the_sweep() -> None:
    stage = Stage(POOLS.replace("priority: Regular", "priority: Regular\n    min: 2"), faults=TWICE, timers=True)
    stage.submit(2)
    stage.run(1200)
    assert len(stage.bound()) == 2
    assert stage.machines()["regular"] == 2
