from datetime import timedelta

import pytest

from local.durable.engine import StartRefused
from local.functions_host import FunctionsHost
from local.timeline import EPOCH, VirtualTimeline
from tests.durable_backend.apps import Calls

HOUR = timedelta(hours=1)


def test_an_activity_gets_its_input_and_gives_its_result(host: FunctionsHost, timeline: VirtualTimeline):
    host.client_start("doubling", 21, "a")
    timeline.run(EPOCH + HOUR)
    assert (host.instance("a").status, host.instance("a").output) == ("Completed", 42)


def test_a_chain_runs_each_activity_once(host: FunctionsHost, timeline: VirtualTimeline, calls: Calls):
    host.client_start("chain", 12, "a")
    timeline.run(EPOCH + HOUR)
    assert (host.instance("a").output, calls["double"]) == (2**12, 12)


def test_a_fan_out_waits_for_all(host: FunctionsHost, timeline: VirtualTimeline):
    host.client_start("fan_out", 20, "a")
    timeline.run(EPOCH + HOUR)
    assert host.instance("a").output == 380


def test_an_asynchronous_activity_is_driven_to_its_end(host: FunctionsHost, timeline: VirtualTimeline):
    host.client_start("asynchronous", None, "a")
    timeline.run(EPOCH + HOUR)
    assert host.instance("a").output == 8


def test_an_activity_starts_an_orchestration_through_the_real_client(host: FunctionsHost, timeline: VirtualTimeline):
    host.client_start("detaching", None, "a")
    timeline.run(EPOCH + HOUR)
    assert (host.instance("a").output, host.instance("detached").output) == ("detached", 42)


def test_a_failed_activity_fails_its_orchestration_and_says_why(host: FunctionsHost, timeline: VirtualTimeline):
    host.client_start("failing", None, "a")
    timeline.run(EPOCH + HOUR)
    view = host.instance("a")
    assert view.status == "Failed"
    assert "Activity function 'fail' failed: ValueError: no such thing" in view.output


def test_a_failed_activity_can_be_caught(host: FunctionsHost, timeline: VirtualTimeline):
    host.client_start("catching", None, "a")
    timeline.run(EPOCH + HOUR)
    assert host.instance("a").status == "Completed"
    assert "no such thing" in host.instance("a").output


def test_a_sub_orchestration_gives_its_result_to_its_parent(host: FunctionsHost, timeline: VirtualTimeline):
    host.client_start("parent", None, "a")
    timeline.run(EPOCH + HOUR)
    assert (host.instance("a").output, host.instance("child").output) == (10, 10)


def test_a_failed_sub_orchestration_raises_in_its_parent(host: FunctionsHost, timeline: VirtualTimeline):
    host.client_start("parent_of_failing", None, "a")
    timeline.run(EPOCH + HOUR)
    assert "Orchestrator function 'failing' failed" in host.instance("a").output


def test_continue_as_new_begins_a_new_history(host: FunctionsHost, timeline: VirtualTimeline, calls: Calls):
    host.client_start("counting_down", 30, "a")
    timeline.run(EPOCH + HOUR)
    view = host.instance("a")
    assert (view.output, view.longest_history, calls["double"]) == ("done", 7, 31)


def test_an_orchestrator_without_a_yield_returns_at_once(host: FunctionsHost, timeline: VirtualTimeline):
    host.client_start("echoing", {"a": [1]}, "a")
    timeline.run(EPOCH + HOUR)
    assert host.instance("a").output == {"a": [1]}


def test_an_unknown_orchestrator_is_refused(host: FunctionsHost):
    with pytest.raises(StartRefused, match="'nothing' doesn't exist"):
        host.client_start("nothing")


def test_a_running_id_is_refused_and_a_finished_one_is_replaced(host: FunctionsHost, timeline: VirtualTimeline):
    host.client_start("doubling", 1, "a")
    with pytest.raises(StartRefused, match="already exists"):
        host.client_start("doubling", 2, "a")
    timeline.run(EPOCH + HOUR)
    host.client_start("doubling", 3, "a")
    timeline.run(EPOCH + HOUR)
    assert host.instance("a").output == 6


def test_custom_status_is_shown_while_it_runs(host: FunctionsHost, timeline: VirtualTimeline):
    host.client_start("reporting", None, "a")
    timeline.run(EPOCH + HOUR)
    assert (host.instance("a").status, host.instance("a").custom_status) == ("Running", {"step": 1})
