"""What is announced, when, and how often."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from exporter.detectors import Cadence, EvictingDetector, IdleDetector, JoinedDetector, UnschedulableDetector
from shared.model import BoundPods, Movability, NodeView, PodRef, PodShape
from tests.exporter.fakes import START, at

CADENCE = Cadence()
NODE = NodeView("n1", "u1", "", "cpu", {}, (), {}, {}, (), True, False, START)


def pods() -> UnschedulableDetector:
    return UnschedulableDetector(1.5, CADENCE)


def idle() -> IdleDetector:
    return IdleDetector(600, 0.5, CADENCE)


def test_a_single_pod_is_announced_after_the_debounce() -> None:
    detector = pods()
    detector.observe(["a"], [], at(0))
    assert detector.next_due(at(0)) == at(1.5)
    assert detector.due(at(1.4)) == 0
    assert detector.due(at(1.5)) == 1


def test_pods_that_keep_coming_extend_the_window_up_to_its_limit() -> None:
    detector = pods()
    for second in range(20):
        detector.observe([f"p{second}"], [], at(second))
        if detector.due(at(second)):
            break
    assert at(second) == at(CADENCE.longest_window)


def test_a_burst_is_one_announcement() -> None:
    detector = pods()
    detector.observe([f"p{number}" for number in range(200)], [], at(0))
    detector.observe(["late"], [], at(1))
    assert [detector.due(at(second)) for second in (1.5, 2.5, 3, 10)] == [0, 201, 0, 0]


def test_a_scheduler_that_is_slow_to_give_up_on_pods_does_not_hold_up_their_announcement() -> None:
    detector = pods()
    detector.observe([], [], at(0), arrived=["a", "b", "c"])
    for second, uid in enumerate("abc"):
        detector.observe([uid], [], at(second))
    assert detector.next_due(at(2)) == at(2)


def test_pods_that_are_still_being_created_are_waited_for_before_the_scheduler_speaks_of_them() -> None:
    detector = pods()
    detector.observe(["a"], [], at(0), arrived=["a"])
    detector.observe([], [], at(1), arrived=["b"])
    assert detector.next_due(at(1)) == at(2.5)


def test_pods_that_find_a_node_by_themselves_are_not_waited_for() -> None:
    detector = pods()
    detector.observe(["a"], [], at(0), arrived=["a"])
    detector.observe([], [], at(1), arrived=["b"])
    detector.observe([], [], at(1.2), left=["b"])
    assert detector.next_due(at(1.2)) == at(1.5)


def test_pods_announced_before_the_scheduler_spoke_of_them_are_no_news_afterwards() -> None:
    detector = pods()
    detector.observe(["a"], [], at(0), arrived=["a", "b"])
    assert detector.due(at(1.5)) == 1
    detector.observe(["b"], [], at(3))
    assert detector.due(at(10)) == 0
    assert detector.due(at(61.5)) == 2


def test_pods_that_still_wait_are_announced_again_after_a_minute() -> None:
    detector = pods()
    detector.observe(["a"], [], at(0))
    detector.due(at(1.5))
    assert detector.next_due(at(2)) == at(61.5)
    assert detector.due(at(61.4)) == 0
    assert detector.due(at(61.5)) == 1


def test_no_pressure_left_means_nothing_is_due() -> None:
    detector = pods()
    detector.observe(["a"], [], at(0))
    detector.observe([], ["a"], at(1))
    assert detector.next_due(at(1)) is None
    assert detector.due(at(100)) == 0


def test_a_pod_that_leaves_and_returns_soon_is_no_news() -> None:
    detector = pods()
    detector.observe(["a"], [], at(0))
    detector.due(at(1.5))
    detector.observe([], ["a"], at(10))
    detector.observe(["a"], [], at(20))
    assert detector.due(at(30)) == 0
    assert detector.due(at(61.5)) == 1


def test_a_new_pod_beside_known_ones_is_news_at_once() -> None:
    detector = pods()
    detector.observe(["a"], [], at(0))
    detector.due(at(1.5))
    detector.observe(["b"], [], at(5))
    assert detector.due(at(6.5)) == 2


def test_after_nodes_joined_what_is_left_over_is_announced_soon_and_then_ever_more_seldom() -> None:
    detector = pods()
    detector.observe(["a"], [], at(0))
    detector.due(at(1.5))
    detector.joined(at(10))
    said = [second for second in range(10, 300) if detector.due(at(second))]
    assert said == [15, 25, 45, 85, 145, 205, 265]


def test_a_new_holder_announces_what_another_one_may_have_announced() -> None:
    detector = pods()
    detector.observe(["a"], [], at(0))
    detector.due(at(1.5))
    detector.forget(at(10))
    assert detector.due(at(11.5)) == 1


def observed(detector: IdleDetector, utilization: float, when: datetime, node: NodeView = NODE, **flags: bool) -> None:
    detector.observe(node, utilization, when, retiring=flags.get("retiring", False))


def test_a_node_is_idle_since_it_fell_below_the_threshold_and_announced_after_idle_after() -> None:
    detector = idle()
    observed(detector, 0.5, at(0))
    assert detector.since == {}
    observed(detector, 0.49, at(100))
    observed(detector, 0.2, at(200))
    assert detector.since == {"n1": at(100)}
    assert detector.repeater.next_due() == at(700)
    assert detector.repeater.due(at(699)) == []
    assert detector.repeater.due(at(700)) == ["n1"]


def test_a_node_that_stays_idle_is_announced_again_every_five_minutes() -> None:
    detector = idle()
    observed(detector, 0.0, at(0))
    said = [second for second in range(0, 1801, 60) if detector.repeater.due(at(second))]
    assert said == [600, 900, 1200, 1500, 1800]


def test_a_node_that_becomes_busy_starts_anew() -> None:
    detector = idle()
    observed(detector, 0.1, at(0))
    observed(detector, 0.9, at(300))
    assert detector.repeater.next_due() is None
    observed(detector, 0.1, at(400))
    assert detector.repeater.next_due() == at(1000)


def test_nodes_that_are_not_ours_not_ready_or_gone_are_never_idle() -> None:
    detector = idle()
    observed(detector, 0.0, at(0), replace(NODE, pool=""))
    observed(detector, 0.0, at(0), replace(NODE, ready=False))
    assert detector.since == {}
    observed(detector, 0.0, at(0))
    detector.gone("n1")
    assert detector.repeater.next_due() is None


def test_a_retiring_node_is_not_announced_but_an_aborted_retirement_is_taken_up_at_once() -> None:
    detector = idle()
    observed(detector, 0.0, at(0))
    observed(detector, 0.0, at(610), retiring=True)
    assert detector.repeater.due(at(700)) == []
    observed(detector, 0.0, at(800))
    assert detector.repeater.due(at(800)) == ["n1"]


def test_a_pod_that_leaves_an_idle_node_makes_it_news_again() -> None:
    detector = idle()
    pod = PodRef("default", "learning", "p1")
    held = replace(NODE, bound=(BoundPods(PodShape(()), (pod,), Movability.BLOCKS, "PodOptOut"),))
    observed(detector, 0.1, at(0), held)
    assert detector.repeater.due(at(600)) == ["n1"]
    observed(detector, 0.1, at(610), held)
    assert detector.repeater.due(at(610)) == []
    observed(detector, 0.0, at(620))
    assert detector.repeater.due(at(620)) == ["n1"]


def test_a_pod_that_leaves_before_the_time_has_come_announces_nothing_early() -> None:
    detector = idle()
    pod = PodRef("default", "learning", "p1")
    observed(detector, 0.1, at(0), replace(NODE, bound=(BoundPods(PodShape(()), (pod,), Movability.MOVES),)))
    observed(detector, 0.0, at(10))
    assert detector.repeater.due(at(599)) == []
    assert detector.repeater.due(at(600)) == ["n1"]


def test_idle_times_survive_new_thresholds() -> None:
    detector = idle()
    observed(detector, 0.1, at(0))
    shorter = IdleDetector(60, 0.5, CADENCE, detector.since)
    observed(shorter, 0.1, at(100))
    assert shorter.repeater.due(at(100)) == ["n1"]


def test_a_new_holder_announces_idle_nodes_again_but_none_before_its_time() -> None:
    detector = idle()
    observed(detector, 0.1, at(0))
    observed(detector, 0.1, at(500), replace(NODE, name="n2"))
    detector.repeater.due(at(600))
    detector.repeater.forget(at(610))
    assert detector.repeater.due(at(610)) == ["n1"]


def test_an_eviction_is_announced_at_once_and_until_the_node_is_gone() -> None:
    detector = EvictingDetector(CADENCE)
    detector.observe(NODE, at(0))
    assert detector.repeater.next_due() is None
    doomed = replace(NODE, evicting_at=at(30))
    detector.observe(doomed, at(1))
    assert detector.repeater.due(at(1)) == ["n1"]
    detector.observe(doomed, at(2))
    assert detector.repeater.due(at(2)) == []
    assert detector.repeater.due(at(11)) == ["n1"]
    detector.gone("n1")
    assert detector.repeater.due(at(60)) == []


def test_an_eviction_that_never_came_is_not_announced_for_ever() -> None:
    detector = EvictingDetector(CADENCE)
    doomed = replace(NODE, evicting_at=at(30))
    detector.observe(doomed, at(1))
    detector.observe(doomed, at(629))
    assert detector.repeater.due(at(629)) == ["n1"]
    detector.observe(doomed, at(631))
    assert detector.repeater.due(at(700)) == []


def test_nodes_that_join_together_are_one_announcement() -> None:
    detector = JoinedDetector(900, CADENCE)
    for second, name in enumerate(("n1", "n2")):
        detector.observe(replace(NODE, name=name), at(second))
    assert detector.next_due() == at(2)
    assert detector.due(at(2)) == ["n1", "n2"]
    assert detector.due(at(100)) == []


def test_a_node_joins_when_it_becomes_ready_not_when_it_registers() -> None:
    detector = JoinedDetector(900, CADENCE)
    detector.observe(replace(NODE, ready=False), at(0))
    assert detector.next_due() is None
    detector.observe(NODE, at(40))
    assert detector.due(at(42)) == ["n1"]


def test_a_node_that_blinks_joins_once_and_its_successor_of_the_same_name_again() -> None:
    detector = JoinedDetector(900, CADENCE)
    for view in (NODE, replace(NODE, ready=False), NODE):
        detector.observe(view, at(0))
    assert detector.due(at(5)) == ["n1"]
    detector.observe(NODE, at(6))
    detector.observe(replace(NODE, uid="u2"), at(7))
    assert detector.due(at(9)) == ["n1"]


def test_nodes_from_before_the_exporters_start_have_long_been_seen() -> None:
    detector = JoinedDetector(900, CADENCE)
    detector.observe(NODE, at(901))
    assert detector.next_due() is None


def test_a_node_that_is_still_starting_has_not_joined_until_it_has_all_it_needs() -> None:
    detector = JoinedDetector(600, CADENCE)
    detector.observe(NODE, at(0), starts=True)
    assert detector.due(at(5)) == []
    detector.observe(NODE, at(6))
    assert detector.due(at(8)) == ["n1"]
