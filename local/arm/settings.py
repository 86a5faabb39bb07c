"""What a test or a simulation may set: durations, and the behaviours that nobody has documented."""

from __future__ import annotations

from dataclasses import dataclass, fields

from local.randomness import stream

Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class ArmLatencies:
    """Durations in seconds, drawn evenly from each range. The defaults are the usual orders of magnitude, not measured:
    a VM runs within a minute, an allocation failure shows within some ten seconds, a deletion takes up to a minute.

    `retry_after` is what ARM asks pollers to keep (0 = the header is left out); `reconcile` is what AKS takes over and
    above its machines, for whatever is written to an agent pool.
    """

    create: Range = (20.0, 60.0)
    delete: Range = (10.0, 40.0)
    failure: Range = (5.0, 20.0)
    eviction: Range = (1.0, 5.0)
    retry_after: int = 10
    reconcile: Range = (5.0, 15.0)

    @classmethod
    def instant(cls) -> ArmLatencies:
        """For tests of everything but durations."""
        return cls((1.0, 1.0), (1.0, 1.0), (1.0, 1.0), (1.0, 1.0), 0, (1.0, 1.0))

    @classmethod
    def brisk(cls) -> ArmLatencies:
        """For runs on the wall clock that people watch."""
        return cls((1.0, 2.5), (0.5, 1.0), (0.5, 1.0), (0.2, 0.5), 1, (0.2, 0.5))


@dataclass(frozen=True, slots=True)
class Quirks:
    """Behaviours that are assumed, not documented; a seed draws each of them either way (see docs/stand-ins.md)."""

    failed_growth_keeps_capacity: bool = True
    failed_growth_leaves_failed_instances: bool = False
    partial_allocation: bool = False
    unknown_instance_ids_refused: bool = True
    overlapping_growth_preempts: bool = True
    capacity_drops_when_gone: bool = False
    flexible_deletion_lowers_capacity: bool = True
    os_disk_inherits_tags: bool = True
    aks_one_operation_per_cluster: bool = False
    aks_failed_scale_keeps_count: bool = True
    aks_eviction_lowers_count: bool = False
    aks_unknown_machine_refused: bool = False
    aks_wraps_codes: bool = True

    @classmethod
    def drawn(cls, seed: int) -> Quirks:
        """Each behaviour by a coin of its own."""
        return cls(**{field.name: stream(seed, "arm", "quirk", field.name).random() < 0.5 for field in fields(cls)})
