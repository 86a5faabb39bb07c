"""The bounds that plans are judged by: published in `bounds.json`, computed anew where a workload is not in there.

``python -m bench.bounds [NAME...]`` recomputes and publishes them (all of them: about a quarter of an hour).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from bench import cache, workloads

PUBLISHED = Path(__file__).with_name("bounds.json")
SOLVER = ("scipy==1.17.1",)


@dataclass(frozen=True, slots=True)
class Bound:
    """Prices per hour that no packing can beat. The tight program's value lies from `tight` to `tight_at_most`."""

    workload: str
    digest: str
    loose: float
    nodes: int
    tight: float
    tight_at_most: float

    @property
    def gap(self) -> float:
        """How much the tight bound may still lie below the value that it stands for, as a share of it."""
        return self.tight_at_most / self.tight - 1


def main(arguments: Sequence[str]) -> int:
    """Recompute the bounds of these workloads, of all that the bars use when none is named."""
    for name in arguments or (*workloads.NAMES, *workloads.further()):
        bound = compute(workloads.make(name))
        print(
            f"{name}: loose {bound.loose}, tight {bound.tight} to {bound.tight_at_most} ({bound.gap:.3%})", flush=True
        )
        published.cache_clear()
        _publish({**published(), name: bound})
    return 0


def bound_of(workload: workloads.Workload) -> Bound:
    """The published bound if it is of this very workload, else a fresh one. Raises cache.ToolMissing without scipy."""
    known = published().get(workload["name"])
    if known is not None and known.digest == workloads.digest(workload):
        return known
    return compute(workload)


@lru_cache(maxsize=1)
def published() -> dict[str, Bound]:
    """All published bounds, by workload."""
    if not PUBLISHED.exists():
        return {}
    return {item["workload"]: Bound(**item) for item in json.loads(PUBLISHED.read_text())}


def compute(workload: workloads.Workload) -> Bound:
    """Bounds from the solver, in an environment of its own: the project needs none."""
    python = cache.tool_environment(SOLVER) / "python"
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(workload, file)
        file.flush()
        done = subprocess.run(
            ["nice", "-n", "19", str(python), "-m", "bench.lower_bound", file.name],
            cwd=Path(__file__).parents[1],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return Bound(
        digest=workloads.digest(workload), **json.loads(done.stdout.splitlines()[-1])
    )  # the solver talks before


def _publish(found: dict[str, Bound]) -> None:
    order = {name: number for number, name in enumerate((*workloads.NAMES, *workloads.further()))}
    rows = sorted(found.values(), key=lambda bound: order.get(bound.workload, len(order)))
    PUBLISHED.write_text("[\n" + ",\n".join(" " + json.dumps(asdict(bound)) for bound in rows) + "\n]\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
