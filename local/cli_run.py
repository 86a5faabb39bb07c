"""`sluice run`: the embedded system on the wall clock, with a workload that comes and goes."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from local.errors import DONE, VIOLATIONS, UserError
from local.system.demonstration import Scenario
from local.system.embedded import Embedded
from shared.config import ConfigError, parse_config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """See `local.cli`."""
    parser.add_argument("--pools", type=Path, default=Path("examples/pools/demo.yaml"), help="the pools file")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where report, picture and kubeconfig go")
    parser.add_argument("--seed", type=int, default=1, help="decides all that is drawn by chance")
    parser.add_argument("--port", type=int, default=0, help="of the API server; 0 takes a free one")
    parser.add_argument("--keep", action="store_true", help="stay, with an empty cluster to try, until Ctrl-C")


def run(arguments: argparse.Namespace) -> int:
    """See `local.cli`."""
    check_pools(arguments.pools)
    arguments.out.mkdir(parents=True, exist_ok=True)
    say("starting stand-ins, Functions host and exporter")
    with Embedded(arguments.pools, arguments.out, seed=arguments.seed, port=arguments.port) as system:
        scenario = Scenario(system, say)
        scenario.play()
        report = finish(system)
        _summarise(report, arguments.out)
        if arguments.keep:
            _stay(system, scenario)
    return VIOLATIONS if report["violations"] else DONE


def check_pools(path: Path) -> None:
    """Raises UserError with every problem of the file."""
    try:
        parse_config(path.read_text(), to_act=True)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}: give --pools a pools file") from error
    except ConfigError as error:
        raise UserError("\n".join(f"{path}: {problem}" for problem in error.problems)) from error


def finish(system: Embedded) -> dict[str, Any]:
    """Have the run judged; writes `report.json` and `run.svg`, and returns the report."""
    ended = {"Completed", "Terminated"}
    open_ones = [
        f"{one['instanceId']} is {one['runtimeStatus']}"
        for one in system.orchestrations()
        if one["runtimeStatus"] not in ended
    ]
    report: dict[str, Any] = system.control("POST", "/finish", {"orchestrations": open_ones, "host": []})
    return report


def say(line: str) -> None:
    """To the person who watches."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _summarise(report: dict[str, Any], out: Path) -> None:
    pods, nodes = report["pods"], report["nodes"]
    for violation in report["violations"]:
        say(f"violation: {violation}")
    say(f"report: {out / 'report.json'}   picture: {out / 'run.svg'}")
    say(
        f"{pods['scheduled']} of {pods['submitted']} pods scheduled, median wait {pods['wait_s']['p50']} s;"
        f" {nodes['created']} nodes came and {nodes['deleted']} went; {report['spot_evictions']} Spot eviction(s),"
        f" {report['fallbacks']} fallback(s), {len(report['violations'])} violation(s)"
    )


def _stay(system: Embedded, scenario: Scenario) -> None:
    say(f"staying; try: kubectl --kubeconfig {system.kubeconfig} get nodes    (Ctrl-C ends it)")
    try:
        while True:
            scenario.listen()
            time.sleep(0.5)
    except KeyboardInterrupt:
        say("stopping")
