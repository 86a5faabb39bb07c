"""The three patch formats."""

from __future__ import annotations

import pytest

from local.kube.patching import json_patch, merge_patch, strategic_merge
from local.kube.problems import ApiProblem


def test_a_merge_patch_replaces_lists_and_removes_by_null() -> None:
    target = {"a": {"x": 1, "y": 2}, "list": [1, 2]}
    assert merge_patch(target, {"a": {"x": None, "z": 3}, "list": [3]}) == {"a": {"y": 2, "z": 3}, "list": [3]}
    assert target == {"a": {"x": 1, "y": 2}, "list": [1, 2]}


def test_nulls_inside_a_new_object_leave_no_trace() -> None:
    assert merge_patch({}, {"new": {"keep": 1, "drop": None}}) == {"new": {"keep": 1}}


def test_containers_are_merged_by_name() -> None:
    target = {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}
    patch = {"containers": [{"name": "b", "image": "2"}, {"name": "c", "image": "3"}]}
    merged = strategic_merge(target, patch)["containers"]
    assert [(one["name"], one["image"]) for one in merged] == [("a", "1"), ("b", "2"), ("c", "3")]


def test_an_element_can_be_deleted_by_its_key() -> None:
    target = {"containers": [{"name": "a"}, {"name": "b"}]}
    assert strategic_merge(target, {"containers": [{"$patch": "delete", "name": "a"}]}) == {
        "containers": [{"name": "b"}]
    }


def test_taints_have_no_merge_key_and_are_replaced() -> None:
    target = {"taints": [{"key": "a", "effect": "NoSchedule"}]}
    assert strategic_merge(target, {"taints": [{"key": "b", "effect": "NoExecute"}]})["taints"][0]["key"] == "b"


def test_conditions_are_merged_by_type() -> None:
    target = {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Other", "status": "True"}]}
    merged = strategic_merge(target, {"conditions": [{"type": "Ready", "status": "True"}]})["conditions"]
    assert {one["type"]: one["status"] for one in merged} == {"Ready": "True", "Other": "True"}


def test_a_map_can_be_replaced_whole() -> None:
    target = {"selector": {"matchLabels": {"a": "1"}}}
    patch = {"selector": {"$patch": "replace", "matchLabels": {"b": "2"}}}
    assert strategic_merge(target, patch) == {"selector": {"matchLabels": {"b": "2"}}}


def test_finalizers_are_added_to_and_deleted_from() -> None:
    added = strategic_merge({"finalizers": ["a"]}, {"finalizers": ["b"]})
    assert added == {"finalizers": ["a", "b"]}
    assert strategic_merge(added, {"$deleteFromPrimitiveList/finalizers": ["a"]}) == {"finalizers": ["b"]}


def test_the_order_of_elements_can_be_set() -> None:
    target = {"containers": [{"name": "a"}, {"name": "b"}]}
    patch = {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}
    assert [one["name"] for one in strategic_merge(target, patch)["containers"]] == ["b", "a"]


def test_only_the_retained_keys_stay() -> None:
    target = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}
    patch = {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}
    assert strategic_merge(target, patch) == {"strategy": {"type": "Recreate"}}


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ({"op": "add", "path": "/a/-", "value": 3}, {"a": [1, 2, 3], "b": {}}),
        ({"op": "add", "path": "/a/0", "value": 0}, {"a": [0, 1, 2], "b": {}}),
        ({"op": "replace", "path": "/a/1", "value": 9}, {"a": [1, 9], "b": {}}),
        ({"op": "remove", "path": "/a/0"}, {"a": [2], "b": {}}),
        ({"op": "add", "path": "/b/x~1y", "value": 1}, {"a": [1, 2], "b": {"x/y": 1}}),
        ({"op": "move", "from": "/a", "path": "/c"}, {"b": {}, "c": [1, 2]}),
        ({"op": "copy", "from": "/a/0", "path": "/c"}, {"a": [1, 2], "b": {}, "c": 1}),
        ({"op": "test", "path": "/a/0", "value": 1}, {"a": [1, 2], "b": {}}),
    ],
)
def test_json_patch_operations(operation: dict, result: dict) -> None:
    document = {"a": [1, 2], "b": {}}
    assert json_patch(document, [operation]) == result
    assert document == {"a": [1, 2], "b": {}}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "remove", "path": "/missing"},
        {"op": "replace", "path": "/missing", "value": 1},
        {"op": "add", "path": "/missing/deep", "value": 1},
    ],
)
def test_a_json_patch_that_does_not_apply_is_unprocessable(operation: dict) -> None:
    with pytest.raises(ApiProblem) as raised:
        json_patch({"a": 1}, [operation])
    assert raised.value.code == 422
