"""`sluice explain POD|NODE`: why a pod waits or goes where it goes, why a node stays or leaves, as of this moment."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

import orjson

from local.cli_app import App, Json, add_output, add_place, add_subject, asked
from local.errors import DONE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `sluice explain`."""
    add_subject(parser)
    add_place(parser)
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the explanation. Raises UserError."""
    document = App(arguments).get("explain", **asked(arguments))
    if arguments.output == "json":
        sys.stdout.buffer.write(orjson.dumps(document) + b"\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in as_text(document))
    return DONE


def as_text(document: Json) -> Iterator[str]:
    """The verdict, and what it rests on."""
    yield f"{document['kind']} {document['name']} of cluster {document['cluster']}: {document['verdict']}"
    yield from (f"  {line}" for line in document["because"])
