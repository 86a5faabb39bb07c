"""What the doctor says: one finding per check and subject, and what a script gets to know of all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from local.errors import DONE, REFUSED, UNREACHABLE, VIOLATIONS


class Status(StrEnum):
    """`WARNING` works, but not as well as it could; `SKIPPED` was not looked at, and says what that would take."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


class Cause(StrEnum):
    """What kind of trouble a failure is; scripts see it in the exit code."""

    SETTING = "setting"
    UNREACHABLE = "unreachable"
    RIGHTS = "rights"


@dataclass(frozen=True, slots=True)
class Finding:
    """`message` names what and its value, `remedy` what to do next; only what is well has none."""

    check: str
    subject: str
    status: Status
    message: str
    remedy: str = ""
    cause: Cause = Cause.SETTING

    @property
    def bad(self) -> bool:
        """Whether something does not work."""
        return self.status is Status.FAILED


@dataclass(frozen=True, slots=True)
class Check:
    """Makes the findings of one check about one subject."""

    name: str
    subject: str = ""

    def ok(self, message: str) -> Finding:
        """All is well."""
        return Finding(self.name, self.subject, Status.OK, message)

    def warning(self, message: str, remedy: str) -> Finding:
        """It works, but not as well as it could."""
        return Finding(self.name, self.subject, Status.WARNING, message, remedy)

    def failed(self, message: str, remedy: str, cause: Cause = Cause.SETTING) -> Finding:
        """It does not work."""
        return Finding(self.name, self.subject, Status.FAILED, message, remedy, cause)

    def skipped(self, message: str, remedy: str) -> Finding:
        """Not looked at."""
        return Finding(self.name, self.subject, Status.SKIPPED, message, remedy)


_CODES = ((Cause.UNREACHABLE, UNREACHABLE), (Cause.RIGHTS, REFUSED), (Cause.SETTING, VIOLATIONS))


def exit_code(findings: Iterable[Finding]) -> int:
    """0 without failures. Else what stands first in the way: 3 unreachable, 4 refused by rights, 5 anything else: what
    cannot be reached hides what would be refused, and that what is set wrongly."""
    causes = {finding.cause for finding in findings if finding.bad}
    return next((code for cause, code in _CODES if cause in causes), DONE)
