from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.reading.resources import MAX_AMOUNT, amounts, pod_requests
from tests.reading.builders import container, pod

GIB = 2**30


def test_containers_are_added():
    two = [container(requests={"cpu": "500m", "memory": "1Gi"}), container(requests={"cpu": "1"})]
    assert pod_requests(pod(containers=two)) == {"cpu": 1500, "memory": GIB}


def test_a_pod_without_requests_asks_for_nothing():
    assert pod_requests(pod(containers=[{"name": "c"}])) == {}
    assert pod_requests({"metadata": {"name": "bare"}}) == {}


def test_zeros_are_left_out():
    assert pod_requests(pod(containers=[container(requests={"cpu": "0", "memory": "1Gi"})])) == {"memory": GIB}


def test_a_missing_request_is_the_limit():
    only = container(requests={"cpu": "1"}, limits={"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": 1})
    assert pod_requests(pod(containers=[only])) == {"cpu": 1000, "memory": GIB, "nvidia.com/gpu": 1}


def test_a_large_init_container_counts_alone():
    spec = pod(
        containers=[container(requests={"cpu": "1", "memory": "2Gi"})],
        initContainers=[container(requests={"cpu": "4"}), container(requests={"cpu": "3", "memory": "1Gi"})],
    )
    assert pod_requests(spec) == {"cpu": 4000, "memory": 2 * GIB}


def test_a_sidecar_counts_beside_the_containers():
    spec = pod(
        containers=[container(requests={"cpu": "1"})],
        initContainers=[container(requests={"cpu": "500m"}, restartPolicy="Always")],
    )
    assert pod_requests(spec) == {"cpu": 1500}


def test_an_init_container_runs_beside_the_sidecars_started_before_it():
    spec = pod(
        containers=[container(requests={"cpu": "1"})],
        initContainers=[
            container(requests={"cpu": "1"}, restartPolicy="Always"),
            container(requests={"cpu": "5"}),
            container(requests={"cpu": "2"}, restartPolicy="Always"),
        ],
    )
    assert pod_requests(spec) == {"cpu": 6000}


def test_an_init_container_does_not_count_beside_a_sidecar_that_starts_after_it():
    spec = pod(
        containers=[container(requests={"cpu": "1"})],
        initContainers=[
            container(requests={"cpu": "5"}),
            container(requests={"cpu": "3"}, restartPolicy="Always"),
        ],
    )
    assert pod_requests(spec) == {"cpu": 5000}


def test_overhead_comes_on_top_of_the_larger_side():
    spec = pod(
        containers=[container(requests={"cpu": "1"})],
        initContainers=[container(requests={"cpu": "2"})],
        overhead={"cpu": "250m", "memory": "120Mi"},
    )
    assert pod_requests(spec) == {"cpu": 2250, "memory": 120 * 2**20}


def test_pod_level_resources_replace_the_sum_for_cpu_and_memory_only():
    spec = pod(
        containers=[container(requests={"cpu": "1", "nvidia.com/gpu": "1"}), container()],
        resources={"requests": {"cpu": "3", "memory": "4Gi", "nvidia.com/gpu": "7"}},
        overhead={"cpu": "100m"},
    )
    assert pod_requests(spec) == {"cpu": 3100, "memory": 4 * GIB, "nvidia.com/gpu": 1}


def test_a_pod_level_limit_stands_in_where_nobody_gave_a_request():
    spec = pod(containers=[container(requests={"cpu": "1"})], resources={"limits": {"cpu": "3", "memory": "4Gi"}})
    assert pod_requests(spec) == {"cpu": 1000, "memory": 4 * GIB}


def test_a_pod_level_limit_does_not_override_a_pod_level_request():
    spec = pod(containers=[container()], resources={"requests": {"memory": "1Gi"}, "limits": {"memory": "4Gi"}})
    assert pod_requests(spec) == {"memory": GIB}


def test_a_container_that_is_being_resized_holds_the_larger_amount():
    held = {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}}]}
    resized = pod(containers=[container(requests={"cpu": "1", "memory": "2Gi"})], nodeName="n", status=held)
    assert pod_requests(resized) == {"cpu": 3000, "memory": 2 * GIB}


def test_a_huge_request_is_capped_below_what_arithmetic_bears():
    huge = [container(requests={"memory": "9Ei"}), container(requests={"memory": "9Ei"})]
    assert pod_requests(pod(containers=huge)) == {"memory": MAX_AMOUNT}


def test_a_malformed_request_is_refused_by_value():
    with pytest.raises(ValueError, match="'many'"):
        pod_requests(pod(containers=[container(requests={"cpu": "many"})]))


def test_an_api_resource_list_is_read_without_its_zeros():
    assert amounts({"cpu": "3920m", "memory": "15Gi", "hugepages-1Gi": "0"}) == {"cpu": 3920, "memory": 15 * GIB}


CPUS = st.integers(min_value=0, max_value=64_000)


@given(st.lists(CPUS, min_size=1, max_size=5), st.lists(st.tuples(CPUS, st.booleans()), max_size=6), CPUS)
def test_the_sum_equals_the_peak_of_the_pod_played_out_in_time(containers, init, overhead):
    """An independent account: step through the pod's life and take the most that ever runs at once."""
    running = peak = 0
    for cpu, is_sidecar in init:
        peak = max(peak, running + cpu)
        running += cpu if is_sidecar else 0
    peak = max(peak, running + sum(containers))
    spec = pod(
        containers=[container(requests={"cpu": f"{cpu}m"}) for cpu in containers],
        initContainers=[
            container(requests={"cpu": f"{cpu}m"}, **({"restartPolicy": "Always"} if is_sidecar else {}))
            for cpu, is_sidecar in init
        ],
        overhead={"cpu": f"{overhead}m"},
    )
    assert pod_requests(spec).get("cpu", 0) == peak + overhead
