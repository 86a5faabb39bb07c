"""The stand-ins' own door: what a scenario or a test may do to them, and what it may ask.

Nothing of Sluice ever comes through here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import orjson

from local.arm.faults import Fault
from local.arm.stand_in import ArmStandIn
from local.system.narrator import Narrator
from local.system.stand_ins import StandIns
from local.web import Request, Response
from shared.model import Config

DISK_API = "2025-01-02"
Finish = Callable[[dict[str, Any]], dict[str, Any]]


def attach_persistent_volume(arm: ArmStandIn, config: Config, node: str, name: str) -> str:
    """Make a disk as the CSI driver does, tagged as its own, and attach it to the node's VM; returns its id."""
    scope = next(pool.azure for pool in config.pools if pool.azure is not None)
    group = f"/subscriptions/{scope.subscription}/resourceGroups/{scope.resource_group}"
    disk = f"{group}/providers/Microsoft.Compute/disks/{name}"
    body = {
        "location": scope.location,
        "tags": {"kubernetes.io-created-for-pv-name": name},
        "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 8},
    }
    response = arm.handle(Request("PUT", disk, {"api-version": DISK_API}, {}, orjson.dumps(body)))
    if response.status >= 400:
        raise ValueError(f"disk {name}: {response.body.decode(errors='replace')}")
    arm.attach_disk(node, disk)
    return disk


class Control:
    """A `local.web.Handler`. `connect` subscribes the Functions host at a URL; `finish` writes report and picture."""

    def __init__(self, stand_ins: StandIns, connect: Callable[[str], None], finish: Finish) -> None:
        self._stand_ins, self._connect, self._finish = stand_ins, connect, finish
        self._narrator = Narrator(stand_ins)
        self._routes: dict[tuple[str, str], Callable[[Request], object]] = {
            ("POST", "/connect"): self._connected,
            ("POST", "/faults"): self._fault,
            ("POST", "/preempt"): self._preempt,
            ("POST", "/attach-volume"): self._attach_volume,
            ("POST", "/finish"): lambda request: self._finish(request.json()),
            ("GET", "/happenings"): self._happenings,
            ("GET", "/overview"): lambda _: self._narrator.overview(),
            ("GET", "/truth"): self._truth,
        }

    def handle(self, request: Request) -> Response:
        """404 for an unknown route; an error in an order is a 400 with its text."""
        route = self._routes.get((request.method, request.path))
        if route is None:
            return Response(404)
        try:
            return Response.of_json(200, route(request))
        except (KeyError, TypeError, ValueError) as error:
            return Response.of_json(400, {"error": f"{type(error).__name__}: {error}"})

    def _connected(self, request: Request) -> object:
        self._connect(request.json()["url"])
        return {}

    def _fault(self, request: Request) -> object:
        with self._stand_ins.timeline.lock:
            self._stand_ins.arm.faults.add(Fault(**request.json()))
        return {}

    def _preempt(self, request: Request) -> object:
        order = request.json()
        machine = self._stand_ins.preempt(order["node"], float(order.get("notice", 30.0)))
        return {"found": machine is not None}

    def _attach_volume(self, request: Request) -> object:
        """A CSI driver attaches a persistent volume's disk to the VM of a node; returns the disk's resource id."""
        order = request.json()
        with self._stand_ins.timeline.lock:
            return {"disk": attach_persistent_volume(self._stand_ins.arm, self._stand_ins.config, **order)}

    def _happenings(self, request: Request) -> object:
        with self._stand_ins.timeline.lock:
            return [asdict(happening) for happening in self._narrator.since(int(request.query.get("since", "0")))]

    def _truth(self, _: Request) -> object:
        """Counts of what is there, for tests over HTTP."""
        arm = self._stand_ins.arm.truth
        with self._stand_ins.timeline.lock:
            leaks = arm.leaks()
            return {
                "vms": [vm.name for vm in arm.live_vms()],
                "nics": [nic.id for nic in arm.nics if nic.deleted_at is None],
                "disks": [disk.id for disk in arm.disks if disk.deleted_at is None],
                "persistent_volumes": [disk.id for disk in arm.persistent_volumes() if disk.deleted_at is None],
                "leaked_nics": list(leaks.nics),
                "leaked_disks": list(leaks.disks),
                "writes": [
                    {
                        "at": write.at.isoformat(),
                        "operation": write.operation,
                        "resource": write.resource,
                        "target": write.target,
                    }
                    for write in arm.writes
                ],
                "methods": dict(arm.methods),
                "machines": self._stand_ins.machines_now(),
                "dead_letters": sorted(self._stand_ins.dead_letters()),
                "delivery": asdict(self._stand_ins.topic.counters),
            }
