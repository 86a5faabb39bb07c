"""Worlds in which a release takes over from an earlier one of the repository's history, with everything under way."""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Final

from local.durable.versions import ROOT
from local.errors import BAD_INPUT, UserError
from local.randomness import stream
from local.simulation.trouble import Crash
from local.simulation.worlds import World
from local.system import releases
from local.system.releases import PRESENT, Release

NAME: Final = "sluice_earlier"
PARTS: Final = ("functions", "shared", "local", "exporter", "host.json")


@dataclass(frozen=True, slots=True)
class Course:
    """`earlier` runs until the host goes down for the first time, the present release afterwards; with `back`, until
    it goes down again, when the earlier one returns."""

    earlier: Release
    back: bool

    def __call__(self, crashes: int) -> Release:
        """See `local.system.releases.Releases`."""
        return PRESENT if crashes and not (self.back and crashes > 1) else self.earlier

    def through(self, world: World) -> World:
        """The world with a moment for each change of release, beside its own misfortunes."""
        draw = stream(world.seed, "upgrade")
        moments = sorted(draw.uniform(0.05, 0.95) for _ in range(1 + self.back))
        changes = (
            Crash(
                at=moment * world.busy,
                place=draw.choice(("journal", "arm", "cluster")),
                before=draw.random() < 0.5,
                skip=draw.choice((0, 0, 1, 5)),
                down_for=draw.choice((5.0, 20.0, 60.0)),
            )
            for moment in moments
        )
        return replace(world, crashes=(*world.crashes, *changes))


@contextmanager
def release_of(ref: str) -> Iterator[Release]:
    """The release that a commit, branch or tag of this repository holds. Raises UserError."""
    command = ["git", "archive", "--format=tar", ref, *PARTS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        raise UserError(f"--from {ref}: {done.stderr.decode(errors='replace').strip()}", BAD_INPUT)
    with tempfile.TemporaryDirectory(prefix="sluice-earlier-") as folder:
        with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
            archive.extractall(folder, filter="data")
        yield releases.load(Path(folder), NAME)
        releases.unload(NAME)
