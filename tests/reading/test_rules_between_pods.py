"""What pods say about other pods, and what is kept of a pod's labels so that it can be asked."""

from hypothesis import given
from hypothesis import strategies as st

from shared.model import PodSelector, PodShape, PodTerm, Requirement, Spread
from shared.reading.pods import shape_of
from shared.rules.pod_rules import Interest, rules_of, selects

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
WEB = (Requirement("app", "In", ("web",)),)


def pod(labels=None, namespace="shop", **spec):
    return {"metadata": {"name": "p", "namespace": namespace, "labels": labels or {}}, "spec": spec}


def apart(**term):
    return {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "host", **term}]}}}


def spread(**constraint):
    return {"topologySpreadConstraints": [{"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **constraint}]}


def only_term(**term):
    return rules_of(pod({"version": "7"}, **apart(**term))).apart[0]


def test_a_term_speaks_of_its_pods_own_namespace():
    found = only_term(labelSelector={"matchLabels": {"app": "web"}})
    assert found == PodTerm(PodSelector(("shop",), WEB), "host")


def test_a_term_may_name_namespaces():
    assert only_term(namespaces=["b", "a"]).selector.namespaces == ("a", "b")


def test_an_empty_namespace_selector_means_all_of_them():
    assert only_term(namespaceSelector={}).selector.namespaces is None


def test_a_namespace_selector_by_name_adds_those_names():
    named = {"matchLabels": {"kubernetes.io/metadata.name": "bank"}}
    assert only_term(namespaceSelector=named, namespaces=["a"]).selector.namespaces == ("a", "bank")


def test_a_namespace_selector_by_other_labels_is_not_modelled_and_keeps_pods_of_all_apart():
    written = pod(**apart(namespaceSelector={"matchLabels": {"team": "a"}}))
    assert shape_of(written).not_modelled == ("InterPodAffinity",)
    assert rules_of(written).apart[0].selector.namespaces is None


def test_an_absent_selector_selects_nothing_and_an_empty_one_everything():
    anybody = PodShape((), namespace="shop", labels=(("app", "web"),))
    assert not selects(only_term().selector, anybody)
    assert selects(only_term(labelSelector={}).selector, anybody)


def test_label_keys_stand_for_the_pods_own_values():
    found = only_term(labelSelector={}, matchLabelKeys=["version", "missing"], mismatchLabelKeys=["version"])
    assert set(found.selector.requirements) == {
        Requirement("version", "In", ("7",)),
        Requirement("version", "NotIn", ("7",)),
    }


def test_a_spread_is_read_with_the_scheduler_s_defaults():
    written = spread(maxSkew=2, labelSelector={"matchLabels": {"app": "web"}})
    assert rules_of(pod(**written)).spread == (Spread(PodSelector(("shop",), WEB), "zone", 2),)


def test_a_spread_s_policies_and_least_domains_are_read():
    written = spread(minDomains=3, nodeAffinityPolicy="Ignore", nodeTaintsPolicy="Honor")
    found = rules_of(pod(**written)).spread[0]
    assert (found.min_domains, found.honors_affinity, found.honors_taints) == (3, False, True)


def test_preferences_are_no_rules():
    preferred = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}
    anyway = [{"whenUnsatisfiable": "ScheduleAnyway", "topologyKey": "zone"}]
    written = pod(affinity=preferred, topologySpreadConstraints=anyway)
    assert shape_of(written) == shape_of(pod())


def test_pods_that_no_rule_selects_are_alike_whatever_their_labels():
    interest = Interest([PodSelector(("shop",), WEB)])
    assert shape_of(pod({"app": "db", "pod-hash": "1"}), interest) == shape_of(pod({"pod-hash": "2"}), interest)


def test_a_selected_pod_keeps_the_labels_that_rules_name_and_no_others():
    found = shape_of(pod({"app": "web", "pod-hash": "1"}), Interest([PodSelector(None, WEB)]))
    assert (found.namespace, found.labels) == ("shop", (("app", "web"),))


KEYS, VALUES = st.sampled_from(["a", "b", "c"]), st.sampled_from(["1", "2"])
REQUIREMENTS = st.builds(
    lambda key, operator, values: Requirement(key, operator, values if operator in {"In", "NotIn"} else ()),
    KEYS,
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    st.lists(VALUES, min_size=1, max_size=2, unique=True).map(tuple),
)
SELECTORS = st.builds(
    PodSelector,
    st.sampled_from([None, ("shop",), ("bank",)]),
    st.lists(REQUIREMENTS, max_size=2).map(tuple),
)


@given(st.lists(SELECTORS, max_size=5), st.dictionaries(KEYS, VALUES), st.sampled_from(["shop", "bank"]))
def test_what_is_kept_of_a_pod_answers_every_rule_in_play_as_the_whole_pod_does(selectors, labels, namespace):
    kept = shape_of(pod(labels, namespace), Interest(selectors))
    whole = PodShape((), namespace=namespace, labels=tuple(labels.items()))
    assert [selects(each, kept) for each in selectors] == [selects(each, whole) for each in selectors]
