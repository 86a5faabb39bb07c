"""The command line `sluice`: finds the command asked for, and loads nothing of the others.

A command is a module with `add_arguments(parser)` and `run(arguments) -> int`, the exit code. Whatever it raises as
`UserError` is printed without a trace.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from local.errors import BAD_INPUT, DONE, UserError

_INTERRUPTED = 130  # what shells report for a program that Ctrl-C ended

_EPILOG = (
    "sluice COMMAND --help tells more. Exit codes: 0 done, 2 bad input, 3 unreachable, 4 refused by rights,"
    " 5 violations found."
)
COMMANDS = {
    "run": ("local.cli_run", "the embedded system on the wall clock, with a workload that comes and goes"),
    "simulate": ("local.cli_simulate", "a trace of pods through the whole system on virtual time, with a report"),
    "plan": ("local.cli_plan", "what would be done for a cluster, and why; touches nothing"),
    "status": ("local.cli_status", "what a running Function App knows, does and will not do, and why"),
    "explain": ("local.cli_explain", "why a pod waits or goes where it goes, why a node stays or leaves"),
    "history": ("local.cli_history", "what was done to a node or a pod, also a deleted one: when, why, by which rule"),
    "doctor": (
        "local.cli_doctor",
        "what stands between a pools file and nodes, before and after rollout; its remedies",
    ),
    "pause": ("local.cli_pause", "hands off a cluster or a pool; what was begun reaches a safe state"),
    "resume": ("local.cli_resume", "ends a pause, and has a look at once"),
}
"""Name of a command: its module and one line of help."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (`local.errors`; 130 after Ctrl-C)."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = _parser(words)
    if not words:
        parser.exit(BAD_INPUT, parser.format_help())
    arguments = parser.parse_args(words)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except BrokenPipeError:
        # The reader has seen enough. Python would complain once more when it flushes at exit, so it gets a sink.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return _INTERRUPTED
    return code


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """All commands by name; only the one asked for is imported and knows its arguments."""
    parser = argparse.ArgumentParser(
        prog="sluice", description="Nodes for pending pods, and none for nobody.", epilog=_EPILOG
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    asked_for = next((word for word in words if not word.startswith("-")), "")
    for name, (module_name, summary) in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary)
        if name == asked_for:
            module = importlib.import_module(module_name)
            module.add_arguments(command)
            command.set_defaults(run=module.run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
