from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.settings.config import ConfigError, check_can_act, parse_config

AZURE = "azure: {subscription: 00000000-0000-0000-0000-000000000000, resource_group: rg, location: westeurope}"
SKU = "sku: Standard_D4s_v5"


def problems(text, *, to_act=False):
    with pytest.raises(ConfigError) as caught:
        parse_config(text, to_act=to_act)
    return {problem.path: problem for problem in caught.value.problems}


def pool(fields):
    return f"cluster: c\npools:\n  - {{name: p, max: 3, {fields}}}\n"


@pytest.mark.parametrize(
    ("fields", "path", "value", "message"),
    [
        ("sku: Standard_D4s_v5, maxx: 3", "maxx", 3, "did you mean max"),
        ("sku: Standard_D4s_v5, min: -1", "min", -1, "whole number"),
        ("sku: Standard_D4s_v5, min: true", "min", True, "whole number"),
        ("sku: Standard_D4s_v5, min: 1.5", "min", 1.5, "whole number"),
        ("sku: Standard_D4s_v5, min: 4", "min", 4, "above max 3"),
        ("sku: Standard_D4s_v5, kind: vms", "kind", "vms", "did you mean vmss"),
        ("sku: Standard_D4s_v5, priority: spot", "priority", "spot", "did you mean Spot"),
        ("sku: Standard_D4s_v5, price: -0.1", "price", -0.1, "at least 0"),
        ("sku: Standard_D4s_v5, price: .inf", "price", float("inf"), "at least 0"),
        ("sku: Standard_D4s_v5, price: cheap", "price", "cheap", "number"),
        ("sku: Standard_D4s_v5, price: true", "price", True, "number"),
        ("sku: Standard_D4s_v5, zones: [1]", "zones[0]", 1, "quotes"),
        ("sku: Standard_D4s_v5, zones: '1'", "zones", "1", "list"),
        ("sku: Standard_D4s_v5, zones: ['1', '1']", "zones[1]", "1", "twice"),
        ("sku: Standard_D4s_v5, labels: {gpu: true}", "labels.gpu", True, "quotes"),
        ("sku: Standard_D4s_v5, labels: {'a b': x}", "labels.a b", "x", "label name"),
        ("sku: Standard_D4s_v5, labels: {a: 'x y'}", "labels.a", "x y", "label value"),
        ("sku: Standard_D4s_v5, labels: [a]", "labels", ["a"], "map"),
        ("sku: Standard_D4s_v5, taints: ['a=b']", "taints[0]", "a=b", "key=value:Effect"),
        ("sku: Standard_D4s_v5, taints: ['a:Never']", "taints[0]", "a:Never", "NoSchedule"),
        ("sku: Standard_D4s_v5, taints: [{key: a}]", "taints[0]", {"key": "a"}, "key:Effect"),
        ("sku: Standard_D4s_v5, fallback: [p]", "fallback[0]", "p", "itself"),
        ("sku: Standard_D4s_v5, fallback: [q]", "fallback[0]", "q", "no pool of this file"),
        ("sku: Standard_D4s_v5, mode: on", "mode", True, "one of act"),
        ("sku: Standard_D4s_v5, template: vm.json", "template", "vm.json", "kind vm only"),
        ("kind: vm, sku: Standard_D4s_v5, template: ../vm.json", "template", "../vm.json", "JSON file"),
        ("sku: Standard_D4s_v5, resource: 'a/b'", "resource", "a/b", "Azure"),
        ("sku: Standard_D4s_v5, azure: {subscription: mine}", "azure.subscription", "mine", "GUID"),
        ("sku: Standard_D4s_v5, azure: {group: x}", "azure.group", "x", "unknown key"),
        ("sku: Standard_D4s_v5, azure: westeurope", "azure", "westeurope", "mapping"),
        ("sku: Standard_X", "shape", "Standard_X", "give the shape"),
        ("shape: 4", "shape", 4, "map resource names"),
        ("shape: {cpu: 4}", "shape.memory", None, "above 0"),
        ("shape: {cpu: 0, memory: 1Gi}", "shape.cpu", 0, "above 0"),
        ("shape: {cpu: 4, memory: 1Gi, pods: 0}", "shape.pods", 0, "above 0"),
        ("shape: {cpu: 4, memory: 16gb}", "shape.memory", "16gb", "quantity"),
        ("shape: {cpu: -4, memory: 16Gi}", "shape.cpu", -4, "negative"),
        ("shape: {cpu: true, memory: 16Gi}", "shape.cpu", True, "quantity"),
        ("shape: {cpu: [4], memory: 16Gi}", "shape.cpu", [4], "quantity"),
        ("shape: {cpu: 4, memory: 1Gi, 'b c': 1}", "shape.b c", 1, "resource name"),
        ("shape: {cpu: 4, memory: 1Gi}, reserved: {cpu: 5}", "reserved.cpu", "5", "more than the shape's 4"),
        ("shape: {cpu: 4, memory: 1Gi}, reserved: {fpga: 1}", "reserved.fpga", "1", "more than the shape's 0"),
    ],
)  # fmt: skip
def test_a_problem_of_a_pool_names_field_value_and_remedy(fields, path, value, message):
    found = problems(pool(fields))
    assert list(found) == [f"pools[0].{path}"]
    problem = found[f"pools[0].{path}"]
    assert message in str(problem)
    assert str(problem).startswith(f"pools[0].{path}: ")
    if value is not None:
        assert problem.value == value
        assert repr(value) in str(problem)


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("cluster: Big", "cluster", "lower-case"),
        ("cluster: a--b", "cluster", "single hyphens"),
        (f"cluster: {'a' * 41}", "cluster", "at most 40"),
        ("cluster: 7", "cluster", "quotes"),
        ("cluster: c\nmode: go", "mode", "one of act, grow-only, observe, paused"),
        ("cluster: c\npool: []", "pool", "did you mean pools"),
        ("cluster: c\nscale_down: {idle_after: 10}", "scale_down.idle_after", "with a unit"),
        ("cluster: c\nscale_down: {idle_after: 10:00}", "scale_down.idle_after", "with a unit"),
        ("cluster: c\nscale_down: {idle_after: -1m}", "scale_down.idle_after", "with a unit"),
        ("cluster: c\nscale_down: {idle_after: 48h}", "scale_down.idle_after", "86400 s"),
        ("cluster: c\nscale_down: {utilization_below: 1.1}", "scale_down.utilization_below", "from 0 to 1"),
        ("cluster: c\nscale_down: {utilization_below: .nan}", "scale_down.utilization_below", "from 0 to 1"),
        ("cluster: c\nscale_down: {max_parallel_fraction: -1}", "scale_down.max_parallel_fraction", "from 0 to 1"),
        ("cluster: c\nscale_down: {drain: 1m}", "scale_down.drain", "unknown key"),
        ("cluster: c\ntiming: {debounce: 1}", "timing.debounce", "with a unit"),
        ("cluster: c\ntiming: {lead_lease: 1s}", "timing.lead_lease", "from 10 s"),
        ("cluster: c\ntiming: []", "timing", "mapping"),
    ],
)
def test_a_problem_of_the_file_names_its_place(text, path, message):
    found = problems(f"{text}\npools: [{{name: p, max: 1, {SKU}}}]")
    assert list(found) == [path]
    assert message in str(found[path])


def test_all_problems_are_told_at_once_one_to_a_line():
    text = """
cluster: C
mode: go
extra: 1
pools:
  - {name: a, max: -1, shape: {cpu: x, memory: 1Gi}, fallback: [zz]}
  - {max: 1, min: 2, sku: nope}
  - 7
scale_down: {utilization_below: 2}
"""
    found = problems(text)
    assert set(found) == {
        "cluster", "mode", "extra", "pools[0].max", "pools[0].shape.cpu", "pools[0].fallback[0]", "pools[1].name",
        "pools[1].min", "pools[1].shape", "pools[2]", "scale_down.utilization_below",
    }  # fmt: skip
    with pytest.raises(ConfigError) as caught:
        parse_config(text)
    assert len(str(caught.value).splitlines()) == len(found)


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("{}", {"cluster", "pools"}),
        ("cluster: c\npools: []", {"pools"}),
        ("cluster: c\npools: {}", {"pools"}),
        ("cluster: c\npools: [{}]", {"pools[0].name", "pools[0].max", "pools[0].shape"}),
        ("cluster: c\npools: [null]", {"pools[0]"}),
    ],
)
def test_what_is_required_is_missed(text, paths):
    assert set(problems(text)) == paths


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("# nothing", "empty"),
        ("[]", "mapping"),
        ("just text", "mapping"),
        ("a: b: c", "line 1"),
        ("a: [", "cannot be read"),
        (b"\xff\xfe\x00", "UTF-8"),
        ("cluster: c\ncluster: d", "line 2: the key cluster appears twice"),
        ('{"cluster": "c", "cluster": "d"}', "the key cluster appears twice"),
        ("cluster: c\npools: [{name: a, max: 1, max: 2}]", "the key max appears twice"),
        ("true: 1", "is no text; put it in quotes"),
        ("? [a]\n: 1", "is no text"),
        ("a: !!python/object/apply:os.system [x]", "cannot be read"),
        ("--- 1\n--- 2", "cannot be read"),
        ("[" * 100_000, "nested deeper"),
        ("- " * 400_000, "nested deeper"),
        ("? " * 200_000, "nested deeper"),
        ('{"a":' * 100_000, "cannot be read"),
        ("x" * 1_000_001, "larger than"),
        ('{"cluster": ' + "1" * 5000 + "}", "cannot be read"),
    ],
)
def test_a_text_that_is_no_pools_file_is_refused_in_one_problem(text, message):
    found = problems(text)
    assert list(found) == [""]
    assert message in str(found[""])
    assert str(found[""]).startswith("file: ")


def test_an_alias_bomb_is_refused_briefly():
    levels = "".join(
        f"{name}: &{name} [{','.join(['*' + below] * 9)}]\n" for below, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    found = problems("a: &a [x, x, x, x, x, x, x, x, x]\n" + levels)
    assert len(str(found["i"])) < 500


def test_doubled_names_and_carriers_are_named_at_the_second():
    pools = [f"{{name: a, max: 1, {SKU}}}", f"{{name: a, max: 2, {SKU}}}", f"{{name: b, resource: A, max: 1, {SKU}}}"]
    found = problems(f"cluster: c\npools: [{', '.join(pools)}]")
    assert set(found) == {"pools[1].name", "pools[1].resource", "pools[2].resource"}
    assert "pools[0]" in str(found["pools[2].resource"])


def test_fallbacks_that_lead_in_a_circle_are_named_at_every_pool_of_it():
    text = f"""
cluster: c
pools:
  - {{name: a, max: 1, {SKU}, fallback: [b]}}
  - {{name: b, max: 1, {SKU}, fallback: [c]}}
  - {{name: c, max: 1, {SKU}, fallback: [b]}}
"""
    assert set(problems(text)) == {"pools[1].fallback", "pools[2].fallback"}


def test_to_act_the_azure_parts_are_needed():
    text = f"cluster: c\nmode: act\nazure: {{location: westeurope}}\npools: [{{name: p, max: 1, {SKU}}}]"
    found = problems(text, to_act=True)
    assert list(found) == ["pools[0].azure"]
    assert "subscription and resource_group" in str(found["pools[0].azure"])
    assert "set mode: observe" in str(found["pools[0].azure"])
    assert check_can_act(parse_config(text)) == tuple(found.values())


@pytest.mark.parametrize("mode", ["observe", "paused"])
def test_a_pool_that_only_looks_needs_no_azure_parts(mode):
    config = parse_config(f"cluster: c\nmode: {mode}\npools: [{{name: p, max: 1, {SKU}}}]", to_act=True)
    assert check_can_act(config) == ()


def test_to_act_agent_pools_need_the_clusters_name():
    text = f"cluster: c\nmode: act\n{AZURE}\npools: [{{name: p, max: 1, kind: aks, {SKU}}}]"
    assert parse_config(text).pools[0].kind == "aks"
    assert "set mode: observe" in str(problems(text, to_act=True)["pools[0].azure.aks_cluster"])
    named = text.replace("kind: aks", "kind: aks, azure: {aks_cluster: c}")
    assert check_can_act(parse_config(named)) == ()


@pytest.mark.parametrize(
    ("keys", "path", "remedy"),
    [
        ("name: p, min: 0, labels: {kubernetes.azure.com/mode: system}", "min", "set min to 1 or more"),
        (
            "name: p, min: 2, priority: Spot, labels: {kubernetes.azure.com/mode: system}",
            "priority",
            "priority: Regular",
        ),
        ("name: gpu-spot", "resource", "name the pool in `resource`"),
        ("name: p, resource: abcdefghijklm", "resource", "at most 12"),
        ("name: p, min: 1001", "min", "above 1000"),
    ],
)
def test_what_aks_would_refuse_is_told_at_once(keys, path, remedy):
    found = problems(f"cluster: c\npools: [{{{keys}, max: 2000, kind: aks, {SKU}}}]")
    assert list(found) == [f"pools[0].{path}"]
    assert remedy in str(found[f"pools[0].{path}"])


def test_to_act_single_machines_need_a_template():
    text = f"cluster: c\nmode: grow-only\n{AZURE}\npools: [{{name: p, max: 1, kind: vm, {SKU}}}]"
    assert set(problems(text, to_act=True)) == {"pools[0].template"}


def test_a_bad_azure_part_is_not_called_missing_as_well():
    text = f"cluster: c\nmode: act\npools: [{{name: p, max: 1, {SKU}, azure: {{subscription: x}}}}]"
    found = problems(text, to_act=True)
    assert set(found) == {"pools[0].azure.subscription", "pools[0].azure"}
    assert "resource_group and location" in str(found["pools[0].azure"])
    assert "subscription" not in str(found["pools[0].azure"])


WORDS = st.sampled_from(
    ["cluster", "pools", "name", "max", "min", "sku", "shape", "cpu", "memory", "azure", "fallback", "taints"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=15,
)


@settings(max_examples=100, deadline=None)
@given(
    st.fixed_dictionaries(
        {"cluster": VALUES, "pools": st.lists(VALUES, max_size=3)}, optional={"mode": VALUES, "azure": VALUES}
    )
)
def test_whatever_is_written_is_read_or_refused_with_places(document):
    try:
        parse_config(yaml.safe_dump(document))
    except ConfigError as error:
        told = [str(problem) for problem in error.problems]
    else:
        told = ["nothing: fits"]
    assert told
    assert all(": " in line for line in told)
