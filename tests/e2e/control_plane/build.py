"""Build the control plane: ``python -m tests.e2e.control_plane.build``.

Needs only a Go toolchain; no containers, no downloads but Go modules whose sums
are committed. Programs already built are skipped, and each appears in its place
only when complete, so an interrupted build is simply run again.

To move to other versions, edit the ``require`` (and, for Kubernetes, ``replace``)
lines of a ``modules/*/go.mod`` and run ``go mod tidy`` in that folder.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.control_plane.binaries import MODULES, STAGES, Binaries, Program

FAILED = 1
GO_ABSENT = 3


def main() -> int:
    """Build what is missing; the exit code is 0, 1 (a build failed) or 3 (no Go)."""
    binaries = Binaries.from_environment()
    if _complete(binaries):
        return _done(binaries)
    if shutil.which("go") is None:
        _say("no `go` on PATH, and the control plane is built from source: install Go 1.26 or newer and run this again")
        return GO_ABSENT
    try:
        with _only_builder(binaries.home):
            _build_missing(binaries)
    except subprocess.CalledProcessError as error:
        _say(f"failed with exit code {error.returncode}: {' '.join(map(str, error.cmd))}")
        return FAILED
    return _done(binaries)


def _complete(binaries: Binaries) -> bool:
    return not binaries.missing() and binaries.stages.is_dir()


def _done(binaries: Binaries) -> int:
    _say(f"complete in {binaries.home}")
    return 0


def _build_missing(binaries: Binaries) -> None:
    missing = binaries.missing()
    for number, program in enumerate(missing, start=1):
        _say(f"[{number}/{len(missing)}] {program.name}: building")
        started = time.monotonic()
        _build(program, binaries.home / "bin")
        minutes = (time.monotonic() - started) / 60
        _say(f"[{number}/{len(missing)}] {program.name}: {minutes:.1f} min")
    if not binaries.stages.is_dir():
        _copy_stages(binaries.stages)


def _build(program: Program, folder: Path) -> None:
    """Build one program to a temporary name; whoever finds the real name finds it whole."""
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f".{program.name}.{os.getpid()}"
    flags = ["-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", _ldflags(program)]
    try:
        _go(program.module, "build", *flags, "-o", str(unfinished), program.package)
        unfinished.rename(folder / program.name)
    finally:
        unfinished.unlink(missing_ok=True)


def _ldflags(program: Program) -> str:
    """Stamp the version in, as a release build does: an unstamped apiserver calls itself v0.0.0."""
    if program.module != "kubernetes":
        return "-s -w"
    version = _required_version("kubernetes", "k8s.io/kubernetes")
    major, minor, _ = version.removeprefix("v").split(".", 2)
    stamp = "-X k8s.io/component-base/version"
    return f"-s -w {stamp}.gitVersion={version} {stamp}.gitMajor={major} {stamp}.gitMinor={minor}"


def _required_version(module: str, path: str) -> str:
    """Read a version from our go.mod, the one place that states it."""
    text = (MODULES / module / "go.mod").read_text()
    found = re.search(rf"^\s*(?:require )?{re.escape(path)} (v\S+)", text, re.MULTILINE)
    if found is None:
        raise LookupError(f"{module}/go.mod requires no {path}")
    return found[1]


def _copy_stages(target: Path) -> None:
    """Take kwok's stages out of the module cache, which may be cleaned under our feet."""
    _go("kwok", "mod", "download", "sigs.k8s.io/kwok")
    source = Path(_go("kwok", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok", capture=True))
    unfinished = target.with_name(f".stages.{os.getpid()}")
    unfinished.mkdir()
    for stage in STAGES:
        shutil.copyfile(source / "kustomize" / "stage" / stage, unfinished / Path(stage).name)
    unfinished.rename(target)


def _go(module: str, *arguments: str, capture: bool = False) -> str:
    """Run go inside one of our modules; cgo is off so that no C compiler is needed."""
    completed = subprocess.run(
        ["go", *arguments],
        cwd=MODULES / module,
        env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"},
        stdout=subprocess.PIPE if capture else None,
        text=True,
        check=True,
    )
    return (completed.stdout or "").strip()


@contextmanager
def _only_builder(home: Path) -> Iterator[None]:
    """Let a second build wait for the first instead of doing everything twice."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("another build is under way, waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    print(f"control plane: {text}", flush=True)  # noqa: T201 - this is a command, its progress belongs on stdout


if __name__ == "__main__":
    sys.exit(main())
