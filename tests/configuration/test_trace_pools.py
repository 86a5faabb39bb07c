from __future__ import annotations

from pathlib import Path

import pytest

from shared.settings.config import parse_config

POOLS = Path(__file__).parents[2] / "examples" / "pools"
TRACE_EXTREMES = [  # millicores, MiB, GPUs: no pod of the openb trace exceeds these in its class, nor fits none of them
    (32_000, 65_536, 0), (24_200, 93_184, 1), (16_400, 125_952, 1), (30_200, 160_768, 2), (60_200, 320_512, 4),
    (120_200, 640_000, 8), (120_000, 737_280, 8),
]  # fmt: skip


@pytest.mark.parametrize(("millis", "mib", "gpus"), TRACE_EXTREMES)
def test_the_largest_pods_of_the_openb_trace_fit_a_pool(millis, mib, gpus):
    config = parse_config((POOLS / "openb.yaml").read_bytes())
    need = {"cpu": millis, "memory": mib * 2**20, "nvidia.com/gpu": gpus}
    assert any(all(pool.allocatable.get(name, 0) >= count for name, count in need.items()) for pool in config.pools)


@pytest.mark.parametrize("name", ["demo.yaml", "openb.yaml"])
def test_example_pools_cost_something_start_empty_and_taint_their_gpus(name):
    for pool in parse_config((POOLS / name).read_bytes()).pools:
        assert pool.price
        assert pool.minimum == 0
        assert ("sku" in {taint.key for taint in pool.taints}) == ("nvidia.com/gpu" in pool.shape)


def test_the_demonstration_has_spot_and_on_demand_for_cpu_and_gpu():
    pools = parse_config((POOLS / "demo.yaml").read_bytes()).pools
    kinds = {(pool.priority.value, "nvidia.com/gpu" in pool.shape) for pool in pools}
    assert kinds == {("Spot", False), ("Spot", True), ("Regular", False), ("Regular", True)}
