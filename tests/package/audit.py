"""`python -m tests.package.audit`: what is known against the packages that Azure installs, as pip-audit hears of it.

pip-audit itself ends well when its registry knows no advisories at all, having audited nothing. Here that is said: exit
code 0 for all audited and clean, 1 for a known vulnerability, and 75 when somebody could not be asked about, which
`SLUICE_AUDIT=required` makes a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import orjson

from tests.package.archive import ROOT

CLEAN, FAILED, SKIPPED = 0, 1, 75
Json = dict[str, Any]


def verdict(report: Json, *, required: bool) -> tuple[int, list[str]]:
    """Exit code and lines for pip-audit's report."""
    packages = report["dependencies"]
    known = [(each, found) for each in packages for found in each.get("vulns", ())]
    if known:
        return FAILED, [_advice(each, found) for each, found in known]
    audited = [each for each in packages if "skip_reason" not in each]
    if packages and len(audited) == len(packages):
        return CLEAN, [f"{len(audited)} packages audited, nothing known against them"]
    # Every reason repeats its package's name and version, so one of a kind is enough.
    reasons = Counter(each["skip_reason"].partition(":")[0] for each in packages if "skip_reason" in each)
    said = "; ".join(f"{reason} ({count} packages)" for reason, count in reasons.items())
    line = f"NOT AUDITED: only {len(audited)} of {len(packages)} packages: {said or 'nothing was listed'}"
    return (FAILED if required else SKIPPED), [line, "run it where the Python Packaging Index itself can be asked"]


def _advice(package: Json, found: Json) -> str:
    fixed = ", ".join(found["fix_versions"]) or "no version so far"
    return f"{package['name']} {package['version']}: {found['id']}, fixed in {fixed}"


def ask() -> Json:
    """pip-audit's report. Raises ValueError with what it says when it has none."""
    command = [Path(sys.executable).with_name("pip-audit"), "--requirement", ROOT / "requirements.txt"]
    done = subprocess.run([*command, "--progress-spinner", "off", "--format", "json"], capture_output=True, check=False)
    try:
        report: Json = orjson.loads(done.stdout)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"pip-audit: {done.stderr.decode().strip()}") from error
    return report


def main() -> int:
    """See the module."""
    try:
        code, lines = verdict(ask(), required=os.environ.get("SLUICE_AUDIT") == "required")
    except ValueError as error:
        code, lines = FAILED, [str(error)]
    sys.stdout.write("".join(f"audit: {line}\n" for line in lines))
    return code


if __name__ == "__main__":
    sys.exit(main())
