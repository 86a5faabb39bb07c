from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import orjson
import pytest

from local import cli_simulate
from local.cli import main
from local.system.trace import COLUMNS, DENSE_FROM
from tests.simulation.worlds import ONE_POOL

KEYS = [
    "pods", "nodes", "vm_hours", "cost", "spot_evictions", "fallbacks", "leaks", "violations", "trace_hash",
]  # fmt: skip


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Three pods of the openb form; the second one never ran there."""
    start = int(DENSE_FROM)
    rows = (
        f"a,2000,1024,0,0,{start + 10},{start + 200},{start + 20}",
        f"b,1000,1024,0,0,{start + 15},{start + 100},",
        f"c,3000,1024,0,0,{start + 4000},{start + 4100},{start + 4000}",
    )
    path = tmp_path / "trace.csv"
    path.write_text("\n".join([",".join(COLUMNS), *rows]) + "\n")
    return path


@pytest.fixture
def pools(tmp_path: Path) -> Path:
    path = tmp_path / "pools.yaml"
    path.write_text(ONE_POOL)
    return path


def simulate(trace: Path, pools: Path, *more: str) -> int:
    return main(
        ["simulate", "--trace", str(trace), "--pools", str(pools), "--report", str(trace.parent / "out"), *more]
    )


def test_a_trace_becomes_a_report_and_a_picture(trace: Path, pools: Path):
    assert simulate(trace, pools) == 0
    figures = orjson.loads((trace.parent / "out" / "report.json").read_bytes())
    assert [key for key in figures if key in KEYS] == KEYS
    assert figures["pods"]["submitted"] == figures["pods"]["scheduled"] == 3
    assert figures["nodes"]["left"] == 0
    assert figures["violations"] == []
    assert figures["gpu"] == {"asked": 0, "used": 0, "wasted_share": 0.0}
    assert (trace.parent / "out" / "run.svg").read_bytes().startswith(b"<?xml")


def test_the_last_line_holds_the_figures(trace: Path, pools: Path, capsys: pytest.CaptureFixture[str]):
    simulate(trace, pools)
    figures = orjson.loads((trace.parent / "out" / "report.json").read_bytes())
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("simulated 3 pods: unserved 0, ")
    assert f"trace_hash {figures['trace_hash']}" in last


def test_the_days_cut_the_trace_off(trace: Path, pools: Path, capsys: pytest.CaptureFixture[str]):
    assert simulate(trace, pools, "--days", "0.01") == 0
    assert "simulated 2 pods" in capsys.readouterr().out


def test_violations_are_named_and_fail_the_command(
    trace: Path, pools: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cli_simulate, "PATIENCE", timedelta(0))
    pools.write_text(ONE_POOL.replace("mode: act", "mode: observe"))
    assert simulate(trace, pools) == 5
    assert "unserved: default/a waits since" in capsys.readouterr().out


def test_every_problem_of_the_pools_file_is_listed(trace: Path, pools: Path, capsys: pytest.CaptureFixture[str]):
    pools.write_text(ONE_POOL.replace("max: 10", "max: -1, minimum: 0"))
    assert simulate(trace, pools) == 2
    said = capsys.readouterr().err
    assert "pools[0].max: " in said
    assert "pools[0].minimum: unknown key" in said


@pytest.mark.parametrize("missing", ["trace", "pools"])
def test_a_missing_file_is_one_line_that_says_what_to_give(
    trace: Path, pools: Path, missing: str, capsys: pytest.CaptureFixture[str]
):
    {"trace": trace, "pools": pools}[missing].unlink()
    assert simulate(trace, pools) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert f"--{missing}" in said


def test_days_that_are_no_span_of_time_are_refused(trace: Path, pools: Path, capsys: pytest.CaptureFixture[str]):
    assert simulate(trace, pools, "--days", "-1") == 2
    assert "--days -1" in capsys.readouterr().err
