"""Terraform against the schemas of the real providers, without a cloud: `make infra-check`."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.infra import tools
from tests.infra.readers import INFRA, TERRAFORM

pytestmark = [pytest.mark.infra, pytest.mark.timeout(300)]

STAGES = sorted(str(path.parent.relative_to(TERRAFORM)) for path in TERRAFORM.rglob("versions.tf"))
TESTED = sorted(str(path.parent.relative_to(TERRAFORM)) for path in TERRAFORM.rglob("tests"))


def program() -> str:
    found = shutil.which("terraform")
    if found is None:
        pytest.fail("terraform is not on PATH: install Terraform 1.9 or newer")
    return found


@pytest.fixture(scope="session")
def terraform(tmp_path_factory):
    missing = [tool.program for tool in (tools.AZAPI, tools.AZURERM) if not tool.path.exists()]
    if missing:
        pytest.fail(f"{', '.join(missing)} not built: run `python -m tests.infra.tools`")
    settings = tmp_path_factory.mktemp("terraform") / "terraform.rc"
    settings.write_text(
        "provider_installation {\n  dev_overrides {\n"
        f'    "hashicorp/azurerm" = "{tools.AZURERM.path.parent}"\n    "azure/azapi" = "{tools.AZAPI.path.parent}"\n'
        '  }\n  direct { exclude = ["registry.terraform.io/*/*"] }\n}\n'
    )

    copy = Path(shutil.copytree(INFRA, settings.parent / "infra")) / "terraform"  # what it writes is not for the tree

    def run(stage: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "TF_CLI_CONFIG_FILE": str(settings), "TF_IN_AUTOMATION": "1"}
        command = [program(), f"-chdir={copy / stage}"]
        subprocess.run([*command, "get"], env=environment, capture_output=True, check=True)
        return subprocess.run([*command, *arguments], env=environment, capture_output=True, text=True, check=False)

    return run


def test_terraform_is_formatted() -> None:
    command = [program(), "fmt", "-recursive", "-check", "-diff", TERRAFORM]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.azurerm
@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_is_valid_by_the_providers_schemas(terraform, stage) -> None:
    done = terraform(stage, "validate", "-no-color")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.azurerm
@pytest.mark.parametrize("stage", TESTED)
def test_a_stage_does_what_its_own_tests_say(terraform, stage) -> None:
    done = terraform(stage, "test", "-no-color")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failed" in done.stdout
