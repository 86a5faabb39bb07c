"""`sluice doctor`: what stands between a pools file and nodes, before and after rollout, each with its remedy."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import orjson

from local.cli_app import add_output, app_address
from local.cli_input import read_pools
from local.cli_levers import span_of
from local.cluster_dump import read_input
from local.doctor.clocks import Clocks
from local.doctor.entering import Wallet
from local.doctor.examination import Keys, examine
from local.doctor.findings import Finding, exit_code
from local.doctor.installation import Installation, NotOutputs, read_outputs
from local.doctor.judging_handshake import KEY_VARIABLE
from local.doctor.probing_azure import OperatorsArm, entra_token, function_key, webhook_key
from local.doctor.report import as_json, as_text
from local.doctor.target import Target, embedded
from local.doctor.waiting import Patience, wait_for
from local.errors import UNREACHABLE, UserError
from shared.adapters.composition import ARM_ENDPOINT, PUBLIC_ARM

INGEST = "ingest"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `sluice doctor`."""
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--installation",
        metavar="FILE",
        help="outputs of the stage base (terraform output -json, or az deployment group show --query"
        " properties.outputs): the app, its identity and its topics are found by them",
    )
    place.add_argument("--url", help="of the Function App, where that is all there is to say of the installation")
    place.add_argument(
        "--out", metavar="DIR", type=Path, help="of a `sluice run`; default: out, where nothing else is said"
    )
    parser.add_argument("--pools", metavar="FILE", help="the pools file; default: that of the app")
    parser.add_argument("--kubeconfig", metavar="FILE", help="to look into the cluster with your own rights")
    parser.add_argument("--context", metavar="NAME", help="of the kubeconfig; default: its current one")
    parser.add_argument("--cluster", metavar="NAME", help="this one alone; default: all of the app")
    parser.add_argument(
        "--wait-for", choices=(INGEST,), help="wait until the published app answers the handshake of this function"
    )
    parser.add_argument(
        "--timeout", metavar="SPAN", type=span_of, default=600, help="of --wait-for, such as 90s or 15m; default: 10m"
    )
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print what was found. Raises UserError for what keeps the doctor from looking at all."""
    target, clocks = _target(arguments), Clocks(lambda: datetime.now(UTC))
    arm = _arm(target, clocks)
    if arguments.wait_for:
        return _wait(arguments, target, arm)
    keys = Keys(_wallet(target, arm), os.environ.get(KEY_VARIABLE, "").strip())
    findings = examine(target, arm, clocks, keys)
    if arguments.output == "json":
        made = list(findings)
        sys.stdout.buffer.write(orjson.dumps(as_json(made)) + b"\n")
        return exit_code(made)
    return _print(findings)


def _print(findings: Iterator[Finding]) -> int:
    made: list[Finding] = []
    for line in as_text(_kept(findings, made)):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    return exit_code(made)


def _kept(findings: Iterator[Finding], made: list[Finding]) -> Iterator[Finding]:
    for finding in findings:
        made.append(finding)
        yield finding


def _wait(arguments: argparse.Namespace, target: Target, arm: OperatorsArm | None) -> int:
    if not target.app_url:
        raise UserError("--wait-for: say which app, with --installation, --url or --out")
    given, installation = os.environ.get(KEY_VARIABLE, "").strip(), target.installation
    key: Callable[[], str] | None = (lambda: given) if given else None
    if key is None and arm is not None and installation is not None:
        key = partial(webhook_key, arm, installation.app_id)
    patience = Patience(arguments.timeout, time.monotonic, time.sleep, _say)
    finding = wait_for(target.app_url, arguments.wait_for, key, patience)
    if arguments.output == "json":
        sys.stdout.buffer.write(orjson.dumps(as_json([finding])) + b"\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in list(as_text([finding]))[:-1])
    return exit_code([finding])


def _say(line: str) -> None:
    """Progress is no answer: it goes where a script does not read."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _target(arguments: argparse.Namespace) -> Target:
    """Where to look; what is given beside a place comes on top of what the place says."""
    found = _place(arguments)
    if arguments.kubeconfig:
        found = replace(found, kubeconfig=arguments.kubeconfig, context=arguments.context or "")
    config = read_pools(arguments.pools, to_act=False)[1] if arguments.pools else None
    return replace(found, config=config, cluster=arguments.cluster or "")


def _place(arguments: argparse.Namespace) -> Target:
    if arguments.installation:
        made = _installation(arguments.installation)
        return Target(installation=made, app_url=made.app_url)
    if arguments.url:
        return Target(app_url=app_address(arguments.url))
    if arguments.out is None and (arguments.pools or arguments.kubeconfig):
        return Target()
    out = arguments.out or Path("out")
    try:
        return embedded(out)
    except (OSError, ValueError) as error:
        remedy = "start one with: sluice run --keep, or give --installation, --url or --pools"
        raise UserError(f"no embedded system runs in {out}: {remedy}", UNREACHABLE) from error


def _installation(name: str) -> Installation:
    try:
        return read_outputs(read_input(name, "outputs of the stage base", "--installation"))
    except NotOutputs as error:
        how = "give what `terraform -chdir=infra/terraform/base output -json` prints"
        raise UserError(f"--installation {name}: {error}: {how}") from error


def _wallet(target: Target, arm: OperatorsArm | None) -> Wallet | None:
    """What the caller's login opens, for an app that is known by its installation."""
    if arm is None or target.installation is None or target.stand_ins:
        return None
    return Wallet(entra_token, partial(function_key, arm, target.installation.app_id))


def _arm(target: Target, clocks: Clocks) -> OperatorsArm | None:
    """Nobody asks Azure who has named nothing there."""
    endpoint = target.arm_endpoint or os.environ.get(ARM_ENDPOINT) or PUBLIC_ARM
    if target.installation is None and target.config is None and not target.arm_endpoint:
        return None
    return OperatorsArm(endpoint, partial(clocks.header, "ARM"), login=not target.stand_ins)
