"""The whole system around a real control plane: only Azure is played.

The exporter and the Functions host are processes of their own with service accounts of their own, as in production;
ARM, blob storage and the topic are served over HTTP from the test's process, so that their truth can be read. Machines
that ARM brings up join the real cluster as nodes, where kwok plays their kubelets.
"""

from __future__ import annotations

import json
import os
import secrets
import time
import urllib.request
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from local.arm.faults import Fault
from local.arm.rights import GuardedArm
from local.arm.settings import ArmLatencies, Quirks
from local.arm.truth import Truth
from local.blob_storage import ACCOUNT
from local.checker.rules import check_azure
from local.http_server import serve
from local.machines import BootTimes, MachinesBridge
from local.system.azure_side import INGEST_PATH, AzureSide, Deliver
from local.system.children import Child
from local.system.chronicle import Recorded
from local.system.endpoints import Endpoints
from local.system.services import services_over_http
from local.system.stand_ins_process import deliver_to
from local.timeline import WallTimeline
from local.web import Handler, Request, Response
from shared.adapters.kubernetes import KubernetesClusterApi
from shared.settings.config import parse_config
from tests.e2e.audit import AuditLog
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.control_plane import ControlPlane
from tests.e2e.identities import EXPORTER, FUNCTIONS, NAMESPACE, token_of, write_kubeconfig
from tests.e2e.witness import Witness
from tests.rights.granted import grants

Json = dict[str, Any]
BOOT = BootTimes(boot=(0.5, 1.5), silence=3.0)
HOME_SECONDS = 90.0
SWEEP_SECONDS = 12.0
LOG_LINES = 40


class RealSystem:
    """A context manager. `pools` is the text of a pools file that can act; logs are written below `folder`."""

    def __init__(
        self,
        plane: ControlPlane,
        audit: Path,
        folder: Path,
        pools: str,
        *,
        latencies: ArmLatencies | None = None,
        boot: BootTimes = BOOT,
        tidy: bool = True,
    ) -> None:
        """`latencies` None: ARM is brisk. `tidy`: the cluster is left empty, for the next system."""
        self._plane, self._folder, self._pools = plane, folder, pools
        self._boot, self._tidy = boot, tidy
        self._undo = ExitStack()
        self._children: list[Child] = []
        self.config = parse_config(pools, to_act=True)
        self.cluster = Cluster(KubernetesClusterApi.from_kubeconfig(str(plane.kubeconfig)))
        self.audit = AuditLog(audit)
        self.witness = Witness(self.cluster.api)
        self.timeline = WallTimeline()
        self._topic_key = secrets.token_urlsafe(16)
        self.delivered: list[tuple[datetime, str]] = []  # when an event was handed to the app, and of what type
        self._deliveries = ThreadPoolExecutor(8, "delivery")
        self.azure = AzureSide(
            self.timeline,
            pools,
            self.config,
            latencies=latencies or ArmLatencies.brisk(),
            quirks=Quirks(),
            topic_key=self._topic_key,
            executor=self._deliveries,
        )

    def __enter__(self) -> RealSystem:
        with ExitStack() as undo:
            undo.callback(self._deliveries.shutdown, wait=False, cancel_futures=True)
            undo.callback(self.timeline.close)
            self._start(undo)
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Sluice stops first, then the machines do, and whatever is left in the cluster goes."""
        self._undo.close()
        if self._tidy:
            self.cluster.empty()
        self.cluster.api.close()

    def _start(self, undo: ExitStack) -> None:
        undo.enter_context(self.witness)
        kubelets = ThreadPoolExecutor(8, "kubelet")
        undo.callback(kubelets.shutdown, wait=False, cancel_futures=True)
        MachinesBridge(
            self.timeline,
            self.azure.arm.machines,
            self.cluster.api,
            self.config,
            boot=self._boot,
            executor=kubelets,
        )
        self.azure.add_pools()
        self.endpoints = self._serve(undo)
        self.functions_url = self._start_functions(undo)
        with self.timeline.lock:
            self.azure.connect(self._noting(deliver_to(self.functions_url)), f"{self.functions_url}{INGEST_PATH}")
        self._start_exporter(undo)

    def _noting(self, deliver: Deliver) -> Deliver:
        def noted(request: Request) -> Response:
            if request.method == "POST":
                self.delivered += [(datetime.now(UTC), one.get("type", "")) for one in json.loads(request.body)]
            return deliver(request)

        return noted

    def _serve(self, undo: ExitStack) -> Endpoints:
        def url(handler: Handler) -> str:
            return undo.enter_context(serve(handler, lock=self.timeline.lock)).url

        endpoints = Endpoints(
            arm=url(self._guarded_arm()),
            cluster=self._plane.url,
            blobs=f"{url(self.azure.blobs)}/{ACCOUNT}",
            topic=url(self.azure.topic),
            control="",
            token=token_of(self.cluster.api, FUNCTIONS),
            topic_key=self._topic_key,
            certificate=str(self._plane.ca),
        )
        endpoints.write(self._folder / "endpoints.json")
        return endpoints

    def _guarded_arm(self) -> Handler:
        """ARM for whoever has the rights that Terraform grants, and no other."""
        groups: dict[str, set[str]] = defaultdict(set)
        for pool in self.config.pools:
            assert pool.azure is not None
            where = f"/subscriptions/{pool.azure.subscription}/resourceGroups/{pool.azure.resource_group}"
            groups[where].add(pool.kind.value)
        arm = self.azure.arm
        return Recorded(GuardedArm(arm, lambda: arm.cloud.estate, grants(groups)), self.azure.chronicle, "arm")

    def _start_functions(self, undo: ExitStack) -> str:
        port = self._folder / "functions.port"
        child = self._child(
            undo, FUNCTIONS, "local.system.functions_process", ["--state", str(self._folder), "--port", "0"]
        )
        child.wait_until(port.exists)
        return f"http://127.0.0.1:{port.read_text()}"

    def _start_exporter(self, undo: ExitStack) -> None:
        token = token_of(self.cluster.api, EXPORTER)
        environment = {
            "SLUICE_TOPIC_ENDPOINT": f"{self.endpoints.topic}/api/events",
            "SLUICE_TOPIC_KEY": self._topic_key,
            "SLUICE_POOLS": f"blob:{self.config.cluster}",
            "SLUICE_STORAGE_URL": self.endpoints.blobs,
            "SLUICE_HEALTH_PORT": "0",
            "SLUICE_LEASE_NAMESPACE": NAMESPACE,
            "KUBECONFIG": str(write_kubeconfig(self._plane, token, self._folder / "exporter.kubeconfig")),
        }
        self._child(undo, EXPORTER, "exporter", [], environment)

    def _child(
        self, undo: ExitStack, name: str, module: str, arguments: list[str], environment: dict[str, str] | None = None
    ) -> Child:
        child = Child(name, module, arguments, self._folder / f"{name}.log", environment or {})
        undo.callback(child.stop)
        self._children.append(child)
        return child

    # What people and Azure do

    def order(self, fault: Fault) -> None:
        """Let Azure fail."""
        with self.timeline.lock:
            self.azure.arm.faults.add(fault)

    def scale_by_hand(self, pool_name: str, capacity: int) -> None:
        """An administrator resizes a scale set, past Sluice."""
        pool = self.config.pool(pool_name)
        assert pool is not None
        assert pool.azure is not None
        compute = services_over_http(self.endpoints).compute(pool.azure)
        compute.begin_capacity(pool, capacity, compute.scale_set(pool).etag)

    def sweep(self) -> None:
        """Let the maintenance timer fire now, and wait for what it does."""
        self._fire_maintenance()
        eventually("the sweep has ended", lambda: not self.unfinished())

    # What can be seen

    @property
    def truth(self) -> Truth:
        """What Azure knows; read it under the timeline's lock, or when all is quiet."""
        return self.azure.arm.truth

    def machines(self) -> int:
        """How many VMs there are."""
        return sum(self.azure.machines_now().values())

    def status(self) -> Json:
        """What the app says about the cluster over HTTP."""
        document = self._ask("/api/status")
        found: Json = document["clusters"][self.config.cluster]
        return found

    @property
    def pids(self) -> dict[str, int]:
        """The processes by name; the one of the tests is where Azure is played."""
        return {**self._plane.pids, **{child.name: child.pid for child in self._children}, "stand-ins": os.getpid()}

    def kept(self) -> Json:
        """Why idle nodes stay, by name: as the last plan says, or as a retirement ended that was given up."""
        status = self.status()
        stayed = {name: verdict["kept"] for name, verdict in status["stayed"].items()}
        return {**stayed, **status["plan"].get("kept", {})}

    def writes(self, resource: str = "", since: datetime | None = None) -> list[Any]:
        """The writes that ARM accepted."""
        with self.timeline.lock:
            return [
                write
                for write in self.truth.writes
                if resource in ("", write.resource) and (since is None or write.at >= since)
            ]

    def orchestrations(self) -> dict[str, str]:
        """All of them, by id: how they stand."""
        return {one["instanceId"]: one["runtimeStatus"] for one in self._ask("/durabletask/instances/")}

    def unfinished(self) -> list[str]:
        """The orchestrations that have not come to a good end, in words."""
        return [f"{name} is {how}" for name, how in self.orchestrations().items() if how != "Completed"]

    def go_home(self) -> None:
        """Once nobody needs a node any more: everything goes, nothing is left over, every rule was kept.

        What no event announces any more is found by the sweep, which need not be waited for five minutes here.
        """
        sweep_at = time.monotonic() + SWEEP_SECONDS

        def gone() -> bool:
            nonlocal sweep_at
            if time.monotonic() > sweep_at:
                self._fire_maintenance()
                sweep_at = time.monotonic() + SWEEP_SECONDS
            return not self.machines() and not self.cluster.node_names()

        eventually("every VM and every Node is gone", gone, HOME_SECONDS)
        eventually("every orchestration has ended", lambda: not self.unfinished())
        assert check_azure(self.azure.azure_evidence(orchestrations=tuple(self.unfinished()))) == ()

    def account(self) -> str:
        """Everything that may explain a failure."""
        parts = [f"{child.name}:\n" + "\n".join(_tail(child.log)) for child in self._children]
        try:
            parts.append(json.dumps(self.status(), indent=1))
            parts.append("\n".join(self.unfinished()))
        except OSError as error:
            parts.append(f"no status: {error}")
        return "\n\n".join(parts)

    def _fire_maintenance(self) -> None:
        request = urllib.request.Request(f"{self.functions_url}/admin/functions/maintenance", b"{}", method="POST")
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.status == 202

    def _ask(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.functions_url}{path}", timeout=30) as answer:
            return json.loads(answer.read())


def _tail(log: Path) -> list[str]:
    return log.read_text(errors="replace").splitlines()[-LOG_LINES:]
