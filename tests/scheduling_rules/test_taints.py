"""Taints, tolerations and cordons, as kube-scheduler's TaintToleration and NodeUnschedulable read them."""

import pytest

from shared.model import Taint, Toleration
from shared.rules.predicates import Ground, node_unschedulable, taint_toleration
from tests.builders import GPU_TAINT, ground, shape


@pytest.mark.parametrize(
    "toleration",
    [
        Toleration("sku", "Equal", "gpu", "NoSchedule"),
        Toleration("sku", "", "gpu", "NoSchedule"),
        Toleration("sku", "Exists", "", "NoSchedule"),
        Toleration("sku", "Equal", "gpu", ""),
        Toleration("", "Exists", "", ""),
    ],
)
def test_a_matching_toleration_lets_the_pod_in(toleration):
    assert taint_toleration(shape(tolerations=(toleration,)), ground(taints=[GPU_TAINT])) is None


@pytest.mark.parametrize(
    "toleration",
    [
        Toleration("sku", "Equal", "cpu", "NoSchedule"),
        Toleration("team", "Exists", "", ""),
        Toleration("sku", "Equal", "gpu", "NoExecute"),
        Toleration("sku", "Lt", "gpu", ""),
    ],
)
def test_another_toleration_does_not(toleration):
    reason = taint_toleration(shape(tolerations=(toleration,)), ground(taints=[GPU_TAINT]))
    assert reason == "TaintToleration: does not tolerate sku=gpu:NoSchedule"


def test_a_taint_without_value_is_named_without_one():
    reason = taint_toleration(shape(), ground(taints=[Taint("maintenance", "", "NoExecute")]))
    assert reason == "TaintToleration: does not tolerate maintenance:NoExecute"


def test_a_preference_is_no_refusal():
    assert taint_toleration(shape(), ground(taints=[Taint("spot", "", "PreferNoSchedule")])) is None


def test_every_taint_needs_its_toleration():
    both = ground(taints=[GPU_TAINT, Taint("team", "ml", "NoSchedule")])
    tolerant = shape(tolerations=(Toleration("sku", "Exists", "", ""),))
    assert taint_toleration(tolerant, both) == "TaintToleration: does not tolerate team=ml:NoSchedule"


def test_a_cordoned_node_refuses_all_but_those_who_tolerate_the_cordon():
    cordoned = Ground("node-1", {}, (), unschedulable=True)
    tolerant = shape(tolerations=(Toleration("node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule"),))
    assert node_unschedulable(shape(), cordoned) == "NodeUnschedulable: the node is cordoned"
    assert node_unschedulable(tolerant, cordoned) is None
