"""`sluice explain`: one line that answers, and what it rests on."""

from __future__ import annotations

from datetime import timedelta

import orjson

from local.arm.faults import Fault
from tests.app_commands.conftest import Sluice
from tests.orchestrations.stage import POOLS, Stage


def grown(pools: str = POOLS, pods: int = 1) -> Stage:
    stage = Stage(pools)
    stage.submit(pods)
    stage.run(2)
    stage.say(seconds=200)
    return stage


def said(sluice: Sluice, stage: Stage, name: str) -> list[str]:
    code, out, err = sluice(stage.host, "explain", name)
    assert (code, err) == (0, "")
    return [line.strip() for line in out.splitlines()]


def test_a_pod_with_a_node_has_one(sluice: Sluice) -> None:
    stage = grown()
    node = stage.nodes()[0]["metadata"]["name"]
    assert said(sluice, stage, "pod-0") == [f"pod default/pod-0 of cluster training: it has a node: {node}"]


def test_a_pod_whose_node_is_coming_is_told_when_it_was_asked_for(sluice: Sluice) -> None:
    stage = Stage()
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=5)
    verdict, growth = said(sluice, stage, "pod-0")
    assert verdict.endswith("it waits for a node of spot that is coming")
    assert growth.startswith("1 asked for at ")


def test_a_pod_that_no_pool_serves_is_told_why_by_pool(sluice: Sluice) -> None:
    stage = Stage()
    stage.submit(1, cpu="300")
    stage.run(2)
    stage.say(seconds=5)
    assert said(sluice, stage, "pod-0") == [
        "pod default/pod-0 of cluster training: it is not served",
        "spot     NodeResourcesFit: needs 300 cpu, a new node has 4",
        "regular  NodeResourcesFit: needs 300 cpu, a new node has 4",
    ]


def test_what_azure_refused_lately_is_told(sluice: Sluice) -> None:
    stage = Stage(POOLS.replace("max: 10", "max: 0", 2).replace("max: 0", "max: 10", 1))
    stage.stand.arm.faults.add(Fault("scale_set.update", "spot", "AllocationFailed", stage="async"))
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=120)
    lines = said(sluice, stage, "pod-0")
    assert lines[0].endswith("it is not served")
    assert any(line.startswith("Azure said AllocationFailed for ") for line in lines)


def test_a_pod_of_an_observing_pool_is_told_who_is_to_act(sluice: Sluice) -> None:
    stage = Stage(POOLS.replace("mode: act", "mode: observe"))
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=5)
    lines = said(sluice, stage, "pod-0")
    assert lines[0].endswith("observe: a plan would buy 1 of spot for it and others")


def test_a_pod_that_waits_for_a_paused_cluster_is_told_by_whom(sluice: Sluice) -> None:
    stage = Stage()
    sluice(stage.host, "pause", "--by", "ada", "--reason", "upgrade")
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=5)
    lines = said(sluice, stage, "pod-0")
    assert lines[1:] == ["spot     Paused", "regular  Paused", "the cluster is paused by ada: upgrade"]


def test_a_pod_that_nobody_told_of_is_said_to_be_unknown(sluice: Sluice) -> None:
    stage = Stage()
    stage.say(seconds=5)
    stage.submit(1)
    stage.run(2)
    assert said(sluice, stage, "pod-0")[0].endswith("nobody has told Sluice of it yet")


def test_a_gated_pod_waits_for_its_gates(sluice: Sluice) -> None:
    stage = Stage()
    stage.submit(1, schedulingGates=[{"name": "example.com/quota"}])
    (line,) = said(sluice, stage, "pod-0")
    assert line.endswith("kube-scheduler must not place it yet: scheduling gates example.com/quota")


def test_a_busy_node_is_told_how_busy(sluice: Sluice) -> None:
    stage = grown()
    node = stage.nodes()[0]["metadata"]["name"]
    stage.say(seconds=5)
    lines = said(sluice, stage, node)
    assert (
        lines[0]
        == f"node {node} of cluster training: it stays: it is in use: its pods ask for 75%, and idle is below 50%"
    )
    assert lines[1:] == ["1 pod would have to move"]


def test_an_idle_node_is_told_since_when(sluice: Sluice) -> None:
    stage = grown()
    stage.finish()
    stage.say(seconds=5)
    node = stage.nodes()[0]["metadata"]["name"]
    assert "it stays: idle since " in said(sluice, stage, node)[0]


def test_a_node_on_its_way_out_is_told_its_stage_and_operation(sluice: Sluice) -> None:
    stage = grown()
    stage.finish()
    stage.idle(seconds=4)
    node = stage.nodes()[0]["metadata"]["name"]
    lines = said(sluice, stage, node)
    assert "it is leaving: " in lines[0]
    assert any(line.startswith("cordoned by operation ") for line in lines)


def test_a_node_that_an_administrator_cordoned_is_left_alone(sluice: Sluice) -> None:
    stage = grown()
    node = stage.nodes()[0]["metadata"]["name"]
    stage.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    stage.finish()
    stage.idle(seconds=30)
    lines = said(sluice, stage, node)
    assert lines[0].endswith("it stays: cordoned by an administrator")
    assert "cordoned by an administrator, hence left alone" in lines


def test_a_node_of_no_pool_is_never_touched(sluice: Sluice) -> None:
    stage = Stage()
    stage.api.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    assert said(sluice, stage, "n1")[0].endswith("it belongs to no pool of the pools file: it is never touched")


def test_who_is_gone_is_bad_input_and_sent_to_history(sluice: Sluice) -> None:
    code, out, err = sluice(Stage().host, "explain", "web/shop-1")
    assert (code, out) == (2, "")
    assert err == "pod web/shop-1: is not there (any more); sluice history web/shop-1 tells what was done to it\n"


def test_explaining_begins_nothing(sluice: Sluice) -> None:
    stage = grown()
    stage.timeline.run(stage.timeline.now() + timedelta(seconds=1))
    stage.arm.writes.clear()
    stage.cluster.writes.clear()
    before = stage.ledger()
    _, out, _ = sluice(stage.host, "explain", "pod-0", "-o", "json")
    assert orjson.loads(out)["kind"] == "pod"
    assert (stage.arm.writes, stage.cluster.writes, stage.ledger()) == ([], [], before)
