"""Building the control plane: what is skipped, refused and left behind. Go itself is a stand-in here."""

from pathlib import Path

import pytest

from tests.e2e.control_plane import Binaries, BinariesMissingError, ControlPlane, build
from tests.e2e.control_plane.binaries import MODULES, PROGRAMS, STAGES, recipe_hash

GO = """#!/bin/sh
echo "$@" >> "{log}"
case "$1" in
  list) echo "{kwok}" ;;
  build) while [ "$1" != -o ]; do shift; done; echo built > "$2"; exit {code} ;;
esac
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and nothing on PATH but what a shell script needs."""
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    return tmp_path / "cache"


def install_go(tmp_path: Path, *, code: int = 0) -> Path:
    """Put a stand-in for go on PATH; it returns the file that lists its calls."""
    log, kwok, go = tmp_path / "go.log", tmp_path / "kwok", tmp_path / "path" / "go"
    for stage in STAGES:
        file = kwok / "kustomize" / "stage" / stage
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(stage)
    go.parent.mkdir(exist_ok=True)
    go.write_text(GO.format(log=log, kwok=kwok, code=code))
    go.chmod(0o755)
    return log


@pytest.mark.usefixtures("cache")
def test_a_build_makes_everything_that_a_start_requires(tmp_path: Path) -> None:
    install_go(tmp_path)
    assert build.main() == 0
    Binaries.from_environment().require()


@pytest.mark.usefixtures("cache")
def test_a_second_build_runs_nothing(tmp_path: Path) -> None:
    log = install_go(tmp_path)
    build.main()
    log.unlink()
    assert build.main() == 0
    assert not log.exists()


@pytest.mark.usefixtures("cache")
def test_without_go_one_line_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main() == build.GO_ABSENT == 3
    (line,) = capsys.readouterr().out.splitlines()
    assert "install Go" in line


def test_a_failed_build_leaves_no_program_behind(tmp_path: Path, cache: Path) -> None:
    install_go(tmp_path, code=2)
    assert build.main() == build.FAILED
    assert not [path for path in cache.rglob("bin/*") if path.is_file()]


def test_given_assets_are_used_and_not_built(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assets = tmp_path / "assets"
    assets.mkdir()
    (assets / "etcd").touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    install_go(tmp_path)
    build.main()
    assert Binaries.from_environment().path("etcd") == assets / "etcd"
    assert {path.name for path in cache.rglob("bin/*")} == {program.name for program in PROGRAMS} - {"etcd"}


@pytest.mark.usefixtures("cache")
def test_a_start_before_the_build_names_the_command_to_run() -> None:
    with pytest.raises(BinariesMissingError, match=r"etcd.*python -m tests\.e2e\.control_plane\.build"):
        ControlPlane()


def test_flags_for_an_unknown_program_are_refused() -> None:
    with pytest.raises(ValueError, match="'kubelet'"):
        ControlPlane(flags={"kubelet": ["--v=4"]})


def test_the_cache_is_named_after_what_is_pinned(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("require etcd v1")
    before = recipe_hash(tmp_path)
    (tmp_path / "notes.txt").write_text("no part of the recipe")
    assert recipe_hash(tmp_path) == before
    (tmp_path / "go.mod").write_text("require etcd v2")
    assert recipe_hash(tmp_path) != before


def test_every_module_pins_its_sums() -> None:
    for program in PROGRAMS:
        assert (MODULES / program.module / "go.sum").exists()
        assert program.package in (MODULES / program.module / "tools.go").read_text()
