"""The one way to a VM's end: every deletion, of whatever path, passes here (tests/drain_rules holds all others to it).

A persistent volume's disk is never deleted. Azure deletes a data disk together with its VM when the disk's deleteOption
says so, and a disk that a CSI driver attached later is somebody's data: such a VM is not deleted at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from functions.outcomes import Busy, Json, tell
from functions.world import World
from shared.adapters.protocols import Compute, Instance
from shared.model import Pool
from shared.names import plan_container
from shared.state.ledger import moment

DISKS = "disks"
KEPT_VMS = "vms/"  # documents: VMs that had to be kept, and why
TOLD_FOR = timedelta(hours=1)  # the sweep comes back every five minutes as long as it is so


@dataclass(frozen=True, slots=True)
class Deletion:
    """What was asked of Azure: `token` of the operation ("" = there was nothing to ask for), and by instance id why
    the others were kept."""

    token: str
    kept: dict[str, str] = field(default_factory=dict)


def begin_deletion(compute: Compute, pool: Pool, fresh: Sequence[Instance], *, force: bool = False) -> Deletion:
    """Ask Azure to delete these VMs, read just now, in one request where the pool's kind allows.

    `force`: Azure does not wait for the guest to shut down. Only for VMs whose volumes are detached already, or whose
    guest is dead: a disk that is written to while its VM is torn down may lose what was in flight.
    """
    kept = {each.instance_id: why for each in fresh if (why := why_kept(each))}
    for instance_id, why in kept.items():
        tell("vm kept", pool=pool.name, instance=instance_id, why=why)
    doomed = [each.instance_id for each in fresh if each.instance_id not in kept]
    return Deletion(compute.begin_delete(pool, doomed, force=force) if doomed else "", kept)


def why_kept(instance: Instance) -> str:
    """What forbids to delete the VM whatever speaks for it, or ""."""
    if not instance.undeletable_disks:
        return ""
    disk = instance.undeletable_disks[0].rsplit("/", 1)[-1]
    return f"data disk {disk} would be deleted with the VM: set its deleteOption to Detach"


def report_kept(world: World, order: Json, kept: Mapping[str, str]) -> None:
    """Tell people, where `status` finds it, of VMs that should be gone and have no node that could tell."""
    for instance, why in kept.items():
        document = {"instance": instance, "pool": order["pool"], "op": order["op"], "at": order["now"], "kept": why}
        world.put_document(order["cluster"], f"{KEPT_VMS}{order['pool']}-{instance}.json", document)


def kept_vms(world: World, cluster: str, now: datetime) -> list[Json]:
    """What was reported of late."""
    names = world.store.list(plan_container(cluster), KEPT_VMS)
    found = [world.document_or(cluster, name, {}) for name in names]
    return [each for each in found if each and now - moment(each["at"]) < TOLD_FOR]


def refuse_doomed_disks(instance: Instance | None) -> None:
    """Raises Busy for a VM that must not be deleted."""
    if instance is not None and (why := why_kept(instance)):
        raise Busy(DISKS, why)
