"""`sluice run`: the embedded system on the wall clock, with a workload that comes and goes."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from local.cli_input import port, read_pools, whole_number, writable_folder
from local.errors import DONE, VIOLATIONS, UserError
from local.system.demonstration import Scenario
from local.system.embedded import Embedded

_WIND_UP = 60.0  # seconds that sagas have to notice that all is done


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """See `local.cli`."""
    pools = Path("examples/pools/demo.yaml")
    parser.add_argument("--pools", metavar="FILE", type=Path, default=pools, help=f"the pools file; default: {pools}")
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path("out"),
        help="where report, picture, kubeconfig and logs go; default: out",
    )
    parser.add_argument("--seed", type=whole_number, default=1, help="decides all that is drawn by chance; default: 1")
    parser.add_argument(
        "--port", type=port, default=0, help="of the API server on 127.0.0.1; default: 0, which takes a free one"
    )
    parser.add_argument("--keep", action="store_true", help="stay, with an empty cluster to try, until Ctrl-C")


def run(arguments: argparse.Namespace) -> int:
    """See `local.cli`."""
    if str(arguments.pools) == "-":
        raise UserError("--pools -: the parts read the file again: give the path of one")
    read_pools(str(arguments.pools), to_act=True)
    writable_folder(arguments.out, "--out")
    say("starting stand-ins, Functions host and exporter")
    with Embedded(arguments.pools, arguments.out, seed=arguments.seed, port=arguments.port) as system:
        scenario = Scenario(system, say)
        scenario.play()
        report = finish(system)
        _summarise(report, arguments.out)
        if arguments.keep:
            _stay(system, scenario)
    return VIOLATIONS if report["violations"] else DONE


def finish(system: Embedded) -> dict[str, Any]:
    """Have the run judged; writes `report.json` and `run.svg`, and returns the report."""
    deadline = time.monotonic() + _WIND_UP
    while (open_ones := _open(system)) and time.monotonic() < deadline:
        time.sleep(1.0)
    told = {"orchestrations": open_ones, "host": system.broken_rules()}
    report: dict[str, Any] = system.control("POST", "/finish", told)
    return report


def _open(system: Embedded) -> list[str]:
    """Orchestrations that have not ended well, the sweep aside, which comes and goes."""
    ended = {"Completed", "Terminated"}
    found = [one for one in system.orchestrations() if one["runtimeStatus"] not in ended and one["name"] != "reconcile"]
    return [f"{one['instanceId']} is {one['runtimeStatus']}" for one in found]


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
