"""The peers, as programs: what they would buy, and how long they take to say so."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.workloads import Workload


class PeerFailed(RuntimeError):
    """A peer ended with an error; the message is its own last line."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Times in milliseconds for the packing alone, and the nodes by pool."""

    least: float
    median: float
    repeats: int
    nodes: Mapping[str, int]
    unserved: int


def ask(program: Path, workload: Workload, repeats: int, budget: float = 30.0) -> Answer:
    """Run one peer. It starts no further repeat once `budget` seconds are spent; the first always runs."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(workload, file)
        file.flush()
        command = [str(program), "-n", str(repeats), "-budget", f"{budget}s", file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PeerFailed(f"{program.name}: {(done.stderr.strip() or 'no message').splitlines()[-1]}")
    said = json.loads(done.stdout)
    result = said["result"]
    return Answer(
        said["wall_ms_min"], said["wall_ms_median"], said["repeats"], result["nodes"], result["pods_unplaced"]
    )
