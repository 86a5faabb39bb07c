"""Claims, volumes and what belongs to them as the API server writes them, with every part optional."""

from __future__ import annotations

from typing import Any

from shared.reading.storage import Kind
from shared.reading.volumes import Storage, storage_of

Json = dict[str, Any]

DISK = "disk.csi.azure.com"
DISK_ZONE = "topology.disk.csi.azure.com/zone"
ZONE = "topology.kubernetes.io/zone"


def claim(name: str = "data", volume: str = "", storage_class: str = "managed", **more: Any) -> Json:
    """Bound, if a volume is named; `more` are its metadata, and `modes` and `phase`."""
    modes, phase = more.pop("modes", ["ReadWriteOnce"]), more.pop("phase", "Bound" if volume else "Pending")
    notes = {**({"pv.kubernetes.io/bind-completed": "yes"} if volume else {}), **more.pop("annotations", {})}
    spec: Json = {
        "accessModes": modes,
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": notes, **more},
        "spec": {**spec, **({"volumeName": volume} if volume else {})},
        "status": {"phase": phase},
    }


def volume(name: str = "pv-1", zone: str = "", **more: Any) -> Json:
    """An Azure disk, of a zone if one is named; `more` are its labels, and `source` instead of the disk."""
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": DISK_ZONE, "operator": "In", "values": [zone]}]}]}
    source = more.pop("source", {"csi": {"driver": DISK, "volumeHandle": f"/disks/{name}"}})
    return {
        "metadata": {"name": name, "labels": more.pop("labels", {})},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            **source,
            **({"nodeAffinity": {"required": required}} if zone else {}),
        },
    }


def storage_class(name: str = "managed", *, waits: bool = True, provisioner: str = DISK, **more: Any) -> Json:
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    return {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode, **more}


def allowed(*zones: str, key: str = DISK_ZONE) -> list[Json]:
    """A storage class's allowedTopologies."""
    return [{"matchLabelExpressions": [{"key": key, "values": list(zones)}]}]


def csi_node(name: str, disks: int | None = 4, driver: str = DISK) -> Json:
    limit = {} if disks is None else {"allocatable": {"count": disks}}
    return {"metadata": {"name": name}, "spec": {"drivers": [{"name": driver, "nodeID": name, **limit}]}}


def attachment(name: str, node: str, of: str) -> Json:
    source = {"persistentVolumeName": of}
    return {"metadata": {"name": name}, "spec": {"attacher": DISK, "nodeName": node, "source": source}}


def uses(*names: str) -> list[Json]:
    """A pod's volumes, one for each claim."""
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]


def lists(
    claims: Any = (), volumes: Any = (), classes: Any = (), nodes: Any = (), attachments: Any = (), drivers: Any = ()
) -> dict[Kind, list[Json]]:
    """As they come from the API server."""
    return {
        Kind.CLAIMS: list(claims),
        Kind.VOLUMES: list(volumes),
        Kind.CLASSES: list(classes),
        Kind.CSI_NODES: list(nodes),
        Kind.ATTACHMENTS: list(attachments),
        Kind.CSI_DRIVERS: list(drivers),
    }


def storage(*pods: Json, unread: dict[Kind, str] | None = None, **given: Any) -> Storage:
    """What is known, with these pods as the users of claims."""
    return storage_of(pods, lists(**given), unread or {})
