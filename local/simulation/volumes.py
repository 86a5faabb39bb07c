"""Persistent volumes on Azure disks, and the CSI driver that brings each one to where its pod runs.

As the attach/detach controller does: a disk is attached when a pod that uses its claim is bound, and detached some time
after the last such pod left the node. A VolumeAttachment stands from before the one until after the other.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random
from typing import Any

import orjson

from local.arm.state import Disk, Vm
from local.kube.kinds import POD
from local.kube.store import DELETED, Change, Stored
from local.system.virtual import VirtualSystem
from local.web import Request
from shared.model import PoolKind

Json = dict[str, Any]
DRIVER = "disk.csi.azure.com"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
CLASS = "managed"
UNBOUND = 0.25  # of all claims: they are bound some minutes after their pods have begun to wait
ACCIDENT = 0.05  # of all times that a pod with a disk gets a node: Azure takes it just then, if it is a Spot VM
RETRY = 5.0  # seconds until a disk that is still held elsewhere is asked for again


class Volumes:
    """`count` disks with a claim each, `data-0` and so on, and whoever attaches them."""

    def __init__(
        self, system: VirtualSystem, count: int, detach: tuple[float, float], draw: Random, probes: Counter[str]
    ) -> None:
        self._system, self._draw, self._probes, self._detach_seconds = system, draw, probes, detach
        self._timeline, self._arm = system.timeline, system.stand_ins.arm
        self._disks: dict[str, str] = {}  # by claim
        self._users: dict[str, dict[str, str]] = {}  # by claim: pod uid to node
        self._where: dict[str, str] = {}  # by claim: the node that it is attached to
        self._by_hand = ""
        self._calm = False
        self._make(count)
        system.stand_ins.cluster.store.subscribe(self._note)

    def _make(self, count: int) -> None:
        storage = "/apis/storage.k8s.io/v1"
        self._post(f"{storage}/csidrivers", {"metadata": {"name": DRIVER}, "spec": {"attachRequired": True}})
        made = {"metadata": {"name": CLASS}, "provisioner": DRIVER, "volumeBindingMode": "Immediate"}
        self._post(f"{storage}/storageclasses", made)
        for number in range(count):
            name = f"data-{number}"
            self._disks[name], self._users[name] = self._disk(name), {}
            self._claim(name)

    # A disk that somebody attached by hand

    def attach_by_hand(self) -> None:
        """Somebody attaches a volume's disk to an on-demand VM, so that it would be deleted together with it: such a VM
        must stay. Kubernetes knows nothing of it."""
        agent_pools = {pool.resource for pool in self._system.stand_ins.config.pools if pool.kind is PoolKind.AKS}
        vms = [vm for vm in self._arm.truth.live_vms() if not vm.spot and vm.resource not in agent_pools]
        vms = [vm for vm in vms if vm.power == "running" and vm.deleting_at is None and self._is_ours(vm)]
        if not vms:
            return
        self._by_hand = self._disk("by-hand")
        self._arm.attach_disk(vms[0].id, self._by_hand, delete_option="Delete")
        self._probes["volume attached by hand"] += 1

    def _is_ours(self, vm: Vm) -> bool:
        return any(pool.holds(vm) for pool in self._system.stand_ins.pool_facts())

    def let_go(self) -> None:
        """They hear of it, and set the disk's deleteOption to Detach; no more accidents."""
        self._calm = True
        holders = (
            vm for vm in self._arm.truth.live_vms() if any(each.disk.id == self._by_hand for each in vm.data_disks)
        )
        for vm in list(holders):
            self._arm.attach_disk(vm.id, self._by_hand)

    def _disk(self, name: str) -> str:
        scope = self._system.stand_ins.config.pools[0].azure
        if scope is None:
            raise ValueError("a world's pools need azure")
        cloud = self._arm.cloud
        group = cloud.estate.group(scope.subscription, scope.resource_group)
        disk = Disk(
            group.path("Microsoft.Compute/disks", f"pv-{name}"),
            f"pv-{name}",
            scope.location,
            self._timeline.now(),
            size_gb=8,
            tags={"kubernetes.io-created-for-pv-name": f"pv-{name}"},
        )
        group.disks[disk.name] = disk
        cloud.truth.disks.append(disk)
        return disk.id

    def _claim(self, name: str) -> None:
        size = {"storage": "8Gi"}
        common: Json = {"accessModes": ["ReadWriteOnce"], "storageClassName": CLASS}
        csi = {"driver": DRIVER, "volumeHandle": self._disks[name]}
        reference = {"namespace": "default", "name": name}
        spec: Json = {**common, "capacity": size, "csi": csi, "claimRef": reference}
        volume = {"metadata": {"name": f"pv-{name}"}, "spec": {**spec, "persistentVolumeReclaimPolicy": "Retain"}}
        claim = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {**common, "resources": {"requests": size}},
        }
        self._post("/api/v1/persistentvolumes", volume)
        self._post(CLAIMS, claim)
        if self._draw.random() < UNBOUND:
            self._probes["volume bound late"] += 1
            self._timeline.call_later(self._draw.uniform(60.0, 900.0), lambda: self._bind(name))
        else:
            self._bind(name)

    def _bind(self, name: str) -> None:
        """What the volume controller does once the disk is there; until then nobody's pod with this claim can start."""
        bound = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}
        self._send("PATCH", f"{CLAIMS}/{name}", {**bound, "spec": {"volumeName": f"pv-{name}"}})
        for path in (f"/api/v1/persistentvolumes/pv-{name}", f"{CLAIMS}/{name}"):
            self._send("PATCH", f"{path}/status", {"status": {"phase": "Bound"}})

    # Pods come and go

    def _note(self, change: Change) -> None:
        pod = change.new
        if pod.kind is not POD:
            return
        for claim in _claims(pod):
            users, node = self._users.get(claim), pod.spec.get("nodeName")
            if users is None:
                continue
            if change.type == DELETED:
                users.pop(pod.uid, None)
                seconds = self._draw.uniform(*self._detach_seconds)
                self._timeline.call_later(seconds, lambda claim=claim: self._settle(claim))  # type: ignore[misc]
            elif node and pod.uid not in users:
                users[pod.uid] = node
                if not self._calm and self._draw.random() < ACCIDENT:
                    self._timeline.call_later(0.5, partial(self._lose, node))
                self._timeline.call_later(1.0, lambda claim=claim: self._settle(claim))  # type: ignore[misc]

    def _lose(self, node: str) -> None:
        """Azure takes the VM with no notice, so that the disk has nowhere to go."""
        if self._system.stand_ins.preempt(node, 0.0) is not None:
            self._probes["spot eviction"] += 1

    def _settle(self, claim: str) -> None:
        """Bring the disk to where its pod is."""
        wanted = next(iter(self._users[claim].values()), "")
        there = self._where.get(claim, "")
        if there and there not in self._users[claim].values():
            self._detach(claim, there)
            there = ""
        if wanted and not there:
            self._attach(claim, wanted)

    def _attach(self, claim: str, node: str) -> None:
        vm = self._arm.cloud.estate.find_vm(node)
        if vm is None or vm.deleting_at is not None:
            self._probes["volume waits for a machine"] += 1
            self._timeline.call_later(RETRY, lambda: self._settle(claim))
            return
        name = f"csi-{claim}-{node}"
        source = {"persistentVolumeName": f"pv-{claim}"}
        spec = {"attacher": DRIVER, "nodeName": node, "source": source}
        self._post(ATTACHMENTS, {"metadata": {"name": name}, "spec": spec})
        self._send("PATCH", f"{ATTACHMENTS}/{name}/status", {"status": {"attached": True}})
        self._arm.attach_disk(vm.id, self._disks[claim])
        self._where[claim] = node
        self._probes["volume attached"] += 1

    def _detach(self, claim: str, node: str) -> None:
        self._arm.detach_disk(self._disks[claim])
        self._send("DELETE", f"{ATTACHMENTS}/csi-{claim}-{node}", None)
        del self._where[claim]
        self._probes["volume detached"] += 1

    def _post(self, path: str, body: Json) -> None:
        self._send("POST", path, body)

    def _send(self, method: str, path: str, body: Json | None) -> None:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        data = b"" if body is None else orjson.dumps(body)
        response = self._system.stand_ins.cluster.handle(Request(method, path, {}, {"content-type": kind}, data))
        if response.status >= 400 and response.status not in {404, 409}:
            raise ValueError(f"{method} {path}: {response.body.decode()}")


def _claims(pod: Stored) -> list[str]:
    volumes = pod.spec.get("volumes") or ()
    claims = ((volume.get("persistentVolumeClaim") or {}).get("claimName") for volume in volumes)
    return [claim for claim in claims if claim]
