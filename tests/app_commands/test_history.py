"""`sluice history`: the trail of a node or a pod, as a person and as a script reads it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from functions import trail
from functions.world import World
from tests.app_commands.conftest import Sluice
from tests.orchestrations.stage import Stage

Json = dict[str, Any]


def order(stage: Stage, **more: str) -> Json:
    base = {"cluster": "training", "op": "0a1b2c", "node": "node-1", "uid": "u1", "pool": "spot"}
    return {**base, "now": stage.timeline.now().isoformat(), **more}


def evicted(stage: Stage) -> None:
    pods: list[Json] = [{"metadata": {"namespace": "web", "name": f"shop-{n}", "uid": f"u{n}"}} for n in range(10)]
    rule = "idle for 10 min below 50 %"
    trail.note_node(World(stage.services), order(stage), trail.EVICTED, "the node is to go", rule=rule, pods=pods)


def test_a_deleted_pod_says_who_evicted_it_when_why_and_by_which_rule(sluice: Sluice) -> None:
    stage = Stage()
    evicted(stage)
    code, out, err = sluice(stage.host, "history", "web/shop-3")
    assert (code, err) == (0, "")
    when = f"{stage.timeline.now():%Y-%m-%d %H:%M:%S} UTC"
    first, deed, by = out.splitlines()
    assert first == "pod web/shop-3 of cluster training"
    assert deed == f"  {when}  evicted            the node is to go"
    assert by.strip() == "by Sluice, operation 0a1b2c from node node-1 of pool spot, rule: idle for 10 min below 50 %"


def test_a_pod_may_be_named_with_its_namespace_apart(sluice: Sluice) -> None:
    stage = Stage()
    evicted(stage)
    assert sluice(stage.host, "history", "-n", "web", "shop-3") == sluice(stage.host, "history", "web/shop-3")


def test_a_node_that_is_gone_is_found_by_its_name_with_the_pods_that_left_it(sluice: Sluice) -> None:
    stage = Stage()
    evicted(stage)
    trail.note_node(World(stage.services), order(stage), trail.GONE, "VM, NIC and OS disk are")
    _, out, _ = sluice(stage.host, "history", "node-1")
    assert out.startswith("node node-1 of cluster training\n")
    assert (
        "pods: web/shop-0, web/shop-1, web/shop-2, web/shop-3, web/shop-4, web/shop-5, web/shop-6, web/shop-7 and 2"
        in out
    )
    assert out.index("evicted") < out.index("gone")


def test_a_node_s_history_begins_with_why_it_was_bought(sluice: Sluice) -> None:
    stage = Stage()
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=200)
    node = stage.nodes()[0]
    machine = node["spec"]["providerID"].rsplit("/", 1)[-1]
    world, growth = World(stage.services), order(stage, op="f00")
    trail.note_growth(world, growth, trail.ASKED, "for default/pod-0")
    trail.note_growth(world, growth, trail.BOUGHT, "as asked", instances=[machine, "99"])
    trail.note_growth(world, order(stage, op="bar"), trail.ASKED, "for somebody else")
    _, out, _ = sluice(stage.host, "history", node["metadata"]["name"])
    assert "asked for          for default/pod-0" in out
    assert "bought             as asked" in out
    assert "somebody else" not in out


def test_the_orchestration_that_did_it_is_shown_with_its_steps(sluice: Sluice) -> None:
    stage = Stage()
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=200)
    name = stage.nodes()[0]["metadata"]["name"]
    stage.finish()
    stage.idle(seconds=200)
    (saga,) = stage.orchestrations("retire_node")
    note = order(stage, node=name, op=saga.id.removeprefix("retire:"))
    trail.note_node(World(stage.services), note, trail.GONE, "idle")
    _, out, _ = sluice(stage.host, "history", name)
    assert f"orchestration {saga.id} (retire_node), completed" in out
    assert "  leave_pool" in out


def test_json_is_the_app_s_own_document(sluice: Sluice) -> None:
    stage = Stage()
    evicted(stage)
    _, out, _ = sluice(stage.host, "history", "web/shop-3", "-o", "json")
    document = orjson.loads(out)
    assert (document["kind"], document["name"]) == ("pod", "web/shop-3")
    assert document["told"][0]["event"] == "evicted"


def test_whom_nothing_was_done_to_is_told_so(sluice: Sluice) -> None:
    code, out, _ = sluice(Stage().host, "history", "nobody")
    assert code == 0
    assert out.splitlines()[0] == "pod default/nobody of cluster training"
    assert "nothing was done to it" in out


@pytest.mark.parametrize("name", ["a/b/c", "/a", "../../x", "A_B", ""])
def test_a_name_that_is_none_is_bad_input(name: str, sluice: Sluice) -> None:
    code, out, err = sluice(Stage().host, "history", name)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
