"""Who must start together, read from what people already write; what is malformed is told to the gang's pods alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from shared.model import Gang
from shared.planning.plan import plan
from shared.reading.gang_members import COSCHEDULING, MOST, NATIVE, VOLCANO
from shared.reading.projection import project
from shared.wire.snapshot_codec import decode, encode, from_json, to_json
from tests.builders import NOTHING
from tests.reading.builders import CONFIG, node, pod

Json = dict[str, Any]
NOW = datetime(2026, 1, 2, tzinfo=UTC)


def own(name: str, least: object = "2", role: str | None = None, role_least: object = None, **more: Any) -> Json:
    said = {"gang": "job", "gang-min-member": least, "gang-role": role, "gang-role-min-member": role_least}
    annotations = {f"sluice.io/{key}": text for key, text in said.items() if text is not None}
    return pod(name, meta={"annotations": annotations}, **more)


def native(name: str, group: str = "job", **more: Any) -> Json:
    return pod(name, schedulingGroup={"podGroupName": group}, **more)


def group(name: str = "job", **spec: Any) -> Json:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def gang_policy(count: object) -> Json:
    return {"schedulingPolicy": {"gang": {"minCount": count}}}


def snapshot(*pods: Json, **groups: Any) -> Any:
    by_group = {NATIVE: groups.get("native", ()), COSCHEDULING: groups.get("x", ()), VOLCANO: groups.get("volcano", ())}
    nodes = groups.get("nodes", ())
    return project(
        cluster="c", epoch=1, sequence=1, now=NOW, config=CONFIG, pods=pods, nodes=nodes, pod_groups=by_group
    )


def only_gang(*pods: Json, **groups: Any) -> Gang:
    (found,) = snapshot(*pods, **groups).gangs
    assert isinstance(found, Gang)
    return found


def test_a_pair_of_annotations_makes_a_gang():
    assert only_gang(own("a"), own("b")) == Gang("sluice:default/job", 2)


def test_roles_have_minima_of_their_own():
    pods = [own("a", None, "worker", "6"), own("b", None, "ps", "2")]
    assert only_gang(*pods) == Gang("sluice:default/job", 8, (("ps", 2), ("worker", 6)))
    assert {each.shape.gang for each in snapshot(*pods).pending} == {
        "sluice:default/job#worker",
        "sluice:default/job#ps",
    }


def test_a_native_group_with_a_gang_policy_is_a_gang():
    assert only_gang(native("a"), native=[group(**gang_policy(3))]) == Gang(f"{NATIVE}:default/job", 3)


def test_a_native_group_with_the_basic_policy_asks_for_nothing():
    assert only_gang(native("a"), native=[group(schedulingPolicy={"basic": {}})]).minimum == 0


def test_a_native_group_with_a_topology_constraint_is_not_modelled():
    constraint = {"topology": [{"key": "rack"}]}
    found = only_gang(native("a"), native=[group(**gang_policy(1), schedulingConstraints=constraint)])
    assert found.problem == "NotModelled: TopologyPlacement of PodGroup default/job by rack"


def test_a_group_that_is_not_there_is_asked_for():
    assert "PodGroup default/job of scheduling.k8s.io is not there" in only_gang(native("a")).problem


def test_a_group_of_another_namespace_is_another_group():
    away = {**group(**gang_policy(3)), "metadata": {"name": "job", "namespace": "other"}}
    assert only_gang(native("a"), native=[away]).problem


@pytest.mark.parametrize("label", ["scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io"])
def test_a_coscheduling_group_is_a_gang(label):
    item = pod("a", meta={"labels": {label: "job"}}, schedulerName="scheduler-plugins-scheduler")
    found = snapshot(item, x=[group(minMember=4)])
    assert found.gangs == (Gang(f"{COSCHEDULING}:default/job", 4),)
    assert len(found.pending) == 1


def test_a_volcano_group_is_a_gang_with_its_tasks_as_roles():
    said = {"scheduling.k8s.io/group-name": "job", "volcano.sh/task-spec": "ps"}
    item = pod("a", meta={"annotations": said}, schedulerName="volcano")
    found = snapshot(item, volcano=[group(minMember=5, minTaskMember={"ps": 2, "worker": 3})])
    assert found.gangs == (Gang(f"{VOLCANO}:default/job", 5, (("ps", 2), ("worker", 3))),)
    assert found.pending[0].shape.gang == f"{VOLCANO}:default/job#ps"


def test_volcano_does_not_look_at_tasks_that_the_minimum_does_not_cover():
    item = pod("a", meta={"annotations": {"scheduling.k8s.io/group-name": "job"}}, schedulerName="volcano")
    assert only_gang(item, volcano=[group(minMember=1, minTaskMember={"ps": 2})]).roles == ()


def test_a_pod_group_of_kueue_without_a_total_is_told_which_annotation_it_lacks():
    gang = only_gang(pod("a", meta={"labels": {"kueue.x-k8s.io/pod-group-name": "job"}}))
    assert gang.problem == "none of its pods says kueue.x-k8s.io/pod-group-total-count"


def test_a_pod_group_of_kueue_is_a_gang():
    meta = {
        "labels": {"kueue.x-k8s.io/pod-group-name": "job"},
        "annotations": {"kueue.x-k8s.io/pod-group-total-count": "3"},
    }
    assert only_gang(pod("a", meta=meta)) == Gang("kueue:default/job", 3)


def test_pods_of_a_gang_scheduler_that_belong_to_no_gang_are_not_ours():
    assert snapshot(pod("a", schedulerName="volcano")).pending == ()


def test_our_own_annotation_counts_before_every_group():
    item = own("a")
    item["spec"]["schedulingGroup"] = {"podGroupName": "job"}
    assert only_gang(item, native=[group(**gang_policy(9))]).minimum == 2


@pytest.mark.parametrize("least", ["0", "-1", "many", "", "1.5", str(MOST + 1), "9" * 400, "٣", 3, None])
def test_a_malformed_minimum_is_one_clear_reason_for_each_pod(least):
    whole = snapshot(own("a", least), own("b", least), pod("c"))
    decided = plan(whole, CONFIG, NOTHING, NOW)
    (told,) = decided.unserved
    assert [ref.name for ref in told.pods] == ["a", "b"]
    assert set(told.reasons) == {"cpu", "gpu"}
    assert all("sluice.io/gang-min-member" in reason and len(reason) < 200 for reason in told.reasons.values())
    assert [[ref.name for ref in bought.pods] for delta in decided.deltas for bought in delta.nodes] == [["c"]]


@pytest.mark.parametrize("count", [0, -3, "3", True, 10**30, None, [], {}])
def test_a_malformed_minimum_of_a_group_is_told(count):
    assert "is malformed: minCount" in only_gang(native("a"), native=[group(**gang_policy(count))]).problem


@pytest.mark.parametrize(
    "spec", [{"schedulingPolicy": 7}, {"schedulingPolicy": {"gang": 3}}, {"schedulingConstraints": 1}]
)
def test_a_malformed_group_ends_in_a_reason(spec):
    assert "is malformed" in only_gang(native("a"), native=[group(**spec)]).problem


def test_pods_that_contradict_each_other_are_told_both_figures():
    assert only_gang(own("a", "4"), own("b", "8")).problem == (
        "its pods differ in the minimum: 4 and 8; say the same on each"
    )
    differing = only_gang(own("a", None, "ps", "1"), own("b", None, "ps", "2"))
    assert "for role ps: 1 and 2" in differing.problem


def test_one_pod_that_names_the_minimum_is_enough():
    assert only_gang(own("a", None), own("b", "2")).minimum == 2


def test_a_minimum_of_a_role_needs_the_role():
    assert only_gang(own("a", None, None, "2")).problem == (
        "sluice.io/gang-role-min-member needs sluice.io/gang-role beside it"
    )


@pytest.mark.parametrize("name", ["", "a b", "x#ps", "-x", "x" * 400])
def test_a_malformed_name_is_told(name):
    item = own("a")
    item["metadata"]["annotations"]["sluice.io/gang"] = name
    whole = snapshot(item)
    assert whole.gangs[0].problem.startswith("sluice.io/gang ")
    assert whole.pending[0].shape.gang == whole.gangs[0].name


def test_members_that_ended_well_count_as_started_and_failed_ones_do_not():
    ended = own("a", "4", status={"phase": "Succeeded"}, nodeName="n")
    failed = own("b", "4", status={"phase": "Failed"}, nodeName="n")
    assert only_gang(ended, failed, own("c", "4"), own("d", "4")).minimum == 3


def test_kube_scheduler_forgets_members_that_ended():
    ended = native("a", status={"phase": "Succeeded"}, nodeName="n")
    assert only_gang(ended, native("b"), native=[group(**gang_policy(2))]).minimum == 2


def test_members_on_their_way_out_do_not_count():
    leaving = own("a", nodeName="n")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    whole = snapshot(leaving, own("b"), nodes=[node("n")])
    assert [each.shape.gang for each in whole.nodes[0].bound] == [""]


def test_a_gang_whose_pods_have_all_ended_is_forgotten():
    assert snapshot(own("a", status={"phase": "Succeeded"})).gangs == ()


def test_the_order_of_the_pods_does_not_matter():
    pods = [own("a", "4"), own("b", "8"), own("c", "4"), native("d"), native("e", "other")]
    assert snapshot(*pods[::-1]) == snapshot(*pods)


def test_gangs_are_written_and_read_back():
    whole = snapshot(own("a", None, "ps", "1"), native("b"), pod("c"), nodes=[node("n")])
    assert decode(encode(whole)) == whole


def test_a_snapshot_from_before_there_were_gangs_is_still_read():
    plain = snapshot(pod("a"))
    written = to_json(plain)
    assert "gangs" not in written
    assert from_json(written) == plain


@pytest.mark.parametrize("wrong", [{"gangs": 3}, {"gangs": [["n", -1, {}, ""]]}, {"gangs": [["n", 1]]}, {"gang": []}])
def test_malformed_gangs_of_a_snapshot_are_refused_by_path(wrong):
    with pytest.raises(ValueError, match=r"snapshot\.gang"):
        from_json({**to_json(snapshot(pod("a"))), **wrong})
