"""Node selectors and required node affinity, as kube-scheduler's NodeAffinity reads them."""

import pytest

from shared.rules.predicates import node_affinity
from tests.builders import ground, needs, pairs, shape

A100 = ground(labels={"gpu-type": "a100", "generation": "8", "zone": "1"})


def affinity(*terms):
    return shape(affinity=terms)


@pytest.mark.parametrize(
    "expression",
    [
        ("gpu-type", "In", ("v100", "a100")),
        ("gpu-type", "NotIn", ("v100",)),
        ("absent", "NotIn", ("v100",)),
        ("gpu-type", "Exists", ()),
        ("absent", "DoesNotExist", ()),
        ("generation", "Gt", ("7",)),
        ("generation", "Lt", ("9",)),
    ],
)
def test_an_expression_that_holds_lets_the_pod_in(expression):
    assert node_affinity(affinity(needs(expression)), A100) is None


@pytest.mark.parametrize(
    "expression",
    [
        ("gpu-type", "In", ("v100",)),
        ("absent", "In", ("a100",)),
        ("gpu-type", "NotIn", ("a100",)),
        ("absent", "Exists", ()),
        ("gpu-type", "DoesNotExist", ()),
        ("generation", "Gt", ("8",)),
        ("generation", "Lt", ("8",)),
        ("gpu-type", "Gt", ("1",)),
        ("generation", "Gt", ("seven",)),
        ("generation", "Gt", ("1", "2")),
        ("generation", "Gt", ("7.5",)),
        ("absent", "Lt", ("9",)),
        ("gpu-type", "Near", ("a100",)),
    ],
)
def test_an_expression_that_does_not_hold_refuses_and_is_named(expression):
    reason = node_affinity(affinity(needs(expression)), A100)
    assert reason is not None
    assert reason.startswith("NodeAffinity: ")
    assert f"{expression[0]} {expression[1]}" in reason


def test_one_matching_term_of_several_is_enough():
    terms = needs(("gpu-type", "In", ("v100",))), needs(("zone", "In", ("1",)))
    assert node_affinity(affinity(*terms), A100) is None


def test_all_expressions_of_a_term_must_hold():
    term = needs(("gpu-type", "In", ("a100",)), ("zone", "In", ("2",)))
    assert node_affinity(affinity(term), A100) is not None


def test_an_affinity_without_terms_and_an_empty_term_match_no_node():
    assert node_affinity(affinity(), A100) is not None
    assert node_affinity(affinity(needs()), A100) is not None


def test_the_selector_counts_beside_the_affinity():
    both = shape(node_selector=pairs(zone="2"), affinity=(needs(("zone", "In", ("1",))),))
    assert node_affinity(both, A100) == "NodeAffinity: needs label zone=2, a new node has zone=1"


@pytest.mark.parametrize(
    ("asks", "reason"),
    [
        (shape(node_selector=pairs(disk="ssd")), "needs label disk=ssd, a new node has no label disk"),
        (affinity(needs(("disk", "In", ("ssd", "nvme")))), "needs disk In [ssd, nvme], a new node has no label disk"),
        (
            affinity(needs(("zone", "In", ("2",))), needs(("gpu-type", "NotIn", ("a100",)))),
            "needs zone In [2] or gpu-type NotIn [a100], a new node has zone=1 and has gpu-type=a100",
        ),
        (affinity(), "required node affinity without any requirement matches no node"),
        (affinity(needs()), "required node affinity without any requirement matches no node"),
    ],
)
def test_a_refusal_says_what_is_asked_for_and_what_the_node_has(asks, reason):
    assert node_affinity(asks, A100) == f"NodeAffinity: {reason}"


def test_a_refusal_does_not_show_the_name_that_a_node_to_come_does_not_have_yet():
    to_come = ground("\0new", {"kubernetes.io/hostname": "\0new"})
    by_label = shape(node_selector=(("kubernetes.io/hostname", "node-7"),))
    assert node_affinity(by_label, to_come) == (
        "NodeAffinity: needs label kubernetes.io/hostname=node-7, a new node has a kubernetes.io/hostname of its own"
    )
    by_name = affinity(needs(fields=[("metadata.name", "In", ("node-7",))]))
    assert node_affinity(by_name, to_come) == (
        "NodeAffinity: needs metadata.name In [node-7], a new node has a metadata.name of its own"
    )


def test_a_refusal_stays_short_whatever_is_asked_for():
    many = affinity(*(needs((f"key-{n}" * 20, "In", tuple(str(each) for each in range(500)))) for n in range(500)))
    assert len(node_affinity(many, A100)) < 400


def test_a_field_can_ask_for_one_node_by_name():
    by_name = affinity(needs(fields=[("metadata.name", "In", ("node-1",))]))
    assert node_affinity(by_name, ground("node-1")) is None
    assert node_affinity(by_name, ground("node-2")) is not None


def test_a_field_can_exclude_one_node_by_name():
    not_there = affinity(needs(fields=[("metadata.name", "NotIn", ("node-1",))]))
    assert node_affinity(not_there, ground("node-1")) is not None
    assert node_affinity(not_there, ground("node-2")) is None


def test_fields_other_than_the_name_match_nothing():
    assert node_affinity(affinity(needs(fields=[("spec.unschedulable", "In", ("false",))])), A100) is not None


def test_a_reason_stays_readable_with_ten_thousand_values():
    many = tuple(f"type-{n}" for n in range(10_000))
    assert len(node_affinity(affinity(needs(("gpu-type", "In", many))), A100)) < 200
