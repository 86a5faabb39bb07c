"""A subscription of the stand-in's, the real adapter in front of it, and time that a test moves."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from local.arm import ArmLatencies, ArmStandIn, Quirks
from local.azure_transport import HandlerTransport, NoAuthentication, NoCredential
from local.http_server import serve
from local.timeline import VirtualTimeline
from local.web import Request
from shared.adapters.azure_by_kind import AzureByKind, make_azure
from shared.adapters.protocols import OperationStatus
from shared.model import AzureScope, Pool
from tests import builders

SCOPE = AzureScope("subscription", "group", "westeurope", "aks")
GROUP = "/subscriptions/subscription/resourceGroups/group/providers"
OURS = {"sluice-cluster": "training", "sluice-pool": "solo", "sluice-operation": "op-1"}


@dataclass
class World:
    """`slept` collects what the adapter wanted to sleep."""

    timeline: VirtualTimeline
    arm: ArmStandIn
    compute: AzureByKind
    slept: list[float]

    def advance(self, seconds: float = 100.0) -> None:
        self.timeline.run(self.timeline.now() + timedelta(seconds=seconds))

    def pools(self, *pools: Pool, flexible: frozenset[str] = frozenset()) -> tuple[Pool, ...]:
        self.arm.add_pools(builders.config(*pools), flexible=flexible)
        return pools

    def grow(self, pool: Pool, target: int) -> OperationStatus:
        """Ask, wait long enough, ask after it."""
        token = self.compute.begin_capacity(pool, target, self.compute.scale_set(pool).etag)
        self.advance()
        return self.compute.poll(token)

    def put(self, path: str, body: bytes) -> None:
        """A request of somebody else's."""
        answer = self.arm.handle(Request.of("PUT", f"{GROUP}/{path}?api-version=1", {}, body))
        assert answer.status in {200, 201}, answer.body


def make_world(stack: ExitStack, way: str, quirks: Quirks, latencies: ArmLatencies) -> World:
    """`way` is "in process" or "over http"."""
    timeline = VirtualTimeline()
    arm = ArmStandIn(timeline, seed=1, quirks=quirks, latencies=latencies)
    slept: list[float] = []
    options: dict[str, Any] = {"authentication_policy": NoAuthentication(), "sleep": slept.append}
    if way == "over http":
        options["endpoint"] = stack.enter_context(serve(arm, lock=timeline.lock)).url
    else:
        options["transport"] = HandlerTransport(arm, timeline)
    compute = make_azure(SCOPE, NoCredential(), **options)
    stack.callback(compute.close)
    return World(timeline, arm, compute, slept)
