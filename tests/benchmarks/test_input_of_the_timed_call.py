from bench import ours, workloads


def test_every_pod_is_an_object_of_its_own_and_so_is_its_shape():
    pods = ours.parsed(workloads.make("a-1000"), seed=1)
    assert len({id(pod) for pod in pods}) == len({id(pod.shape) for pod in pods}) == 1000


def test_pods_come_in_another_order_each_time():
    workload = workloads.make("b-2000")
    first, second = ([pod.ref for pod in ours.parsed(workload, seed)] for seed in (1, 2))
    assert first != second
    assert set(first) == set(second)


def test_grouping_finds_the_shapes_and_loses_no_pod():
    classes = ours.classes_of(ours.parsed(workloads.make("b-2000"), seed=3))
    assert len(classes) == 50
    assert len({ref for each in classes for ref in each.pods}) == 2000


def test_the_pools_are_what_the_workload_says():
    config = ours.config_of(workloads.make("c-2000"))
    t4 = config.pool("t4x4")
    assert t4.allocatable == {"cpu": 64000, "memory": 440 * 1024**3, "pods": 110, "nvidia.com/gpu": 4}
    assert (t4.price, t4.taints[0].key) == (4.352, "nvidia.com/gpu")
