"""What goes wrong by chance between a VM that runs and a node that pods can use."""

from __future__ import annotations

from dataclasses import dataclass

from local.chances import Chances, Span
from local.timeline import Timeline

SURPRISE_TAINT = "example.com/not-yet"
FINALIZER = "example.com/wait"


@dataclass(frozen=True, slots=True)
class NodeTrouble:
    """Rates from 0 to 1, for each machine that runs; spans in seconds.

    `never`: its node never joins. `late`: it joins `late_by` later. `without_gpus`: its GPUs never appear.
    `gpus_after_restart`: they appear after `restart_after`, when the node has restarted. `shrunken`: it offers a share
    less than its pool promises. `tainted`: with a taint that nobody announced. `flapping`: once to three times it falls
    silent for `flap_for`. `recreated`: its Node object is deleted and made anew by its kubelet, `recreate_after`
    joining. `finalized`: its Node object has a finalizer, lifted `finalize_for` after its deletion was asked for.
    `mistaken`: the pool whose nodes all have that taint: its pools file is wrong.
    """

    never: float = 0.0
    late: float = 0.0
    without_gpus: float = 0.0
    gpus_after_restart: float = 0.0
    shrunken: float = 0.0
    tainted: float = 0.0
    flapping: float = 0.0
    recreated: float = 0.0
    finalized: float = 0.0
    mistaken: str = ""
    late_by: Span = (120.0, 1500.0)
    restart_after: Span = (700.0, 740.0)
    shrink_by: Span = (0.03, 0.5)
    flap_after: Span = (30.0, 900.0)
    flap_for: Span = (10.0, 120.0)
    recreate_after: Span = (30.0, 900.0)
    finalize_for: Span = (30.0, 900.0)


@dataclass(frozen=True, slots=True)
class Fate:
    """What will happen to one machine; seconds. `gpus_in` None: as everybody's; infinite: never."""

    never: bool = False
    late: float = 0.0
    gpus_in: float | None = None
    share: float = 1.0
    tainted: bool = False
    flaps: tuple[tuple[float, float], ...] = ()
    recreated_in: float | None = None
    finalized_for: float = 0.0


class NodeMisfortune:
    """Draws fates."""

    def __init__(self, timeline: Timeline, seed: int, rates: NodeTrouble | None) -> None:
        self.rates = rates or NodeTrouble()
        self.chances = Chances(timeline, seed, "machines", "trouble")

    def fate(self, machine: str, pool: str, *, gpus: bool) -> Fate:
        """Of a machine that has just begun to run."""
        rates, strikes = self.rates, self.chances.strikes
        if strikes("never", rates.never, machine):
            return Fate(never=True)
        return Fate(
            late=self._when("late", rates.late, rates.late_by, machine) or 0.0,
            gpus_in=self._gpus(machine) if gpus else None,
            share=1.0 - (self._when("shrunken", rates.shrunken, rates.shrink_by, machine) or 0.0),
            tainted=strikes("tainted", rates.tainted, machine) or pool == rates.mistaken,
            flaps=self._flaps(machine),
            recreated_in=self._when("recreated", rates.recreated, rates.recreate_after, machine),
            finalized_for=self._when("finalized", rates.finalized, rates.finalize_for, machine) or 0.0,
        )

    def _gpus(self, machine: str) -> float | None:
        if self.chances.strikes("without_gpus", self.rates.without_gpus, machine):
            return float("inf")
        return self._when("gpus_after_restart", self.rates.gpus_after_restart, self.rates.restart_after, machine)

    def _flaps(self, machine: str) -> tuple[tuple[float, float], ...]:
        if not self.chances.strikes("flapping", self.rates.flapping, machine):
            return ()
        between = self.chances.between
        times = self.chances.one_of("flapping", (1, 2, 3))
        return tuple(
            (between("flapping", self.rates.flap_after), between("flapping", self.rates.flap_for)) for _ in range(times)
        )

    def _when(self, kind: str, rate: float, span: Span, machine: str) -> float | None:
        return self.chances.between(kind, span) if self.chances.strikes(kind, rate, machine) else None
