"""How commands ask a running Function App: where it is, its key, and what its refusals mean to a person."""

from __future__ import annotations

import argparse
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import orjson

from local.errors import BAD_INPUT, DONE, REFUSED, UNREACHABLE, UserError
from local.system.endpoints import functions_url

Json = dict[str, Any]

TOKEN_VARIABLE: Final = "SLUICE_TOKEN"  # noqa: S105 - where one lies, not one itself
KEY_VARIABLE: Final = "SLUICE_FUNCTION_KEY"
_SECONDS = 30.0  # a cold start in Azure takes up to some ten
_FUNCTION = re.compile(r"/api/[a-z]*$")


def add_place(parser: argparse.ArgumentParser) -> None:
    """The arguments that say which app to ask, and about which cluster."""
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--url", help=f"of the Function App, such as https://APP.azurewebsites.net; an Entra token in {TOKEN_VARIABLE}"
    )
    place.add_argument(
        "--out", metavar="DIR", type=Path, default=Path("out"), help="of the `sluice run` to ask; default: out"
    )


def add_question(parser: argparse.ArgumentParser) -> None:
    """The arguments of a command that asks about one node or pod."""
    add_subject(parser)
    add_place(parser)
    add_output(parser)


def answer(arguments: argparse.Namespace, question: str, as_text: Callable[[Json], Iterator[str]]) -> int:
    """Ask, and print what the app says. Raises UserError."""
    document = App(arguments).get(question, **asked(arguments))
    if arguments.output == "json":
        sys.stdout.buffer.write(orjson.dumps(document) + b"\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in as_text(document))
    return DONE


def add_output(parser: argparse.ArgumentParser) -> None:
    """The argument that says for whom the answer is."""
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="default: text")


def add_subject(parser: argparse.ArgumentParser) -> None:
    """The arguments that say which node or pod is meant."""
    parser.add_argument(
        "name", metavar="NODE|POD", help="a pod is NAMESPACE/NAME, or NAME in the namespace default, if no node has it"
    )
    parser.add_argument("-n", "--namespace", metavar="NAME", help="of the pod")
    parser.add_argument("--cluster", metavar="NAME", help="may be left out where the app has only one")


def asked(arguments: argparse.Namespace) -> dict[str, str | None]:
    """The subject as the app's functions take it."""
    if arguments.namespace:
        return {"pod": f"{arguments.namespace}/{arguments.name}", "cluster": arguments.cluster}
    return {"name": arguments.name, "cluster": arguments.cluster}


class App:
    """A running Function App. Raises UserError for an address that is none."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._base = app_address(arguments.url) if arguments.url else _embedded(arguments.out)
        self._hint = "check --url" if arguments.url else "start it with: sluice run --keep"

    def get(self, function: str, **query: str | None) -> Json:
        """What a function of the app answers. Raises UserError: bad input (2), nothing answers (3), refused (4)."""
        return self._ask("GET", function, query)

    def post(self, function: str, order: Json, **query: str | None) -> Json:
        """The same, of a function that changes something."""
        return self._ask("POST", function, query, orjson.dumps(order))

    def _ask(self, method: str, function: str, query: Mapping[str, str | None], body: bytes | None = None) -> Json:
        parts = urlsplit(self._base)
        asked = [*parse_qsl(parts.query), *((name, value) for name, value in query.items() if value)]
        parts = parts._replace(path=f"{parts.path}/api/{function}")
        url, shown = (urlunsplit(parts._replace(query=text)) for text in (urlencode(asked), ""))  # which may hold a key
        headers = {"content-type": "application/json", **credentials()}
        request = urllib.request.Request(url, body, headers, method=method)  # noqa: S310 - see app_address
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as response:  # noqa: S310 - see app_address
                return self._document(response.read(), shown)
        except urllib.error.HTTPError as error:
            raise self._refusal(error, method, shown, function) from error
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise UserError(f"{shown}: nothing answers there ({reason}): {self._hint}", UNREACHABLE) from error

    def stranger(self, shown: str) -> UserError:
        """For an answer that no Sluice would give."""
        return UserError(f"{shown}: what answers there is no Function App of Sluice: {self._hint}", UNREACHABLE)

    def _document(self, body: bytes, shown: str) -> Json:
        try:
            document = orjson.loads(body)
        except orjson.JSONDecodeError:
            document = None
        if not isinstance(document, dict):
            raise self.stranger(shown)
        return document

    def _refusal(self, error: urllib.error.HTTPError, method: str, shown: str, function: str) -> UserError:
        said = _said(error)
        if error.code in (401, 403):
            told = f"{method} {shown}: refused ({error.code}): {said or how_to_enter(function)}"
            return UserError(told, REFUSED)
        if error.code in (400, 404, 409) and said:
            return UserError(said, BAD_INPUT)
        if error.code == 404:
            return UserError(f"{shown}: there is no function {function}: {self._hint}", BAD_INPUT)
        why = f" ({said})" if said else ""
        told = f"{shown}: answered {error.code}{why}: see the log of the Function App, and try again"
        return UserError(told, UNREACHABLE)


def credentials() -> dict[str, str]:
    """What the environment has for an app to be asked with: an Entra token, a function's key, or both."""
    token, key = (os.environ.get(name, "").strip() for name in (TOKEN_VARIABLE, KEY_VARIABLE))
    return {**({"authorization": f"Bearer {token}"} if token else {}), **({"x-functions-key": key} if key else {})}


def how_to_enter(function: str) -> str:
    """For who was refused without a word."""
    return (
        f"put an Entra token for the app into {TOKEN_VARIABLE} (az account get-access-token), or, where it takes keys, "
        f"one of the function {function} into {KEY_VARIABLE}"
    )


def _said(error: urllib.error.HTTPError) -> str:
    """The app's own line about what was wrong."""
    try:
        document = orjson.loads(error.read())
    except (orjson.JSONDecodeError, OSError, HTTPException):
        return ""
    return str(document.get("error", "")) if isinstance(document, dict) else ""


def app_address(url: str) -> str:
    """The URL of the app, whether it or one of its functions was named. Raises UserError."""
    problem = UserError(f"--url {url}: give an address such as https://APP.azurewebsites.net")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError as error:  # an IPv6 address without its end, or a port beyond all ports
        raise problem from error
    if not usable:
        raise problem
    return urlunsplit(parts._replace(path=_FUNCTION.sub("", parts.path.rstrip("/")), fragment=""))


def _embedded(out: Path) -> str:
    try:
        return functions_url(out)
    except (OSError, ValueError) as error:
        raise UserError(
            f"no embedded system runs in {out}: start one with: sluice run --keep, or name an app with --url",
            UNREACHABLE,
        ) from error
