"""One running program: started with a log, watched, killed without mercy.

There is no polite stop on purpose: the data is thrown away anyway, and an
apiserver asked to end while its etcd is going hangs for a minute on its port.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.e2e.control_plane.api import Reply

LAUNCHER = Path(__file__).with_name("launch.py")

POLL_S = 0.05
"""Short beside a start of seconds, long enough to leave the CPU to the starting programs."""

TAIL_LINES = 15
"""Enough for the fatal line and what led to it, without burying the test's own output."""

TAIL_COLUMNS = 400
"""etcd puts its whole stack into one line, after what matters."""

_KEEPER = ThreadPoolExecutor(1, thread_name_prefix="control-plane-keeper")
"""Linux ties a child to the *thread* that made it; this one lives as long as the process."""


class StartError(RuntimeError):
    """A program of the control plane ended or did not get ready; the text shows its log."""


class Process:
    """A started program with its log file."""

    def __init__(self, name: str, command: Sequence[str], home: Path, log: Path) -> None:
        self.name = name
        self.log = log
        self._popen = _KEEPER.submit(_spawn, command, home, log).result()

    @property
    def pid(self) -> int:
        """The process id, for tests that measure or torment it."""
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended, or None while it runs."""
        return self._popen.poll()

    def tail(self) -> str:
        """The last lines it logged."""
        lines = self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        return "\n".join(f"    {line[:TAIL_COLUMNS]}" for line in lines)

    def kill(self) -> None:
        """End it now, and wait until its port is free again."""
        self._popen.kill()
        self._popen.wait()


def _spawn(command: Sequence[str], home: Path, log: Path) -> "subprocess.Popen[bytes]":
    """Start in a session of its own, so that Ctrl-C reaches the tests first and them alone."""
    launcher = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid())]
    with log.open("ab") as sink:
        return subprocess.Popen(
            [*launcher, *command],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env={"HOME": str(home), "PATH": os.defpath},
            cwd=home,
            start_new_session=True,
        )


def wait_until_ready(
    process: Process, probe: Callable[[], Reply], running: Iterable[Process], timeout_s: float
) -> None:
    """Wait until `probe` succeeds; fail at once when any program that `running` holds ends."""
    deadline = time.monotonic() + timeout_s
    watched = tuple(running)
    while not (reply := probe()).ok:
        _refuse_ended(watched)
        if time.monotonic() > deadline:
            answer = f"last answer {reply.status}: {reply.body.strip()[:256]}"
            raise _start_error(process, f"was not ready after {timeout_s:g} s ({answer})")
        time.sleep(POLL_S)


def _refuse_ended(processes: Iterable[Process]) -> None:
    for process in processes:
        if process.exit_code is not None:
            raise _start_error(process, f"ended with exit code {process.exit_code}")


def _start_error(process: Process, what: str) -> StartError:
    return StartError(f"{process.name} {what}; the end of {process.log}:\n{process.tail()}")
