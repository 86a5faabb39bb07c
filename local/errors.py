"""Failures that a person meets: one line that says what is wrong and what to do next, and the exit code for scripts."""

from __future__ import annotations

DONE, BAD_INPUT, UNREACHABLE, REFUSED, VIOLATIONS = 0, 2, 3, 4, 5


class UserError(Exception):
    """Shown as it is, without a trace; `exit_code` is one of those above."""

    def __init__(self, message: str, exit_code: int = BAD_INPUT) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class PortInUse(UserError):
    """Somebody else listens there."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(f"port {port} on {host} is in use: stop what listens there, or choose another port")
        self.port = port
