"""`make crash`: kill -9 of the Functions host at random moments of a run; everything resumes, and the end is right.

The run is `sluice run`'s system with a stream of jobs, some of whose growths fail, and Spot nodes that Azure takes
away. At the end every pod has run, every VM, NIC, disk and node is gone, every orchestration that was under way at any
kill has ended well, and the checker of invariants, which reads the stand-ins' ground truth only, finds nothing.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path
from typing import Any

from local.cli_run import finish, say
from local.errors import DONE, VIOLATIONS, UserError
from local.system.demonstration import job
from local.system.embedded import Embedded
from shared.names import POOL_LABEL

POOLS = Path(__file__).with_name("pools.yaml")
SPOT = "cpu-spot"
OPEN = frozenset({"Pending", "Running", "ContinuedAsNew"})
ALIVE_SECONDS = (0.1, 2.5)  # how long a Functions host lives before it is killed
EVICTED = 0.25  # chance that a Spot node is taken away before a kill
NOTICE = 8.0  # seconds
SETTLE_SECONDS = 960.0  # a node that was called back is left alone for ten minutes, then the sweep takes it up


class CrashRun:
    """One system under fire; `chance` decides when it dies and what it is given to do."""

    def __init__(self, system: Embedded, chance: random.Random) -> None:
        self._system, self._chance = system, chance
        self._jobs: list[str] = []
        self._pods = self.evictions = 0
        self.interrupted: set[str] = set()
        self.broken: list[str] = []

    def fire(self, kills: int) -> None:
        """Submit, wait a moment, kill, start again, `kills` times."""
        for number in range(1, kills + 1):
            if self._pods - self._succeeded() < 12:
                self._submit(failing=number > kills / 2)  # once refused, no Spot node comes for an hour
            if self._chance.random() < EVICTED:
                self._evict()
            time.sleep(self._chance.uniform(*ALIVE_SECONDS))
            under_way = self._under_way()
            self.broken += self._system.broken_rules()
            self._system.kill_functions()
            self.interrupted |= under_way
            self._system.start_functions()
            say(f"kill {number} of {kills}: {len(under_way)} orchestrations were under way")

    def settle(self) -> None:
        """Wait until all pods have run and nothing is left. Raises UserError when that takes too long."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while not self._settled():
            self._system.check()
            if time.monotonic() > deadline:
                raise UserError(f"not settled after {SETTLE_SECONDS:g} s: {self._what_is_left()}", VIOLATIONS)
            time.sleep(1.0)

    def unresumed(self) -> list[str]:
        """Orchestrations that were under way at a kill and did not come to a good end."""
        ends = {one["instanceId"]: one["runtimeStatus"] for one in self._system.orchestrations()}
        return sorted(f"{name}: {ends.get(name, 'lost')}" for name in self.interrupted if ends.get(name) != "Completed")

    def _submit(self, *, failing: bool) -> None:
        name, pods = f"job-{len(self._jobs)}", self._chance.randint(2, 8)
        if failing and self._chance.random() < 0.3:
            fault = {
                "operation": "scale_set.update",
                "resource": SPOT,
                "code": "AllocationFailed",
                "stage": "async",
            }
            self._system.control("POST", "/faults", fault)
        body = job(name, pods, {"cpu": "1500m"}, self._chance.uniform(1.0, 4.0))
        self._system.api.create("/apis/batch/v1/namespaces/default/jobs", body)
        self._jobs.append(name)
        self._pods += pods

    def _evict(self) -> None:
        """Azure takes a Spot node away, if there is one."""
        found, _ = self._system.api.list("/api/v1/nodes", label_selector=f"{POOL_LABEL}={SPOT}")
        if found:
            node = self._chance.choice(sorted(each["metadata"]["name"] for each in found))
            self.evictions += bool(self._system.control("POST", "/preempt", {"node": node, "notice": NOTICE})["found"])

    def _succeeded(self) -> int:
        """By the jobs' own count: the pods themselves go with their nodes."""
        jobs, _ = self._system.api.list("/apis/batch/v1/namespaces/default/jobs")
        return sum(one.get("status", {}).get("succeeded", 0) for one in jobs)

    def _under_way(self) -> set[str]:
        return {one["instanceId"] for one in self._system.orchestrations() if one["runtimeStatus"] in OPEN}

    def _settled(self) -> bool:
        overview = self._system.control("GET", "/overview")
        empty = not overview["nodes"] and not sum(overview["machines"].values())
        return empty and self._succeeded() == self._pods and not self._under_way()

    def _what_is_left(self) -> dict[str, Any]:
        overview: dict[str, Any] = self._system.control("GET", "/overview")
        return {
            **overview,
            "submitted": self._pods,
            "succeeded": self._succeeded(),
            "under_way": sorted(self._under_way()),
        }


def main() -> int:
    """Exit code 5 when anything was lost, doubled or left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("out/crash"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    try:
        return _run(given.out, given.kills, given.seed)
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


def _run(out: Path, kills: int, seed: int) -> int:
    began = time.monotonic()
    with Embedded(POOLS, out, seed=seed) as system:
        run = CrashRun(system, random.Random(seed))
        run.fire(kills)
        say("no more kills; waiting for the world to settle")
        run.settle()
        lost, report = run.unresumed(), finish(system)
    violations = [*run.broken, *report["violations"]]
    for line in [*lost, *violations]:
        say(f"violation: {line}")
    pods, nodes = report["pods"], report["nodes"]
    say(
        f"{kills} kills, {len(run.interrupted)} orchestrations interrupted, {len(lost)} not resumed;"
        f" {run.evictions} Spot evictions;"
        f" {pods['scheduled']} of {pods['submitted']} pods ran on {nodes['created']} nodes, {nodes['left']} left;"
        f" {len(violations)} violations; {time.monotonic() - began:.0f} s (seed {seed})"
    )
    return VIOLATIONS if lost or violations else DONE


if __name__ == "__main__":
    sys.exit(main())
