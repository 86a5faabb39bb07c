"""A stand-in on virtual time, and the few objects that the tests put into it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from local.kube.controllers.timing import Timing
from local.kube.rest_transport import make_api
from local.kube.stand_in import KubernetesStandIn
from local.timeline import VirtualTimeline
from local.web import Request, Response
from shared.adapters.protocols import Json
from tests.kubernetes_contract.targets import NODES, PODS, node, pod

PROMPT = Timing(node_ready=(1.0, 1.0), pod_start=(2.0, 2.0), pod_stop=(1.0, 1.0), job_run=(1.0, 1.0))


class World:
    """Where every wait has a known length: nodes ready after 1 s, pods running 2 s after binding, stopped after 1 s."""

    def __init__(self, **options: Any) -> None:
        self.timeline = VirtualTimeline()
        self.stand_in = KubernetesStandIn(self.timeline, **{"timing": PROMPT, **options})
        self.api = make_api(self.stand_in, options.get("token", ""))

    def run(self, seconds: float) -> None:
        """Let so much time pass."""
        self.timeline.run(self.timeline.now() + timedelta(seconds=seconds))

    def request(self, method: str, url: str, body: bytes = b"", **headers: str) -> Response:
        """One request as it comes over HTTP."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.stand_in.handle(Request.of(method, url, named, body))

    def node(self, name: str, cpu: str = "4", **spec: Any) -> None:
        """A node, ready."""
        self.api.create(NODES, node(name, cpu, **spec))
        self.run(1.5)

    def pod(self, name: str, cpu: str = "1", **more: Any) -> Json:
        """A new pod, as the scheduler left it a moment later."""
        self.api.create(PODS, pod(name, cpu, **more))
        self.run(0)
        return self.get_pod(name)

    def get_pod(self, name: str) -> Json:
        """The pod as it is."""
        return self.api.get(f"{PODS}/{name}")

    def pods(self) -> list[str]:
        """Their names."""
        return [one["metadata"]["name"] for one in self.api.list(PODS)[0]]

    def phase(self, name: str) -> str:
        """The pod's phase."""
        return self.get_pod(name)["status"]["phase"]
