"""`sluice status`: what a running Function App knows, does and will not do, and why. Asks it once; touches nothing."""

from __future__ import annotations

import argparse
import sys

import orjson

from local.cli_app import App, Json, add_output, add_place
from local.errors import DONE, UserError
from local.status_text import as_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `sluice status`."""
    add_place(parser)
    parser.add_argument("--cluster", metavar="NAME", help="this one alone; default: all of the app")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the status. Raises UserError: no such cluster (2), nothing answers (3), refused (4)."""
    app = App(arguments)
    document = _asked(app, arguments.cluster)
    if arguments.cluster and arguments.cluster not in document["clusters"]:
        known = ", ".join(sorted(_asked(app, None)["clusters"])) or "none"
        raise UserError(f"--cluster {arguments.cluster}: the app has no pools file of that name; it has: {known}")
    if arguments.output == "json":
        sys.stdout.buffer.write(orjson.dumps(document) + b"\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in as_text(document))
    return DONE


def _asked(app: App, cluster: str | None) -> Json:
    document = app.get("status", cluster=cluster)
    if not isinstance(document.get("clusters"), dict):
        raise app.stranger("status")
    return document
