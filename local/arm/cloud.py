"""The stand-in's insides as one object, so that each kind of resource can be a module of its own."""

from __future__ import annotations

from dataclasses import dataclass

from local.arm.errors import ArmError
from local.arm.faults import Fault, Faults, Stage, Throttle
from local.arm.operations import Operation, Operations
from local.arm.quota import Quota
from local.arm.settings import ArmLatencies, Quirks, Range
from local.arm.skus import Skus
from local.arm.state import Estate, Vm
from local.arm.trouble import GROWTHS, ArmChances, ArmTrouble
from local.arm.truth import Truth, Write
from local.chances import Chances
from local.randomness import stream
from local.timeline import Action, Timeline
from shared.names import POOL_TAG


@dataclass(frozen=True, slots=True)
class Stock:
    """How many more VMs of one size a place can hold; empty fields match everything."""

    sku: str
    zone: str
    spot: bool | None

    def matches(self, sku: str, zone: str, *, spot: bool) -> bool:
        """Whether a VM of that kind comes out of this stock."""
        return (
            self.sku.lower() in {"", sku.lower()}
            and self.zone in {"", zone}
            and (self.spot is None or self.spot == spot)
        )


class Cloud:
    """State, time, chance and settings that all resource modules share."""

    def __init__(
        self,
        timeline: Timeline,
        seed: int,
        latencies: ArmLatencies,
        quirks: Quirks,
        trouble: ArmTrouble | None = None,
    ) -> None:
        self.timeline, self.seed, self.latencies, self.quirks = timeline, seed, latencies, quirks
        self.estate = Estate()
        self.skus = Skus()
        self.quota = Quota(self.estate, self.skus)
        self.ids = stream(seed, "arm", "ids")
        self.chances = ArmChances(Chances(timeline, seed, "arm", "trouble"), trouble)
        self.faults = Faults(stream(seed, "arm", "faults"), self.chances.fault, self._struck)
        ids = stream(seed, "arm", "operations")
        self.operations = Operations(timeline, ids, latencies.retry_after, self.later, self._failed)
        self.truth = Truth(timeline, self.estate)
        self.throttle: Throttle | None = None
        self.stocks: dict[Stock, int] = {}
        self.page_size = 100
        self._durations = stream(seed, "arm", "durations")
        self._places = stream(seed, "arm", "places")

    def _failed(self, operation: Operation) -> None:
        if operation.name in GROWTHS:
            self.truth.add_refusal(operation.code, operation.resource)

    def _struck(self, operation: str, resource: str, stage: Stage) -> None:
        self.chances.chances.note(f"ordered {operation} {stage}", resource)

    def duration(self, span: Range) -> float:
        """Seconds, drawn."""
        return self._durations.uniform(*span)

    def place(self, zones: list[str]) -> str:
        """The zone that Azure chooses among a scale set's; "" for a regional one."""
        return self._places.choice(zones) if zones else ""

    def slowness(self, operation: str, resource: str) -> float:
        """Extra seconds on order."""
        fault = self.faults.take(operation, resource, "slow")
        return fault.seconds if fault else 0.0

    def later(self, seconds: float, action: Action, *, hang: float = 0.0) -> None:
        """Do it in `seconds`; with `hang`, so much later still or soon after the end of all trouble."""
        if hang > 0:
            self.chances.chances.hold(seconds + hang, action)
        else:
            self.timeline.call_later(seconds, action)

    def refuse(self, operation: str, resource: str) -> None:
        """Raises what was ordered for this request."""
        fault = self.faults.take(operation, resource, "sync")
        if fault is not None:
            raise fault.error()

    def shortage(self, sku: str, zones: list[str], *, spot: bool, count: int) -> tuple[int, Fault | None]:
        """(how many of `count` can be had, the failure for the rest); takes them out of stock."""
        matching = [
            stock for stock in self.stocks if any(stock.matches(sku, zone, spot=spot) for zone in zones or [""])
        ]
        room = min((self.stocks[stock] for stock in matching), default=count)
        fits = count if room >= count else max(0, room) if self.quirks.partial_allocation else 0
        for stock in matching:
            self.stocks[stock] -= fits
        if fits == count:
            return count, None
        code = "ZonalAllocationFailed" if len(zones) == 1 else "AllocationFailed"
        return fits, Fault("stock", code=code)

    def named(self, fault: Fault, *, spot: bool, zones: list[str]) -> Fault:
        """A shortage by chance gets its code by what was asked for."""
        fault.code = fault.code or self.chances.shortage_code(spot=spot, zones=len(zones))
        return fault

    def check_offer(self, resource: str, sku: str) -> None:
        """Raises ArmError 409 SkuNotAvailable when the size is just then not to be had, by chance."""
        if self.chances.sold_out(resource):
            message = f"The requested size for resource '{resource}' is currently not available: {sku}."
            raise ArmError(409, "SkuNotAvailable", message)

    def restock(self, vm: Vm) -> None:
        """A VM that goes makes room for another."""
        for stock in self.stocks:
            if stock.matches(vm.sku, vm.zone, spot=vm.spot):
                self.stocks[stock] += 1

    def record(  # noqa: PLR0913 - the facts of a write, by keyword
        self,
        operation: str,
        resource: str,
        *,
        target: int,
        count: int,
        tags: dict[str, str],
        quota_left: dict[str, int] | None = None,
        living: int = 0,
        named: tuple[str, ...] = (),
        unseen: bool = False,
        vacant: int = 0,
    ) -> None:
        """Remember an accepted write."""
        maximums = self.truth.maximums
        maximum = maximums.get(resource.lower(), maximums.get(f"tag:{tags.get(POOL_TAG, '')}"))
        now, left = self.timeline.now(), quota_left or {}
        known = (now, operation, resource, target, count, maximum, dict(tags), left)
        self.truth.add_write(Write(*known, living=living, named=named, unseen=unseen, vacant=vacant))
