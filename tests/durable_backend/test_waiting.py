from datetime import timedelta

from local.durable import history
from local.durable.model import Latencies
from local.functions_host import FunctionsHost, HostOptions
from local.timeline import EPOCH, VirtualTimeline
from tests.durable_backend.apps import Calls, sample_app

HOUR = timedelta(hours=1)


def test_a_timer_fires_at_its_time_and_sets_the_context_clock(host: FunctionsHost, timeline: VirtualTimeline):
    host.client_start("sleeping", 3 * 3600, "a")
    timeline.run(EPOCH + 3 * HOUR - timedelta(seconds=1))
    assert host.instance("a").status == "Running"
    timeline.run(EPOCH + 3 * HOUR)
    assert host.instance("a").output == (EPOCH + 3 * HOUR).isoformat()


def test_a_timer_of_a_week_is_split_as_the_sdk_splits_it(host: FunctionsHost, timeline: VirtualTimeline):
    host.client_start("sleeping", 7 * 86_400, "a")
    timeline.run(EPOCH + timedelta(days=7))
    assert host.instance("a").output == (EPOCH + timedelta(days=7)).isoformat()
    kinds = [event["EventType"] for event in host.engine.history_of(host.engine.instances["a"])]
    assert kinds.count(history.TIMER_FIRED) > 1


def test_an_event_wins_a_race_and_the_cancelled_timer_holds_nobody(host: FunctionsHost, timeline: VirtualTimeline):
    host.client_start("racing", None, "a")
    timeline.run(EPOCH + timedelta(minutes=1))
    host.raise_event("a", "go", "now")
    timeline.run(EPOCH + timedelta(minutes=2))
    assert (host.instance("a").status, host.instance("a").output) == ("Completed", '"now"')
    assert timeline.next_due() is None


def test_a_timer_wins_a_race_when_nothing_comes(host: FunctionsHost, timeline: VirtualTimeline):
    host.client_start("racing", None, "a")
    timeline.run(EPOCH + HOUR)
    assert host.instance("a").output == "timed out"


def test_an_uncancelled_timer_keeps_the_instance_running_until_it_fires(host: FunctionsHost, timeline: VirtualTimeline):
    host.client_start("racing_without_cancel", None, "a")
    timeline.run(EPOCH + timedelta(minutes=1))
    host.raise_event("a", "go")
    timeline.run(EPOCH + HOUR - timedelta(seconds=1))
    assert host.instance("a").status == "Running"
    timeline.run(EPOCH + HOUR)
    assert host.instance("a").status == "Completed"


def test_an_event_is_buffered_until_somebody_waits_for_it(host: FunctionsHost, timeline: VirtualTimeline):
    host.client_start("waiting_late", None, "a")
    timeline.run(EPOCH + timedelta(seconds=10))
    host.raise_event("a", "go", 7)
    timeline.run(EPOCH + timedelta(seconds=59))
    assert host.instance("a").status == "Running"
    timeline.run(EPOCH + timedelta(minutes=1))
    assert host.instance("a").output == "7"


def test_an_event_that_overtakes_the_start_is_not_lost(timeline: VirtualTimeline, calls: Calls):
    latencies = Latencies(start=(30.0, 30.0), event=(1.0, 1.0))
    host = FunctionsHost(sample_app(calls), timeline, HostOptions(latencies=latencies))
    host.client_start("waiting_late", None, "a")
    host.raise_event("a", "go", 7)
    timeline.run(EPOCH + HOUR)
    assert host.instance("a").output == "7"


def test_polling_with_growing_pauses_ends_when_the_answer_is_there(host: FunctionsHost, timeline: VirtualTimeline):
    host.client_start("polling", None, "a")
    timeline.run(EPOCH + HOUR)
    assert host.instance("a").output == 3
    assert host.instance("a").updated == EPOCH + timedelta(seconds=2 + 3 + 4)


def test_a_suspended_instance_takes_no_step_until_it_is_resumed(host: FunctionsHost, timeline: VirtualTimeline):
    host.client_start("sleeping", 60, "a")
    timeline.run(EPOCH + timedelta(seconds=1))
    host.engine.suspend(host.engine.instances["a"], "lunch")
    timeline.run(EPOCH + HOUR)
    assert host.instance("a").status == "Suspended"
    host.engine.resume(host.engine.instances["a"], "back")
    timeline.run(EPOCH + HOUR)
    assert host.instance("a").status == "Completed"


def test_an_instance_suspended_before_its_first_step_runs_after_resume(host: FunctionsHost, timeline: VirtualTimeline):
    host.client_start("doubling", 1, "a")
    host.engine.suspend(host.engine.instances["a"], "lunch")
    timeline.run(EPOCH + HOUR)
    host.engine.resume(host.engine.instances["a"], "back")
    timeline.run(EPOCH + HOUR)
    assert host.instance("a").output == 2


def test_a_terminated_instance_ends_at_once_and_its_timers_are_gone(host: FunctionsHost, timeline: VirtualTimeline):
    host.client_start("sleeping", 3600, "a")
    timeline.run(EPOCH + timedelta(seconds=1))
    host.engine.terminate(host.engine.instances["a"], "enough")
    assert (host.instance("a").status, host.instance("a").output) == ("Terminated", "enough")
    assert timeline.next_due() is None


def test_what_follows_a_failed_task_all_starts_only_when_every_sibling_has_ended(
    host: FunctionsHost, timeline: VirtualTimeline, calls: Calls
):
    host.client_start("failing_fast", None, "a")
    timeline.run(EPOCH + timedelta(seconds=59))
    assert (calls["fail"], calls["double"]) == (1, 0)
    timeline.run(EPOCH + timedelta(seconds=60))
    assert (host.instance("a").status, calls["double"]) == ("Completed", 1)


def test_one_early_event_that_is_waited_for_twice_leaves_the_instance_waiting_as_in_azure(
    host: FunctionsHost, timeline: VirtualTimeline
):
    host.client_start("waiting_twice", None, "a")
    timeline.run(EPOCH + timedelta(seconds=1))
    host.raise_event("a", "go")
    timeline.run(EPOCH + HOUR)
    assert host.instance("a").status == "Running"
    host.raise_event("a", "go")
    timeline.run(EPOCH + HOUR)
    assert host.instance("a").status == "Completed"
