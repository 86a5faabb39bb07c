from typing import Any

import pytest

from local.system.bars import missed


def report(**changes: Any) -> dict[str, Any]:
    pods = {"submitted": 9, "unserved": changes.get("unserved", 0), "wait_s": {"p99": changes.get("p99", 213.0)}}
    leaks = {"vms": 0, "nics": changes.get("nics", 0), "disks": 0, "nodes": 0}
    return {
        "pods": pods,
        "nodes": {"left": changes.get("left", 0)},
        "leaks": leaks,
        "violations": changes.get("violations", []),
        "boot_s": {"p50": 93.0, "max": 135.0},
    }


def test_a_report_within_all_bars_misses_none() -> None:
    assert missed(report()) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"p99": 213.1}, "p99 wait 213.1 s"),
        ({"unserved": 1}, "1 unserved pods"),
        ({"left": 2}, "2 nodes left"),
        ({"nics": 3}, "3 leaked nics"),
        ({"violations": ["x"]}, "1 violations"),
    ],
)
def test_each_shortfall_is_named_with_its_figure(change: dict[str, Any], said: str) -> None:
    (found,) = missed(report(**change))
    assert found.startswith(said)
