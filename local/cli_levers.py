"""`sluice pause` and `sluice resume`: hands off, for a pool or a cluster, and on again."""

from __future__ import annotations

import argparse
import getpass
import re
import socket
import sys
from collections.abc import Iterable

import orjson

from local.cli_app import App, Json, add_output, add_place
from local.errors import DONE
from local.status_text import pause_line, resumed_line

_DURATION = re.compile(r"(\d+)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def add_common(parser: argparse.ArgumentParser) -> None:
    """The arguments of both commands."""
    add_place(parser)
    parser.add_argument("--cluster", metavar="NAME", help="may be left out where the app has only one")
    parser.add_argument("--pool", metavar="NAME", help="this one alone; default: the whole cluster")
    parser.add_argument("--by", metavar="WHO", help="who says so; default: the user here")
    add_output(parser)


def add_of_pause(parser: argparse.ArgumentParser) -> None:
    """The arguments of `sluice pause`."""
    add_common(parser)
    parser.add_argument("--reason", metavar="TEXT", help="shown by sluice status")
    span = "after which it ends by itself, such as 30m, 2h or 1d; default: until sluice resume"
    parser.add_argument("--for", dest="seconds", metavar="SPAN", type=span_of, help=span)


def span_of(text: str) -> int:
    """For `argparse`: a duration in seconds."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration: give one such as 30m, 2h or 1d")
    return int(found[1]) * _SECONDS[found[2]]


def pause(arguments: argparse.Namespace) -> int:
    """Put a pause in force, and say which are."""
    order = _order(arguments, reason=arguments.reason, seconds=arguments.seconds)
    document = App(arguments).post("pause", order, cluster=arguments.cluster)
    return _told(arguments, document, (pause_line(name, each) for name, each in document["pauses"].items()))


def resume(arguments: argparse.Namespace) -> int:
    """Take a pause away, and say which have ended."""
    document = App(arguments).post("resume", _order(arguments), cluster=arguments.cluster)
    ended = (resumed_line(name, each) for name, each in document["ended"].items())
    left = (pause_line(name, each) for name, each in document["pauses"].items())
    return _told(arguments, document, [*ended, *left] or ["nothing was paused; a look at the cluster has begun"])


def _order(arguments: argparse.Namespace, **more: object) -> Json:
    given = {"pool": arguments.pool, "by": arguments.by or _whoever(), **more}
    return {name: value for name, value in given.items() if value is not None}


def _whoever() -> str:
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):  # a container's user need not have a name
        return socket.gethostname()


def _told(arguments: argparse.Namespace, document: Json, lines: Iterable[str]) -> int:
    if arguments.output == "json":
        sys.stdout.buffer.write(orjson.dumps(document) + b"\n")
    else:
        sys.stdout.writelines(f"cluster {document['cluster']}: {line}\n" for line in lines)
    return DONE
