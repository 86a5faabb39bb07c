"""Pipelines, those that users copy and the project's own: no secret, no moving version, no failure that goes unseen."""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from bench import cache
from local.cli import COMMANDS
from tests.infra import tools
from tests.infra.readers import INFRA, terraform_blocks

ROOT = INFRA.parent
GITHUB = INFRA / "github"
SETUP = GITHUB / "actions/sluice-setup/action.yml"
OWN = ROOT / ".github/workflows/ci.yml"
TEMPLATES = sorted((GITHUB / "workflows").glob("*.yml"))
EVERYTHING = [*TEMPLATES, SETUP, OWN]


def by_name(path: Path) -> str:
    return path.parent.name if path == SETUP else path.stem


def document(path: Path) -> dict:
    # YAML 1.1 reads the key `on` as true.
    return {"on" if key is True else key: value for key, value in yaml.safe_load(path.read_text()).items()}


def jobs(path: Path) -> dict[str, dict]:
    return document(path).get("jobs", {})


def steps(path: Path) -> Iterator[dict]:
    for holder in [document(path)["runs"]] if path == SETUP else jobs(path).values():
        yield from holder.get("steps", ())


def scripts(path: Path) -> str:
    return "\n".join(step["run"] for step in steps(path) if "run" in step)


def shellcheck() -> Path:
    return cache.tool_environment(tools.SHELLCHECK) / "shellcheck"


@pytest.mark.infra
def test_actionlint_finds_nothing_where_users_put_the_files(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()  # by which it finds the workflows and actions that call each other
    shutil.copytree(GITHUB / "workflows", tmp_path / ".github/workflows")
    shutil.copytree(GITHUB / "actions", tmp_path / ".github/actions")
    shutil.copy(OWN, tmp_path / ".github/workflows")
    command = [tools.build(tools.ACTIONLINT), "-no-color", "-shellcheck", shellcheck()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""
    assert done.returncode == 0


@pytest.mark.infra
@pytest.mark.parametrize("path", [SETUP, ROOT / ".ci/run"], ids=["sluice-setup", ".ci/run"])
def test_shellcheck_finds_nothing_in_other_scripts(path: Path) -> None:
    text = scripts(path) if path == SETUP else path.read_text()
    command = [shellcheck(), "--shell", "bash", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert done.returncode == 0


@pytest.mark.parametrize("path", EVERYTHING, ids=by_name)
def test_what_others_wrote_is_pinned_by_its_hash(path: Path) -> None:
    for used in re.findall(r"uses: (.+)", path.read_text()):
        assert used.startswith("./.github/") or re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used), used


@pytest.mark.parametrize("path", EVERYTHING, ids=by_name)
def test_no_secret_is_asked_for(path: Path) -> None:
    assert not re.search(r"\bsecrets\s*[.:\[]", path.read_text())


@pytest.mark.parametrize("path", EVERYTHING, ids=by_name)
def test_nothing_is_pasted_into_scripts(path: Path) -> None:
    assert "${{" not in scripts(path)


@pytest.mark.parametrize("path", EVERYTHING, ids=by_name)
def test_a_script_ends_at_its_first_failure_also_in_a_pipe(path: Path) -> None:
    shell = document(path).get("defaults", {}).get("run", {}).get("shell")
    assert {step.get("shell", shell) for step in steps(path) if "run" in step} <= {"bash"}


@pytest.mark.parametrize("path", [*TEMPLATES, OWN], ids=by_name)
def test_a_job_may_read_the_code_and_log_in_at_most(path: Path) -> None:
    assert document(path)["permissions"] == {"contents": "read"}
    for name, job in jobs(path).items():
        asked = job.get("permissions", {"contents": "read"})
        assert asked.items() <= {"contents": "read", "id-token": "write"}.items(), name
        assert "id-token" not in asked or "environment" in job or "uses" in job, f"{name} logs in from anywhere"


def test_a_pull_request_logs_in_as_a_reader_and_writes_nothing() -> None:
    (job,) = jobs(GITHUB / "workflows/sluice-plan.yml").values()
    assert job["environment"] == "sluice-plan"
    assert "github.event.pull_request.head.repo.full_name == github.repository" in job["if"]
    assert not re.search(r"terraform .* apply|helm upgrade|az storage blob upload|config-zip", scripts(path_of("plan")))


def test_stages_are_rolled_out_in_their_order() -> None:
    stages = jobs(path_of("rollout"))
    assert [(name, job.get("needs", [])) for name, job in stages.items()] == [
        ("apply", []),
        ("publish", "apply"),
        ("wire", ["apply", "publish"]),
        ("chart", ["apply", "publish", "wire"]),
    ]
    assert all(job["uses"] == f"./.github/workflows/sluice-{name}.yml" for name, job in stages.items())


def path_of(stage: str) -> Path:
    return GITHUB / "workflows" / f"sluice-{stage}.yml"


def test_outputs_that_pipelines_read_are_those_of_base() -> None:
    read = {name for path in TEMPLATES for name in re.findall(r"\.(\w+)\.value", scripts(path))}
    assert {"app_id", "app_name", "exporter_values", "storage_account_id", "topics"} == read
    assert read <= {label for _, label, _ in terraform_blocks("base", "output")}


@pytest.mark.parametrize("stage", ["plan", "wire"])
def test_wire_is_given_what_it_asks_for(stage: str) -> None:
    (given,) = re.findall(r"jq '\{(.+)\}' base\.json", scripts(path_of(stage)))
    named = set(re.findall(r"(\w+): \.", given))
    asked = {label for _, label, body in terraform_blocks("wire", "variable") if "default" not in body}
    assert asked - {"name"} == named


@pytest.mark.parametrize("path", TEMPLATES, ids=by_name)
def test_the_command_line_takes_what_pipelines_tell_it(path: Path) -> None:
    for words in re.findall(r"\.venv/bin/sluice (.+?)(?: >.*)?$", scripts(path), re.MULTILINE):
        asked = shlex.split(words)
        parser = argparse.ArgumentParser(exit_on_error=False)
        importlib.import_module(COMMANDS[asked[0]][0]).add_arguments(parser)
        assert parser.parse_known_args(asked[1:])[1] == []


def test_every_variable_is_explained() -> None:
    text = "\n".join(path.read_text() for path in [*TEMPLATES, SETUP])
    used = set(re.findall(r"\b((?:SLUICE|AZURE)_[A-Z_]+)\b", text))
    readme = (GITHUB / "README.md").read_text()
    assert [name for name in sorted(used) if f"`{name}`" not in readme] == []


def test_the_projects_own_pipeline_runs_everything_and_lets_no_audit_be_skipped() -> None:
    (step,) = [step for step in steps(OWN) if step.get("run") == ".ci/run"]
    assert step["env"] == {"SLUICE_AUDIT": "required"}
    (checkout,) = [step for step in steps(OWN) if "actions/checkout" in step.get("uses", "")]
    assert checkout["with"]["fetch-depth"] == 0
