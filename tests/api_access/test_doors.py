"""Who may ask the app, and stop it: holders of an Entra token in the right role; keys where asked for; else nobody."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from typing import Any

import jwt
import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from functions.app import create_app
from functions.services import Services
from local.functions_host import FunctionsHost, HostOptions
from local.timeline import VirtualTimeline
from local.web import Request, Response
from shared.adapters.composition import services_from_environment
from shared.adapters.doors import KEYS_PAUSE, ClosedDoor, EntraDoor
from shared.adapters.errors import Refused, Unreachable
from shared.adapters.protocols import Caller, Door
from tests.api_access.servers import Served
from tests.orchestrations.stage import Stage

TENANT = "00000000-0000-0000-0000-000000000002"
APPLICATION = "00000000-0000-0000-0000-00000000000e"
READERS = frozenset({"status", "history", "explain", "doctor"})
LEVERS = frozenset({"pause", "resume"})


class Entra:
    """A tenant that signs tokens, and publishes its keys."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.name, self.read = "key-1", 0
        self._served = Served(self._answer)
        self.url, self.close = self._served.url, self._served.close

    def door(self, now: list[float] | None = None) -> EntraDoor:
        clock = now or [0.0]
        return EntraDoor(TENANT, APPLICATION, self.url, lambda: clock[0])

    def token(self, **changes: Any) -> str:
        now = datetime.now(UTC)
        claims = {
            "iss": f"{self.url}/{TENANT}/v2.0",
            "aud": APPLICATION,
            "exp": now + timedelta(hours=1),
            "preferred_username": "ann@example.org",
            "roles": ["Sluice.Read"],
        }
        known = {name: value for name, value in (claims | changes).items() if value is not None}
        return jwt.encode(known, self.key, "RS256", {"kid": self.name})

    def _answer(self, request: BaseHTTPRequestHandler) -> tuple[int, dict[str, Any]]:
        self.read += 1
        if request.path != f"/{TENANT}/discovery/v2.0/keys":
            return 404, {}
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        return 200, {"keys": [{**public, "kid": self.name, "use": "sig"}]}


@pytest.fixture(scope="module")
def entra() -> Iterator[Entra]:
    running = Entra()
    yield running
    running.close()


def bearer(token: str) -> str:
    return f"Bearer {token}"


def test_a_token_of_the_tenant_for_the_application_says_who_it_is(entra: Entra) -> None:
    assert entra.door().caller(bearer(entra.token())) == Caller("ann@example.org", frozenset({"Sluice.Read"}))


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": f"api://{APPLICATION}", "iss": f"https://sts.windows.net/{TENANT}/"},
        {"preferred_username": None, "appid": "a-pipeline"},
    ],
)
def test_tokens_of_either_version_and_of_applications_are_taken(entra: Entra, changes: dict[str, Any]) -> None:
    assert entra.door().caller(bearer(entra.token(**changes))).name in ("ann@example.org", "a-pipeline")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"aud": "00000000-0000-0000-0000-00000000000f"}, "Audience doesn't match"),
        ({"iss": "https://login.microsoftonline.com/another/v2.0"}, "Invalid issuer"),
        ({"exp": datetime(2020, 1, 1, tzinfo=UTC)}, "Signature has expired"),
        ({"exp": None}, 'missing the "exp" claim'),
        ({"nbf": datetime.now(UTC) + timedelta(hours=1)}, "not yet valid"),
    ],
)
def test_a_token_for_another_purpose_is_refused_with_what_to_send(
    entra: Entra, changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(Refused, match=why) as told:
        entra.door().caller(bearer(entra.token(**changes)))
    assert told.value.status == 401
    assert f"az account get-access-token --scope api://{APPLICATION}/.default" in str(told.value)


@pytest.mark.parametrize("header", ["", "Bearer ", "Basic eDp5", "Bearer nonsense", "Bearer a.b.c"])
def test_what_is_no_token_is_refused(entra: Entra, header: str) -> None:
    with pytest.raises(Refused):
        entra.door().caller(header)


def test_a_token_that_somebody_else_signed_is_refused(entra: Entra) -> None:
    forger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    claims = jwt.decode(entra.token(), options={"verify_signature": False})
    for key, algorithm, name in ((forger, "RS256", "key-1"), (forger, "RS256", "key-2"), (None, "none", "key-1")):
        with pytest.raises(Refused):
            entra.door().caller(bearer(jwt.encode(claims, key, algorithm, {"kid": name})))


def test_keys_are_read_once_and_anew_for_one_that_is_not_known_but_not_for_each(entra: Entra) -> None:
    now = [0.0]
    door, before = entra.door(now), entra.read
    for _ in range(3):
        door.caller(bearer(entra.token()))
    assert entra.read == before + 1
    entra.name = "key-2"
    for _ in range(3):
        with pytest.raises(Refused):
            door.caller(bearer(entra.token()))
    assert entra.read == before + 1
    now[0] = KEYS_PAUSE
    assert door.caller(bearer(entra.token())).name == "ann@example.org"
    assert entra.read == before + 2
    entra.name = "key-1"


def test_while_entra_cannot_be_asked_nobody_comes_in() -> None:
    gone = Entra()
    gone.close()
    with pytest.raises(Unreachable, match="Entra's keys cannot be read"):
        gone.door().caller(bearer(gone.token()))


def app_of(**settings: str) -> Services:
    return services_from_environment(settings, Services)


def levels(services: Services) -> dict[str, str]:
    host = FunctionsHost(create_app(services), VirtualTimeline(), HostOptions(timers=False))
    return {route.indexed.name: route.auth_level for route in host.index.routes}


def test_by_default_nobody_may_ask_and_keys_open_nothing() -> None:
    services = app_of()
    assert isinstance(services.door, ClosedDoor)
    assert levels(services) == dict.fromkeys(READERS | LEVERS, "anonymous")


def test_entra_opens_the_app_and_keys_do_not() -> None:
    services = app_of(SLUICE_ENTRA_APPLICATION=APPLICATION, SLUICE_ENTRA_TENANT=TENANT, SLUICE_FUNCTION_KEYS="0")
    assert isinstance(services.door, EntraDoor)
    assert set(levels(services).values()) == {"anonymous"}


def test_keys_are_asked_for_by_the_host_where_somebody_wants_them() -> None:
    services = app_of(SLUICE_FUNCTION_KEYS="1")
    assert services.door is None
    assert levels(services) == dict.fromkeys(READERS | LEVERS, "function")


def asked(door: Door, name: str, authorization: str = "", **order: object) -> Response:
    stage = Stage()
    services = {field: getattr(stage.services, field) for field in stage.services.__dataclass_fields__}
    host = FunctionsHost(create_app(Services(**{**services, "door": door})), stage.timeline, HostOptions(timers=False))
    method = "POST" if name in LEVERS else "GET"
    headers = {"authorization": authorization} if authorization else {}
    query = {"node": "n"} if name in ("history", "explain") else {}
    body = orjson.dumps(order) if name in LEVERS else b""
    return host.handle(Request(method, f"/api/{name}", query, headers, body))


@pytest.mark.parametrize("name", sorted(READERS | LEVERS))
def test_every_door_is_shut_to_who_brings_no_token(entra: Entra, name: str) -> None:
    response = asked(entra.door(), name)
    assert response.status == 401
    assert set(orjson.loads(response.body)) == {"error"}
    closed = asked(ClosedDoor(), name, bearer(entra.token(roles=["Sluice.Operate"])))
    assert closed.status == 403
    assert "SLUICE_ENTRA_APPLICATION" in orjson.loads(closed.body)["error"]


@pytest.mark.parametrize("name", sorted(READERS | LEVERS))
def test_every_door_is_shut_to_who_has_no_role(entra: Entra, name: str) -> None:
    response = asked(entra.door(), name, bearer(entra.token(roles=None)))
    assert response.status == 403
    assert "ann@example.org has none of the roles" in orjson.loads(response.body)["error"]


@pytest.mark.parametrize("name", sorted(LEVERS))
def test_readers_stop_nothing(entra: Entra, name: str) -> None:
    assert asked(entra.door(), name, bearer(entra.token())).status == 403


@pytest.mark.parametrize("role", ["Sluice.Read", "Sluice.Operate"])
def test_readers_and_operators_are_told_the_status(entra: Entra, role: str) -> None:
    response = asked(entra.door(), "status", bearer(entra.token(roles=[role])))
    assert response.status == 200
    assert set(orjson.loads(response.body)["clusters"]) == {"training"}


def test_a_pause_bears_the_name_that_entra_gives_and_no_other(entra: Entra) -> None:
    response = asked(entra.door(), "pause", bearer(entra.token(roles=["Sluice.Operate"])), by="somebody else")
    (entry,) = orjson.loads(response.body)["pauses"].values()
    assert entry["by"] == "ann@example.org"
