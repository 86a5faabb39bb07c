"""The front door: takes a request to the module of its resource, through throttle and faults, and counts it."""

from __future__ import annotations

from local.arm import pools
from local.arm.agent_pools import AgentPools
from local.arm.cloud import Cloud, Stock
from local.arm.documents import Documents
from local.arm.errors import ArmError, invalid
from local.arm.faults import Faults, Throttle
from local.arm.machines import Machine, Machines, machine_of
from local.arm.routing import Call, Route, Target, paged, parse_path
from local.arm.scale_sets import ScaleSets
from local.arm.settings import ArmLatencies, Quirks
from local.arm.state import Attached, Disk, Vm
from local.arm.things import Addresses, Disks, NetworkInterfaces
from local.arm.trouble import GROWTHS, ArmTrouble
from local.arm.truth import Truth
from local.arm.virtual_machines import VirtualMachines
from local.azure_transport import CONNECTION_LOST
from local.timeline import Timeline
from local.web import REFUSED, Request, Response
from shared.model import Config

PUBLIC_CLOUD = "https://management.azure.com"
_COMPUTE = "microsoft.compute"
_SETS = f"{_COMPUTE}/virtualmachinescalesets"
_VMS = f"{_COMPUTE}/virtualmachines"
_NICS = "microsoft.network/networkinterfaces"
_IPS = "microsoft.network/publicipaddresses"
_DISKS = f"{_COMPUTE}/disks"
_AKS = "microsoft.containerservice"
_AGENTS = f"{_AKS}/managedclusters/*/agentpools"


class ArmStandIn:
    """Azure Resource Manager for compute, as far as Sluice uses it; see docs/stand-ins.md.

    `truth` is for checkers, `machines` for whoever boots nodes, `faults` and `throttle` for whoever wants trouble;
    `documents` are shown as they are.
    """

    def __init__(
        self,
        timeline: Timeline,
        *,
        seed: int = 0,
        latencies: ArmLatencies | None = None,
        quirks: Quirks | None = None,
        trouble: ArmTrouble | None = None,
        base_url: str = PUBLIC_CLOUD,
    ) -> None:
        drawn = quirks or Quirks.drawn(seed)
        self.cloud = Cloud(timeline, seed, latencies or ArmLatencies(), drawn, trouble)
        self.machines = Machines(self.cloud)
        self._sets = ScaleSets(self.cloud, self.machines)
        self._agents = AgentPools(self.cloud, self._sets)
        self.documents = Documents()
        self._base_url = base_url
        self._routes = self._routing_table()

    @property
    def truth(self) -> Truth:
        """What really happened."""
        return self.cloud.truth

    @property
    def faults(self) -> Faults:
        """Failures on order."""
        return self.cloud.faults

    def handle(self, request: Request) -> Response:
        """See `local.web.Handler`."""
        try:
            return self._answer(request)
        except ArmError as refusal:
            return refusal.response()

    def add_pools(self, config: Config, *, flexible: frozenset[str] = frozenset()) -> None:
        """Make the scale sets of a configuration with their minimums running; `flexible` names pools of that mode."""
        known = {vm.id for vm in self.truth.vms}
        pools.add_pools(self.cloud, self._sets, self._agents, config, flexible=flexible)
        for vm in self.truth.vms:
            if vm.id not in known:
                self.machines.announce(vm)

    def set_stock(self, count: int, *, sku: str = "", zone: str = "", spot: bool | None = None) -> None:
        """How many more VMs of this kind Azure can deliver from now on; deletions make room again."""
        self.cloud.stocks[Stock(sku, zone, spot)] = count

    def set_throttle(self, *, reads: tuple[float, float], writes: tuple[float, float]) -> Throttle:
        """Answer 429 beyond (burst, per second), per subscription; returns the throttle with its count of refusals."""
        self.cloud.throttle = Throttle(self.cloud.timeline, reads=reads, writes=writes)
        return self.cloud.throttle

    def preempt(self, any_id: str, notice: float = 30.0) -> Machine | None:
        """Announce the eviction of a Spot VM (by resource id, provider id or computer name); None if there is none."""
        vm = self.cloud.estate.find_vm(any_id)
        if vm is None or not vm.spot or vm.deleting_at is not None:
            return None
        self.machines.preempt(vm, notice)
        return machine_of(vm)

    def occupy(self, agent_pool: str, seconds: float, state: str = "Upgrading") -> None:
        """Let AKS be busy with a pool of this name for so long. Raises ValueError when there is none."""
        pool = self._agents.find(agent_pool)
        if pool is None:
            raise ValueError(f"occupy: no agent pool {agent_pool!r}")
        self._agents.hold(pool, state, seconds)

    def attach_disk(self, any_id: str, disk_id: str, *, delete_option: str = "Detach") -> None:
        """Attach an existing disk, as a CSI driver does. Raises ValueError when either is missing."""
        vm, disk = self.cloud.estate.find_vm(any_id), self._disk(disk_id)
        if vm is None or disk is None:
            raise ValueError(f"attach: no VM {any_id!r} or no disk {disk_id!r}")
        self._detach(disk)
        disk.held_by = vm.id
        vm.data_disks.append(Attached(len(vm.data_disks), disk, "Attach", delete_option))
        vm.rendered = None

    def detach_disk(self, disk_id: str) -> None:
        """Take a disk off the VM that holds it, as a CSI driver does; harmless when none does."""
        if (disk := self._disk(disk_id)) is not None:
            self._detach(disk)
            disk.held_by = ""

    def _detach(self, disk: Disk) -> None:
        holder: Vm | None = self.cloud.estate.find_vm(disk.held_by) if disk.held_by else None
        if holder is not None:
            holder.data_disks = [attached for attached in holder.data_disks if attached.disk is not disk]
            holder.rendered = None

    def _disk(self, disk_id: str) -> Disk | None:
        wanted = disk_id.lower()
        return next((disk for disk in self.truth.disks if disk.id.lower() == wanted and not disk.deleted_at), None)

    def _answer(self, request: Request) -> Response:
        target = parse_path(request.path)
        if "api-version" not in request.query:
            raise ArmError(
                400,
                "MissingApiVersionParameter",
                "The api-version query parameter (?api-version=) is required for all requests.",
            )
        route = self._routes.get(f"{request.method} {target.pattern}")
        route = route or self.documents.route(request.method, request.path)
        if route is None:
            raise ArmError(404, "InvalidResourceType", f"{request.method} {target.pattern} has no stand-in.")
        truth = self.cloud.truth
        truth.requests[route.name] += 1
        truth.methods[request.method] += 1
        if self.cloud.throttle is not None:
            self.cloud.throttle.check(target.subscription, request.method)
        resource = _resource(target)
        if self.cloud.faults.take(route.name, resource, "unreached") is not None:
            return Response(503, {CONNECTION_LOST: REFUSED})
        host = request.headers.get("host")
        call = Call(request, target, f"http://{host}" if host else self._base_url)
        try:
            self.cloud.refuse(route.name, resource)
            response = route.handle(call)
        except ArmError as refusal:
            if route.name in GROWTHS:
                truth.add_refusal(refusal.code, resource)
            raise
        if self.cloud.faults.take(route.name, resource, "lost") is not None:
            return Response(502, {CONNECTION_LOST: "lost"})
        return response

    def _usages(self, call: Call) -> Response:
        return paged(call, self.cloud.quota.listed(call.target.subscription, call.name), self.cloud.page_size)

    def _skus(self, call: Call) -> Response:
        location = call.request.query.get("$filter", "").rsplit(" eq ", 1)[-1].strip("'")
        if not location:
            raise invalid("This stand-in lists sizes by $filter=location eq '...' only.", "InvalidFilter")
        return paged(call, self.cloud.skus.listed(location), 1000)

    def _routing_table(self) -> dict[str, Route]:
        agents, sets, vms = self._agents, self._sets, VirtualMachines(self.cloud, self.machines)
        addresses = Addresses(self.cloud)
        nics, disks, operations = NetworkInterfaces(self.cloud), Disks(self.cloud), self.cloud.operations
        children = f"{_SETS}/*/virtualmachines"
        return {
            f"GET {_SETS}": Route("scale_set.list", sets.list_all),
            f"GET {_SETS}/*": Route("scale_set.get", sets.get),
            f"PUT {_SETS}/*": Route("scale_set.put", sets.put),
            f"PATCH {_SETS}/*": Route("scale_set.update", sets.update),
            f"DELETE {_SETS}/*": Route("scale_set.delete", sets.delete),
            f"POST {_SETS}/*/delete": Route("scale_set.delete_instances", sets.delete_instances),
            f"GET {children}": Route("scale_set.vms.list", sets.instances),
            f"GET {children}/*": Route("scale_set.vms.get", sets.instance),
            f"GET {children}/*/instanceview": Route("scale_set.vms.instance_view", sets.instance_view),
            f"DELETE {children}/*": Route("scale_set.vms.delete", sets.delete_instance),
            f"POST {children}/*/simulateeviction": Route("scale_set.vms.evict", sets.simulate_eviction),
            f"GET {_AKS}/managedclusters/*": Route("managed_cluster.get", agents.cluster),
            f"GET {_AGENTS}": Route("agent_pool.list", agents.list_all),
            f"GET {_AGENTS}/*": Route("agent_pool.get", agents.get),
            f"PUT {_AGENTS}/*": Route("agent_pool.update", agents.put),
            f"POST {_AGENTS}/*/deletemachines": Route("agent_pool.delete_machines", agents.delete_machines),
            f"GET {_AGENTS}/*/machines": Route("agent_pool.machines.list", agents.machines),
            f"GET {_AGENTS}/*/machines/*": Route("agent_pool.machines.get", agents.machine),
            f"GET {_VMS}": Route("vm.list", vms.list_all),
            f"GET {_VMS}/*": Route("vm.get", vms.get),
            f"GET {_VMS}/*/instanceview": Route("vm.instance_view", vms.instance_view),
            f"PUT {_VMS}/*": Route("vm.create", vms.put),
            f"PATCH {_VMS}/*": Route("vm.update", vms.patch),
            f"DELETE {_VMS}/*": Route("vm.delete", vms.delete),
            f"POST {_VMS}/*/simulateeviction": Route("vm.evict", vms.simulate_eviction),
            f"GET {_NICS}": Route("nic.list", nics.list_all),
            f"GET {_NICS}/*": Route("nic.get", nics.get),
            f"PUT {_NICS}/*": Route("nic.create", nics.put),
            f"DELETE {_NICS}/*": Route("nic.delete", nics.delete),
            f"GET {_IPS}": Route("ip.list", addresses.list_all),
            f"PUT {_IPS}/*": Route("ip.create", addresses.put),
            f"DELETE {_IPS}/*": Route("ip.delete", addresses.delete),
            f"GET {_DISKS}": Route("disk.list", disks.list_all),
            f"GET {_DISKS}/*": Route("disk.get", disks.get),
            f"PUT {_DISKS}/*": Route("disk.create", disks.put),
            f"DELETE {_DISKS}/*": Route("disk.delete", disks.delete),
            f"GET {_COMPUTE}/skus": Route("skus", self._skus),
            f"GET {_COMPUTE}/locations/*/usages": Route("usages", self._usages),
            **{
                f"GET {provider}/locations/*/operations/*": Route(
                    "operation.get", lambda call: operations.status(call.target.names[1])
                )
                for provider in (_COMPUTE, _AKS)
            },
            **{
                f"GET {provider}/locations/*/operationresults/*": Route(
                    "operation.result", lambda call: operations.result(call.target.names[1])
                )
                for provider in (_COMPUTE, _AKS)
            },
        }


def _resource(target: Target) -> str:
    """The name that faults go by: the scale set's or agent pool's also for what lies within it."""
    if target.pattern.startswith(_AGENTS) and len(target.names) > 1:
        return target.names[1]
    if target.pattern.startswith(_SETS) and target.names:
        return target.names[0]
    return target.names[-1] if target.names else ""
