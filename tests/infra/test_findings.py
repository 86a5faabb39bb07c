"""checkov over Terraform: no finding but those waived in place, each with its reason."""

from __future__ import annotations

import json
import subprocess

import pytest

from bench import cache
from tests.infra import tools
from tests.infra.readers import TERRAFORM

pytestmark = [pytest.mark.infra, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def report():
    checkov = cache.tool_environment(tools.CHECKOV) / "checkov"
    command = [str(checkov), "-d", str(TERRAFORM), "--framework", "terraform", "-o", "json", "--skip-download"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return json.loads(done.stdout)


def test_checkov_looked_at_everything(report) -> None:
    assert report["summary"]["parsing_errors"] == 0
    assert report["summary"]["passed"] >= 15


def test_checkov_finds_nothing(report) -> None:
    assert [f"{each['check_id']} {each['resource']}" for each in report["results"]["failed_checks"]] == []


def test_every_waiver_gives_its_reason(report) -> None:
    for each in report["results"]["skipped_checks"]:
        assert len(each["check_result"]["suppress_comment"]) > 20, each["check_id"]
