"""A patch of somebody's, applied to a copy of the tree: do the worlds find out?"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from local.errors import BAD_INPUT, UserError

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("exporter", "functions", "local", "shared", "function_app.py", "host.json")


def run_mutant(patch: Path, arguments: Sequence[str]) -> int:
    """Play worlds on a copy with the patch applied, up to the first violation; the exit code is the run's own.

    Raises UserError when the patch is not there or does not apply.
    """
    with mutated(patch) as tree:
        command = [sys.executable, "-m", "local.simulation", *arguments, "--stop"]
        return subprocess.run(command, cwd=tree, check=False).returncode


@contextmanager
def mutated(patch: Path) -> Iterator[Path]:
    """A copy of everything that worlds are played with, patched; gone afterwards."""
    if not patch.is_file():
        raise UserError(f"MUTANT={patch}: there is no such file", BAD_INPUT)
    with tempfile.TemporaryDirectory(prefix="sluice-mutant-") as folder:
        tree = Path(folder)
        for part in PARTS:
            _copy(ROOT / part, tree / part)
        command = ["git", "apply", "--whitespace=nowarn", str(patch.resolve())]
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UserError(f"MUTANT={patch} does not apply: {done.stderr.strip()}", BAD_INPUT)
        yield tree


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy2(source, target)
