"""One real control plane for the whole session, and a fresh system around it for each test."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import audit
from tests.e2e.control_plane import ControlPlane
from tests.e2e.control_plane.available import control_plane_or_skip
from tests.e2e.system import RealSystem

FIGURES = pytest.StashKey[list[str]]()
FAILED = pytest.StashKey[bool]()


@dataclass
class Figures:
    """Numbers that a test measured; shown when all is over."""

    name: str
    lines: list[str] = field(default_factory=list)

    def add(self, line: str) -> None:
        """One sentence."""
        self.lines.append(f"{self.name}: {line}")


@dataclass(frozen=True)
class Plane:
    """The control plane, and where it keeps its audit log."""

    control_plane: ControlPlane
    audit_log: Path


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """With an audit log of what Sluice's accounts write."""
    folder = tmp_path_factory.mktemp("real")
    flags = {"kube-apiserver": audit.flags(folder / "audit")}
    with control_plane_or_skip(directory=folder / "control-plane", flags=flags) as control_plane:
        yield Plane(control_plane, audit.log_path(folder / "audit"))


@pytest.fixture
def start(plane: Plane, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[str], RealSystem]]:
    """Start a system with these pools."""
    with ExitStack() as running:

        def starting(pools: str) -> RealSystem:
            system = RealSystem(plane.control_plane, plane.audit_log, tmp_path, pools)
            running.enter_context(system)
            running.callback(_tell_why, request.node, system)
            return system

        yield starting


def _tell_why(node: pytest.Item, system: RealSystem) -> None:
    if node.stash.get(FAILED, False):
        sys.stderr.write(system.account())


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Iterator[Figures]:
    """What the test measured, and how long it took."""
    found, begun = Figures(request.node.name), time.monotonic()
    yield found
    found.add(f"{time.monotonic() - begun:.1f} s in all")
    request.config.stash.setdefault(FIGURES, []).extend(found.lines)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Let fixtures know whether their test failed."""
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The figures, below the verdicts."""
    for line in config.stash.get(FIGURES, []):
        terminalreporter.write_line(line)
