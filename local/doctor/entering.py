"""How the doctor gets past the app's door: with what the environment has, else with what its user's login can fetch.

An app that takes Entra tokens names its own application to who comes without one. A token is fetched for it only where
the app is known by the outputs of its own installation: whoever sits at another address might name somebody else's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from local.cli_app import credentials
from local.doctor.probing_web import Answer, fetch

_SCOPE = re.compile(rb"--scope (api://[0-9a-fA-F-]{36}/\.default)")
_SECONDS = 225.0  # the app tries everything in turn, and Azure gives a request 230 s


@dataclass(frozen=True, slots=True)
class Wallet:
    """`token` for a scope, and the host's `key`; both raise or give nothing where the login cannot have them."""

    token: Callable[[str], str]
    key: Callable[[], str]


def entered(url: str, wallet: Wallet | None) -> Answer:
    """The app's answer, after all that may be tried. Raises Unanswered, and OutsideError when no token is to be had."""
    answer = fetch("GET", url, credentials(), seconds=_SECONDS)
    if answer.status != 401 or credentials() or wallet is None:
        return answer
    for headers in _more(answer, wallet):
        answer = fetch("GET", url, headers, seconds=_SECONDS)
    return answer


def _more(refusal: Answer, wallet: Wallet) -> Iterator[dict[str, str]]:
    if scope := _SCOPE.search(refusal.body):
        yield {"authorization": f"Bearer {wallet.token(scope[1].decode())}"}
    elif not refusal.body and (key := wallet.key()):  # the host's own refusal, before any code of ours
        yield {"x-functions-key": key}
