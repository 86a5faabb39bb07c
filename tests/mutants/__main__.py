"""`make sim-mutants`: play worlds on a copy of the tree with each patch of this folder, until one breaks a rule.

A patch counts as found by a world only if the same world breaks no rule without it.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from local.errors import DONE, VIOLATIONS

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
WORLDS = [sys.executable, "-m", "local.simulation"]
_FOUND = re.compile(r"^seed (\d+): (?!play)(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of one patch: the first seed that shows it, with its violation, or why there is none."""

    patch: Path
    seed: int | None
    what: str

    def line(self, first: int) -> str:
        """For a table."""
        where = "SURVIVED" if self.seed is None else f"world {self.seed - first + 1}"
        return f"{self.patch.stem:40} {where:10} {self.what[:150]}"


def hunt(patch: Path, first: int, seeds: int) -> Finding:
    """Play up to `seeds` worlds with the patch."""
    position = first
    while position < first + seeds:
        left = first + seeds - position
        done = _play("--mutant", str(patch), "--first", str(position), "--seeds", str(left), "--jobs", "1")
        if done.returncode == DONE:
            break
        found = _FOUND.search(done.stdout)
        if done.returncode != VIOLATIONS or found is None:
            return Finding(patch, None, f"could not be played: {(done.stderr or done.stdout).strip()[-200:]}")
        seed = int(found[1])
        if is_sound(seed):
            return Finding(patch, seed, found[2])
        position = seed + 1
    return Finding(patch, None, f"no world of {seeds} found it")


@cache
def is_sound(seed: int) -> bool:
    """Whether a world breaks no rule on the tree as it is."""
    return _play("--seed", str(seed)).returncode == DONE


def _play(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*WORLDS, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def main() -> int:
    """Print what each patch came to; 5 when one survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--seeds", type=int, default=500, help="worlds for each patch at most; default 500")
    parser.add_argument("--first", type=int, default=0, help="the first seed; default 0")
    parser.add_argument("--jobs", type=int, default=2, help="patches at once; default 2")
    parser.add_argument("patches", nargs="*", type=Path, help="default: all")
    given = parser.parse_args()
    patches = sorted(given.patches or FOLDER.glob("*.patch"))
    began, found = time.monotonic(), 0
    with ThreadPoolExecutor(given.jobs) as pool:
        for finding in pool.map(lambda patch: hunt(patch.resolve(), given.first, given.seeds), patches):
            found += finding.seed is not None
            sys.stdout.write(f"{finding.line(given.first)}\n")
            sys.stdout.flush()
    minutes = (time.monotonic() - began) / 60
    sys.stdout.write(f"{found} of {len(patches)} mutants found within {given.seeds} worlds, {minutes:.1f} min\n")
    return DONE if found == len(patches) else VIOLATIONS


if __name__ == "__main__":
    sys.exit(main())
