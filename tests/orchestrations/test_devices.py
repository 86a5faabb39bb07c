"""GPUs that appear late, after a restart, or never."""

from __future__ import annotations

from local.arm.settings import Quirks
from local.machines import BootTimes
from local.node_trouble import NodeTrouble
from local.system.stand_ins import Behaviour
from local.system.trouble import Trouble
from tests.orchestrations.stage import POOLS, Stage

GPUS = POOLS.replace(
    "shape: {cpu: 4, memory: 16Gi, pods: 30}", "shape: {cpu: 4, memory: 16Gi, pods: 30, nvidia.com/gpu: 1}"
)
LIMITS = {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}


def stage_of(trouble: NodeTrouble) -> Stage:
    behaviour = Behaviour(
        quirks=Quirks(),
        boot=BootTimes(boot=(30.0, 30.0), gpu=(20.0, 20.0)),
        trouble=Trouble(nodes=trouble),
    )
    stage = Stage(GPUS, behaviour=behaviour, timers=True)
    stage.submit(1, containers=[{"name": "main", "image": "none", "resources": LIMITS}])
    stage.run(2)
    stage.say(seconds=0)
    return stage


def ever_made(stage: Stage) -> int:
    return len(stage.stand.arm.truth.vms)


def test_a_node_that_shows_its_gpus_after_a_restart_is_neither_bought_twice_nor_deleted() -> None:
    stage = stage_of(NodeTrouble(gpus_after_restart=1.0))
    for _ in range(8):
        stage.run(120)
        stage.say(seconds=0)
    assert len(stage.bound()) == 1
    assert ever_made(stage) == 1
    assert len(stage.nodes()) == 1


def test_a_node_that_never_shows_its_gpus_is_deleted_and_the_pool_remembered() -> None:
    stage = stage_of(NodeTrouble(without_gpus=1.0))
    stage.stand.bridge.misfortune.rates = NodeTrouble(without_gpus=1.0)
    stage.run(24 * 60)
    assert ever_made(stage) == 1, "it is waited for"
    stage.stand.bridge.misfortune.rates = NodeTrouble()
    for _ in range(10):
        stage.run(60)
        stage.say(seconds=0)
    assert stage.machines() == {"spot": 0, "regular": 1}
    assert len(stage.bound()) == 1
    assert "DevicesNeverAppeared" in {entry["code"] for entry in stage.ledger()["failures"]}
