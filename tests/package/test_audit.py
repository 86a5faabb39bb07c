"""An audit that asked nobody says so: it is no clean one."""

import pytest

from tests.package.audit import CLEAN, FAILED, SKIPPED, verdict

CHECKED = {"name": "orjson", "version": "3.13.0", "vulns": []}
UNKNOWN = {"name": "numpy", "skip_reason": "Dependency not found on PyPI and could not be audited: numpy (2.4.6)"}
KNOWN = {"name": "pyyaml", "version": "5.3", "vulns": [{"id": "PYSEC-2021-142", "fix_versions": ["5.4"]}]}


def test_all_audited_and_nothing_known_is_clean():
    assert verdict({"dependencies": [CHECKED]}, required=True) == (
        CLEAN,
        ["1 packages audited, nothing known against them"],
    )


def test_a_known_vulnerability_fails_and_names_the_remedy():
    code, lines = verdict({"dependencies": [CHECKED, UNKNOWN, KNOWN]}, required=False)
    assert (code, lines) == (FAILED, ["pyyaml 5.3: PYSEC-2021-142, fixed in 5.4"])


@pytest.mark.parametrize(("required", "expected"), [(False, SKIPPED), (True, FAILED)])
def test_what_nobody_was_asked_about_is_not_clean(required: bool, expected: int):
    code, lines = verdict({"dependencies": [CHECKED, UNKNOWN]}, required=required)
    assert code == expected
    assert "NOT AUDITED: only 1 of 2 packages: Dependency not found on PyPI" in lines[0]


def test_an_empty_report_is_not_clean():
    assert verdict({"dependencies": []}, required=False)[0] == SKIPPED
