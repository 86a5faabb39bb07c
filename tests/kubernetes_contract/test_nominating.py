"""What a nominated node name, written from outside, means to the scheduler (KEP-5278; on by default since 1.35)."""

from __future__ import annotations

import pytest

from shared.adapters.errors import NotFound, OutsideError, Rejected
from shared.adapters.protocols import JsonPatch
from tests.kubernetes_contract.targets import NODES, PODS, Target, condition, is_ready, node, pod

KEY = "example.com/starting"
CLOSED = [{"key": KEY, "effect": "NoSchedule"}]


def _closed_node(cluster: Target, name: str, cpu: str = "4") -> None:
    """A node that is ready but for our taint."""
    cluster.api.create(NODES, node(name, cpu, taints=CLOSED))

    def settled() -> bool:
        found = cluster.api.get(f"{NODES}/{name}")
        return is_ready(found) and [taint["key"] for taint in found["spec"]["taints"]] == [KEY]

    cluster.until(settled)


def _waiting(cluster: Target, name: str, cpu: str) -> None:
    cluster.api.create(PODS, pod(name, cpu))
    cluster.until(lambda: condition(cluster.api.get(f"{PODS}/{name}"), "PodScheduled").get("message"))


def _nomination(name: str, node_name: str, before: str | None = None) -> JsonPatch:
    operations = [
        {"op": "test", "path": "/spec/nodeName", "value": None},
        {"op": "test", "path": "/status/nominatedNodeName", "value": before},
        {"op": "add", "path": "/status/nominatedNodeName", "value": node_name},
    ]
    return JsonPatch(f"{PODS}/{name}/status", operations)


def _opening(name: str) -> JsonPatch:
    tests = [{"op": "test", "path": "/spec/taints/0/key", "value": KEY}, {"op": "remove", "path": "/spec/taints/0"}]
    return JsonPatch(f"{NODES}/{name}", tests)


def _send(cluster: Target, *patches: JsonPatch) -> None:
    assert cluster.api.patch_each(patches) == [None] * len(patches)


def _hosts(cluster: Target, *names: str) -> dict[str, str]:
    """Where pods are, once all of them are somewhere."""

    def found() -> dict[str, str]:
        return {name: cluster.api.get(f"{PODS}/{name}")["spec"].get("nodeName", "") for name in names}

    return cluster.until(lambda: all(found().values()) and found())


def _nominated(cluster: Target, name: str) -> str:
    return cluster.api.get(f"{PODS}/{name}")["status"].get("nominatedNodeName", "")


def test_nominated_pods_go_where_they_were_told_and_fill_nodes_that_greed_would_not(cluster: Target) -> None:
    pods = {"a": ("3", "one"), "b": ("1", "one"), "c": ("2", "two"), "d": ("2", "two")}
    for name, (cpu, _) in pods.items():
        _waiting(cluster, name, cpu)
    _closed_node(cluster, "one")
    _closed_node(cluster, "two")
    _send(cluster, *(_nomination(name, target) for name, (_, target) in pods.items()))
    _send(cluster, _opening("one"), _opening("two"))
    assert _hosts(cluster, *pods) == {name: target for name, (_, target) in pods.items()}
    assert [_nominated(cluster, name) for name in pods] == [""] * 4


def test_others_keep_off_the_room_of_a_nominated_pod(cluster: Target) -> None:
    _waiting(cluster, "told", "3")
    _closed_node(cluster, "n")
    _send(cluster, _nomination("told", "n"))
    cluster.api.create(PODS, pod("late", "2"))  # would be alone there, and fit, were it not for the nomination
    _send(cluster, _opening("n"))
    assert _hosts(cluster, "told") == {"told": "n"}
    assert not cluster.api.get(f"{PODS}/late")["spec"].get("nodeName")


def test_a_pod_that_is_tried_in_vain_loses_its_nomination(cluster: Target) -> None:
    _waiting(cluster, "told", "3")
    _closed_node(cluster, "closed")
    _send(cluster, _nomination("told", "closed"))
    _closed_node(cluster, "small", "2")
    cluster.api.create(NODES, node("large", "2500m"))  # room for nobody, but a reason to try again
    _send(cluster, _opening("small"))
    cluster.api.patch(f"{NODES}/small/status", {"status": {"allocatable": {"cpu": "2", "memory": "15Gi"}}})
    _closed_node(cluster, "other", "4")
    _send(cluster, _opening("other"))
    assert _hosts(cluster, "told") == {"told": "other"}
    assert _nominated(cluster, "told") == ""


def test_a_nomination_to_a_node_that_is_not_there_keeps_nobody_waiting(cluster: Target) -> None:
    _waiting(cluster, "told", "1")
    _send(cluster, _nomination("told", "gone"))
    cluster.api.create(NODES, node("n"))
    assert _hosts(cluster, "told") == {"told": "n"}


def test_a_guarded_nomination_overwrites_nothing(cluster: Target) -> None:
    _waiting(cluster, "told", "1")
    _send(cluster, _nomination("told", "first"))
    (answer,) = cluster.api.patch_each([_nomination("told", "second")])
    assert isinstance(answer, Rejected)
    assert answer.status == 422
    assert _nominated(cluster, "told") == "first"
    _send(cluster, _nomination("told", "second", before="first"))
    assert _nominated(cluster, "told") == "second"


@pytest.mark.parametrize("guard", ["/metadata/uid", "/status/nominatedNodeName"])
def test_a_test_that_fails_or_an_object_that_is_gone_is_an_answer(cluster: Target, guard: str) -> None:
    _waiting(cluster, "a", "1")
    failing = JsonPatch(f"{PODS}/a/status", [{"op": "test", "path": guard, "value": "another"}])
    answers = cluster.api.patch_each([failing, _nomination("nobody", "n")])
    assert [type(answer) for answer in answers] == [Rejected, NotFound]
    assert all(isinstance(answer, OutsideError) for answer in answers)
