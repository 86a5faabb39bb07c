"""`sluice status`: what a running Function App knows, does and will not do, and why. Asks it once; touches nothing."""

from __future__ import annotations

import argparse
import os
import sys
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import orjson

from local.errors import BAD_INPUT, DONE, REFUSED, UNREACHABLE, UserError
from local.status_text import as_text
from local.system.endpoints import functions_url

Json = dict[str, Any]

KEY_VARIABLE: Final = "SLUICE_FUNCTION_KEY"
ROUTE: Final = "/api/status"
_SECONDS = 30.0  # a cold start in Azure takes up to some ten


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `sluice status`."""
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--url", help=f"of the Function App, such as https://APP.azurewebsites.net; its key in {KEY_VARIABLE}"
    )
    place.add_argument(
        "--out", metavar="DIR", type=Path, default=Path("out"), help="of the `sluice run` to ask; default: out"
    )
    parser.add_argument("--cluster", metavar="NAME", help="this one alone; default: all of the app")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="default: text")


def run(arguments: argparse.Namespace) -> int:
    """Print the status. Raises UserError: no such cluster (2), nothing answers (3), refused (4)."""
    base = _address(arguments.url) if arguments.url else _embedded(arguments.out)
    hint = "check --url" if arguments.url else "start it with: sluice run --keep"
    document = _ask(base, arguments.cluster, hint)
    if arguments.cluster and arguments.cluster not in document["clusters"]:
        known = ", ".join(sorted(_ask(base, None, hint)["clusters"])) or "none"
        raise UserError(f"--cluster {arguments.cluster}: the app has no pools file of that name; it has: {known}")
    if arguments.output == "json":
        sys.stdout.buffer.write(orjson.dumps(document) + b"\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in as_text(document))
    return DONE


def _address(url: str) -> str:
    """The URL of the function, whether the app or the function itself was named. Raises UserError."""
    problem = UserError(f"--url {url}: give an address such as https://APP.azurewebsites.net")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError as error:  # an IPv6 address without its end, or a port beyond all ports
        raise problem from error
    if not usable:
        raise problem
    path = parts.path.rstrip("/")
    return urlunsplit(parts._replace(path=path if path.endswith(ROUTE) else path + ROUTE, fragment=""))


def _embedded(out: Path) -> str:
    try:
        return functions_url(out) + ROUTE
    except (OSError, ValueError) as error:
        raise UserError(
            f"no embedded system runs in {out}: start one with: sluice run --keep, or name an app with --url",
            UNREACHABLE,
        ) from error


def _ask(address: str, cluster: str | None, hint: str) -> Json:
    """The status document. Raises UserError."""
    parts = urlsplit(address)
    query = [*parse_qsl(parts.query), *([("cluster", cluster)] if cluster else [])]
    url = urlunsplit(parts._replace(query=urlencode(query)))
    shown = urlunsplit(parts._replace(query=""))  # the query may hold a key
    key = os.environ.get(KEY_VARIABLE, "").strip()
    request = urllib.request.Request(url, headers={"x-functions-key": key} if key else {})  # noqa: S310 - see _address
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as response:  # noqa: S310 - see _address
            return _document(response.read(), shown, hint)
    except urllib.error.HTTPError as error:
        raise _refusal(error, shown, hint) from error
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise UserError(f"{shown}: nothing answers there ({reason}): {hint}", UNREACHABLE) from error


def _document(body: bytes, shown: str, hint: str) -> Json:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = None
    if not isinstance(document, dict) or not isinstance(document.get("clusters"), dict):
        raise UserError(f"{shown}: what answers there is no Function App of Sluice: {hint}", UNREACHABLE)
    return document


def _refusal(error: urllib.error.HTTPError, shown: str, hint: str) -> UserError:
    if error.code in (401, 403):
        told = f"GET {shown}: refused ({error.code}): put a key of the function status into {KEY_VARIABLE}"
        return UserError(told, REFUSED)
    if error.code == 404:
        return UserError(f"{shown}: there is no function status: {hint}", BAD_INPUT)
    return UserError(f"{shown}: answered {error.code}: see the log of the Function App, and try again", UNREACHABLE)
