"""Findings for a person and for a script."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from local.doctor.findings import Finding, Status, exit_code

Json = dict[str, Any]
_MARKS = {Status.OK: "ok", Status.WARNING: "warn", Status.FAILED: "FAIL", Status.SKIPPED: "skip"}


def as_text(findings: Iterable[Finding]) -> Iterator[str]:
    """A line each, a second one with what to do next, and a last one that counts."""
    seen: list[Finding] = []
    for finding in findings:
        seen.append(finding)
        about = f"{finding.check} {finding.subject}".strip()
        yield f"{_MARKS[finding.status]:4}  {about}: {finding.message}"
        if finding.remedy:
            yield f"      -> {finding.remedy}"
    yield _count(seen)


def as_json(findings: Sequence[Finding]) -> Json:
    """`ok` is whether nothing failed; each finding with its own words, `cause` where it failed."""
    return {
        "ok": exit_code(findings) == 0,
        "checks": [
            {
                "check": finding.check,
                "subject": finding.subject,
                "status": str(finding.status),
                "message": finding.message,
                "remedy": finding.remedy,
                "cause": str(finding.cause) if finding.bad else "",
            }
            for finding in findings
        ],
    }


def _count(findings: Sequence[Finding]) -> str:
    counts = {status: sum(finding.status is status for finding in findings) for status in Status}
    words = {Status.OK: "well", Status.WARNING: "warnings", Status.FAILED: "failed", Status.SKIPPED: "not looked at"}
    return f"{len(findings)} checks: " + ", ".join(f"{counts[status]} {word}" for status, word in words.items())
