"""What the functions and the exporter may ask of the outside. Every call may raise `shared.adapters.errors`.

All calls are blocking and short: none waits for an Azure operation, none sleeps for longer than a few seconds of
retries; whatever takes minutes is started by one call and asked after by another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from shared.adapters.errors import OutsideError
from shared.model import Pool, Usage

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ScaleSet:
    """A scale set's or agent pool's size as just read; `etag` guards the write that follows. `flexible` is a scale
    set's orchestration mode. `busy`: what AKS is doing with the pool, so that it takes no other write; `unfit`: why
    this pool must not be written to at all, and the remedy. `single_group`: all VMs share one placement group.
    `overprovisions`: while it grows, Azure makes more VMs than were asked for, and takes the surplus away again."""

    name: str
    capacity: int
    etag: str
    flexible: bool
    provisioning_state: str
    busy: str = ""
    unfit: str = ""
    single_group: bool = False
    overprovisions: bool = False

    @property
    def changing(self) -> bool:
        """Whether Azure is about to make VMs or take some away, whoever asked for that."""
        return bool(self.busy) or self.provisioning_state in {"Creating", "Updating", "Deleting"}


@dataclass(frozen=True, slots=True)
class Instance:
    """A VM of a pool, of any kind.

    `instance_id` is what a deletion takes: the number of a uniform scale set's VM, else the VM's name.
    `provider_id` equals the Node's spec.providerID. `failure` is Azure's code when provisioning failed, else "".
    `undeletable_disks`: data disks whose deleteOption is not Detach and which Sluice did not create: such a VM must not
    be deleted. `nics` and `os_disk` are resource ids, `data_disks` too. `deallocated`: it runs nowhere, and goes on
    counting in its set's capacity; known of scale sets' VMs, and of any that is read alone.
    """

    instance_id: str
    name: str
    provider_id: str
    provisioning_state: str
    failure: str
    created_at: datetime | None
    zone: str
    nics: tuple[str, ...]
    os_disk: str
    data_disks: tuple[str, ...]
    undeletable_disks: tuple[str, ...]
    tags: Mapping[str, str]
    deallocated: bool = False


@dataclass(frozen=True, slots=True)
class OperationStatus:
    """How a long-running Azure operation stands; `code` and `message` are Azure's when it failed.
    `retry_after`: seconds before which Azure does not want to be asked again."""

    done: bool
    ok: bool
    code: str = ""
    message: str = ""
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Leftover:
    """A NIC, disk or public IP that belongs to a pool's VMs by tag or name; `attached` names what holds it, or ""."""

    resource_id: str
    kind: str  # "nic" | "disk" | "ip"
    attached: str
    created_at: datetime | None
    tags: Mapping[str, str]


class Compute(Protocol):
    """Azure compute for the pools of one subscription and resource group.

    A token is opaque, survives the process, and names an operation that Azure runs whether or not anybody asks.
    """

    def scale_set(self, pool: Pool) -> ScaleSet:
        """Size and ETag, read now. Raises NotFound when the scale set is not there."""
        ...

    def scale_sets(self, pools: Sequence[Pool]) -> dict[str, ScaleSet]:
        """All of these pools' scale sets by pool name, one request per resource group; missing ones are left out."""
        ...

    def instances(self, pool: Pool) -> list[Instance]:
        """The pool's VMs, whatever their state, listed now."""
        ...

    def instance(self, pool: Pool, instance_id: str) -> Instance:
        """One VM, read now. Raises NotFound when it is gone."""
        ...

    def begin_capacity(self, pool: Pool, target: int, etag: str) -> str:
        """Ask for `target` VMs in all, only if the scale set is still as read (If-Match). Returns a token.

        Raises StaleWrite when it is not, CapacityMissing when Azure refuses at once (quota, SKU).
        """
        ...

    def begin_create_vm(self, pool: Pool, name: str, zone: str, tags: Mapping[str, str], template: Json) -> str:
        """Create the stand-alone VM `name` with its NIC and OS disk, all of them set to be deleted with it.

        Idempotent by name: asking twice makes one VM. Returns a token.
        """
        ...

    def begin_delete(self, pool: Pool, instance_ids: Sequence[str], *, force: bool = False) -> str:
        """Delete these VMs, by instance id. Idempotent: ids that are gone already are no error. Returns a token, or ""
        when there was nothing left to delete. `force`: without waiting for the guest to shut down, where Azure does
        that at all. For `functions.deletion` alone: everybody else's deletions pass through there."""
        ...

    def poll(self, token: str) -> OperationStatus:
        """Ask once how the operation stands; never waits."""
        ...

    def usages(self, location: str) -> list[Usage]:
        """The subscription's core quotas in a region, as compute counts them now."""
        ...

    def leftovers(self, pools: Sequence[Pool]) -> list[Leftover]:
        """NICs, OS disks and data disks that these pools' VMs were made with (by our tags, or by the names of our scale
        sets; the latter by the tag of the operation alone), with what holds them.

        A persistent volume's disk never appears here.
        """
        ...

    def left_addresses(self, pools: Sequence[Pool]) -> list[Leftover]:
        """Public IPs that the VMs of these pools were made with, by the tag of the operation, with what holds them."""
        ...

    def delete_leftover(self, leftover: Leftover) -> None:
        """Delete what nothing holds. Gone already is success. Raises StaleWrite when it is attached."""
        ...


@dataclass(frozen=True, slots=True)
class JsonPatch:
    """A JSON patch (RFC 6902) for one object: tests first, since all of it holds or nothing is done."""

    path: str
    operations: Sequence[Json]


PatchAnswers = list[OutsideError | None]  # within the class, `list` is its method
Objects = list[Json | OutsideError]


class ClusterApi(Protocol):
    """One Kubernetes API server. Objects are its own JSON; lists are followed through all their pages."""

    def list(self, path: str, *, field_selector: str = "", label_selector: str = "") -> tuple[list[Json], str]:
        """All items below `path` (such as /api/v1/pods) and the list's resourceVersion."""
        ...

    def watch(self, path: str, resource_version: str, *, timeout_seconds: int) -> Iterator[Json]:
        """Watch events {"type","object"} after `resource_version`, bookmarks included, until the server ends it.

        Raises Expired when the version is too old (also when the server says so inside the stream).
        """
        ...

    def get(self, path: str) -> Json:
        """One object. Raises NotFound."""
        ...

    def get_each(self, paths: Sequence[str]) -> Objects:
        """All of these objects, several requests at a time, or why one cannot be had; raises nothing."""
        ...

    def create(self, path: str, body: Json) -> Json:
        """POST. Raises StaleWrite when the name is taken."""
        ...

    def replace(self, path: str, body: Json) -> Json:
        """PUT; with metadata.resourceVersion in the body it is guarded. Raises StaleWrite."""
        ...

    def patch(self, path: str, body: Json) -> Json:
        """JSON merge patch; with metadata.resourceVersion in the body it is guarded. Raises StaleWrite, NotFound."""
        ...

    def patch_each(self, patches: Sequence[JsonPatch]) -> PatchAnswers:
        """Send all of these, several at a time and in no certain order; what became of each, None for done.

        Raises nothing: a test that failed is Rejected with status 422, an object that is gone NotFound.
        """
        ...

    def delete(self, path: str, *, uid: str = "", grace_seconds: int | None = None) -> None:
        """Delete, only if the uid still is this one (when given). Raises NotFound, StaleWrite."""
        ...

    def evict(self, namespace: str, name: str, uid: str, *, grace_seconds: int | None = None) -> None:
        """The Eviction API, with a uid precondition. Raises Throttled when a PodDisruptionBudget says no for now,
        NotFound when the pod is gone, StaleWrite when another pod has its name."""
        ...


@dataclass(frozen=True, slots=True)
class Blob:
    """A blob's bytes and the ETag that they were read under."""

    data: bytes
    etag: str


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks the app something, as far as Entra says, and in which roles of its application."""

    name: str
    roles: frozenset[str]


class Door(Protocol):
    """Before what the app answers over HTTP."""

    def caller(self, authorization: str) -> Caller:
        """Who sends this Authorization header. Raises Refused (`status` 401 or 403) for nobody."""
        ...


Names = list[str]  # within the class, `list` is its method


class BlobStore(Protocol):
    """Blobs of the app's storage account. A missing container is made on the first write."""

    def get(self, container: str, name: str) -> Blob:
        """Raises NotFound."""
        ...

    def get_if_changed(self, container: str, name: str, etag: str) -> Blob | None:
        """None when the blob still has this ETag. Raises NotFound."""
        ...

    def put(self, container: str, name: str, data: bytes, *, if_match: str = "", if_absent: bool = False) -> str:
        """Write, and return the new ETag. Raises StaleWrite when the guard fails."""
        ...

    def delete(self, container: str, name: str) -> None:
        """Gone already is success."""
        ...

    def list(self, container: str, prefix: str = "") -> list[str]:
        """Names in order; a missing container is empty."""
        ...

    def older(self, container: str, prefix: str, before: datetime) -> Names:
        """The names below `prefix` that were last written before this time, in order."""
        ...


class EventPublisher(Protocol):
    """An Event Grid topic."""

    def publish(self, events: Sequence[Json]) -> None:
        """Send CloudEvents (structured JSON dicts with specversion, id, source, type, subject, time, data).

        Raises RetryLater when they may be sent again, Rejected when they never will be taken.
        """
        ...
