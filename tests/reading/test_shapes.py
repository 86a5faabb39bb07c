from __future__ import annotations

import pytest

from shared.model import HostPort, NodeSelectorTerm, PodShape, Requirement, Toleration
from shared.reading.pods import is_pending_candidate, owner_kind, pod_ref, shape_of
from tests.reading.builders import container, owned, pod

UNSCHEDULABLE = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


def affinity(*terms):
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def test_pods_that_ask_for_the_same_share_one_shape():
    assert shape_of(pod("a")) is shape_of(pod("b", "other"))


@pytest.mark.parametrize(
    "other",
    [
        {"containers": [container(requests={"cpu": "2", "memory": "1Gi"})]},
        {"nodeSelector": {"gpu": "true"}},
        {"affinity": affinity({"matchExpressions": [{"key": "zone", "operator": "Exists"}]})},
        {"tolerations": [{"operator": "Exists"}]},
        {"priority": 7},
        {"containers": [container(requests={"cpu": "1", "memory": "1Gi"}, ports=[{"hostPort": 80}])]},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
    ],
)
def test_whatever_the_scheduler_looks_at_tells_shapes_apart(other):
    assert shape_of(pod(**other)) != shape_of(pod())


def test_the_order_of_what_is_written_does_not_matter():
    one = [{"key": "a", "operator": "Exists"}, {"key": "b", "value": "x"}]
    first = affinity(
        {"matchExpressions": [{"key": "z", "operator": "In", "values": ["2", "1"]}, {"key": "y", "operator": "Exists"}]}
    )
    second = affinity(
        {"matchExpressions": [{"key": "y", "operator": "Exists"}, {"key": "z", "operator": "In", "values": ["1", "2"]}]}
    )
    assert shape_of(pod(tolerations=one, affinity=first)) is shape_of(pod(tolerations=one[::-1], affinity=second))


def test_a_simple_pod_has_a_simple_shape():
    assert shape_of(pod()) == PodShape(requests=(("cpu", 1000), ("memory", 2**30)))


def test_tolerations_get_the_operator_that_the_api_means():
    shape = shape_of(pod(tolerations=[{"key": "sku", "value": "gpu", "effect": "NoSchedule", "tolerationSeconds": 5}]))
    assert shape.tolerations == (Toleration("sku", "Equal", "gpu", "NoSchedule"),)


def test_required_node_affinity_keeps_expressions_and_fields():
    written = affinity(
        {
            "matchExpressions": [{"key": "zone", "operator": "In", "values": ["1"]}],
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}],
        }
    )
    expected = NodeSelectorTerm((Requirement("zone", "In", ("1",)),), (Requirement("metadata.name", "In", ("n",)),))
    assert shape_of(pod(affinity=written)).affinity == (expected,)


def test_preferred_affinity_is_no_requirement():
    assert (
        shape_of(pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}})).affinity
        is None
    )


def test_a_term_without_requirements_matches_no_node():
    assert shape_of(pod(affinity=affinity({}))).affinity == ()


def test_host_ports_of_containers_and_sidecars_are_taken():
    shape = shape_of(
        pod(
            containers=[
                container(ports=[{"containerPort": 1, "hostPort": 443, "hostIP": "0.0.0.0"}, {"containerPort": 9}])
            ],
            initContainers=[
                container(restartPolicy="Always", ports=[{"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]),
                container(ports=[{"hostPort": 99}]),
            ],
        )
    )
    assert shape.host_ports == (HostPort("10.0.0.1", "UDP", 53), HostPort("", "TCP", 443))


def test_on_the_host_network_every_container_port_is_the_nodes():
    shape = shape_of(pod(hostNetwork=True, containers=[container(ports=[{"containerPort": 8080}])]))
    assert shape.host_ports == (HostPort("", "TCP", 8080),)


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        (
            {
                "affinity": {
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"topologyKey": "zone", "namespaceSelector": {"matchLabels": {"team": "a"}}}
                        ]
                    }
                }
            },
            "InterPodAffinity",
        ),
        ({"volumes": [{"persistentVolumeClaim": {"claimName": "c"}}]}, "VolumeBinding"),
        ({"volumes": [{"ephemeral": {}}]}, "VolumeBinding"),
        ({"volumes": [{"iscsi": {}}]}, "VolumeRestrictions"),
        ({"resourceClaims": [{"name": "gpu"}]}, "DynamicResources"),
        ({"workloadRef": {"name": "w"}}, "GangScheduling"),
    ],
)
def test_a_rule_that_is_not_modelled_is_named(spec, name):
    assert shape_of(pod(**spec)).not_modelled == (name,)


@pytest.mark.parametrize(
    "spec",
    [
        {"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]},
        {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}},
        {
            "volumes": [
                {"emptyDir": {}},
                {"configMap": {}},
                {"secret": {}},
                {"projected": {}},
                {"downwardAPI": {}},
                {"hostPath": {}},
            ]
        },
        {"volumes": [{"persistentVolumeClaim": {"claimName": "c"}}], "nodeName": "n"},
    ],
)
def test_what_rules_no_node_out_is_not_named(spec):
    assert shape_of(pod(**spec)).not_modelled == ()


def test_several_rules_are_all_named():
    spec = {"volumes": [{"persistentVolumeClaim": {}}], "resourceClaims": [{}]}
    assert shape_of(pod(**spec)).not_modelled == ("VolumeBinding", "DynamicResources")


@pytest.mark.parametrize("status", [{}, {"phase": "Pending"}, UNSCHEDULABLE])
def test_an_unbound_pod_waits_for_room(status):
    assert is_pending_candidate(pod(status=status))


@pytest.mark.parametrize(
    "waiting_for_nothing",
    [
        pod(nodeName="n"),
        pod(schedulingGates=[{"name": "g"}]),
        pod(schedulerName="other"),
        pod(status={"phase": "Succeeded"}),
        pod(status={"phase": "Failed"}),
        pod(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        pod(meta=owned("DaemonSet")),
        pod(status={"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
        pod(status={"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulerError"}]}),
        pod(status={"conditions": [{"type": "PodScheduled", "status": "True"}]}),
    ],
)
def test_a_pod_that_a_node_would_not_help_is_left_out(waiting_for_nothing):
    assert not is_pending_candidate(waiting_for_nothing)


def test_only_a_controller_owns_a_pod():
    assert owner_kind(pod(meta={"ownerReferences": [{"kind": "ConfigMap", "name": "x"}]})) == ""
    assert owner_kind(pod(meta=owned("Job"))) == "Job"


def test_a_manifest_without_namespace_or_uid_still_has_a_name():
    assert str(pod_ref({"metadata": {"name": "p"}})) == "default/p"


def test_a_burst_of_fifteen_thousand_pods_is_read_in_one_pass_over_few_shapes():
    burst = [pod(f"p{i}", containers=[container(requests={"cpu": f"{i % 50 + 1}m"})]) for i in range(15_000)]
    assert len({id(shape_of(one)) for one in burst}) == 50
