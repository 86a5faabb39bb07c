"""Each alert fires on what the app really says, and not on an ordinary day."""

from __future__ import annotations

import re
from datetime import timedelta

import orjson
import pytest

from functions import housekeeping
from functions.app import create_app
from functions.maintenance import SCHEDULE
from local.arm.faults import Fault
from tests.monitoring import kql
from tests.monitoring.watch import ALERTS, MONITORING, duration, query, watched
from tests.orchestrations.stage import Stage

MINUTE = 60.0
HEARD = sorted(ALERTS.keys() - {"no-sweep"})
"""The alerts on lines; the other one is on their absence."""


def announced(stage: Stage, minutes: int) -> None:
    """Time passes, and the exporter says every minute that pods wait."""
    for _ in range(minutes):
        stage.say(seconds=MINUTE)


def test_an_ordinary_day_fires_none() -> None:
    stage = Stage(timers=True)
    with watched(stage) as watch:
        stage.submit(3)
        stage.run(2)
        announced(stage, 4)
        assert len(stage.bound()) == 3
        stage.finish()
        stage.idle()
        stage.run(20 * MINUTE)
        assert stage.nodes() == []
    assert watch.lines
    assert {name: watch.fired(name) for name in HEARD} == {name: set() for name in HEARD}


def test_a_refused_event_fires_dead_letters() -> None:
    stage = Stage()
    with watched(stage) as watch:
        stage.publisher.publish([{**stage.event(), "type": "sluice.nonsense"}])
        stage.run(15 * MINUTE)
    assert watch.fired("dead-letters") == {""}


def test_an_orchestration_that_hangs_fires_until_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(housekeeping.BOUNDS, "take_pool", timedelta(minutes=2))
    stage = Stage(timers=True)
    stage.run(57 * MINUTE)
    wanted = {"cluster": "training", "pool": "spot", "holder": "x", "seconds": 60.0}
    lock = {**wanted, "holder": "somebody", "seconds": 3600.0, "now": stage.timeline.now().isoformat()}
    stage.host.signal("cluster", "training", "lock_pool", lock)
    stage.run(1)
    with watched(stage) as watch:
        stage.host.client_start("take_pool", wanted, "hangs")
        stage.run(40 * MINUTE)
    assert watch.fired("stuck-orchestrations") == {""}


def test_requests_that_azure_turns_away_time_and_again_fire_throttling() -> None:
    stage = Stage()
    often = Fault("operation.get", code="TooManyRequests", retry_after=1, times=None, probability=0.75)
    stage.stand.arm.faults.add(often)
    stage.stand.arm.faults.add(Fault("scale_set.update", "spot", stage="slow", seconds=300))
    with watched(stage) as watch:
        stage.submit(1)
        stage.run(2)
        stage.say(seconds=10 * MINUTE)
    assert watch.fired("throttling") == {"training"}


def test_one_request_turned_away_does_not() -> None:
    stage = Stage()
    stage.stand.arm.faults.add(Fault("scale_set.update", "spot", code="TooManyRequests", retry_after=10))
    with watched(stage) as watch:
        stage.submit(1)
        stage.run(2)
        stage.say(seconds=10 * MINUTE)
    assert any("kind='throttled'" in line for _, line in watch.lines)
    assert watch.fired("throttling") == set()


def test_pods_that_no_pool_can_serve_fire_after_a_quarter_of_an_hour() -> None:
    stage = Stage(timers=True)
    with watched(stage) as watch:
        stage.submit(1, cpu="40")
        stage.run(2)
        announced(stage, 4)
        assert watch.fired("unserved-pods") == set()
        announced(stage, 12)
    assert watch.fired("unserved-pods") == {"training"}
    assert watch.fired("exporter-silent") == set()


def test_pods_that_wait_while_no_event_comes_fire_exporter_silent() -> None:
    stage = Stage(timers=True)
    with watched(stage) as watch:
        stage.submit(1, cpu="40")
        stage.run(20 * MINUTE)
    assert watch.fired("exporter-silent") == {"training"}


def test_a_quiet_cluster_without_events_is_no_silent_exporter() -> None:
    stage = Stage(timers=True)
    with watched(stage) as watch:
        stage.run(60 * MINUTE)
    assert watch.fired("exporter-silent") == set()


def test_a_pools_file_that_is_refused_fires() -> None:
    stage = Stage(timers=True)
    with watched(stage) as watch:
        stage.run(6 * MINUTE)
        stage.stand.set_pools_file("cluster: training\nmode: perhaps\n")
        stage.run(20 * MINUTE)
    assert watch.fired("refused-pools-file") == {"training"}


def test_the_sweep_whose_absence_fires_is_the_apps_timer_and_often_enough() -> None:
    (name,) = re.findall(r'\bName == "(\w+)"', query(ALERTS["no-sweep"]))
    functions = {each.get_function_name(): each for each in create_app(Stage().services).get_functions()}
    assert functions[name].get_trigger().get_dict_repr()["schedule"] == SCHEDULE == "0 */5 * * * *"
    assert duration(ALERTS["no-sweep"]["window"]) > 3 * timedelta(minutes=5)
    assert (ALERTS["no-sweep"]["operator"], ALERTS["no-sweep"]["threshold"]) == ("LessThan", 1)


@pytest.mark.parametrize("name", sorted(ALERTS))
def test_an_alert_has_what_azure_monitor_wants(name: str) -> None:
    alert = ALERTS[name]
    assert re.fullmatch(r"PT(5M|15M|30M)", alert["every"])
    assert re.fullmatch(r"PT(5M|10M|15M|30M|1H|2H)", alert["window"])
    assert duration(alert["every"]) <= duration(alert["window"])
    assert 1 <= alert["failing"][0] <= alert["failing"][1] <= 6
    assert all(f"extend {each} = " in query(alert) for each in alert["dimensions"])
    assert alert["remedy"]


def test_no_line_that_an_alert_waits_for_is_sampled_away() -> None:
    host = orjson.loads((MONITORING.parents[1] / "host.json").read_bytes())
    assert "Trace" in host["logging"]["applicationInsights"]["samplingSettings"]["excludedTypes"].split(";")
    assert host["logging"]["logLevel"]["default"] == "Information"


def test_a_query_in_words_that_are_not_known_here_is_refused() -> None:
    with pytest.raises(ValueError, match="take 5"):
        kql.run("AppTraces\n| take 5", {"AppTraces": []})
