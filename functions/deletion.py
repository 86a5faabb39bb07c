"""The one way to a VM's end: every deletion, of whatever path, passes here (tests/drain_rules holds all others to it).

A persistent volume's disk is never deleted. Azure deletes a data disk together with its VM when the disk's deleteOption
says so, and a disk that a CSI driver attached later is somebody's data: such a VM is not deleted at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from functions.outcomes import Busy, tell
from shared.adapters.protocols import Compute, Instance
from shared.model import Pool

DISKS = "disks"


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


def refuse_doomed_disks(instance: Instance | None) -> None:
    """Raises Busy for a VM that must not be deleted."""
    if instance is not None and (why := why_kept(instance)):
        raise Busy(DISKS, why)
