"""What is counted as Sluice's own cost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from bench import cost

HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def day() -> cost.Day:
    day = cost.Day(cost.IDLE_POOLS)
    day.system.run_for(HOUR)
    return day


def test_an_idle_hour_has_twelve_sweeps_and_nothing_that_grows(day: cost.Day):
    first = dict(day.watch(HOUR).counts)
    second = dict(day.watch(HOUR).counts)
    assert first["timer runs"] == second["timer runs"] == 12
    assert first["events delivered"] == second["events delivered"] == 24  # two empty nodes, told every five minutes
    for what in ("orchestrator episodes", "activities", "arm reads by functions", "blobs reads by functions"):
        assert 0 < second[what] <= first[what] + 12


def test_an_idle_cluster_writes_nothing_to_azure(day: cost.Day):
    assert "arm writes by functions" not in day.watch(HOUR).counts


def test_executions_within_a_second_are_billed_as_one_spell():
    ledger, begun = cost.Ledger(), datetime(2026, 1, 1, tzinfo=UTC)
    for seconds in (0.0, 0.2, 0.9, 10.0):
        ledger.execute("durable", "activities", begun + timedelta(seconds=seconds))
    assert ledger.billed_seconds("durable") == pytest.approx(1.9 + 1.0)


def test_polls_are_those_of_host_json():
    settings = orjson.loads((Path(cost.__file__).parents[1] / "host.json").read_bytes())
    provider = settings["extensions"]["durableTask"]["storageProvider"]
    assert provider["partitionCount"] + 1 == cost.POLLERS
    assert provider["maxQueuePollingInterval"] == f"00:00:{cost.POLLED_EVERY:02.0f}"
