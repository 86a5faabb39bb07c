"""Who the app is at an API server: itself, by an Entra token that is renewed in time, or the bearer of a token."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError
from kubernetes.client import Configuration

from functions.services import Services
from shared.adapters.app_access import AKS_SERVER, NO_TOKEN, RENEW_BEFORE, EntraTokens
from shared.adapters.composition import kubeconfig_setting, services_from_environment
from shared.adapters.errors import Refused, Rejected, Unreachable
from shared.adapters.protocols import ClusterApi
from tests.api_access.servers import ApiServer, Authority, TokenEndpoint, kubeconfig, kubelogin

AUTHORITY = Authority()
IDENTITY = "00000000-0000-0000-0000-00000000000a"


@pytest.fixture
def server() -> Iterator[ApiServer]:
    running = ApiServer(AUTHORITY)
    yield running
    running.close()


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[TokenEndpoint]:
    running = TokenEndpoint()
    monkeypatch.setenv("IDENTITY_ENDPOINT", running.url)
    monkeypatch.setenv("IDENTITY_HEADER", "the-platforms-own")
    yield running
    running.close()


def app_api(text: str) -> ClusterApi:
    """The API server as the app in Azure reaches it."""
    settings = {kubeconfig_setting("training"): text, "AZURE_CLIENT_ID": IDENTITY}
    return services_from_environment(settings, Services).cluster("training")


def at(server: ApiServer) -> dict[str, str]:
    return {"server": server.url, "certificate-authority-data": AUTHORITY.data}


def test_what_aks_writes_is_used_as_it_is_with_the_apps_own_identity(
    server: ApiServer, endpoint: TokenEndpoint
) -> None:
    text = kubeconfig(at(server), kubelogin("--server-id", AKS_SERVER))
    assert app_api(text).get("/api/v1")["kind"] == "APIResourceList"
    assert server.asked == ["of-the-app"]
    assert endpoint.asked[-1]["resource"] == AKS_SERVER
    assert endpoint.asked[-1]["client_id"] == IDENTITY


def test_one_token_serves_for_many_requests(server: ApiServer, endpoint: TokenEndpoint) -> None:
    api = app_api(kubeconfig(at(server), kubelogin()))
    for _ in range(3):
        api.get("/api/v1")
    assert len(server.asked) == 3
    assert len(endpoint.asked) == 1


def test_the_kubeconfig_may_be_json_in_one_line(server: ApiServer, endpoint: TokenEndpoint) -> None:
    text = json.dumps(yaml.safe_load(kubeconfig(at(server), kubelogin(command=r"C:\tools\kubelogin.exe"))))
    assert "\n" not in text
    assert app_api(text).get("/api/v1")["kind"] == "APIResourceList"


def test_another_server_application_is_heeded(server: ApiServer, endpoint: TokenEndpoint) -> None:
    app_api(kubeconfig(at(server), kubelogin("--server-id", "my-own-application"))).get("/api/v1")
    assert endpoint.asked[-1]["resource"] == "my-own-application"


def test_elsewhere_a_service_accounts_token_is_sent_and_entra_is_not_asked(
    server: ApiServer, endpoint: TokenEndpoint
) -> None:
    server.known.add("of-the-service-account")
    app_api(kubeconfig(at(server), {"token": "of-the-service-account"})).get("/api/v1")
    assert server.asked == ["of-the-service-account"]
    assert endpoint.asked == []


def test_a_token_that_the_server_does_not_know_is_refused(server: ApiServer) -> None:
    with pytest.raises(Refused, match="get /api/v1: Unauthorized"):
        app_api(kubeconfig(at(server), {"token": "of-yesterday"})).get("/api/v1")


def test_an_app_without_an_identity_says_that_it_lacks_one(
    server: ApiServer, endpoint: TokenEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IDENTITY_HEADER", "somebody-elses")
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")
    with pytest.raises(Unreachable, match="does the app have the managed identity that AZURE_CLIENT_ID names") as told:
        app_api(kubeconfig(at(server), kubelogin())).get("/api/v1")
    assert told.value.code == NO_TOKEN
    assert "\n" not in str(told.value)
    assert server.asked == []


@pytest.mark.parametrize(
    ("user", "message"),
    [
        (kubelogin(command="aws-iam-authenticator"), "would run aws-iam-authenticator, and the app runs none"),
        ({}, "has neither a token nor kubelogin"),
        ({"tokenFile": "/var/run/token"}, "has neither a token nor kubelogin"),
    ],
)
def test_who_cannot_be_used_in_an_app_is_refused_with_what_to_do(user: dict[str, object], message: str) -> None:
    text = kubeconfig({"server": "https://x", "certificate-authority-data": AUTHORITY.data}, user)
    with pytest.raises(Rejected, match=f"app setting SLUICE_KUBECONFIG_TRAINING: user: {message}"):
        app_api(text)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Credential:
    """Gives tokens of an hour, numbered."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self.given, self.down = clock, 0, False

    def get_token(self, *scopes: str, **_: object) -> AccessToken:
        assert scopes == (f"{AKS_SERVER}/.default",)
        if self.down:
            raise ClientAuthenticationError("the endpoint is gone\nfor now")
        self.given += 1
        return AccessToken(f"number-{self.given}", int(self._clock.now) + 3600)


def sent(tokens: EntraTokens) -> str:
    configuration = Configuration()
    tokens.refresh(configuration)
    return str(configuration.api_key["authorization"])


def test_a_token_is_renewed_before_it_ends() -> None:
    clock = Clock()
    credential = Credential(clock)
    tokens = EntraTokens(lambda: credential, AKS_SERVER, clock)
    assert sent(tokens) == "Bearer number-1"
    clock.now += 3600 - RENEW_BEFORE - 1
    assert sent(tokens) == "Bearer number-1"
    clock.now += 1
    assert sent(tokens) == "Bearer number-2"


def test_while_no_new_token_is_to_be_had_the_old_one_serves_to_its_end_and_no_longer() -> None:
    clock = Clock()
    credential = Credential(clock)
    tokens = EntraTokens(lambda: credential, AKS_SERVER, clock)
    sent(tokens)
    credential.down = True
    clock.now += 3599
    assert sent(tokens) == "Bearer number-1"
    clock.now += 1
    with pytest.raises(Unreachable, match="no token for the API server"):
        sent(tokens)
    credential.down = False
    assert sent(tokens) == "Bearer number-2"
