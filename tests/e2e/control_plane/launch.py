"""Become a program that cannot outlive the process that asked for it.

Run as a script: ``python launch.py PARENT_PID PROGRAM [ARGUMENT ...]``. A test
run that is killed hard cannot clean up, and a left-over apiserver keeps memory
and a port, so the kernel is asked to kill it. Asking between fork and exec in
the parent (``preexec_fn``) is unsafe beside threads; a fresh interpreter is not.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Tie this process to its parent, then turn into the program."""
    parent, program = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the kernel was asked
        sys.exit("the parent process is gone")
    os.execv(program[0], program)


if __name__ == "__main__":
    main()
