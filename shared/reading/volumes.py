"""What a pod's volumes ask of a node, as kube-scheduler's plugins see it.

Source of the rules: pkg/scheduler/framework/plugins/{volumebinding,volumezone,volumerestrictions,nodevolumelimits} of
Kubernetes 1.36. A volume's node affinity and zone labels, and the topologies that a storage class allows, become places
(`VolumePlace`); each distinct volume that a driver attaches takes one of `attachable-volumes-csi-<driver>`. A claim
that no node can help, because it is missing or waits for somebody else, is a place that no node matches.

Not followed to the end, always to the cautious side: volumes that exist already are not offered to claims that wait for
their first pod; a claim used twice on one node counts twice for a newcomer (not for what is there).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from shared.model import NodeSelectorTerm, Requirement, VolumePlace
from shared.reading.storage import (
    AZURE_DISK_DRIVER,
    VOLUME_BINDING,
    Attachment,
    Claim,
    Driver,
    Kind,
    Limits,
    StorageClass,
    Stored,
    Volume,
    named,
    read_one,
)
from shared.rules.predicates import ATTACHABLE

Json = dict[str, Any]

NO_PROVISIONER = "kubernetes.io/no-provisioner"

_EMPTY: Json = {}
_IN_TREE = ("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd")  # whose sharing VolumeRestrictions rules
_TELLING = frozenset({"persistentVolumeClaim", "ephemeral", "azureDisk", *_IN_TREE})


@dataclass(frozen=True, slots=True)
class VolumeNeeds:
    """For a shape: resources, places that must all hold, and plugins whose rules can't be judged."""

    requests: tuple[tuple[str, int], ...] = ()
    places: tuple[VolumePlace, ...] = ()
    not_modelled: tuple[str, ...] = ()


NO_NEEDS = VolumeNeeds()


class Storage:
    """Everything that is known of claims, volumes and drivers; kept up to date with `put`.

    `unread` says, for a kind that could not be read, why. `users` are the pods that are bound (True) or wait, by claim.
    """

    def __init__(self) -> None:
        self.unread: dict[Kind, str] = {}
        self.users: dict[str, dict[str, bool]] = {}
        self._held: dict[Kind, dict[str, Stored]] = {kind: {} for kind in Kind}
        self._uses: dict[str, tuple[tuple[str, ...], bool]] = {}  # by pod: its claims, and whether it is bound
        self._claims_on: dict[str, set[str]] = {}  # by volume
        self._attached: dict[str, dict[str, Attachment]] = {}  # by node
        self._nodes_of: dict[str, dict[str, str]] = {}  # by volume: attachment to node

    def put(self, kind: Kind, name: str, value: Stored | None) -> tuple[set[str], set[str]]:
        """Take an object in; None: it is gone. Returns the claims and the nodes that it matters to."""
        held = self._held[kind]
        before = held.pop(name, None)
        if value is not None:
            held[name] = value
        self._file(name, before, value)
        match kind:
            case Kind.CLAIMS:
                return {name}, set()
            case Kind.VOLUMES:
                return set(self._claims_on.get(name, ())), set(self._nodes_of.get(name, {}).values())
            case Kind.CSI_NODES:
                return set(), {name}
            case Kind.ATTACHMENTS:
                return set(), {each.node for each in (before, value) if isinstance(each, Attachment)}
            case _:
                return set(self.users), set()

    def _file(self, name: str, before: Stored | None, value: Stored | None) -> None:
        """Keep the indexes."""
        if isinstance(before, Claim) and before.volume:
            self._claims_on[before.volume].discard(name)
        if isinstance(value, Claim) and value.volume:
            self._claims_on.setdefault(value.volume, set()).add(name)
        if isinstance(before, Attachment):
            del self._attached[before.node][name]
            del self._nodes_of[before.volume][name]
        if isinstance(value, Attachment):
            self._attached.setdefault(value.node, {})[name] = value
            self._nodes_of.setdefault(value.volume, {})[name] = value.node

    def read(self, kind: Kind, items: Iterable[Json]) -> None:
        """Take in a whole list. Raises ValueError naming a malformed object."""
        for item in items:
            self.put(kind, named(kind, item), read_one(kind, item))

    def note(self, key: str, pod: Json | None, *, waits: bool) -> set[str]:
        """Take in that a pod (namespace/name) uses its claims: bound to a node, or waiting for one; None or neither: no
        longer. Returns the claims to whose other users that may matter."""
        bound = pod is not None and bool(pod["spec"].get("nodeName"))
        used = tuple(dict.fromkeys(claims_of(pod))) if pod is not None and (bound or waits) else ()
        before, now = self._uses.pop(key, ((), False)), (used, bound)
        if used:
            self._uses[key] = now
        if before == now or not (used or before[0]):
            return set()
        for claim in before[0]:
            users = self.users[claim]
            del users[key]
            if not users:
                del self.users[claim]
        for claim in used:
            self.users.setdefault(claim, {})[key] = bound
        return {name for name in (*before[0], *used) if self._is_taken_by_one(name)}

    def _is_taken_by_one(self, name: str) -> bool:
        """Whether it matters to the users of a claim who else uses it."""
        claim = self.claim(name)
        return claim is not None and (claim.one_pod or not claim.bound)

    def claim(self, key: str) -> Claim | None:
        """By namespace/name."""
        return cast("Claim | None", self._held[Kind.CLAIMS].get(key))

    def volume(self, name: str) -> Volume | None:
        """By name."""
        return cast("Volume | None", self._held[Kind.VOLUMES].get(name))

    def storage_class(self, name: str) -> StorageClass | None:
        """By name."""
        return cast("StorageClass | None", self._held[Kind.CLASSES].get(name))

    def driver(self, name: str) -> Driver:
        """By name; one that says nothing of itself asks for nothing."""
        return cast("Driver", self._held[Kind.CSI_DRIVERS].get(name) or Driver())

    def limits(self, node: str) -> Mapping[str, int]:
        """How many volumes the node takes, as resources. Drivers without a limit are not named."""
        found = cast("Limits", self._held[Kind.CSI_NODES].get(node) or ())
        return {f"{ATTACHABLE}{driver}": count for driver, count in found}

    def attached(self, node: str, pods: Iterable[Json]) -> dict[str, int]:
        """How many volumes of the node's limits are taken: by the pods on it, and by attachments nobody there uses."""
        found = {handle for pod in pods if (pod.get("spec") or _EMPTY).get("volumes") for handle in self._handles(pod)}
        for each in self._attached.get(node, {}).values():
            volume = self.volume(each.volume)
            if volume is not None and volume.handle and each.driver:
                found.add((each.driver, volume.handle))
        counts: dict[str, int] = defaultdict(int)
        for driver, _ in found:
            counts[f"{ATTACHABLE}{driver}"] += 1
        return dict(counts)

    def others(self, claim: str, pod: str) -> Iterator[tuple[str, bool]]:
        """The other pods that use the claim, and whether they are bound."""
        return ((key, bound) for key, bound in self.users.get(claim, {}).items() if key != pod)

    def _handles(self, pod: Json) -> Iterator[tuple[str, str]]:
        for key in claims_of(pod):
            claim = self.claim(key)
            if claim is not None and (handle := self.handle(key, claim)) is not None:
                yield handle
        yield from _inline_disks(pod)

    def handle(self, key: str, claim: Claim) -> tuple[str, str] | None:
        """What tells a claim's volume from others on a node (driver and handle); None for one that is not attached.

        `getCSIDriverInfo` of nodevolumelimits/csi.go: a claim without a volume counts for its class's driver.
        """
        volume = self.volume(claim.volume) if claim.volume else None
        if volume is not None:
            return (volume.driver, volume.handle) if volume.driver and volume.handle else None
        found = self.storage_class(claim.storage_class)
        return (found.provisioner, f"claim {key}") if found is not None and found.provisioner else None


def storage_of(pods: Iterable[Json], lists: Mapping[Kind, Iterable[Json]], unread: Mapping[Kind, str]) -> Storage:
    """From fresh lists, and the pods that hold claims or wait to. Raises ValueError naming a malformed object."""
    found = Storage()
    found.unread.update(unread)
    for kind, items in lists.items():
        found.read(kind, items)
    for pod in pods:
        meta = pod["metadata"]
        found.note(f"{meta.get('namespace') or 'default'}/{meta['name']}", pod, waits=True)
    return found


def uses_claims(pod: Json) -> bool:
    """Whether the pod has volumes of which only claims tell more."""
    volumes = (pod.get("spec") or _EMPTY).get("volumes") or ()
    return any("persistentVolumeClaim" in each or "ephemeral" in each for each in volumes)


def claims_of(pod: Json) -> Iterator[str]:
    """namespace/name of each claim of a pod; an ephemeral volume's is called after pod and volume."""
    meta = pod.get("metadata") or _EMPTY
    home = meta.get("namespace") or "default"
    for volume in (pod.get("spec") or _EMPTY).get("volumes") or ():
        if (source := volume.get("persistentVolumeClaim")) is not None:
            yield f"{home}/{source.get('claimName', '')}"
        elif "ephemeral" in volume:
            yield f"{home}/{meta.get('name', '')}-{volume.get('name', '')}"


def needs_of(pod: Json, storage: Storage | None) -> VolumeNeeds:
    """What the pod's volumes ask. Of a pod that runs: what they will ask when it must go elsewhere.

    With nothing known of claims, a pod that waits and has some can't be judged; one that runs is left alone.
    """
    spec = pod["spec"]
    if _TELLING.isdisjoint(kind for volume in spec["volumes"] for kind in volume):
        return NO_NEEDS
    runs = bool(spec.get("nodeName"))
    refused: list[str] = []
    if not runs and any(kind in volume for volume in spec["volumes"] for kind in _IN_TREE):
        refused.append("VolumeRestrictions")
    asks = _Asks(pod, storage, runs=runs) if uses_claims(pod) and storage is not None else None
    if asks is not None:
        asks.ask()
        refused = asks.not_modelled + refused
    elif uses_claims(pod) and not runs:
        refused.insert(0, VOLUME_BINDING)
    handles = [*(asks.handles if asks is not None else ()), *_inline_disks(pod)]
    places = asks.places if asks is not None else []
    return _shared(VolumeNeeds(_counted(handles), _ordered(places), tuple(dict.fromkeys(refused))))


class _Asks:
    """One pod's claims, one after the other."""

    def __init__(self, pod: Json, storage: Storage, *, runs: bool) -> None:
        self._pod, self._storage, self._runs = pod, storage, runs
        meta = pod["metadata"]
        self._key = f"{meta.get('namespace') or 'default'}/{meta['name']}"
        self.handles: list[tuple[str, str]] = []
        self.places: list[VolumePlace] = []
        self.not_modelled: list[str] = []

    def ask(self) -> None:
        """Fill the three lists."""
        unread = next((self._storage.unread[kind] for kind in Kind if kind in self._storage.unread), "")
        if unread:
            self.not_modelled.append(f"{VOLUME_BINDING} ({unread})")
            return
        own = (each for each in self._pod["spec"]["volumes"] if "ephemeral" in each)
        ephemeral = {f"{self._key}-{each.get('name', '')}" for each in own}
        for key in dict.fromkeys(claims_of(self._pod)):
            self._claim(key, of_pod=key in ephemeral)

    def _claim(self, key: str, *, of_pod: bool) -> None:
        claim = self._storage.claim(key)
        trouble = self._trouble(claim, of_pod=of_pod)
        if trouble or claim is None:
            self._wait(f"{VOLUME_BINDING}: claim {key} {trouble}")
            return
        if (handle := self._storage.handle(key, claim)) is not None:
            self.handles.append(handle)
        if self._runs and of_pod:
            self._made_anew(claim)  # the claim goes with the pod, its successor gets a volume of its own
        elif claim.bound:
            self._bound(key, claim, of_pod=of_pod)
        else:
            self._unbound(key, claim)
        if claim.one_pod and not of_pod and not self._runs:
            self._alone(key)

    def _trouble(self, claim: Claim | None, *, of_pod: bool) -> str:
        """`podHasPVCs` of volumebinding/volume_binding.go."""
        if claim is None:
            return "waits to be made by the ephemeral volume controller" if of_pod else "does not exist"
        if claim.lost:
            return f"has lost its volume {claim.volume}"
        if claim.leaving and not (of_pod and self._runs):
            return "is being deleted"
        if of_pod and claim.owner != self._pod["metadata"].get("uid", ""):
            return "is not this pod's own, as that of an ephemeral volume must be"
        return ""

    def _bound(self, key: str, claim: Claim, *, of_pod: bool) -> None:
        """`checkBoundClaims` of volumebinding/binder.go; and VolumeZone, which does not look at ephemeral volumes."""
        volume = self._storage.volume(claim.volume)
        if volume is None:
            self._wait(f"{VOLUME_BINDING}: claim {key} is bound to volume {claim.volume}, which does not exist")
            return
        if volume.affinity is not None:
            self.places.append(volume.affinity)
        if not of_pod:
            self.places.extend(volume.zones)

    def _unbound(self, key: str, claim: Claim) -> None:
        """`GetPodVolumeClaims` and `checkVolumeProvisions` of volumebinding/binder.go."""
        found = self._storage.storage_class(claim.storage_class)
        if claim.volume:
            self._wait(f"{VOLUME_BINDING}: claim {key} waits for the volume controller to bind volume {claim.volume}")
        elif not claim.storage_class:
            self._wait(f"{VOLUME_BINDING}: claim {key} waits for a volume: it has no storage class")
        elif found is None:
            self._wait(f"{VOLUME_BINDING}: claim {key} is of storage class {claim.storage_class}, which does not exist")
        elif not found.waits:
            self._wait(
                f"{VOLUME_BINDING}: claim {key} is not bound; storage class {claim.storage_class} binds at once: "
                "the volume controller must come first"
            )
        else:
            self._to_be_made(claim, found)
            self._first(key)

    def _made_anew(self, claim: Claim) -> None:
        found = self._storage.storage_class(claim.storage_class)
        if found is None or not found.waits:
            self.not_modelled.append(f"{VOLUME_BINDING} (ephemeral volume of storage class {claim.storage_class})")
        else:
            self._to_be_made(claim, found, selected=False)

    def _to_be_made(self, claim: Claim, found: StorageClass, *, selected: bool = True) -> None:
        if found.provisioner in {"", NO_PROVISIONER}:
            self.not_modelled.append(f"{VOLUME_BINDING} (local volumes of storage class {claim.storage_class})")
        elif self._storage.driver(found.provisioner).tracks_capacity:
            self.not_modelled.append(f"{VOLUME_BINDING} (storage capacity of {found.provisioner})")
        if found.topologies is not None:
            self.places.append(found.topologies)
        if selected and claim.selected_node:
            self.places.append(_selected(claim.selected_node))

    def _first(self, key: str) -> None:
        """Where the first pod goes, the volume is made, and there the others must follow."""
        if not self._runs and (earlier := self._earlier(key)):
            self._wait(f"Waits: claim {key} is bound together with its first pod, {earlier}")

    def _alone(self, key: str) -> None:
        """`calPreFilterState` of volumerestrictions/volume_restrictions.go; of several that wait one comes first."""
        user = next((other for other, bound in self._storage.others(key, self._key) if bound), "")
        if user:
            self._wait(f"VolumeRestrictions: claim {key} is ReadWriteOncePod and in use by {user}")
        elif earlier := self._earlier(key):
            self._wait(f"Waits: claim {key} is ReadWriteOncePod, and {earlier} comes first")

    def _earlier(self, key: str) -> str:
        return min((other for other, _ in self._storage.others(key, self._key) if other < self._key), default="")

    def _wait(self, reason: str) -> None:
        self.places.append(VolumePlace(reason))


def _inline_disks(pod: Json) -> Iterator[tuple[str, str]]:
    """Azure disks that the pod names itself: attached by the CSI driver too. Inline CSI volumes are counted by nobody
    (`checkAttachableInlineVolume` of nodevolumelimits/csi.go)."""
    for volume in pod["spec"].get("volumes") or ():
        if (disk := volume.get("azureDisk")) is not None:
            yield AZURE_DISK_DRIVER, disk.get("diskURI") or ""


@lru_cache(maxsize=4096)
def _selected(node: str) -> VolumePlace:
    name = Requirement("metadata.name", "In", (node,))
    return VolumePlace(f"{VOLUME_BINDING}: a volume that is being made", (NodeSelectorTerm((), (name,)),))


def _counted(handles: Iterable[tuple[str, str]]) -> tuple[tuple[str, int], ...]:
    counts: dict[str, int] = defaultdict(int)
    for driver, _ in set(handles):
        counts[f"{ATTACHABLE}{driver}"] += 1
    return tuple(sorted(counts.items()))


def _ordered(places: Iterable[VolumePlace]) -> tuple[VolumePlace, ...]:
    distinct = set(places)
    return tuple(sorted(distinct, key=repr)) if len(distinct) > 1 else tuple(distinct)


@lru_cache(maxsize=4096)
def _shared(needs: VolumeNeeds) -> VolumeNeeds:
    return needs
