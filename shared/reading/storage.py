"""Claims, volumes, storage classes and what nodes can attach, reduced to what scheduling reads of them.

A claim is some hundred bytes here and several thousand as the API server's JSON: a watch cache keeps these values.
Equal values mean that nothing which matters has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from shared.model import NodeSelectorTerm, Requirement, VolumePlace
from shared.rules.node_terms import selector_terms, topology_terms

Json = dict[str, Any]

AZURE_DISK_DRIVER = "disk.csi.azure.com"
VOLUME_BINDING = "VolumeBinding"

_EMPTY: Json = {}
_ZONE_LABELS = (  # as VolumeZone knows them, the old name beside the one that took its place
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
)
_ZONE_KEYS = frozenset(key for key, _ in _ZONE_LABELS)
_IN_TREE_DRIVERS = {"kubernetes.io/azure-disk": AZURE_DISK_DRIVER, "kubernetes.io/azure-file": "file.csi.azure.com"}
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"


@dataclass(frozen=True, slots=True)
class Claim:
    """A PersistentVolumeClaim. `volume` may be named before it is `bound`; `owner`: uid of its controller."""

    volume: str = ""
    bound: bool = False
    lost: bool = False
    leaving: bool = False
    storage_class: str = ""
    owner: str = ""
    one_pod: bool = False
    selected_node: str = ""


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolume. `driver` and `handle` are empty for one that no driver attaches."""

    driver: str = ""
    handle: str = ""
    affinity: VolumePlace | None = None
    zones: tuple[VolumePlace, ...] = ()


@dataclass(frozen=True, slots=True)
class StorageClass:
    """`waits`: it binds with the first pod. `topologies` is None where new volumes may be anywhere."""

    provisioner: str
    waits: bool = False
    topologies: VolumePlace | None = None


@dataclass(frozen=True, slots=True)
class Driver:
    """A CSIDriver; whether the scheduler asks for storage capacity before it lets a volume be made."""

    tracks_capacity: bool = False


@dataclass(frozen=True, slots=True)
class Attachment:
    """A VolumeAttachment."""

    node: str
    driver: str
    volume: str


Limits = tuple[tuple[str, int], ...]
"""How many volumes of each driver a node takes (its CSINode); a driver that is not named has no limit."""

Stored = Claim | Volume | StorageClass | Driver | Attachment | Limits


class Kind(StrEnum):
    """The resources that tell of volumes, by the name that a right to list them bears."""

    CLAIMS = "persistentvolumeclaims"
    VOLUMES = "persistentvolumes"
    CLASSES = "storageclasses"
    CSI_NODES = "csinodes"
    CSI_DRIVERS = "csidrivers"
    ATTACHMENTS = "volumeattachments"

    @property
    def path(self) -> str:
        """Where the API server lists them, all namespaces together."""
        core = self in {Kind.CLAIMS, Kind.VOLUMES}
        return f"/api/v1/{self.value}" if core else f"/apis/storage.k8s.io/v1/{self.value}"


def read_claim(item: Json) -> Claim:
    """As kube-scheduler's volumebinding/binder.go reads one: bound is what the volume controller has marked so."""
    meta, spec = item["metadata"], item.get("spec") or _EMPTY
    notes = meta.get("annotations") or _EMPTY
    owners = meta.get("ownerReferences") or ()
    volume = spec.get("volumeName") or ""
    return Claim(
        volume=volume,
        bound=bool(volume) and _BIND_COMPLETED in notes,
        lost=(item.get("status") or _EMPTY).get("phase") == "Lost",
        leaving="deletionTimestamp" in meta,
        storage_class=_kept(notes.get(_OLD_CLASS) or spec.get("storageClassName") or ""),
        owner=next((each.get("uid", "") for each in owners if each.get("controller")), ""),
        one_pod="ReadWriteOncePod" in (spec.get("accessModes") or ()),
        selected_node=notes.get(_SELECTED_NODE) or "",
    )


def read_volume(item: Json) -> Volume:
    """With its node affinity, and with its zone labels as VolumeZone reads them."""
    meta, spec = item["metadata"], item.get("spec") or _EMPTY
    driver, handle = _attached_as(meta["name"], spec)
    required = (spec.get("nodeAffinity") or _EMPTY).get("required")
    return Volume(
        driver=_kept(driver),
        handle=handle,
        affinity=None if required is None else _affinity(selector_terms(required)),
        zones=_zones(tuple((key, value) for key, value in (meta.get("labels") or _EMPTY).items() if key in _ZONE_KEYS)),
    )


def read_class(item: Json) -> StorageClass:
    """A StorageClass; without a binding mode it binds at once, as the API server has it."""
    topologies = item.get("allowedTopologies")
    return StorageClass(
        provisioner=driver_of(item.get("provisioner") or ""),
        waits=item.get("volumeBindingMode") == "WaitForFirstConsumer",
        topologies=None
        if not topologies
        else VolumePlace(f"{VOLUME_BINDING}: its storage class", topology_terms(topologies)),
    )


def read_limits(item: Json) -> Limits:
    """What a CSINode allows."""
    drivers = (item.get("spec") or _EMPTY).get("drivers") or ()
    counts = ((each["name"], (each.get("allocatable") or _EMPTY).get("count")) for each in drivers)
    return tuple(sorted((name, int(count)) for name, count in counts if count is not None))


def read_driver(item: Json) -> Driver:
    """What is asked of a CSIDriver's volumes."""
    return Driver(bool((item.get("spec") or _EMPTY).get("storageCapacity")))


def read_attachment(item: Json) -> Attachment:
    """Which volume is, or is being, attached where."""
    spec = item.get("spec") or _EMPTY
    source = spec.get("source") or _EMPTY
    return Attachment(spec.get("nodeName") or "", spec.get("attacher") or "", source.get("persistentVolumeName") or "")


READERS: Mapping[Kind, Callable[[Json], Stored]] = {
    Kind.CLAIMS: read_claim,
    Kind.VOLUMES: read_volume,
    Kind.CLASSES: read_class,
    Kind.CSI_NODES: read_limits,
    Kind.CSI_DRIVERS: read_driver,
    Kind.ATTACHMENTS: read_attachment,
}


def driver_of(provisioner: str) -> str:
    """The CSI driver that does the work of a provisioner; Azure's old in-tree ones have handed theirs over."""
    return _IN_TREE_DRIVERS.get(provisioner, provisioner)


def _attached_as(name: str, spec: Json) -> tuple[str, str]:
    if (csi := spec.get("csi")) is not None:
        return csi.get("driver") or "", csi.get("volumeHandle") or ""
    if (disk := spec.get("azureDisk")) is not None:
        return AZURE_DISK_DRIVER, disk.get("diskURI") or name
    if spec.get("azureFile") is not None:
        return _IN_TREE_DRIVERS["kubernetes.io/azure-file"], name
    return "", ""


@lru_cache(maxsize=4096)
def _affinity(terms: tuple[NodeSelectorTerm, ...]) -> VolumePlace:
    """One value for all volumes of a zone. Without any term no node matches, whatever its labels."""
    return VolumePlace(f"{VOLUME_BINDING}: a volume", terms)


@lru_cache(maxsize=4096)
def _zones(labels: tuple[tuple[str, str], ...]) -> tuple[VolumePlace, ...]:
    """A place for each zone or region label: nodes that carry it with one of its values, or its newer name with one, or
    that have no such label at all (`VolumeZone.Filter`, volumezone/volume_zone.go of Kubernetes 1.36)."""
    written = dict(labels)
    found = []
    for key, newer in _ZONE_LABELS:
        values = tuple(sorted({part.strip() for part in written.get(key, "").split("__")}))
        if key not in written or "" in values:
            continue  # the plugin ignores a label that it can't parse
        terms: list[tuple[Requirement, ...]] = [(Requirement(key, "In", values),)]
        if newer != key:
            terms.append((Requirement(key, "DoesNotExist", ()), Requirement(newer, "In", values)))
        terms.append(tuple(Requirement(each, "DoesNotExist", ()) for each, _ in _ZONE_LABELS))
        found.append(VolumePlace("VolumeZone: a volume", tuple(NodeSelectorTerm(term, ()) for term in terms)))
    return tuple(found)


@lru_cache(maxsize=4096)
def _kept(text: str) -> str:
    """One string for all equal ones."""
    return text


def named(kind: Kind, item: Json) -> str:
    """namespace/name of a claim, the name alone of the others, which have no namespace."""
    meta = item["metadata"]
    return f"{meta.get('namespace') or 'default'}/{meta['name']}" if kind is Kind.CLAIMS else str(meta["name"])


def read_one(kind: Kind, item: Json) -> Stored:
    """The value of one object. Raises ValueError naming a malformed one."""
    try:
        return READERS[kind](item)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        meta = item.get("metadata") if isinstance(item, dict) else None
        name = meta.get("name", "?") if isinstance(meta, dict) else "?"
        raise ValueError(f"{kind.value}: {name} is malformed: {error}") from error
