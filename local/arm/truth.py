"""What really happened, for checkers: every VM, NIC and disk there ever was, every accepted write, what it cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from local.arm.state import Disk, Estate, Nic, Vm
from local.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Write:
    """An accepted write.

    `target` is the capacity asked for (1 for a VM), `count` the VMs of that pool there or on their way afterwards,
    `maximum` the pool's own (None when the resource is of no pool), `quota_left` the cores still free at that moment,
    before this write, under each quota that was set, `living` how many VMs of a scale set existed just then without
    being on their way out, `named` the ids of the VMs that a deletion names. `unseen`: somebody else had written just
    before, and the writer cannot have seen it. `vacant`: as many of the VMs that it makes take the place of VMs deleted
    by name, for which the capacity stood still.
    """

    at: datetime
    operation: str
    resource: str
    target: int
    count: int
    maximum: int | None
    tags: dict[str, str] = field(default_factory=dict)
    quota_left: dict[str, int] = field(default_factory=dict)
    living: int = 0
    named: tuple[str, ...] = ()
    unseen: bool = False
    vacant: int = 0


@dataclass(frozen=True, slots=True)
class Refusal:
    """Azure said no to a growth of `resource`, at once or in the end, with `code`."""

    at: datetime
    code: str
    resource: str


What = Literal[
    "write",
    "refused",
    "made",
    "running",
    "failed",
    "noticed",
    "evicted",
    "deleting",
    "deletion failing",
    "gone",
    "disk gone",
    "nic gone",
]
"""What a watcher is told of: an accepted write, a growth refused, a VM (`made` to `gone`; `deletion failing`: its
deletion was accepted and will come to nothing), a disk or NIC deleted."""
Thing = Write | Refusal | Vm | Disk | Nic
Watcher = Callable[[What, Thing], None]


@dataclass(frozen=True, slots=True)
class Leaks:
    """Things whose VM is gone; a persistent volume's disk is never a leak."""

    nics: tuple[str, ...]
    disks: tuple[str, ...]


class Truth:
    """Only records; nothing here decides anything. Records are the stand-in's own objects: read, do not change."""

    def __init__(self, timeline: Timeline, estate: Estate) -> None:
        self._timeline, self._estate = timeline, estate
        self.vms: list[Vm] = []
        self.nics: list[Nic] = []
        self.disks: list[Disk] = []
        self.writes: list[Write] = []
        self.refusals: list[Refusal] = []
        self.maximums: dict[str, int] = {}  # by scale set or agent pool in lower case; VMs: by "tag:" and the pool
        self.requests: Counter[str] = Counter()  # by route name, such as "scale_set.update"
        self.methods: Counter[str] = Counter()
        self.evictions: list[tuple[datetime, str]] = []  # (when, provider id)
        self.chosen_by_azure: list[str] = []  # provider ids of VMs that went because a count below them was asked for
        self._watchers: list[Watcher] = []

    def on_record(self, watcher: Watcher) -> None:
        """Call `watcher` with everything that happens from now on, as it happens; it must not change anything."""
        self._watchers.append(watcher)

    def tell(self, what: What, thing: Thing) -> None:
        """Called by the stand-in's parts."""
        for watcher in self._watchers:
            watcher(what, thing)

    def tell_of_all(self, what: What, things: Iterable[Thing]) -> None:
        """The same of each."""
        for thing in things:
            self.tell(what, thing)

    def add_vm(self, vm: Vm) -> None:
        """A VM came into being."""
        self.vms.append(vm)
        self.tell("made", vm)

    def add_write(self, write: Write) -> None:
        """A write was accepted."""
        self.writes.append(write)
        self.tell("write", write)

    def add_refusal(self, code: str, resource: str) -> None:
        """A growth was refused, or failed."""
        refusal = Refusal(self._timeline.now(), code, resource)
        self.refusals.append(refusal)
        self.tell("refused", refusal)

    def add_eviction(self, vm: Vm) -> None:
        """Azure took a Spot VM."""
        self.evictions.append((self._timeline.now(), vm.provider_id))
        self.tell("evicted", vm)

    def live_vms(self) -> list[Vm]:
        """VMs that exist now, whatever their state."""
        return list(self._estate.all_vms())

    def vm_hours(self) -> dict[str, float]:
        """Hours by scale set or VM name, from creation to deletion (or now): what is billed, boot included."""
        hours: dict[str, float] = {}
        for vm in self.vms:
            end = vm.deleted_at or self._timeline.now()
            hours[vm.resource] = hours.get(vm.resource, 0.0) + (end - vm.created_at).total_seconds() / 3600
        return hours

    def persistent_volumes(self) -> list[Disk]:
        """Disks that a CSI driver made, deleted ones too: deleted must none of them be."""
        return [disk for disk in self.disks if disk.persistent_volume]

    def leaks(self) -> Leaks:
        """NICs and disks that were made with a VM, are held by none, and outlived it."""
        gone = {vm.id for vm in self.vms if vm.deleted_at is not None}
        return Leaks(tuple(self._outliving(self.nics, gone)), tuple(self._outliving(self.disks, gone)))

    def _outliving(self, things: list[Nic] | list[Disk], gone: set[str]) -> Iterator[str]:
        for thing in things:
            kept = isinstance(thing, Disk) and thing.persistent_volume
            if thing.deleted_at is None and not thing.held_by and thing.made_with in gone and not kept:
                yield thing.id
