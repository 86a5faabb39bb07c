"""`sluice plan` and the sweep see the groups that pods belong to, where the cluster has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from local import cli
from tests.orchestrations.stage import Stage

Json = dict[str, Any]
POOLS = """
cluster: training
pools:
  - {name: workers, max: 2, price: 0.4, shape: {cpu: 4, memory: 16Gi}, labels: {role: worker}}
  - {name: servers, max: 2, price: 0.1, shape: {cpu: 2, memory: 8Gi}}
"""


def pod(name: str, cpu: str, **spec: Any) -> Json:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    meta = {"name": name, "namespace": "default", "uid": name}
    return {"kind": "Pod", "metadata": meta, "spec": {"containers": [container], **spec}, "status": {}}


def group(minimum: int, api: str = "scheduling.k8s.io/v1alpha2") -> Json:
    spec = {"schedulingPolicy": {"gang": {"minCount": minimum}}, "minMember": minimum}
    return {"apiVersion": api, "kind": "PodGroup", "metadata": {"name": "job", "namespace": "default"}, "spec": spec}


@pytest.fixture
def plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs `sluice plan -o json` over a dump of these objects."""

    def run(*items: Json) -> Json:
        (tmp_path / "dump.json").write_text(json.dumps({"kind": "List", "items": items}))
        (tmp_path / "pools.yaml").write_text(POOLS)
        named = ["--cluster", str(tmp_path / "dump.json"), "--pools", str(tmp_path / "pools.yaml")]
        assert cli.main(["plan", *named, "-o", "json"]) == 0
        found: Json = json.loads(capsys.readouterr().out)
        return found

    return run


def job(workers: int) -> list[Json]:
    member = {"schedulingGroup": {"podGroupName": "job"}}
    of_role = [pod(f"worker-{n}", "3", nodeSelector={"role": "worker"}, **member) for n in range(workers)]
    return [*of_role, pod("ps-0", "2", **member)]


def test_a_dump_with_the_group_is_planned_for_whole(plan: Any) -> None:
    made = plan(*job(2), group(3))
    assert {each["pool"]: each["add"] for each in made["deltas"]} == {"workers": 2, "servers": 1}


def test_a_gang_that_does_not_fit_buys_nothing_and_every_pod_has_a_reason_for_every_pool(plan: Any) -> None:
    made = plan(*job(3), group(4))
    assert made["deltas"] == []
    assert [each["pod"] for each in made["unserved"]] == ["default/ps-0", *(f"default/worker-{n}" for n in range(3))]
    assert all(set(each["reasons"]) == {"workers", "servers"} for each in made["unserved"])
    assert made["unserved"][0]["reasons"]["workers"] == "Gang: 3 of 4 pods of default/job fit; PoolFull: 2 of 2 nodes"


def test_a_group_of_another_api_is_another_group(plan: Any) -> None:
    reasons = plan(*job(2), group(3, "scheduling.x-k8s.io/v1alpha1"))["unserved"][0]["reasons"]
    assert "PodGroup default/job of scheduling.k8s.io is not there" in reasons["workers"]


def test_the_sweep_of_a_cluster_without_the_api_says_that_the_group_is_not_there() -> None:
    stage = Stage(timers=True)
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "3"}}}
    labels = {"scheduling.x-k8s.io/pod-group": "job"}
    meta = {"name": "a", "namespace": "default", "labels": labels}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}
    stage.api.create("/api/v1/namespaces/default/pods", body)
    stage.run(700)
    (told,) = stage.status()["clusters"]["training"]["plan"]["unserved"]
    assert "PodGroup default/job of scheduling.x-k8s.io is not there" in told["reasons"]["spot"]
    assert stage.machines() == {"spot": 0, "regular": 0}
