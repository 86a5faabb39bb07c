from datetime import timedelta
from typing import Any

import orjson
import pytest

from local.arm import ArmLatencies, ArmStandIn, Quirks
from local.timeline import VirtualTimeline
from local.web import Request
from shared.model import Pool
from tests import builders

GROUP = "/subscriptions/subscription/resourceGroups/group/providers"
COMPUTE = f"{GROUP}/Microsoft.Compute"


class Bare:
    """The stand-in without any SDK: what goes over the wire."""

    def __init__(self) -> None:
        self.timeline = VirtualTimeline()
        self.arm = ArmStandIn(self.timeline, seed=3, quirks=Quirks(), latencies=ArmLatencies.instant())

    def quirks(self, **choices: bool) -> None:
        self.arm.cloud.quirks = Quirks(**choices)

    def pools(self, *pools: Pool, flexible: frozenset[str] = frozenset()) -> None:
        self.arm.add_pools(builders.config(*pools), flexible=flexible)

    def advance(self, seconds: float = 10.0) -> None:
        self.timeline.run(self.timeline.now() + timedelta(seconds=seconds))

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any, dict[str, str]]:
        """(status, JSON body, headers)."""
        url = path if "api-version" in path else f"{path}{'&' if '?' in path else '?'}api-version=2026-04-01"
        content = b"" if body is None else orjson.dumps(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = self.arm.handle(Request.of(method, url, named, content))
        return answer.status, orjson.loads(answer.body) if answer.body else None, dict(answer.headers)

    def resize(self, name: str, capacity: int) -> dict[str, str]:
        status, body, headers = self.ask(
            "PATCH", f"{COMPUTE}/virtualMachineScaleSets/{name}", {"sku": {"capacity": capacity}}
        )
        assert status == 200, body
        return headers

    def scale_set(self, name: str) -> Any:
        return self.ask("GET", f"{COMPUTE}/virtualMachineScaleSets/{name}")[1]

    def capacity(self, name: str) -> int:
        return int(self.scale_set(name)["sku"]["capacity"])

    def instances(self, name: str) -> list[Any]:
        return list(self.ask("GET", f"{COMPUTE}/virtualMachineScaleSets/{name}/virtualMachines")[1]["value"])

    def status(self, headers: dict[str, str]) -> Any:
        return self.ask("GET", headers["azure-asyncoperation"])[1]


@pytest.fixture
def bare() -> Bare:
    return Bare()
