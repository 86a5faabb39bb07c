"""The API server is verified against the cluster's own CA, always; what stands in the way is told with its remedy."""

from __future__ import annotations

import base64
import socket
from collections.abc import Iterator

import pytest

from functions.services import Services
from shared.adapters.composition import kubeconfig_setting, services_from_environment
from shared.adapters.errors import Rejected, Unreachable
from shared.adapters.kubernetes import NO_PORT, UNTRUSTED, KubernetesClusterApi
from shared.adapters.protocols import ClusterApi
from shared.adapters.reaching import REFUSED, REMEDIES, Reach, reach
from tests.api_access.servers import ApiServer, Authority, kubeconfig

AUTHORITY = Authority()
BEARER = {"token": "of-the-app"}


@pytest.fixture
def server() -> Iterator[ApiServer]:
    running = ApiServer(AUTHORITY)
    yield running
    running.close()


def api_by(cluster: dict[str, object], user: dict[str, object] | None = None) -> ClusterApi:
    settings = {kubeconfig_setting("training"): kubeconfig(cluster, user or BEARER)}
    return services_from_environment(settings, Services).cluster("training")


def test_a_server_that_the_clusters_ca_vouches_for_is_reached(server: ApiServer) -> None:
    assert reach(api_by({"server": server.url, "certificate-authority-data": AUTHORITY.data})) == Reach()


def test_a_server_of_another_ca_is_told_nothing_and_the_message_says_what_to_do(server: ApiServer) -> None:
    api = api_by({"server": server.url, "certificate-authority-data": Authority().data})
    with pytest.raises(Unreachable, match="take certificate-authority-data anew from the cluster") as told:
        api.get("/api/v1/nodes/a")
    assert told.value.code == UNTRUSTED
    assert "\n" not in str(told.value)
    assert server.asked == []


def test_a_certificate_for_another_address_is_not_trusted() -> None:
    elsewhere = ApiServer(AUTHORITY)
    try:
        api = api_by(
            {
                "server": elsewhere.url.replace("127.0.0.1", "localhost"),
                "certificate-authority-data": AUTHORITY.data,
            }
        )
        assert reach(api).obstacle == UNTRUSTED
        assert elsewhere.asked == []
    finally:
        elsewhere.close()


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ({"server": "http://10.0.0.1"}, "server http://10.0.0.1: must begin with https://"),
        ({}, r"server \(none\): must begin with https://"),
        ({"server": "https://x"}, "certificate-authority-data: is missing"),
        ({"server": "https://x", "certificate-authority": "/ca.crt"}, "certificate-authority-data: is missing"),
        ({"server": "https://x", "certificate-authority-data": "%%"}, "certificate-authority-data: is no certificate"),
        (
            {"server": "https://x", "certificate-authority-data": base64.b64encode(b"no certificate").decode()},
            "certificate-authority-data: is no certificate",
        ),
        (
            {
                "server": "https://x",
                "certificate-authority-data": AUTHORITY.data,
                "insecure-skip-tls-verify": True,
            },
            "insecure-skip-tls-verify: is never heeded",
        ),
    ],
)
def test_an_app_cannot_be_told_to_trust_blindly(cluster: dict[str, object], message: str) -> None:
    with pytest.raises(Rejected, match=message) as told:
        api_by(cluster)
    assert str(told.value).startswith("app setting SLUICE_KUBECONFIG_TRAINING: ")
    assert "\n" not in str(told.value)


def test_no_command_can_be_told_to_trust_blindly_either(server: ApiServer) -> None:
    text = kubeconfig({"server": server.url, "insecure-skip-tls-verify": True}, BEARER)
    with pytest.raises(Rejected, match="insecure-skip-tls-verify: is never heeded"):
        KubernetesClusterApi.from_kubeconfig(text)


def test_a_port_that_nobody_listens_at_is_told_from_a_certificate() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"https://127.0.0.1:{free.getsockname()[1]}"
        found = reach(api_by({"server": url, "certificate-authority-data": AUTHORITY.data}))
    assert found.obstacle == NO_PORT
    assert found.remedy == REMEDIES[NO_PORT]
    assert url in found.reason


def test_who_is_not_known_is_told_how_to_become_so(server: ApiServer) -> None:
    found = reach(
        api_by({"server": server.url, "certificate-authority-data": AUTHORITY.data}, {"token": "of-yesterday"})
    )
    assert found.obstacle == REFUSED
    assert "functions.entraObjectId" in found.remedy
