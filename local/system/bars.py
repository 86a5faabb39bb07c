"""The bars of `make simulate`, beyond a run without violations: `python -m local.system.bars REPORT` judges them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import orjson

from local.errors import DONE, VIOLATIONS

PATIENCE = 120.0  # seconds that a pod may wait beyond the time a node takes to boot (p99)


def missed(report: dict[str, Any]) -> list[str]:
    """The bars that a report of `sluice simulate` falls short of, each with its figure and its limit."""
    wait, limit = report["pods"]["wait_s"]["p99"], report["boot_s"]["p50"] + PATIENCE
    found = [f"p99 wait {wait} s is above boot time + {PATIENCE:g} s = {limit:g} s"] if wait > limit else []
    zero = {"unserved pods": report["pods"]["unserved"], "nodes left": report["nodes"]["left"]}
    zero |= {f"leaked {kind}": count for kind, count in report["leaks"].items()}
    zero["violations"] = len(report["violations"])
    return found + [f"{count} {name}, none is allowed" for name, count in zero.items() if count]


def main() -> int:
    """Judge the file that is named; the last line is the figure."""
    report = orjson.loads(Path(sys.argv[1]).read_bytes())
    shortfalls = missed(report)
    for shortfall in shortfalls:
        sys.stdout.write(f"missed: {shortfall}\n")
    pods = report["pods"]
    sys.stdout.write(
        f"{pods['submitted']} pods, {pods['unserved']} unserved, p99 wait {pods['wait_s']['p99']} s,"
        f" {len(shortfalls)} bars missed, trace_hash {report['trace_hash']}\n"
    )
    return VIOLATIONS if shortfalls else DONE


if __name__ == "__main__":
    sys.exit(main())
