"""Many nodes and many kinds of pods are judged together as each pair is alone."""

from random import Random

from shared.model import NodeSelectorTerm, Requirement, Taint, Toleration
from shared.rules.matching import Matcher
from shared.rules.predicates import Ground, static_refusal
from tests.builders import shape

KEYS = ("disk", "zone", "size")
VALUES = ("a", "b", "1", "7")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")


def some(rng, options, most):
    return tuple(rng.choice(options) for _ in range(rng.randint(0, most)))


def ground(rng, number):
    taints = tuple(Taint(rng.choice(KEYS), rng.choice(VALUES), rng.choice(EFFECTS)) for _ in range(rng.randint(0, 2)))
    labels = {key: rng.choice(VALUES) for key in KEYS if rng.random() < 0.7}
    return Ground(f"n{number}", labels, taints, rng.random() < 0.2)


def term(rng):
    fields = (Requirement(rng.choice(("metadata.name", "spec.x")), rng.choice(("In", "NotIn", "Exists")), ("n1",)),)
    expressions = tuple(
        Requirement(rng.choice(KEYS), rng.choice(OPERATORS), some(rng, VALUES, 2)) for _ in range(rng.randint(0, 2))
    )
    return NodeSelectorTerm(expressions, fields if rng.random() < 0.2 else ())


def toleration(rng):
    key = rng.choice(("", *KEYS, "node.kubernetes.io/unschedulable"))
    return Toleration(key, rng.choice(("Exists", "Equal", "")), rng.choice(("", *VALUES)), rng.choice(("", *EFFECTS)))


def demanding(rng):
    return shape(
        node_selector=tuple(
            sorted({rng.choice(KEYS): rng.choice(VALUES) for _ in range(rng.choice((0, 0, 1)))}.items())
        ),
        affinity=rng.choice((None, tuple(term(rng) for _ in range(rng.randint(0, 2))))),
        tolerations=tuple(toleration(rng) for _ in range(rng.randint(0, 3))),
        not_modelled=rng.choice(((), (), (), ("DynamicResources",))),
    )


def test_the_answer_for_each_pair_is_that_of_the_predicates():
    rng = Random(4)
    met = set()
    for _ in range(60):
        places = [[ground(rng, n) for n in range(rng.choice((1, 1, 2)))] for _ in range(12)]
        shapes = [demanding(rng) for _ in range(12)]
        matcher = Matcher(places, shapes)
        for each in shapes:
            alone = [all(static_refusal(each, one) is None for one in grounds) for grounds in places]
            assert matcher.mask(each).tolist() == alone
            met.update(alone)
    assert met == {True, False}
