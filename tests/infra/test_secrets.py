"""No secret was ever committed; what only looks like one stands in .gitleaksignore."""

import os
import subprocess

import pytest

from tests.infra.tools import GITLEAKS, build
from tests.package.archive import ROOT


@pytest.mark.infra
def test_the_history_is_all_there_to_be_searched():
    command = ["git", "rev-parse", "--is-shallow-repository"]
    shallow = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip() == "true"
    if shallow and os.environ.get("GITHUB_ACTIONS") != "true":  # the pipeline there asks for all of it
        pytest.skip("a shallow clone: only its own commits are searched; git fetch --unshallow brings the others")
    assert not shallow


@pytest.mark.infra
def test_no_secret_is_in_the_history():
    command = [build(GITLEAKS), "git", "--no-banner", "--redact", "--verbose", "--log-level", "warn", ROOT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
