"""Reading and writing objects: what callers of the adapter rely on."""

from __future__ import annotations

import pytest

from shared.adapters.errors import NotFound, Refused, Rejected, StaleWrite
from tests.kubernetes_contract.targets import CONFIG_MAPS, NODES, PODS, Target, node, pod


def _names(items: list[dict]) -> list[str]:
    return [one["metadata"]["name"] for one in items]


def test_a_list_holds_what_was_created_in_the_order_of_names(cluster: Target) -> None:
    for name in ("b", "a"):
        cluster.api.create(PODS, pod(name))
    items, version = cluster.api.list(PODS)
    assert _names(items) == ["a", "b"]
    assert int(version) >= max(int(one["metadata"]["resourceVersion"]) for one in items)


def test_a_list_is_followed_through_all_its_pages(cluster: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.adapters.kubernetes.PAGE_SIZE", 2)
    names = [f"p{number}" for number in range(5)]
    for name in names:
        cluster.api.create(PODS, pod(name))
    assert _names(cluster.api.list(PODS)[0]) == names


def test_items_of_a_list_carry_no_kind_but_single_objects_do(cluster: Target) -> None:
    cluster.api.create(PODS, pod("a"))
    assert "kind" not in cluster.api.list(PODS)[0][0]
    assert cluster.api.get(f"{PODS}/a")["kind"] == "Pod"


def test_a_field_of_a_feature_that_is_off_is_dropped(cluster: Target) -> None:
    body = pod("a")
    body["spec"]["schedulingGroup"] = {"podGroupName": "job"}
    assert "schedulingGroup" not in cluster.api.create(PODS, body)["spec"]


@pytest.mark.parametrize(
    ("selector", "found"),
    [("app=x", ["a"]), ("app!=x", ["b", "c"]), ("app in (x,y)", ["a", "b"]), ("!app", ["c"]), ("app,tier", ["b"])],
)
def test_label_selectors_choose(cluster: Target, selector: str, found: list[str]) -> None:
    cluster.api.create(PODS, pod("a", labels={"app": "x"}))
    cluster.api.create(PODS, pod("b", labels={"app": "y", "tier": "1"}))
    cluster.api.create(PODS, pod("c"))
    assert _names(cluster.api.list(PODS, label_selector=selector)[0]) == found


def test_field_selectors_choose_by_name_and_by_node(cluster: Target) -> None:
    cluster.api.create(PODS, pod("a"))
    cluster.api.create(PODS, pod("b"))
    assert _names(cluster.api.list(PODS, field_selector="metadata.name=b")[0]) == ["b"]
    assert _names(cluster.api.list(PODS, field_selector="spec.nodeName=")[0]) == ["a", "b"]
    assert _names(cluster.api.list(PODS, field_selector="status.phase!=Pending")[0]) == []


def test_a_field_that_cannot_be_selected_by_is_rejected(cluster: Target) -> None:
    with pytest.raises(Rejected, match=r"field label not supported: spec\.hostname"):
        cluster.api.list(PODS, field_selector="spec.hostname=x")


def test_a_missing_object_is_not_found(cluster: Target) -> None:
    with pytest.raises(NotFound, match='pods "nobody" not found'):
        cluster.api.get(f"{PODS}/nobody")


def test_a_name_that_is_taken_is_a_stale_write(cluster: Target) -> None:
    cluster.api.create(PODS, pod("a"))
    with pytest.raises(StaleWrite, match="already exists") as raised:
        cluster.api.create(PODS, pod("a"))
    assert raised.value.code == "AlreadyExists"


def test_a_pod_without_containers_is_rejected_by_field(cluster: Target) -> None:
    with pytest.raises(Rejected, match=r"spec\.containers: Required value") as raised:
        cluster.api.create(PODS, {"metadata": {"name": "empty"}, "spec": {"containers": []}})
    assert raised.value.status == 422


def test_requests_above_their_limit_are_rejected(cluster: Target) -> None:
    body = pod("greedy")
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}
    with pytest.raises(Rejected, match="must be less than or equal to cpu limit"):
        cluster.api.create(PODS, body)


def test_a_generated_name_begins_with_its_prefix(cluster: Target) -> None:
    body = pod("unused")
    body["metadata"] = {"generateName": "made-"}
    name = cluster.api.create(PODS, body)["metadata"]["name"]
    assert name.startswith("made-")
    assert len(name) == len("made-") + 5


def test_limits_become_requests_and_every_pod_tolerates_silent_nodes_for_a_while(cluster: Target) -> None:
    body = pod("a")
    body["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "250m"}}
    spec = cluster.api.create(PODS, body)["spec"]
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "250m"}
    seconds = {one["key"]: one.get("tolerationSeconds") for one in spec["tolerations"]}
    assert seconds == {"node.kubernetes.io/not-ready": 300, "node.kubernetes.io/unreachable": 300}


def test_a_write_with_an_old_version_is_stale(cluster: Target) -> None:
    old = cluster.api.create(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    new = cluster.api.replace(f"{CONFIG_MAPS}/c", {**old, "data": {"a": "2"}})
    with pytest.raises(StaleWrite, match="the object has been modified"):
        cluster.api.replace(f"{CONFIG_MAPS}/c", {**old, "data": {"a": "3"}})
    guard = {"resourceVersion": old["metadata"]["resourceVersion"]}
    with pytest.raises(StaleWrite):
        cluster.api.patch(f"{CONFIG_MAPS}/c", {"metadata": guard, "data": {"a": "3"}})
    guard = {"resourceVersion": new["metadata"]["resourceVersion"]}
    assert cluster.api.patch(f"{CONFIG_MAPS}/c", {"metadata": guard, "data": {"a": "3"}})["data"] == {"a": "3"}


def test_a_merge_patch_adds_changes_and_removes(cluster: Target) -> None:
    cluster.api.create(NODES, node("n", labels={"keep": "1", "drop": "1"}))
    patched = cluster.api.patch(f"{NODES}/n", {"metadata": {"labels": {"drop": None, "new": "1"}}})
    labels = patched["metadata"]["labels"]
    assert (labels.get("keep"), labels.get("new"), labels.get("drop")) == ("1", "1", None)


def test_a_patch_that_changes_nothing_is_no_write(cluster: Target) -> None:
    made = cluster.api.create(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    same = cluster.api.patch(f"{CONFIG_MAPS}/c", {"data": {"a": "1"}})
    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_a_status_is_written_by_its_subresource_only(cluster: Target) -> None:
    cluster.api.create(NODES, node("n", cpu="4"))
    more = {"status": {"capacity": {"cpu": "8", "example.com/thing": "1"}}}
    assert "example.com/thing" not in cluster.api.patch(f"{NODES}/n", more)["status"]["capacity"]
    patched = cluster.api.patch(f"{NODES}/n/status", {**more, "spec": {"unschedulable": True}})
    assert patched["status"]["capacity"]["example.com/thing"] == "1"
    assert not patched["spec"].get("unschedulable")


def test_a_bound_pods_requests_cannot_change(cluster: Target) -> None:
    cluster.api.create(PODS, pod("a"))
    container = {"name": "main", "image": "example.invalid/app:1", "resources": {"requests": {"cpu": "2"}}}
    with pytest.raises(Rejected, match="pod updates may not change fields"):
        cluster.api.patch(f"{PODS}/a", {"spec": {"containers": [container]}})


def test_a_deletion_asks_for_the_right_uid(cluster: Target) -> None:
    made = cluster.api.create(PODS, pod("a"))
    with pytest.raises(StaleWrite):
        cluster.api.delete(f"{PODS}/a", uid="11111111-2222-3333-4444-555555555555")
    cluster.api.delete(f"{PODS}/a", uid=made["metadata"]["uid"])
    with pytest.raises(NotFound):
        cluster.api.delete(f"{PODS}/a")


def test_a_finalizer_holds_an_object_until_it_is_taken_away(cluster: Target) -> None:
    body = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    cluster.api.create(CONFIG_MAPS, body)
    cluster.api.delete(f"{CONFIG_MAPS}/held")
    assert cluster.api.get(f"{CONFIG_MAPS}/held")["metadata"]["deletionTimestamp"]
    cluster.api.patch(f"{CONFIG_MAPS}/held", {"metadata": {"finalizers": None}})
    with pytest.raises(NotFound):
        cluster.api.get(f"{CONFIG_MAPS}/held")


def test_a_namespace_that_is_not_there_takes_nothing(cluster: Target) -> None:
    with pytest.raises(NotFound, match='namespaces "nowhere" not found'):
        cluster.api.create("/api/v1/namespaces/nowhere/configmaps", {"metadata": {"name": "c"}})


def test_a_stranger_is_refused(cluster: Target) -> None:
    with pytest.raises(Refused, match=f"list {PODS}: Unauthorized"):
        cluster.stranger().list(PODS)


def test_a_kind_that_is_not_served_is_not_found(cluster: Target) -> None:
    with pytest.raises(NotFound):
        cluster.api.list("/apis/example.com/v1/things")


def test_many_objects_are_asked_for_at_once_and_each_answers_for_itself(cluster: Target) -> None:
    for name in ("one", "two"):
        cluster.api.create(PODS, pod(name, "1"))
    first, missing, second = cluster.api.get_each([f"{PODS}/one", f"{PODS}/nobody", f"{PODS}/two"])
    assert isinstance(missing, NotFound)
    assert [found["metadata"]["name"] for found in (first, second) if isinstance(found, dict)] == ["one", "two"]
