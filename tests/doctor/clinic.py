"""The embedded system on the wall clock in one process, with a hand on each of its parts, for the doctor to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from exporter.lease import LeaderLease, LeaseTerms
from functions.app import create_app
from local.blob_storage import ACCOUNT
from local.functions_host import HostOptions, HostServer, serve_host
from local.http_server import Server, serve
from local.kube.kubeconfig import write_kubeconfig
from local.system.endpoints import FUNCTIONS_PORT, STATE, Endpoints
from local.system.services import services_over_http
from local.system.stand_ins_process import Outside
from local.web import Handler, Request, Response
from shared.adapters.kubernetes import KubernetesClusterApi

Json = dict[str, Any]
Detour = Callable[[Request], Response | None]
POOLS = """
cluster: demo
mode: act
azure: {subscription: 00000000-0000-0000-0000-000000000001, resource_group: nodes, location: westeurope}
pools:
  - {name: spot, sku: Standard_D4s_v5, priority: Spot, price: 0.05, max: 10, labels: {tier: cheap}}
  - {name: regular, sku: Standard_D4s_v5, price: 0.2, max: 10, taints: ["only=big:NoSchedule"]}
"""
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/sluice-exporter"


class Door:
    """A part of the outside at an address of its own: `detour` answers first, `shut` lets nobody through."""

    def __init__(self, inner: Handler, lock: Any) -> None:
        self._inner, self._lock = inner, lock
        self.detour: Detour = lambda _: None
        self._server: Server = serve(self, lock=lock)
        self.url = self._server.url

    def handle(self, request: Request) -> Response:
        return self.detour(request) or self._inner.handle(request)

    @contextmanager
    def answering(self, detour: Detour) -> Iterator[None]:
        before, self.detour = self.detour, detour
        yield
        self.detour = before

    @contextmanager
    def shut(self) -> Iterator[None]:
        port = self._server.port
        self._server.close()
        yield
        self._server = serve(self, port=port, lock=self._lock)

    def close(self) -> None:
        self._server.close()


class Clinic:
    """`arm` and `cluster` are the operator's ways, `app_arm` and `app_cluster` those of the app."""

    def __init__(self, folder: Path) -> None:
        pools, self.out = folder / "pools.yaml", folder / "out"
        self.state = self.out / STATE
        self.state.mkdir(parents=True)
        pools.write_text(POOLS)
        self._closing = ExitStack()
        self.outside = Outside(pools, self.state, self.out, 1)
        self.stand = self.outside.stand_ins
        self.arm, self.app_arm = self._door(self.stand.arm), self._door(self.stand.arm)
        self.cluster, self.app_cluster = self._door(self.stand.cluster), self._door(self.stand.cluster)
        self.blobs = self._door(self.stand.blobs)
        self.skew = timedelta(0)
        self._start()
        self.api = self._lease()

    def _door(self, inner: Handler, *, locked: bool = True) -> Door:
        door = Door(inner, self.outside.timeline.lock if locked else None)
        self._closing.callback(door.close)
        return door

    def _start(self) -> None:
        endpoints = Endpoints(
            arm=self.app_arm.url,
            cluster=self.app_cluster.url,
            blobs=f"{self.blobs.url}/{ACCOUNT}",
            topic="",
            control="",
            token=self.outside.token,
            topic_key=self.outside.topic_key,
            installation=self.outside.installation.outputs(),
        )
        services = replace(services_over_http(endpoints), clock=lambda: datetime.now(UTC) + self.skew)
        host: HostServer = serve_host(create_app(services), options=HostOptions(timers=False))
        self._closing.callback(host.close)
        self.app = self._door(host.host, locked=False)
        self.app_url = self.app.url
        self.outside._connect(self.app_url)
        replace(endpoints, arm=self.arm.url).write(self.state / "endpoints.json")
        (self.state / FUNCTIONS_PORT).write_text(self.app_url.rsplit(":", 1)[1])
        write_kubeconfig(self.out / "kubeconfig", self.cluster.url, self.outside.token)

    def _lease(self) -> KubernetesClusterApi:
        api = KubernetesClusterApi.from_kubeconfig(str(self.out / "kubeconfig"))
        assert LeaderLease(api, "exporter-1", LeaseTerms(duration=3600)).keep(datetime.now(UTC))
        return api

    def close(self) -> None:
        self.api.close()
        self._closing.close()

    # What may go wrong

    @contextmanager
    def lease(self, **spec: object) -> Iterator[None]:
        before = self.api.get(LEASE)
        self.api.patch(LEASE, {"spec": spec})
        yield
        self.api.patch(LEASE, {"spec": {name: before["spec"][name] for name in spec}})

    @contextmanager
    def without_document(self, path: str) -> Iterator[None]:
        documents = self.stand.arm.documents
        show = documents._shown[f"GET {path.lower()}"]
        documents.hide(path)
        yield
        documents.show(path, show)

    @contextmanager
    def pools_file(self, text: str) -> Iterator[None]:
        self.stand.set_pools_file(text)
        yield
        self.stand.set_pools_file(POOLS)

    @contextmanager
    def skewed(self, by: timedelta) -> Iterator[None]:
        self.skew = by
        yield
        self.skew = timedelta(0)

    @contextmanager
    def node(self, name: str, **metadata: object) -> Iterator[None]:
        scope = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/nodes/providers/Microsoft.Compute"
        spec = {"providerID": f"azure://{scope}/virtualMachineScaleSets/{name}/virtualMachines/0"}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"{name}-0", **metadata}, "spec": spec}
        self.api.create("/api/v1/nodes", body)
        yield
        self.api.delete(f"/api/v1/nodes/{name}-0")


def refused(action: str) -> Response:
    """As ARM says that a right is missing."""
    message = f"The client does not have authorization to perform action '{action}' over scope '/x'."
    return Response(
        403,
        {"content-type": "application/json"},
        orjson.dumps({"error": {"code": "AuthorizationFailed", "message": message}}),
    )
