"""`.ci/run` with commands that only pretend: what fails, what may be left out, and what is said of it."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / ".ci/run"
TOOLS = ("bash", "sed", "awk", "head", "mkdir", "setsid", "nice", "sleep", "cat", "dirname", "grep")
MAKE = (
    "#!/bin/bash\n"
    'while [ "$1" = sim ] && [ -n "${AWAITED:-}" ] && [ ! -e "$AWAITED" ]; do sleep 0.01; done\n'
    '[ "$1" != "${FAILS:-}" ]\n'
)
PYTHON = (
    '#!/bin/bash\ncase "$*" in\n*audit*) exit "${AUDIT:-0}" ;;\n*"--only azurerm"*) eval "${BUILD:-exit 0}" ;;\nesac\n'
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in ((".venv/bin/python", PYTHON), ("programs/make", MAKE), ("README.md", "make test\n")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    for name in TOOLS:
        (tmp_path / "programs" / name).symlink_to(shutil.which(name))
    for name in ("go", "terraform"):
        (tmp_path / "programs" / name).symlink_to(shutil.which("true"))
    (tmp_path / ".ci").mkdir()
    shutil.copy(RUN, tmp_path / ".ci/run")
    return tmp_path


def run(checkout: Path, *, without: str = "", **environment: str) -> tuple[int, str, dict[str, str]]:
    """Exit code, output, and the table's results by stage."""
    if without:
        (checkout / "programs" / without).unlink()
    surroundings = {"PATH": str(checkout / "programs"), "SLUICE_CACHE": str(checkout / "cache"), **environment}
    done = subprocess.run([checkout / ".ci/run"], env=surroundings, capture_output=True, text=True, check=False)
    table = done.stdout.partition("minutes  result\n")[2].splitlines()
    return done.returncode, done.stdout, {row.split()[0]: " ".join(row.split()[2:]) for row in table}


def test_all_stages_run_and_are_listed(checkout: Path) -> None:
    code, _, table = run(checkout)
    assert code == 0
    assert {"install", "check", "audit", "test", "package", "infra-check", "e2e", "infra-azurerm"} <= set(table)
    assert set(table.values()) == {"ok"}


def test_a_stage_that_fails_fails_the_whole_and_the_others_still_run(checkout: Path) -> None:
    code, _, table = run(checkout, FAILS="check")
    assert code == 1
    assert {name for name, result in table.items() if result != "ok"} == {"check"}


def test_what_could_not_be_done_is_not_called_done(checkout: Path) -> None:
    code, _, table = run(checkout, AUDIT="75")
    assert code == 0
    assert table["audit"] == "skipped (the reason is above)"


@pytest.mark.parametrize("tool", ["go", "terraform"])
def test_a_missing_tool_fails_its_stages_in_ci(checkout: Path, tool: str) -> None:
    code, said, table = run(checkout, without=tool, CI="true")
    assert code == 1
    assert table["infra-check"] == table["infra-azurerm"] == f"FAILED (no {tool})"
    assert f"infra-check: missing {tool}; CI needs it" in said


def test_a_missing_tool_skips_its_stages_on_a_desk(checkout: Path) -> None:
    code, said, table = run(checkout, without="terraform")
    assert code == 0
    assert table["infra-check"] == table["infra-azurerm"] == "skipped (no terraform)"
    assert "infra-check: skipped, not installed: terraform" in said


def test_azurerm_is_left_out_when_little_time_is_left_and_not_before(checkout: Path) -> None:
    built = checkout / "built"
    slow = f"while [ ! -e {built} ]; do sleep 0.01; done"
    code, said, table = run(checkout, BUILD=slow, SLUICE_CI_MINUTES="15", CI="true")
    assert code == 0
    assert table["infra-azurerm"] == "skipped (the reason is above)"
    assert "azurerm is still being built, and fewer than 15 of 15 minutes are left" in said
    built.touch()
    assert run(checkout, BUILD=slow, CI="true")[2]["infra-azurerm"] == "ok"


def test_what_is_left_out_does_not_go_on_being_built(checkout: Path) -> None:
    pipe = checkout / "held"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    begun = checkout / "begun"
    build = f"exec 9>{pipe}; : >{begun}; exec sleep 60"
    run(checkout, BUILD=build, AWAITED=str(begun), SLUICE_CI_MINUTES="15")
    select.select([reader], [], [], 10)
    assert os.read(reader, 1) == b""  # nobody holds the other end any more
    os.close(reader)


def test_azurerm_that_cannot_be_built_fails_with_what_the_build_said(checkout: Path) -> None:
    code, said, table = run(checkout, BUILD="echo no compiler; exit 1")
    assert code == 1
    assert table["infra-azurerm"] == "FAILED"
    assert "no compiler" in said
