from datetime import timedelta

import pytest

from local.durable.model import Faults
from local.durable.replay import ReplayMismatch, replay_prefixes
from local.functions_host import FunctionsHost, HostOptions
from local.timeline import EPOCH, VirtualTimeline
from tests.durable_backend.apps import Calls, sample_app

HOUR = timedelta(hours=1)


def kinds(host: FunctionsHost) -> list[str]:
    return [violation.kind for violation in host.violations]


def test_another_activity_in_a_replay_fails_the_instance_and_is_a_violation(
    host: FunctionsHost, timeline: VirtualTimeline, calls: Calls
):
    host.client_start("moody", None, "a")
    timeline.run(EPOCH + timedelta(seconds=1))
    calls.mood = "changed"
    host.raise_event("a", "go")
    timeline.run(EPOCH + HOUR)
    assert host.instance("a").status == "Failed"
    assert "task 0 was TaskScheduled ['double', '1'] before" in host.instance("a").output
    assert kinds(host) == ["non-deterministic"]


def test_an_orchestrator_that_asks_for_something_else_when_replayed_fails(
    host: FunctionsHost, timeline: VirtualTimeline, calls: Calls
):
    host.client_start("forgetful", None, "a")
    timeline.run(EPOCH + HOUR)
    calls.mood = "changed"
    host.raise_event("a", "go")
    timeline.run(EPOCH + HOUR)
    assert host.instance("a").status == "Failed"
    assert "Non-Deterministic workflow detected: task 0" in host.instance("a").output
    assert kinds(host) == ["non-deterministic"]


def test_call_with_retry_is_refused_with_advice(host: FunctionsHost, timeline: VirtualTimeline):
    host.client_start("retrying", None, "a")
    timeline.run(EPOCH + HOUR)
    assert host.instance("a").status == "Failed"
    assert "retry by hand" in host.instance("a").output
    assert kinds(host) == ["refused"]


def test_a_large_input_is_a_violation_naming_the_instance(host: FunctionsHost):
    host.client_start("echoing", "x" * 32_767, "a")
    assert [(v.kind, v.instance_id) for v in host.violations] == [("payload-size", "a")]


def test_an_input_of_exactly_the_limit_is_fine(host: FunctionsHost):
    host.client_start("echoing", "x" * 32_766, "a")
    assert host.violations == []


def test_a_large_entity_state_is_a_violation(host: FunctionsHost, timeline: VirtualTimeline):
    host.signal("counter", "c", "grow", 40_000)
    timeline.run(EPOCH + HOUR)
    assert [(v.kind, v.instance_id) for v in host.violations] == [("payload-size", "@counter@c")]


def test_a_history_of_a_hundred_events_is_a_violation(host: FunctionsHost, timeline: VirtualTimeline):
    host.client_start("chain", 24, "short")
    timeline.run(EPOCH + HOUR)
    assert (host.instance("short").longest_history, kinds(host)) == (99, [])
    host.client_start("chain", 25, "long")
    timeline.run(EPOCH + HOUR)
    assert (host.instance("long").longest_history, kinds(host)) == (103, ["history-length"])


def test_a_sub_orchestration_under_a_running_id_fails_its_parent_loudly(host: FunctionsHost, timeline: VirtualTimeline):
    host.client_start("sleeping", 60, "child")
    host.client_start("parent", None, "a")
    timeline.run(EPOCH + HOUR)
    assert host.instance("a").status == "Failed"
    assert kinds(host) == ["sub-orchestration-id"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("chain", 12),
        ("fan_out", 8),
        ("catching", None),
        ("parent", None),
        ("parent_of_failing", None),
        ("polling", None),
        ("racing", None),
        ("adding", 4),
        ("signalling", None),
        ("entity_failing", None),
        ("counting_down", 2),
        ("sleeping", 8 * 86_400),
    ],
)
def test_every_prefix_of_a_history_leads_to_the_first_of_the_same_actions(
    host: FunctionsHost, timeline: VirtualTimeline, name: str, value: object
):
    host.client_start(name, value, "a")
    timeline.run(EPOCH + timedelta(days=10))
    assert host.instance("a").status == "Completed"
    assert replay_prefixes(host, "a") >= 2


def test_the_prefix_checker_finds_an_orchestrator_that_changed_its_mind(
    host: FunctionsHost, timeline: VirtualTimeline, calls: Calls
):
    host.client_start("flipping", None, "a")
    timeline.run(EPOCH + HOUR)
    with pytest.raises(ReplayMismatch, match="flipping"):
        replay_prefixes(host, "a")


def test_the_same_seed_gives_the_same_run():
    def run(seed: int) -> list[tuple[str, str, str]]:
        timeline = VirtualTimeline()
        host = FunctionsHost(sample_app(Calls()), timeline, HostOptions(seed=seed))
        for number in range(5):
            host.client_start("adding", 3)
            host.client_start("polling", number)
        timeline.run(EPOCH + HOUR)
        return [(view.id, view.status, view.updated.isoformat()) for view in host.instances()]

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_an_activity_may_be_run_twice_by_seed_and_its_orchestration_sees_one_result(
    timeline: VirtualTimeline, calls: Calls
):
    options = HostOptions(faults=Faults(rerun_activity_rate=1.0))
    host = FunctionsHost(sample_app(calls), timeline, options)
    host.client_start("chain", 3, "a")
    timeline.run(EPOCH + HOUR)
    assert (host.instance("a").output, calls["double"]) == (8, 6)


def test_finished_orchestrations_are_forgotten_after_their_retention(timeline: VirtualTimeline, calls: Calls):
    host = FunctionsHost(sample_app(calls), timeline, HostOptions(retention=HOUR))
    host.client_start("doubling", 1, "done")
    host.client_start("sleeping", 10 * 3600, "running")
    timeline.run(EPOCH + 3 * HOUR)
    assert [view.id for view in host.instances()] == ["running"]
