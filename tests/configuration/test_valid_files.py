from __future__ import annotations

import json

import pytest

from shared.model import AzureScope, Mode, PoolKind, Priority, Taint
from shared.settings.config import check_can_act, parse_config

GIB = 2**30
SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
FULL = f"""
cluster: training
mode: act
azure: {{subscription: {SUBSCRIPTION}, resource_group: rg, location: westeurope, aks_cluster: aks}}
pools:
  - name: gpu-spot
    kind: vm
    resource: gpu-vm
    template: vm.json
    sku: Standard_NC6s_v3
    shape: {{cpu: 6, memory: 112Gi, pods: 30, nvidia.com/gpu: 1}}
    reserved: {{cpu: 180m, memory: 3Gi}}
    priority: Spot
    price: 0.612
    min: 1
    max: 100
    zones: ["1"]
    labels: {{gpu: "true"}}
    taints: ["sku=gpu:NoSchedule", "fresh:NoExecute"]
    fallback: [gpu-regular]
    mode: grow-only
    azure: {{resource_group: other}}
  - {{name: gpu-regular, max: 10, sku: Standard_NC6s_v3}}
scale_down: {{idle_after: 1h30m, utilization_below: 0.25, drain_timeout: 90s, max_parallel_fraction: 1}}
timing: {{node_join_timeout: 5m, debounce: 250ms, lead_lease: 1m}}
"""
LEAST = "{cluster: c, pools: [{name: p, max: 3, shape: {cpu: 2, memory: 4Gi}}]}"


def pool(text, **more):
    fields = json.dumps(more)[1:-1]
    return parse_config(f"cluster: c\npools: [{{name: p, max: 3, {text}{', ' if fields else ''}{fields}}}]").pools[0]


def test_every_key_of_a_full_file_is_read():
    config = parse_config(FULL, to_act=True)
    spot = config.pools[0]
    assert (config.cluster, config.mode, len(config.pools)) == ("training", Mode.ACT, 2)
    assert (spot.name, spot.kind, spot.resource, spot.template) == ("gpu-spot", PoolKind.VM, "gpu-vm", "vm.json")
    assert spot.shape == {"cpu": 6000, "memory": 112 * GIB, "pods": 30, "nvidia.com/gpu": 1}
    assert spot.reserved == {"cpu": 180, "memory": 3 * GIB}
    assert spot.allocatable == {"cpu": 5820, "memory": 109 * GIB, "pods": 30, "nvidia.com/gpu": 1}
    assert (spot.priority, spot.price, spot.minimum, spot.maximum) == (Priority.SPOT, 0.612, 1, 100)
    assert (spot.zones, spot.labels, spot.fallback) == (("1",), {"gpu": "true"}, ("gpu-regular",))
    assert spot.taints == (Taint("sku", "gpu", "NoSchedule"), Taint("fresh", "", "NoExecute"))
    assert (spot.mode, spot.sku) == (Mode.GROW_ONLY, "Standard_NC6s_v3")
    assert (config.scale_down.idle_after, config.scale_down.utilization_below) == (5400, 0.25)
    assert (config.scale_down.drain_timeout, config.scale_down.max_parallel_fraction) == (90, 1)
    assert (config.timing.node_join_timeout, config.timing.debounce, config.timing.lead_lease) == (300, 0.25, 60)


def test_a_pools_azure_overrides_the_files_key_by_key():
    spot, regular = parse_config(FULL).pools
    assert spot.azure == AzureScope(SUBSCRIPTION, "other", "westeurope", "aks")
    assert regular.azure == AzureScope(SUBSCRIPTION, "rg", "westeurope", "aks")


def test_name_max_and_shape_are_enough_to_plan():
    config = parse_config(LEAST)
    assert config.pools[0].azure is None
    assert check_can_act(config) == ()


def test_json_is_as_good_as_yaml():
    as_json = json.dumps({"cluster": "c", "pools": [{"name": "p", "max": 3, "shape": {"cpu": 2, "memory": "4Gi"}}]})
    assert parse_config(as_json) == parse_config(LEAST)
    assert parse_config(as_json.encode("utf-8-sig")) == parse_config(LEAST)
    assert parse_config(as_json.replace("{", "{\t")) == parse_config(LEAST)


def test_a_known_size_gives_the_shape_and_a_reservation():
    found = pool("sku: Standard_D4s_v5")
    assert found.shape == {"cpu": 4000, "memory": 16 * GIB, "pods": 110}
    assert found.reserved == {"cpu": 140, "memory": (2250 + 100) * 2**20 + 16 * GIB * 3 // 100}


def test_a_sizes_name_is_compared_without_case():
    assert pool("sku: standard_nc4as_t4_V3").shape["nvidia.com/gpu"] == 1


def test_a_written_shape_is_meant_as_written():
    found = pool("sku: Standard_D4s_v5, shape: {cpu: 1, memory: 1Gi}")
    assert found.allocatable == {"cpu": 1000, "memory": GIB, "pods": 110}


def test_an_unknown_size_is_fine_beside_a_shape():
    assert pool("sku: Standard_New_v9, shape: {cpu: 1, memory: 1Gi}").sku == "Standard_New_v9"


@pytest.mark.parametrize(
    ("sku", "millis"),
    [
        ("Standard_D2s_v5", 100),
        ("Standard_D8s_v5", 180),
        ("Standard_D16s_v5", 260),
        ("Standard_D32s_v5", 420),
        ("Standard_D64s_v5", 740),
    ],
)
def test_the_reserved_cpu_is_the_documented_one(sku, millis):
    assert pool(f"sku: {sku}").reserved["cpu"] == millis


@pytest.mark.parametrize(
    ("file_mode", "pool_mode", "effective"),
    [
        ("act", None, Mode.ACT), ("act", "observe", Mode.OBSERVE), ("observe", "act", Mode.OBSERVE),
        ("grow-only", "act", Mode.GROW_ONLY), ("act", "grow-only", Mode.GROW_ONLY), ("paused", "act", Mode.PAUSED),
        ("observe", "paused", Mode.PAUSED), (None, "act", Mode.OBSERVE),
    ],
)  # fmt: skip
def test_the_stricter_of_file_and_pool_mode_holds(file_mode, pool_mode, effective):
    text = f"{f'mode: {file_mode}' if file_mode else ''}\ncluster: c\npools: [{{name: p, max: 1, sku: Standard_D2s_v5"
    text += f", mode: {pool_mode}}}]" if pool_mode else "}]"
    assert parse_config(text).pools[0].mode is effective


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("1h30m", 5400), ("1.5h", 5400), ("1m500ms", 60.5)]
)
def test_durations_carry_their_unit(text, seconds):
    config = parse_config(
        f"{{cluster: c, scale_down: {{idle_after: {text}}}, pools: [{{name: p, max: 1, sku: Standard_D2s_v5}}]}}"
    )
    assert config.scale_down.idle_after == seconds


def test_a_pool_may_be_closed_or_of_fixed_size():
    assert pool("min: 3, sku: Standard_D2s_v5").minimum == 3
    assert parse_config("{cluster: c, pools: [{name: p, max: 0, sku: Standard_D2s_v5}]}").pools[0].maximum == 0


def test_yaml_anchors_and_merge_keys_work():
    text = """
cluster: c
pools:
  - &first {name: a, max: 1, sku: Standard_D2s_v5}
  - <<: *first
    name: b
"""
    assert [(one.name, one.maximum) for one in parse_config(text).pools] == [("a", 1), ("b", 1)]


def test_two_pools_may_use_one_name_in_two_resource_groups():
    text = """
cluster: c
pools:
  - {name: a, resource: set, max: 1, sku: Standard_D2s_v5, azure: {resource_group: one}}
  - {name: b, resource: set, max: 1, sku: Standard_D2s_v5, azure: {resource_group: two}}
"""
    assert len(parse_config(text).pools) == 2


def test_a_pool_is_found_by_name():
    config = parse_config(FULL)
    assert config.pool("gpu-regular") is config.pools[1]
    assert config.pool("none") is None


def test_what_aks_adds_to_its_nodes_is_known_without_being_written():
    text = "cluster: c\npools: [{name: spot, resource: np1, kind: aks, max: 1, sku: Standard_D4s_v5, priority: Spot}]"
    (pool,) = parse_config(text).pools
    assert pool.labels == {
        "agentpool": "np1",
        "kubernetes.azure.com/agentpool": "np1",
        "kubernetes.azure.com/mode": "user",
        "kubernetes.azure.com/scalesetpriority": "spot",
    }
    assert [str(taint.key) for taint in pool.taints] == ["kubernetes.azure.com/scalesetpriority"]


def test_what_the_file_says_of_an_agent_pool_wins_and_is_not_said_twice():
    text = (
        "cluster: c\npools: [{name: np1, kind: aks, max: 3, min: 2, sku: Standard_D4s_v5,"
        " labels: {kubernetes.azure.com/mode: system}, taints: ['CriticalAddonsOnly=true:NoSchedule']}]"
    )
    (pool,) = parse_config(text).pools
    assert pool.labels["kubernetes.azure.com/mode"] == "system"
    assert "kubernetes.azure.com/scalesetpriority" not in pool.labels
    assert [taint.key for taint in pool.taints] == ["CriticalAddonsOnly"]
    spot = "taints: ['kubernetes.azure.com/scalesetpriority=spot:NoSchedule']"
    named = f"cluster: c\npools: [{{name: np1, kind: aks, max: 3, sku: Standard_D4s_v5, priority: Spot, {spot}}}]"
    assert len(parse_config(named).pools[0].taints) == 1
