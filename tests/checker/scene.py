"""Stand-ins without Sluice: whatever happens there, a test did it, and whoever is `sluice` is taken for it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import orjson

from local.checker.rules import check
from local.machines import BootTimes
from local.system.stand_ins import Behaviour, StandIns
from local.system.users import Users
from local.timeline import VirtualTimeline
from local.web import Request, Response
from shared.settings.config import parse_config
from tests.simulation.worlds import QUICK

SCOPE = "/subscriptions/00000000-0000-4000-8000-000000000001/resourceGroups/sluice/providers"
SETS = f"{SCOPE}/Microsoft.Compute/virtualMachineScaleSets"
GENERAL = f"{SETS}/general"
PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
POOLS = """
cluster: small
mode: act
azure: {subscription: 00000000-0000-4000-8000-000000000001, resource_group: sluice, location: westeurope}
pools:
  - {name: general, sku: Standard_D4s_v5, shape: {cpu: 4, memory: 16Gi}, price: 0.2, max: 6, min: 2}
  - {name: spot, sku: Standard_D4s_v5, shape: {cpu: 4, memory: 16Gi}, price: 0.1, max: 4, priority: Spot}
"""


class Scene:
    """Two nodes of pool general, and a Spot pool without any."""

    def __init__(self, text: str = POOLS, behaviour: Behaviour = QUICK, **fields: Any) -> None:
        self.timeline = VirtualTimeline()
        self.stand_ins = StandIns(self.timeline, text, parse_config(text), behaviour=behaviour, **fields)
        self.users = Users(self.timeline, self.stand_ins.cluster, self.stand_ins.cluster)
        self._sluice = self.stand_ins.watch.door(self.stand_ins.cluster, "functions")
        self.wait(60)

    def wait(self, seconds: float) -> None:
        self.timeline.run(self.timeline.now() + timedelta(seconds=seconds))

    def pod(self, name: str, cpu: str = "1", annotations: dict[str, str] | None = None, **spec: Any) -> str:
        """A pod that runs until it is deleted; returns its node."""
        container = {"name": "main", "image": "main", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
        metadata = {"name": name, "labels": {"app": name}, "annotations": annotations or {}}
        self.users.create(PODS, {"metadata": metadata, "spec": {"containers": [container], **spec}})
        self.wait(10)
        pods = self.stand_ins.cluster.truth.pods.values()
        return next(pod.node for pod in pods if pod.name == name)

    def azure(self, method: str, path: str, body: object = None) -> None:
        data = b"" if body is None else orjson.dumps(body)
        response = self.stand_ins.arm.handle(Request(method, path, {"api-version": "1"}, {}, data))
        assert response.status < 300, response.body

    def delete_vm(self, node: str, scale_set: str = GENERAL) -> None:
        self.azure("POST", f"{scale_set}/delete", {"instanceIds": [str(int(node[-6:], 36))]})

    def sluice(self, method: str, path: str, body: object = None) -> Response:
        """A write by Sluice to the cluster."""
        return self._write(self._sluice, method, path, body)

    def admin(self, method: str, path: str, body: object = None) -> Response:
        """A write by somebody else."""
        return self._write(self.stand_ins.cluster, method, path, body)

    def _write(self, door: Any, method: str, path: str, body: object) -> Response:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        data = b"" if body is None else orjson.dumps(body)
        response: Response = door.handle(Request(method, path, {}, {"content-type": kind}, data))
        assert response.status < 400 or response.status == 429, response.body
        return response

    def cordon(self, node: str, by: str = "admin", on: bool = True) -> None:
        getattr(self, by)("PATCH", f"{NODES}/{node}", {"spec": {"unschedulable": on or None}})

    def evict(self, name: str) -> Response:
        return self.sluice("POST", f"{PODS}/{name}/eviction", {"metadata": {"name": name, "namespace": "default"}})

    def broken(self, rule: str = "") -> list[str]:
        """Violations so far, of one rule when named; the watch's, without what only the end shows."""
        self.stand_ins.watch.step(self.stand_ins.last_trouble())
        return [line for line in self.stand_ins.watch.violations if f" {rule}" in line]

    def rules(self) -> list[str]:
        """The rules that were broken, as `broken` has them."""
        return [line.split()[1].rstrip(":") for line in self.broken()]

    def verdict(self) -> list[str]:
        """All rules that were broken, at the end too."""
        return [line.split()[1].rstrip(":") for line in check(self.stand_ins.evidence())]


SILENT = {"metadata": {"annotations": {"kwok.x-k8s.io/node": None}}}
LATE = Behaviour(arm=QUICK.arm, quirks=QUICK.quirks, boot=BootTimes(boot=(5.0, 5.0)))
