"""`sluice explain POD|NODE`: why a pod waits or goes where it goes, why a node stays or leaves, as of this moment."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from local.cli_app import Json, add_question, answer

add_arguments = add_question


def run(arguments: argparse.Namespace) -> int:
    """Print the explanation. Raises UserError."""
    return answer(arguments, "explain", as_text)


def as_text(document: Json) -> Iterator[str]:
    """The verdict, and what it rests on."""
    yield f"{document['kind']} {document['name']} of cluster {document['cluster']}: {document['verdict']}"
    yield from (f"  {line}" for line in document["because"])
