"""Processes of ours: started so that none outlives its parent, watched until they are ready, stopped in good order."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from local.errors import BAD_INPUT, REFUSED, UNREACHABLE, UserError

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_SHOWN_LINES = 15


def _die_with_parent() -> None:
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Child:
    """One process; its output goes to `log`."""

    def __init__(
        self,
        name: str,
        module: str,
        arguments: Sequence[str],
        log: Path,
        environment: Mapping[str, str],
        python: str = sys.executable,
    ) -> None:
        self.name, self.log = name, log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [python, "-m", module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - set before any thread of ours is started in the child
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def wait_until(self, ready: Callable[[], bool], seconds: float = 30.0) -> None:
        """Return once `ready`. Raises UserError with the end of its log when it ends first or takes too long."""
        deadline = time.monotonic() + seconds
        while not ready():
            if not self.running:
                raise self._ended(self._process.returncode)
            if time.monotonic() > deadline:
                raise UserError(f"the {self.name} is not ready after {seconds:g} s:\n{self._tail()}", UNREACHABLE)
            time.sleep(0.05)

    def check(self) -> None:
        """Raises UserError when it has ended though nobody stopped it."""
        self.wait_until(lambda: self.running, seconds=0.0)

    def kill(self) -> None:
        """SIGKILL: it learns nothing of it."""
        self._process.kill()
        self._process.wait()

    def stop(self, seconds: float = 10.0) -> None:
        """SIGTERM, and SIGKILL for who does not listen."""
        self._process.terminate()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def _ended(self, code: int) -> UserError:
        """A child that ended with one of our own exit codes said why in its last line; any other has crashed."""
        lines = self._lines()
        if code in (BAD_INPUT, UNREACHABLE, REFUSED) and lines:
            return UserError(f"{self.name}: {lines[-1]}", code)
        return UserError(f"the {self.name} ended with exit code {code}:\n{self._tail()}", UNREACHABLE)

    def _tail(self) -> str:
        return "\n".join(f"  {line}" for line in self._lines()) or "  (it said nothing)"

    def _lines(self) -> list[str]:
        return self.log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:]
