"""A broken pools file is refused with all of its problems at once, by path and value, wherever it is read."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.bad_input.command import kubeconfig, pools_file, refusals, sluice, sluice_exporter, trace_file
from tests.orchestrations.stage import POOLS, Stage

BROKEN = """
cluster: training
mode: sometimes
colour: red
azure: {subscription: "12", resource_group: nodes, location: westeurope}
pools:
  - {name: one, max: -1, shape: {cpu: lots, memory: 16Gi}}
  - {name: two, min: 9, max: 3, shape: {cpu: 4, memory: 16Gi}, fallback: [three]}
  - {name: two, max: 3, taints: ["sku"], shape: {cpu: 4, memory: 16Gi}, priority: Sport}
scale_down: {idle_after: soon, utilization_below: 2}
"""
PROBLEMS = (
    ("mode", "'sometimes'"),
    ("colour", "'red'"),
    ("azure.subscription", "'12'"),
    ("pools[0].max", "-1"),
    ("pools[0].shape.cpu", "'lots'"),
    ("pools[1].min", "9"),
    ("pools[1].fallback[0]", "'three'"),
    ("pools[2].name", "'two'"),
    ("pools[2].resource", "'two'"),
    ("pools[2].taints[0]", "'sku'"),
    ("pools[2].priority", "'Sport'"),
    ("scale_down.idle_after", "'soon'"),
    ("scale_down.utilization_below", "2"),
)


def told(lines: list[str]) -> set[tuple[str, str]]:
    """Which of the problems have a line that names both path and value."""
    return {
        (path, value)
        for path, value in PROBLEMS
        for line in lines
        if f"{path}: " in line and f"(found {value})" in line
    }


def test_plan_lists_every_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "dump.json").write_text('{"kind": "List", "items": []}')
    assert sluice("plan", "--cluster", str(tmp_path / "dump.json"), "--pools", pools_file(tmp_path, BROKEN)) == 2
    lines = refusals(capsys)
    assert told(lines) == set(PROBLEMS)
    assert len(lines) == len(PROBLEMS)


def test_run_lists_every_problem_and_starts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sluice("run", "--pools", pools_file(tmp_path, BROKEN), "--out", str(tmp_path / "out")) == 2
    lines = refusals(capsys)
    assert told(lines) == set(PROBLEMS)
    assert len(lines) == len(PROBLEMS)
    assert not (tmp_path / "out").exists()


def test_simulate_lists_every_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pools, trace = pools_file(tmp_path, BROKEN), trace_file(tmp_path)
    assert sluice("simulate", "--pools", pools, "--trace", trace, "--report", str(tmp_path / "out")) == 2
    lines = refusals(capsys)
    assert told(lines) == set(PROBLEMS)
    assert len(lines) == len(PROBLEMS)


def test_the_exporter_lists_every_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = kubeconfig(tmp_path, "http://127.0.0.1:1")
    assert sluice_exporter("--pools", pools_file(tmp_path, BROKEN), "--kubeconfig", config) == 2
    lines = refusals(capsys)
    assert told(lines) == set(PROBLEMS)
    assert len(lines) == len(PROBLEMS)


def test_the_function_app_refuses_it_keeps_the_last_good_one_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=200)
    assert stage.status()["clusters"]["training"]["config_problems"] == []
    stage.stand.set_pools_file(BROKEN)
    stage.submit(1, prefix="more")
    stage.run(2)
    with caplog.at_level(logging.ERROR, "sluice"):
        stage.say(seconds=200)
    assert len(stage.bound("more")) == 1
    cluster = stage.status()["clusters"]["training"]
    assert cluster["mode"] == "act"
    assert told(cluster["config_problems"]) == set(PROBLEMS)
    assert len(caplog.messages) == 1
    assert "the last good one stays in force" in caplog.messages[0]
    assert told(caplog.messages) == set(PROBLEMS)


def test_a_mended_file_comes_into_force_and_the_problems_go() -> None:
    stage = Stage()
    stage.say(seconds=2)
    stage.stand.set_pools_file(BROKEN)
    assert stage.status()["clusters"]["training"]["config_problems"]
    stage.stand.set_pools_file(POOLS.replace("mode: act", "mode: paused"))
    cluster = stage.status()["clusters"]["training"]
    assert (cluster["mode"], cluster["config_problems"]) == ("paused", [])


def test_a_file_that_names_another_cluster_is_refused_like_any_broken_one() -> None:
    stage = Stage()
    stage.say(seconds=2)
    stage.stand.set_pools_file(POOLS.replace("cluster: training", "cluster: other"))
    cluster = stage.status()["clusters"]["training"]
    assert cluster["mode"] == "act"
    assert cluster["config_problems"] == [
        "cluster: must be training, since the file is config/training.yaml (found 'other')"
    ]


def test_without_any_good_version_nothing_is_done_and_the_problems_are_told() -> None:
    stage = Stage()
    stage.stand.set_pools_file(BROKEN)
    stage.submit(1)
    stage.run(2)
    stage.say(seconds=60)
    assert stage.arm.writes == []
    cluster = stage.status()["clusters"]["training"]
    assert cluster["mode"] is None
    assert told(cluster["config_problems"]) == set(PROBLEMS)
    stage.stand.set_pools_file(POOLS)
    stage.say(seconds=200)
    assert len(stage.bound()) == 1
