"""The doctor at the app's door: what the environment has, what a login fetches, and to whom it is never given."""

from __future__ import annotations

import pytest

from local.doctor.entering import Wallet, entered
from local.http_server import serve
from local.web import Request, Response
from shared.adapters.errors import Refused

APPLICATION = "00000000-0000-0000-0000-0000000000bb"
HOW = f"no token was sent: az account get-access-token --scope api://{APPLICATION}/.default --query accessToken"


class Door:
    """Lets in who sends this header; others hear `told`."""

    def __init__(self, header: str, value: str, told: str = "") -> None:
        self._header, self._value = header, value
        self._refusal = Response.of_json(401, {"error": told}) if told else Response(401)
        self.requests = 0

    def handle(self, request: Request) -> Response:
        self.requests += 1
        return Response(200) if request.headers.get(self._header) == self._value else self._refusal


class Purse:
    def __init__(self) -> None:
        self.asked: list[str] = []
        self.wallet = Wallet(self.token, lambda: "host-key")

    def token(self, scope: str) -> str:
        self.asked.append(scope)
        return "mine"


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLUICE_TOKEN", "SLUICE_FUNCTION_KEY"):
        monkeypatch.delenv(name, raising=False)


def status(door: Door, wallet: Wallet | None) -> int:
    with serve(door) as server:
        return entered(f"{server.url}/api/doctor", wallet).status


def test_a_token_is_fetched_for_the_application_that_the_app_names() -> None:
    purse = Purse()
    assert status(Door("authorization", "Bearer mine", HOW), purse.wallet) == 200
    assert purse.asked == [f"api://{APPLICATION}/.default"]


@pytest.mark.parametrize("scope", ["https://management.azure.com/.default", "api://anything/.default", "api://x"])
def test_no_token_is_fetched_for_anything_else(scope: str) -> None:
    purse = Purse()
    assert status(Door("authorization", "Bearer mine", f"get one: --scope {scope}"), purse.wallet) == 401
    assert purse.asked == []


def test_the_hosts_key_is_tried_where_the_host_itself_refuses() -> None:
    assert status(Door("x-functions-key", "host-key"), Purse().wallet) == 200


def test_what_the_environment_has_is_sent_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_TOKEN", "given")
    purse, door = Purse(), Door("authorization", "Bearer mine", HOW)
    assert status(door, purse.wallet) == 401
    assert (purse.asked, door.requests) == ([], 1)


def test_without_an_installation_nothing_is_fetched() -> None:
    door = Door("authorization", "Bearer mine", HOW)
    assert status(door, None) == 401
    assert door.requests == 1


def test_who_gets_no_token_hears_why() -> None:
    def none(scope: str) -> str:
        raise Refused(f"a token for {scope}: consent is missing")

    with serve(Door("authorization", "Bearer mine", HOW)) as server, pytest.raises(Refused, match="consent is missing"):
        entered(server.url, Wallet(none, str))
