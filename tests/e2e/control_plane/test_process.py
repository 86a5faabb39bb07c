"""Programs of the control plane end when they must, and say why when they must not."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.control_plane import Reply, StartError
from tests.e2e.control_plane.process import Process, wait_until_ready

ORPHAN_MAKER = """
import sys, threading, time
from pathlib import Path
from tests.e2e.control_plane.process import Process
folder = Path(sys.argv[1])
def start():
    print(Process("sleeper", ["/bin/sleep", "600"], folder, folder / "log").pid, flush=True)
thread = threading.Thread(target=start)
thread.start()
thread.join()
time.sleep(600)
"""


def never() -> Reply:
    return Reply(503, "warming up")


def shell(script: str, folder: Path) -> Process:
    return Process("program", ["/bin/sh", "-c", script], folder, folder / "program.log")


def test_an_early_end_is_reported_with_the_end_of_the_log(tmp_path: Path) -> None:
    process = shell("echo first; echo port taken; exit 7", tmp_path)
    with pytest.raises(StartError, match=r"program ended with exit code 7;(.|\n)*port taken"):
        wait_until_ready(process, never, [process], timeout_s=10)


def test_the_program_that_ended_is_named_not_the_one_awaited(tmp_path: Path) -> None:
    awaited = shell("exec sleep 600", tmp_path)
    broken = Process("culprit", ["/bin/sh", "-c", "exit 1"], tmp_path, tmp_path / "log")
    with pytest.raises(StartError, match="culprit ended"):
        wait_until_ready(awaited, never, [awaited, broken], timeout_s=10)
    awaited.kill()


def test_a_program_that_never_gets_ready_is_reported_with_its_last_answer(tmp_path: Path) -> None:
    process = shell("exec sleep 600", tmp_path)
    with pytest.raises(StartError, match=r"not ready after 0\.1 s \(last answer 503: warming up\)"):
        wait_until_ready(process, never, [process], timeout_s=0.1)
    process.kill()


def test_kill_does_not_ask(tmp_path: Path) -> None:
    process = shell("trap '' TERM INT; while :; do sleep 1; done", tmp_path)
    process.kill()
    assert process.exit_code == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
def test_a_program_outlives_the_thread_that_started_it_but_not_the_process(tmp_path: Path) -> None:
    maker = subprocess.Popen([sys.executable, "-c", ORPHAN_MAKER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert maker.stdout is not None
    with maker.stdout:
        orphan = int(maker.stdout.readline())
    time.sleep(0.2)
    assert runs(orphan)
    maker.kill()
    maker.wait()
    deadline = time.monotonic() + 10
    while runs(orphan):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def runs(pid: int) -> bool:
    """Whether the process lives; one that merely waits to be reaped does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
