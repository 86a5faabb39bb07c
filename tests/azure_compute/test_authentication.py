import base64
import re
import sys
import time
from subprocess import run
from typing import Any

from azure.core.credentials import AccessToken

from local.arm import ArmStandIn
from local.azure_transport import HandlerTransport
from local.timeline import VirtualTimeline
from local.web import Request, Response
from shared.adapters.azure_compute import make_compute
from shared.adapters.operation_tokens import unpack
from tests.azure_compute.world import SCOPE
from tests.builders import config, pool

LONG = re.compile(r"[A-Za-z0-9+/]{40,}")  # what may be base64


class Credential:
    """Remembers what it was asked for."""

    def __init__(self) -> None:
        self.scopes: list[str] = []

    def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        self.scopes += scopes
        return AccessToken("secret", int(time.time()) + 3600)


class Listening:
    """Hears the headers on their way to the stand-in."""

    def __init__(self, arm: ArmStandIn) -> None:
        self.arm = arm
        self.headers: list[dict[str, str]] = []

    def handle(self, request: Request) -> Response:
        self.headers.append(dict(request.headers))
        return self.arm.handle(request)


def test_requests_carry_a_bearer_token_for_the_endpoints_own_scope() -> None:
    timeline, credential = VirtualTimeline(), Credential()
    wire = Listening(ArmStandIn(timeline))
    wire.arm.add_pools(config(pool("gpu")))
    compute = make_compute(SCOPE, credential, transport=HandlerTransport(wire, timeline))
    compute.scale_set(pool("gpu"))
    compute.scale_set(pool("gpu"))
    assert credential.scopes == ["https://management.azure.com/.default"]
    assert {one["authorization"] for one in wire.headers} == {"Bearer secret"}
    assert wire.headers[0]["user-agent"].startswith("sluice")


def test_what_is_kept_of_an_operation_holds_no_token() -> None:
    timeline = VirtualTimeline()
    arm = ArmStandIn(timeline)
    gpu = pool("gpu")
    arm.add_pools(config(gpu))
    compute = make_compute(SCOPE, Credential(), transport=HandlerTransport(arm, timeline))
    kept = str(unpack(compute.begin_capacity(gpu, 1, "")))
    for part in [kept, *(base64.b64decode(each + "==").decode(errors="replace") for each in LONG.findall(kept))]:
        assert "secret" not in part
        assert "uthorization" not in part


def test_the_heavy_clients_are_imported_only_when_one_is_made() -> None:
    code = (
        "import sys, shared.adapters.azure_compute, shared.adapters.blobs;"
        "sys.exit(any(name.startswith(('azure.mgmt.compute', 'azure.storage')) for name in sys.modules))"
    )
    assert run([sys.executable, "-c", code], check=False).returncode == 0
