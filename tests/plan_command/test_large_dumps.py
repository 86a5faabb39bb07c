"""The contract of `sluice plan -o json`, held against a dump of thousands of objects, through the command line."""

import json
import math

import pytest

from bench import plan_command, workloads


@pytest.fixture
def answer(tmp_path):
    """What the command prints for a workload beside a hundred nodes, decoded: nothing else may be on stdout."""

    def run(workload):
        cluster, pools = tmp_path / "cluster.json", tmp_path / "pools.yaml"
        cluster.write_text(json.dumps(plan_command.dump(workload, 100)))
        pools.write_text(json.dumps(plan_command.pools_file(workload)))
        return json.loads(plan_command.timed(cluster, pools)[1])

    return run


def test_every_pod_of_a_large_dump_is_in_the_answer_once_and_no_node_is_empty(answer):
    workload = workloads.make("b-2000")
    waiting = [f"default/{name}" for name in plan_command.pod_names(workload)]
    made = answer(workload)
    assert list(plan_command.broken(made, waiting, [pool["name"] for pool in workload["pools"]])) == []
    assert made["fits_existing"]
    assert math.isclose(sum(each["cost_per_hour"] for each in made["served"]), made["cost_per_hour"], abs_tol=0.01)


def test_reasons_name_every_pool_when_nobody_can_be_served(answer):
    workload = workloads.make("b-2000")
    for kind in workload["pods"]:
        kind["nodeSelector"] = {"class": "none"}
    made = answer(workload)
    waiting = [f"default/{name}" for name in plan_command.pod_names(workload)]
    assert list(plan_command.broken(made, waiting, [pool["name"] for pool in workload["pools"]])) == []
    assert len(made["unserved"]) == len(waiting)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda made: made["deltas"][0].update(add=0), "add is 0"),
        (lambda made: made["deltas"][0]["nodes"][0].update(pods=[]), "an empty node"),
        (lambda made: made["unserved"][0]["reasons"].pop("a"), "not for each pool"),
        (lambda made: made["unserved"].append(made["unserved"][0]), "is there 2 times"),
        (lambda made: made["unserved"].pop(), "is there 0 times"),
        (lambda made: made["fits_existing"].append({"node": "n", "pods": ["default/x"]}), "default/x is there"),
    ],
)
def test_a_broken_answer_is_noticed(spoil, words):
    made = {
        "deltas": [{"pool": "a", "add": 1, "nodes": [{"pods": ["p1"]}]}],
        "fits_existing": [],
        "unserved": [{"pod": "p2", "reasons": {"a": "PoolFull: 1 of 1 nodes", "b": "Paused"}}],
        "cost_per_hour": 1.0,
    }
    assert list(plan_command.broken(made, ["p1", "p2"], ["a", "b"])) == []
    spoil(made)
    assert any(words in fault for fault in plan_command.broken(made, ["p1", "p2"], ["a", "b"]))
