"""Where benchmarks keep what is slow to make: programs of the peers, and Python tools that the project itself lacks."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


class ToolMissing(RuntimeError):
    """A tool that one part of the benchmark needs can't be had here; the message is one line with the reason."""


def home(environ: Mapping[str, str] = os.environ) -> Path:
    """The cache shared by all checkouts."""
    return Path(environ.get("SLUICE_CACHE") or Path.home() / ".cache" / "sluice").absolute()


def content_hash(files: Iterable[Path]) -> str:
    """Name the content of these files in 16 hex digits."""
    digest = hashlib.sha256()
    for file in sorted(files):
        content = file.read_bytes()
        digest.update(f"{file.name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


@contextmanager
def only_builder(folder: Path) -> Iterator[None]:
    """Let a second build into this folder wait for the first instead of doing everything twice."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def tool_environment(requirements: Sequence[str]) -> Path:
    """The `bin` folder of a virtual environment with these packages, made on first use.

    Raises ToolMissing when the packages can't be installed.
    """
    name = hashlib.sha256("\n".join([sys.version, *requirements]).encode()).hexdigest()[:16]
    target = home() / "bench-tools" / name
    if not (target / "complete").exists():
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        _checked([sys.executable, "-m", "venv", str(target)], requirements)
        install = [str(target / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", *requirements]
        _checked(install, requirements)
        (target / "complete").touch()
    return target / "bin"


def _checked(command: Sequence[str], requirements: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise ToolMissing(f"{' '.join(requirements)} can't be installed: {' '.join(last)}")
