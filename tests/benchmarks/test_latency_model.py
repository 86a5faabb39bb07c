import random
from datetime import timedelta

import pytest

from bench.fallback import Line, _percentile, _written
from bench.latency import model as m
from bench.latency import paths
from bench.latency.branching import branches
from bench.latency.meter import Measured, Meter
from bench.latency.queues import ControlQueues, Poller
from bench.latency.worlds import AGENT_POOLS, SCALE_SETS
from local.timeline import EPOCH, VirtualTimeline
from local.web import Request, Response

MEASURED = Measured(0.5, 0.6, 5.0)
STORAGE = next(each for each in m.MODELS if each.name == "storage 1 s")


def pauses(longest, number=12):
    poller, at, found = Poller(longest, random.Random(1), 0.0), 0.0, []
    for _ in range(number):
        following = poller.next_poll(at + 1e-9)
        found.append(following - at)
        at = following
    return found


def test_an_idle_queue_is_polled_ever_more_seldom_up_to_its_longest_interval():
    found = pauses(1.0)
    assert found[0] == pytest.approx(0.05)
    assert 0.2 < found[3] < 0.3
    assert found[-1] == pytest.approx(1.0)


def test_whoever_shares_the_workers_process_wakes_its_poller():
    queues = ControlQueues(10.0, random.Random(1))
    queues.own("instance", 100.0)
    assert queues.hidden("instance", 100.01) - 100.01 <= 0.05


def test_a_message_of_another_process_waits_for_the_next_poll():
    waits = [ControlQueues(10.0, random.Random(seed)).foreign("instance", 1000.0) - 1000.0 for seed in range(200)]
    assert 9.0 < max(waits) <= 10.0
    assert 4.0 < sum(waits) / len(waits) < 6.0


def test_a_spread_has_its_median_and_its_hundredth():
    source, spread = random.Random(1), m.Spread(0.1, 3.0)
    drawn = sorted(spread.draw(source) for _ in range(20_000))
    assert drawn[10_000] == pytest.approx(0.1, rel=0.05)
    assert drawn[19_800] == pytest.approx(0.3, rel=0.1)


def test_a_message_leaves_when_what_was_done_before_it_is_over():
    meter = Meter(STORAGE, MEASURED, random.Random(1), VirtualTimeline())
    with meter.step("activities"):
        meter.request("blob", Request("PUT", "/b", {}, {}), 3.0, lambda: Response(201))
        assert meter.activity("next") > 3.0
    assert meter.completion("instance") > 3.0


def test_a_cold_instance_costs_its_start_once():
    cold = next(each for each in m.MODELS if not each.warm)
    meter = Meter(cold, MEASURED, random.Random(1), VirtualTimeline())
    meter.fall_asleep()
    with meter.step("deliveries", "outside"):
        assert meter.elapsed() >= 2.5
    with meter.step("deliveries", "outside"):
        assert meter.elapsed() < 1.0


def test_a_timer_is_late_but_never_early():
    meter = Meter(STORAGE, MEASURED, random.Random(1), VirtualTimeline())
    assert all(0 < meter.timer("instance", EPOCH + timedelta(seconds=n)) < 2.0 for n in range(50))


def test_each_future_of_a_world_goes_its_own_way():
    counted = [0]

    def future(seed):
        counted[0] += seed
        return [counted[0]]

    assert list(branches(range(1, 4), future)) == [1, 2, 3]
    assert counted == [0]


def test_a_bar_is_held_against_judged_models_alone():
    line = Line(STORAGE, paths.CORDON, 1.0, 2.5, {})
    assert not line.holds
    shown = next(each for each in m.MODELS if not each.judged)
    assert Line(shown, paths.CORDON, 1.0, 2.5, {}).holds


def test_the_hundredth_is_the_smallest_figure_that_ninety_nine_percent_keep_to():
    assert _percentile(list(range(1, 301)), 0.99) == 297


@pytest.mark.parametrize("estate", [SCALE_SETS, AGENT_POOLS], ids=lambda estate: estate.kind)
def test_a_path_ends_with_its_request_in_every_judged_model(estate):
    for model in (each for each in m.MODELS if each.judged):
        (sample,) = paths.fallback(model, MEASURED, range(1), estate)
        assert 0.3 < sample.seconds < 10.0
        assert sample.hops["activities"] > 0


def test_agent_pools_are_held_against_no_bar():
    (sample, _) = paths.eviction(STORAGE, MEASURED, range(1), AGENT_POOLS)
    assert Line(STORAGE, sample.path, 9.0, 9.0, {}).bar is None


def test_a_request_that_is_refused_ends_no_path():
    meter, told = Meter(STORAGE, MEASURED, random.Random(1), VirtualTimeline()), []
    meter.listeners.append(lambda kind, *_: told.append(kind))
    meter.request("refused", Request("PUT", "/p", {}, {}), 1.0, lambda: Response(409))
    meter.request("accepted", Request("PUT", "/p", {}, {}), 1.0, lambda: Response(202))
    assert told == ["accepted"]


def test_few_draws_are_told_by_their_maximum():
    assert " max   2.50 s" in _written(Line(STORAGE, paths.CORDON, 1.0, 2.5, dict.fromkeys(("episodes",), 1), 40))
    assert " p99   2.50 s" in _written(Line(STORAGE, paths.CORDON, 1.0, 2.5, dict.fromkeys(("episodes",), 1), 300))
