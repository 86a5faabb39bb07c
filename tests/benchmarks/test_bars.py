from dataclasses import replace

import pytest

from bench import bounds, workloads
from bench.bars import Bar, Row, Sense, by_place, judge, judge_further, judge_growth, judge_large
from bench.growth import Growth, exponent
from bench.ours import FIRST, IMPROVED


def row(workload, packer, ms=10.0, planned=100.0, realised=100.0, bound=100.0):
    return Row(workload, packer, ms, ms, 5, planned, realised, bound, bound)


def judged(*rows):
    """Our first plan is as good and as fast as the improved one here."""
    first = [replace(each, packer=FIRST) for each in rows if each.packer == IMPROVED]
    return {bar.text: bar.holds for bar in judge(by_place([*first, *rows]))}


def test_the_first_plan_is_held_against_each_peer():
    rows = [row("b-15000", "sluice"), row("b-15000", "k8sffd", ms=649.0), row("b-15000", "karpenter", ms=20_001.0)]
    verdict = judged(*rows)
    assert verdict["b-15000: times faster than k8sffd"] is False
    assert verdict["b-15000: times faster than karpenter"] is True


def test_apart_workloads_are_held_against_the_faster_peer():
    verdict = judged(row("d-anti", "sluice"), row("d-anti", "k8sffd", ms=131.0), row("d-anti", "karpenter", ms=129.0))
    assert verdict["d-anti: times faster than the faster peer (karpenter)"] is False


def test_a_plan_that_leaves_pods_out_misses_every_bar_on_price_and_speed():
    refused = Row("d-anti", "sluice", 0.5, 0.5, None, None, None, 48.0, 48.0)
    verdict = judged(refused, row("d-anti", "k8sffd"), row("d-anti", "karpenter"))
    assert not any(verdict.values())


@pytest.mark.parametrize(
    ("name", "price", "holds"),
    [("a-5000", 100.3, True), ("b-2000", 100.4, False), ("d-mixed", 100.1, False), ("c-2000", 102.0, True)],
)
def test_the_planned_price_is_held_against_the_bound(name, price, holds):
    assert judged(row(name, "sluice", planned=price))[f"{name}: planned price over the bound"] is holds


def test_a_peer_that_is_slow_must_be_slower():
    verdict = judged(
        row("b-2000", "sluice", ms=290.0), row("b-2000", "karpenter", ms=310.0), row("b-2000", "k8sffd", ms=20.0)
    )
    assert verdict["b-2000: ms of the improved plan beside karpenter's"] is True
    assert "b-2000: ms of the improved plan beside k8sffd's" not in verdict


def test_without_peers_only_what_needs_none_is_judged():
    assert not [text for text in judged(row("b-15000", "sluice")) if "karpenter" in text or "k8sffd" in text]


def test_cluster_autoscalers_own_realised_price_is_a_bar_of_its_own():
    assert (
        judged(row("d-anti", "sluice", planned=50.0, realised=58.0))[
            "d-anti: realised price beside cluster-autoscaler's realised"
        ]
        is False
    )


def test_the_median_of_further_draws_counts():
    known = {f"b-2000#{seed}": bounds.Bound(f"b-2000#{seed}", "", 100.0, 1, 100.0, 100.0) for seed in (1, 2, 3)}
    (bar,) = judge_further({"b-2000#1": 101.0, "b-2000#2": 101.5, "b-2000#3": 150.0}, known)
    assert (bar.figure, bar.holds) == (pytest.approx(1.015), True)


def test_a_draw_left_unserved_misses_the_bar():
    known = {"b-2000#1": bounds.Bound("b-2000#1", "", 100.0, 1, 100.0, 100.0)}
    (bar,) = judge_further({"b-2000#1": None}, known)
    assert not bar.holds


def test_the_exponent_of_a_power_law_is_found():
    assert exponent([10, 20, 40], [3.0, 12.0, 48.0]) == pytest.approx(2.0)


def test_growth_above_linear_is_a_miss():
    (bar,) = judge_growth([Growth("pods", (1, 2), (1.0, 4.0), 2.0)])
    assert not bar.holds


def test_a_large_cluster_is_held_to_time_and_memory():
    time, memory = judge_large({"ms_min": 499.0, "process_peak_mb": 130.0, "unserved": 0})
    assert (time.holds, memory.holds) == (True, False)


def test_a_bar_says_its_figure_and_its_limit():
    assert str(Bar("a: ms", 12.0, Sense.AT_MOST, 300)) == "holds  a: ms: 12 (<= 300)"


def test_every_workload_of_the_bars_has_a_published_bound_of_the_very_same_pods():
    published = bounds.published()
    for name in (*workloads.NAMES, *workloads.further()):
        assert published[name].digest == workloads.digest(workloads.make(name))
        assert 0 < published[name].loose <= published[name].tight <= published[name].tight_at_most
