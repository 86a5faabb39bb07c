"""What goes wrong with Azure by chance, at rates that a simulation sets; failures on order are `local.arm.faults`.

Codes are those of Microsoft's "Troubleshoot Azure VM allocation failures" and "Azure Resource Manager common errors",
as far as Karpenter's Azure provider and cluster-autoscaler tell them apart. Which code a shortage has depends on what
was asked for; whatever is not documented is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

from local.arm.faults import Fault, Stage
from local.chances import Chances, Span

GROWTHS = frozenset({"agent_pool.update", "scale_set.update", "vm.create"})
DELETIONS = frozenset({"agent_pool.delete_machines", "scale_set.delete_instances", "vm.delete", "scale_set.vms.delete"})
_READS = (".get", ".list", ".instance_view", "skus", "usages", ".result")
_SERVER_CODES = ("InternalServerError", "ServiceUnavailable", "BadGateway", "GatewayTimeout")
_CONFLICT_CODES = ("Conflict", "ConcurrentOperation", "OperationNotAllowed")
_PROVISIONING_CODES = ("OSProvisioningTimedOut", "NetworkingInternalOperationError", "InternalExecutionError")


@dataclass(frozen=True, slots=True)
class ArmTrouble:
    """Rates from 0 to 1, spans in seconds.

    For each request: `throttled` (429 with `retry_after`), `failing` (5xx), `unreached` (the connection breaks before
    it arrives), `lost` (it is carried out, the answer is lost). For each write: `conflict` (409), `denied` (403
    LinkedAuthorizationFailed; growths only), `touched` (somebody writes a tag first, so that If-Match answers 412),
    `occupied` (AKS has just begun something of its own with the agent pool, for `occupied_for`).

    For each growth: `refused` (SkuNotAvailable, at once), `shortage` (an allocation code, later), in half of which part
    comes all the same; `preempted` (OperationPreempted, though all come), `late` (`late_by` more). For each VM:
    `provisioning` (it exists, Failed), `boot` (it runs, but its machine never boots).

    For each deletion: `undeleted` (accepted, then failed: the VM stays), `slow` (`slow_by` more), `hanging`
    (`hang_for`, or until the trouble ends). For each VM that goes: `leftover_nic`, `leftover_disk`.
    """

    throttled: float = 0.0
    failing: float = 0.0
    unreached: float = 0.0
    lost: float = 0.0
    conflict: float = 0.0
    denied: float = 0.0
    touched: float = 0.0
    occupied: float = 0.0
    refused: float = 0.0
    shortage: float = 0.0
    preempted: float = 0.0
    late: float = 0.0
    provisioning: float = 0.0
    boot: float = 0.0
    undeleted: float = 0.0
    slow: float = 0.0
    hanging: float = 0.0
    leftover_nic: float = 0.0
    leftover_disk: float = 0.0
    retry_after: Span = (1.0, 30.0)
    late_by: Span = (60.0, 600.0)
    slow_by: Span = (60.0, 600.0)
    hang_for: Span = (1800.0, 5400.0)
    occupied_for: Span = (30.0, 900.0)


class ArmChances:
    """`ArmTrouble` as failures of one moment: what `Faults.take` answers when nothing was ordered."""

    def __init__(self, chances: Chances, rates: ArmTrouble | None = None) -> None:
        self.chances, self.rates = chances, rates or ArmTrouble()

    def fault(self, operation: str, resource: str, stage: Stage) -> Fault | None:
        """What happens at this stage of this operation, if anything."""
        if self.chances.ended:
            return None
        match stage:
            case "unreached":
                return self._drawn("unreached", self.rates.unreached, "", resource)
            case "lost":
                return self._drawn("lost", self.rates.lost, "", resource)
            case "sync":
                return self._refusal(operation, resource)
            case "async":
                return self._failure(operation, resource)
            case "slow":
                return self._delay(operation, resource)

    def touched(self, resource: str) -> bool:
        """Whether somebody else writes just before this write."""
        return self.chances.strikes("touched", self.rates.touched, resource)

    def occupied(self, resource: str) -> float:
        """For how long AKS is busy with something of its own, in seconds; 0 as a rule."""
        if not self.chances.strikes("occupied", self.rates.occupied, resource):
            return 0.0
        return self.chances.between("occupied", self.rates.occupied_for)

    def _refusal(self, operation: str, resource: str) -> Fault | None:
        rates = self.rates
        if fault := self._drawn("throttled", rates.throttled, "TooManyRequests", resource):
            fault.retry_after = self.chances.between("throttled", rates.retry_after)
            return fault
        if fault := self._drawn("failing", rates.failing, "", resource):
            fault.code = self.chances.one_of("failing", _SERVER_CODES)
            return fault
        if operation.endswith(_READS):
            return None
        if fault := self._drawn("conflict", rates.conflict, "", resource):
            fault.code = self.chances.one_of("conflict", _CONFLICT_CODES)
            return fault
        if operation not in GROWTHS:
            return None
        return self._drawn("denied", rates.denied, "LinkedAuthorizationFailed", resource)

    def _failure(self, operation: str, resource: str) -> Fault | None:
        rates = self.rates
        if operation in GROWTHS:
            return self._growth(operation, resource)
        if operation in DELETIONS:
            return self._drawn("undeleted", rates.undeleted, "InternalExecutionError", resource)
        named = {
            "machine.boot": ("boot", rates.boot),
            "nic.cleanup": ("leftover_nic", rates.leftover_nic),
            "disk.cleanup": ("leftover_disk", rates.leftover_disk),
        }
        if operation == "machine.provision":
            fault = self._drawn("provisioning", rates.provisioning, "", resource)
            if fault is not None:
                fault.code = self.chances.one_of("provisioning", _PROVISIONING_CODES)
            return fault
        kind = named.get(operation)
        return self._drawn(kind[0], kind[1], "", resource) if kind else None

    def _growth(self, operation: str, resource: str) -> Fault | None:
        """A fault without a code is a shortage: whoever knows what was asked for names it. `share` comes all the
        same."""
        if operation == "scale_set.update":
            fault = self._drawn("preempted", self.rates.preempted, "OperationPreempted", resource)
            if fault is not None:
                fault.share = 1.0
                return fault
        fault = self._drawn("shortage", self.rates.shortage, "", resource)
        if fault is not None and operation != "vm.create" and self.chances.strikes("partial", 0.5, resource):
            fault.share = self.chances.between("partial", (0.0, 1.0))
        return fault

    def _delay(self, operation: str, resource: str) -> Fault | None:
        rates, chances = self.rates, self.chances
        if operation in GROWTHS:
            fault, span = self._drawn("late", rates.late, "", resource), rates.late_by
        else:
            fault, span = self._drawn("slow", rates.slow, "", resource), rates.slow_by
        if fault is not None:
            fault.seconds = chances.between("slow", span)
        return fault

    def hanging(self, resource: str) -> float:
        """For how long a deletion hangs beyond its time, in seconds; 0 as a rule."""
        if not self.chances.strikes("hanging", self.rates.hanging, resource):
            return 0.0
        return self.chances.between("hanging", self.rates.hang_for)

    def sold_out(self, resource: str) -> bool:
        """Whether a growth is refused at once for want of the size."""
        return self.chances.strikes("refused", self.rates.refused, resource)

    def shortage_code(self, *, spot: bool, zones: int) -> str:
        """The code that a shortage has: by place and priority, and where several are seen, by chance."""
        codes = ["AllocationFailed", "SkuNotAvailable"] if spot else ["AllocationFailed"]
        if zones == 1:
            codes = ["ZonalAllocationFailed", "OverconstrainedZonalAllocationRequest"]
        elif zones > 1:
            codes.append("OverconstrainedAllocationRequest")
        return self.chances.one_of("code", codes)

    def _drawn(self, kind: str, rate: float, code: str, resource: str) -> Fault | None:
        return Fault(kind, resource, code=code) if self.chances.strikes(kind, rate, resource) else None
