from pathlib import Path
from xml.etree import ElementTree

from local.system.picture import capacity, demand, draw
from local.system.records import GrowthRecord, Leaks, MachineRecord, PodRecord, RunRecord
from local.system.report import fallbacks, peak, percentile, report


def machine(pool: str = "cpu", created: float = 0.0, deleted: float | None = 3600.0) -> MachineRecord:
    return MachineRecord(f"{pool}-{created}", pool, False, created, deleted, 4.0, 0)


def run(**changes: object) -> RunRecord:
    fields: dict[str, object] = {
        "pods": (PodRecord("a", 0.0, 30.0, 90.0, 1.0, 0), PodRecord("b", 10.0, None, None, 1.0, 1)),
        "machines": (machine(), machine("gpu", 1800.0, None)),
        "growths": (),
        "leaks": Leaks(),
        "spot_evictions": 0,
        "violations": (),
        "trace_hash": "abc",
        "ended": 5400.0,
        "prices": {"cpu": 0.5, "gpu": 2.0},
        "minimums": {"gpu": 1},
    }
    return RunRecord(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_percentile_is_a_value_that_occurred() -> None:
    assert percentile([1.0, 2.0, 3.0, 100.0], 0.5) == 2.0
    assert percentile([1.0, 2.0, 3.0, 100.0], 0.99) == 100.0


def test_the_report_has_the_keys_that_readers_rely_on() -> None:
    figures = report(run())
    assert list(figures) == [
        "pods", "nodes", "vm_hours", "cost", "spot_evictions", "fallbacks", "leaks", "violations", "trace_hash",
    ]  # fmt: skip
    assert figures["pods"] == {
        "submitted": 2, "scheduled": 1, "unserved": 1, "wait_s": {"p50": 30.0, "p90": 30.0, "p99": 30.0, "max": 30.0},
    }  # fmt: skip


def test_a_vm_is_paid_for_from_its_creation_until_it_is_gone() -> None:
    figures = report(run())
    assert figures["vm_hours"] == {"cpu": 1.0, "gpu": 1.0}
    assert figures["cost"] == 2.5


def test_nodes_within_the_minimum_are_not_left_over() -> None:
    assert report(run())["nodes"]["left"] == 0
    assert report(run(minimums={}))["nodes"]["left"] == 1


def test_a_machine_that_goes_makes_room_for_one_that_comes_at_the_same_moment() -> None:
    assert peak([machine(deleted=10.0), machine(created=10.0, deleted=20.0)]) == 1


def test_a_failed_growth_counts_as_fallback_once_another_pool_grows() -> None:
    failed = GrowthRecord("spot", 0.0, 20.0, "AllocationFailed")
    assert fallbacks([failed, GrowthRecord("regular", 22.0, 60.0, "")]) == 1
    assert fallbacks([failed, GrowthRecord("spot", 22.0, 60.0, "")]) == 0


def test_demand_counts_pending_pods_and_capacity_counts_machines() -> None:
    assert demand(run(), "gpus") == ([0.0, 10.0, 90.0], [0.0, 1.0, 1.0])
    assert capacity(run(), "count", "cpu") == ([0.0, 3600.0], [1.0, 0.0])


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    path = tmp_path / "run.svg"
    draw(run(), path, "A run")
    assert ElementTree.parse(path).getroot().tag.endswith("svg")
