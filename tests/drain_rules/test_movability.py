from __future__ import annotations

import pytest

from shared.model import Drain, Movability
from shared.reading.drain import grace_of, is_critical, movability, node_blocked_by, why_moves
from tests.reading.builders import owned, pod

SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
KEEP = "karpenter.sh/do-not-disrupt"
SCRATCH = {"volumes": [{"name": "scratch", "emptyDir": {}}]}


def annotated(annotations=None, *, owner="ReplicaSet", meta=None, **spec):
    return pod(meta={"annotations": annotations or {}, **(owned(owner) if owner else {}), **(meta or {})}, **spec)


def test_a_replicated_pod_moves():
    assert movability(annotated()) == (Movability.MOVES, "")


@pytest.mark.parametrize("owner", ["StatefulSet", "Job", "ReplicationController", "PyTorchJob"])
def test_any_controller_makes_a_pod_again(owner):
    assert movability(annotated(owner=owner)) == (Movability.MOVES, "")


@pytest.mark.parametrize(
    "stays",
    [
        annotated(owner="DaemonSet"),
        annotated({"kubernetes.io/config.mirror": "hash"}, owner=""),
        annotated(owner="Node"),
        annotated(owner="", status={"phase": "Succeeded"}),
        annotated(owner="", status={"phase": "Failed"}),
        annotated(owner="", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        annotated({SAFE: "false"}, owner="DaemonSet"),
        annotated(owner="DaemonSet", **SCRATCH),
    ],
)
def test_what_goes_with_the_node_stays_whatever_else_it_says(stays):
    assert movability(stays) == (Movability.STAYS, "")


@pytest.mark.parametrize("annotations", [{SAFE: "false"}, {KEEP: "true"}])
def test_an_opt_out_blocks_by_the_annotations_name(annotations):
    blocks, reason = movability(annotated(annotations))
    assert blocks is Movability.BLOCKS
    assert reason == f"PodOptOut: annotation {next(iter(annotations))}"


@pytest.mark.parametrize("annotations", [{SAFE: "maybe"}, {KEEP: "false"}, {KEEP: ""}])
def test_an_annotation_with_another_value_says_nothing(annotations):
    assert movability(annotated(annotations)) == (Movability.MOVES, "")


def test_safe_to_evict_wins_over_everything_that_would_block():
    vouched = annotated({SAFE: "true", KEEP: "true"}, owner="", **SCRATCH)
    assert movability(vouched) == (Movability.MOVES, "")


def test_a_bare_pod_blocks():
    blocks, reason = movability(annotated(owner=""))
    assert blocks is Movability.BLOCKS
    assert reason.startswith("BarePod: ")


def test_an_owner_that_is_no_controller_does_not_make_a_pod_again():
    loose = pod(meta={"ownerReferences": [{"kind": "ConfigMap", "name": "x"}]})
    assert movability(loose)[1].startswith("BarePod: ")


@pytest.mark.parametrize("volume", [{"emptyDir": {}}, {"emptyDir": None}, {"hostPath": {"path": "/data"}}])
def test_local_storage_blocks_by_the_volumes_name(volume):
    local = annotated(volumes=[{"name": "scratch", **volume}])
    assert movability(local) == (Movability.BLOCKS, "LocalStorage: volume scratch")


@pytest.mark.parametrize(
    "volume",
    [
        {"emptyDir": {"medium": "Memory"}},
        {"persistentVolumeClaim": {}},
        {"configMap": {}},
        {"secret": {}},
        {"ephemeral": {}},
    ],
)
def test_storage_that_is_not_the_nodes_does_not_block(volume):
    assert movability(annotated(volumes=[{"name": "v", **volume}])) == (Movability.MOVES, "")


def test_named_local_volumes_are_vouched_for_and_the_others_are_not():
    volumes = [{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {}}, {"name": "c", "emptyDir": {}}]
    assert movability(annotated({SAFE_VOLUMES: "a, b,c"}, volumes=volumes)) == (Movability.MOVES, "")
    assert movability(annotated({SAFE_VOLUMES: "a,b"}, volumes=volumes)) == (
        Movability.BLOCKS,
        "LocalStorage: volume c",
    )


def test_a_system_pod_without_a_budget_moves_like_any_other():
    system = annotated(meta={"namespace": "kube-system"})
    assert movability(system) == (Movability.MOVES, "")


@pytest.mark.parametrize("name", ["cluster-autoscaler.kubernetes.io/scale-down-disabled", KEEP])
def test_a_nodes_own_opt_out_keeps_it(name):
    assert node_blocked_by({name: "true"}) == f"NodeOptOut: annotation {name}"
    assert node_blocked_by({name: "false"}) == ""


def test_a_node_without_annotations_is_not_kept():
    assert node_blocked_by({}) == ""


@pytest.mark.parametrize("value", ["30m", "1h30m", "90s"])
def test_karpenters_newer_form_with_a_duration_blocks_too(value):
    assert movability(annotated({KEEP: value}))[0] is Movability.BLOCKS
    assert KEEP in node_blocked_by({KEEP: value})


@pytest.mark.parametrize(
    ("spec", "critical"),
    [
        ({}, False),
        ({"priority": 1_000_000_000}, False),
        ({"priority": 2_000_000_000}, True),
        ({"priorityClassName": "system-node-critical"}, True),
    ],
)
def test_critical_is_what_kubernetes_itself_reserves_the_highest_priorities_for(spec, critical):
    assert is_critical(annotated(**spec)) is critical


@pytest.mark.parametrize(("spec", "seconds"), [({}, 30), ({"terminationGracePeriodSeconds": 0}, 0)])
def test_a_pod_may_take_its_own_grace_period_or_kubernetes_default(spec, seconds):
    assert grace_of(annotated(**spec)) == seconds


def test_the_record_names_the_rule_that_lets_a_pod_move():
    assert why_moves(annotated(owner="Job")) == "its Job makes it again"
    assert SAFE in why_moves(annotated({SAFE: "true"}, owner=""))


WAIT = "sluice.io/wait-for-completion"


@pytest.mark.parametrize("annotations", [{WAIT: "true"}, {SAFE: "on-completion"}, {WAIT: "true", SAFE: "true"}])
def test_a_pod_that_must_run_to_its_end_is_waited_for(annotations):
    assert movability(annotated(annotations)) == (Movability.WAITS, "")


def test_what_would_be_lost_by_moving_is_told_of_one_that_is_waited_for():
    what, why = movability(annotated({WAIT: "true"}, owner=""))
    assert what is Movability.WAITS
    assert why.startswith("BarePod")


def test_karpenters_opt_out_forbids_even_to_wait():
    assert movability(annotated({WAIT: "true", KEEP: "true"}))[0] is Movability.BLOCKS


@pytest.mark.parametrize(
    ("policy", "what"),
    [("Never", Movability.WAITS), ("OnFailure", Movability.WAITS), ("Always", Movability.MOVES)],
)
def test_a_pool_may_wait_for_all_pods_that_end_by_themselves(policy, what):
    assert movability(annotated(owner="Job", restartPolicy=policy), Drain.WAIT) == (what, "")
    assert movability(annotated(owner="Job", restartPolicy=policy), Drain.EVICT) == (Movability.MOVES, "")


def test_an_opt_out_holds_in_such_a_pool_too():
    assert movability(annotated({SAFE: "false"}, restartPolicy="Never"), Drain.WAIT)[0] is Movability.BLOCKS
