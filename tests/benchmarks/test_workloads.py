import json

import pytest

from bench import workloads


def number(name: str) -> int:
    return sum(kind["count"] for kind in workloads.make(name)["pods"])


@pytest.mark.parametrize("name", workloads.NAMES)
def test_a_workload_has_as_many_pods_as_its_name_says(name):
    assert number(name) == int(name.partition("-")[2]) if name[2:].isdigit() else number(name) == 2000


def test_a_name_is_the_same_pods_every_time():
    assert workloads.digest(workloads.make("c-2000")) == workloads.digest(workloads.make("c-2000"))


def test_the_published_workloads_have_not_drifted():
    known = {name: workloads.digest(workloads.make(name)) for name in ("b-2000", "c-2000", "d-mixed")}
    assert known == {"b-2000": "376297c870b9388c", "c-2000": "6a3d5f6e960db130", "d-mixed": "7bf93758cd02cdfb"}


def test_a_further_draw_is_another_one_of_the_same_kind():
    base, drawn = workloads.make("b-2000"), workloads.make("b-2000#7")
    assert number("b-2000#7") == 2000
    assert len(drawn["pods"]) == len(base["pods"])
    assert drawn["pods"] != base["pods"]


def test_no_two_shapes_of_b_are_alike_and_none_of_c():
    for name in ("b-2000#3", "c-2000#3"):
        sizes = [(kind["cpu_m"], kind["mem_mi"], kind["gpu"]) for kind in workloads.make(name)["pods"]]
        assert len(set(sizes)) == len(sizes)


def test_the_form_is_plain_json_that_the_peers_can_read():
    workload = workloads.make("d-mixed")
    assert json.loads(json.dumps(workload)) == workload


def test_a_gpu_node_takes_only_pods_that_tolerate_its_taint():
    gpu_node = next(pool for pool in workloads.TEN_POOLS if pool["name"] == "t4x1")
    assert workloads.takes(gpu_node, workloads.pod("one", 100, 100, 1, gpu=1))
    assert not workloads.takes(gpu_node, workloads.pod("none", 100, 100, 1))


def test_a_selector_that_the_pool_lacks_keeps_a_pod_out():
    chosen = workloads.pod("one", 100, 100, 1, nodeSelector={"pool": "d8"})
    assert [pool["name"] for pool in workloads.TEN_POOLS if workloads.takes(pool, chosen)] == ["d8"]
