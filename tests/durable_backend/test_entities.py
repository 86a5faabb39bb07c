from datetime import timedelta

from local.durable.model import Latencies
from local.functions_host import FunctionsHost, HostOptions
from local.timeline import EPOCH, VirtualTimeline
from tests.durable_backend.apps import Calls, sample_app

HOUR = timedelta(hours=1)


def test_a_call_answers_with_the_operations_result(host: FunctionsHost, timeline: VirtualTimeline):
    host.client_start("adding", 5, "a")
    timeline.run(EPOCH + HOUR)
    assert (host.instance("a").output, host.entity("counter", "c")) == (10, 10)


def test_calls_of_many_instances_are_served_one_after_the_other(host: FunctionsHost, timeline: VirtualTimeline):
    for number in range(20):
        host.client_start("adding", 3, f"a{number}")
    timeline.run(EPOCH + HOUR)
    assert host.entity("counter", "c") == 120


def test_signals_and_calls_of_one_sender_keep_their_order(timeline: VirtualTimeline, calls: Calls):
    slow = Latencies(signal=(5.0, 30.0), entity=(0.1, 0.2))
    host = FunctionsHost(sample_app(calls), timeline, HostOptions(latencies=slow))
    host.client_start("signalling", None, "a")
    timeline.run(EPOCH + HOUR)
    assert host.instance("a").output == 7


def test_a_failed_operation_raises_in_the_caller_and_keeps_what_it_changed(
    host: FunctionsHost, timeline: VirtualTimeline
):
    host.client_start("entity_failing", None, "a")
    timeline.run(EPOCH + HOUR)
    assert (host.instance("a").output, host.entity("counter", "c")) == ("the counter is stuck", 100)


def test_a_signal_from_outside_changes_the_state(host: FunctionsHost, timeline: VirtualTimeline):
    host.signal("Counter", "c", "add", 4)
    timeline.run(EPOCH + HOUR)
    assert host.entity("Counter", "c") == 4


def test_a_destructed_entity_is_gone(host: FunctionsHost, timeline: VirtualTimeline):
    host.signal("Counter", "c", "add", 4)
    host.signal("Counter", "c", "reset")
    timeline.run(EPOCH + HOUR)
    assert host.entity("Counter", "c") is None


def test_an_entity_that_is_not_in_the_app_is_a_violation_and_an_error_for_the_caller(
    host: FunctionsHost, timeline: VirtualTimeline
):
    host.signal("Nobody", "c", "add", 4)
    timeline.run(EPOCH + HOUR)
    assert [violation.kind for violation in host.violations] == ["entity-failure"]
