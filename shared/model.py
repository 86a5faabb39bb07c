"""The vocabulary of the core: frozen values that travel between projection, planning and the functions.

Units, everywhere below: cpu in millicores, memory, ephemeral-storage and hugepages in bytes, extended resources and
`pods` in whole units; prices per hour in the currency of the pools file; times are timezone-aware UTC.
A tuple of pairs stands where a mapping would be, wherever the value must be hashable (an equivalence class is a key).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter

Resources = Mapping[str, int]
Pairs = tuple[tuple[str, str], ...]

MOST_AT_ONCE = 100
"""Nodes asked for in one request: what a placement group takes, and few enough to name in the ledger."""

TOTAL_CORES, SPOT_CORES = "cores", "lowPriorityCores"
"""Core quotas of a region, as compute's list of usages names them."""


class Mode(StrEnum):
    """How far Sluice may go; the first rollout observes."""

    ACT = "act"
    GROW_ONLY = "grow-only"
    OBSERVE = "observe"
    PAUSED = "paused"


MOST_OF_AN_AGENT_POOL = 1000
"""Nodes, by AKS's REST reference (agent pool, `properties.count`)."""


class PoolKind(StrEnum):
    """What carries a pool's nodes in Azure."""

    VMSS = "vmss"
    VM = "vm"
    AKS = "aks"


class Priority(StrEnum):
    """Azure's own words for what may be evicted and what may not."""

    SPOT = "Spot"
    REGULAR = "Regular"


class PlacementGroups(StrEnum):
    """How a scale set spreads its VMs over placement groups, which bounds how many it takes."""

    SINGLE = "single"
    MANY = "many"
    MANY_CUSTOM_IMAGE = "many-custom-image"

    @property
    def most(self) -> int:
        """VMs, at most. Source: Microsoft Learn, "Working with large virtual machine scale sets"."""
        return {"single": 100, "many": 1000, "many-custom-image": 600}[self.value]


@dataclass(frozen=True, slots=True)
class Taint:
    """A node taint; `effect` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod toleration; empty `key` with operator Exists tolerates all, empty `effect` matches every effect."""

    key: str
    operator: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Requirement:
    """One match expression: `operator` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """Requirements that must all hold; the terms of a node affinity are alternatives."""

    match_expressions: tuple[Requirement, ...]
    match_fields: tuple[Requirement, ...]


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port taken on the node's own address; an empty ip is 0.0.0.0."""

    ip: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Which pods a rule speaks of: those of these namespaces (None: of all) whose labels meet every requirement."""

    namespaces: tuple[str, ...] | None
    requirements: tuple[Requirement, ...]


@dataclass(frozen=True, slots=True)
class PodTerm:
    """A required term of pod affinity or anti-affinity: near, or apart from, such pods by this label of the nodes."""

    selector: PodSelector
    topology_key: str


@dataclass(frozen=True, slots=True)
class Spread:
    """A DoNotSchedule constraint: no value of the label may have more than `max_skew` such pods above the poorest one.

    With fewer values than `min_domains` the poorest counts as empty. The last two say which nodes' values count: those
    that the pod's node affinity allows, and those whose taints it tolerates.
    """

    selector: PodSelector
    topology_key: str
    max_skew: int
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False


@dataclass(frozen=True, slots=True)
class Preferences:
    """What a pod would rather have, where it costs nothing: weights as in the API, 1 to 100.

    `nodes`: terms of preferred node affinity. The others are topology keys by which the pod wants its own kind (whom
    its selector, selecting itself, means) nearby, apart, or spread: preferred terms and ScheduleAnyway constraints.
    """

    nodes: tuple[tuple[int, NodeSelectorTerm], ...] = ()
    near: tuple[tuple[int, str], ...] = ()
    apart: tuple[tuple[int, str], ...] = ()
    spread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VolumePlace:
    """Where one of a pod's volumes can be used: on nodes that one of the terms matches, or, without terms, on none.

    `reason` begins with the name of the scheduler's plugin that refuses other nodes. Without terms it says all; with
    terms it says what needs them.
    """

    reason: str
    terms: tuple[NodeSelectorTerm, ...] = ()


@dataclass(frozen=True, slots=True)
class PodShape:
    """Everything the scheduler looks at: two pods of equal shape are interchangeable, so the shape is the class key.

    `requests` are effective (init containers, sidecars and overhead are in), sorted by name, zeros left out; the pod
    itself counts as one of `pods` and is not listed. `affinity` is None without required node affinity; an empty tuple
    matches no node. `not_modelled` names the scheduling rules that this pod uses and the core does not model.

    `near`, `apart` and `spread` are the pod's own rules about other pods. `namespace` and `labels` are what rules of
    any pod read of this one: an empty namespace means that no rule in play selects it, and labels that no such rule
    names are left out. `leaving` pods are being deleted, which a spread no longer counts.

    `volumes` must all hold; they are no part of `affinity`, since a spread asks only for what the pod itself demands.

    `gang` is the `Gang.name` of the pod's gang, with `#role` behind it where it has a role; "" for most pods.
    `preferred` never rules a node out.

    `demands` stands for all fields but `requests`, as one object: nearly always the same for equal values, so that
    thousands of pods are grouped by comparing pointers. Not the same proves nothing.
    """

    requests: tuple[tuple[str, int], ...]
    node_selector: Pairs = ()
    affinity: tuple[NodeSelectorTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    priority: int = 0
    not_modelled: tuple[str, ...] = ()
    namespace: str = ""
    labels: Pairs = ()
    near: tuple[PodTerm, ...] = ()
    apart: tuple[PodTerm, ...] = ()
    spread: tuple[Spread, ...] = ()
    leaving: bool = False
    gang: str = ""
    preferred: Preferences | None = None
    volumes: tuple[VolumePlace, ...] = ()
    demands: object = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "demands", _interned(_all_but_requests(self)))


@lru_cache(maxsize=16384)
def _interned(_: tuple[object, ...]) -> object:
    return object()


_all_but_requests = attrgetter(*(each.name for each in fields(PodShape) if each.init and each.name != "requests"))


@dataclass(frozen=True, slots=True)
class PodRef:
    """Which pod: the uid tells a pod from its successor of the same name."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class PodClass:
    """Pending pods of one shape; `nominated` names the node that they were told to go to, "" for none."""

    shape: PodShape
    pods: tuple[PodRef, ...]
    nominated: str = ""


class Movability(StrEnum):
    """What a drain does with a pod; the order of rules is in `shared.reading.drain`."""

    STAYS = "stays"  # DaemonSet and mirror pods: they go with the node and hold nothing back
    MOVES = "moves"  # evicted, and planned for elsewhere
    BLOCKS = "blocks"  # the node stays, `blocked_by` says why
    WAITS = "waits"  # runs to its end: the node takes no more pods meanwhile, and goes afterwards


@dataclass(frozen=True, slots=True)
class BoundPods:
    """Pods of one shape on one node, and what a drain would do with them; `blocked_by` is empty unless it BLOCKS, or
    WAITS and would otherwise block."""

    shape: PodShape
    pods: tuple[PodRef, ...]
    movability: Movability
    blocked_by: str = ""

    @property
    def comes_again(self) -> bool:
        """Whether these pods are made anew, and need another place, when Azure takes the node away."""
        return self.movability is Movability.MOVES or (self.movability is Movability.WAITS and not self.blocked_by)


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node as planning sees it.

    `requested` sums the effective requests of all pods on it, DaemonSet pods too, and holds `pods`.
    `idle_since`: since when utilisation (without DaemonSet and mirror pods) stood below the threshold; None = busy, or
    not known. `evicting_at`: when Azure takes the node away, if it said so. `pool` is empty for a node of no pool of
    ours. `leaving` is the part of `requested` that pods hold which are being deleted.
    """

    name: str
    uid: str
    provider_id: str
    pool: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: Resources
    requested: Resources
    host_ports: tuple[HostPort, ...]
    ready: bool
    unschedulable: bool
    created_at: datetime
    bound: tuple[BoundPods, ...] = ()
    idle_since: datetime | None = None
    evicting_at: datetime | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    leaving: Resources = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DaemonShape:
    """A DaemonSet's pod: it will sit on every new node that it fits, and takes its room there first."""

    name: str
    shape: PodShape


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods that start together or not at all: `minimum` of them, among them as many of each role as `roles` says.

    Members that ended well are taken off both already; bound ones are not, they count. A `minimum` of 0 asks for
    nothing. `problem` says why the gang cannot be planned for.
    """

    name: str
    minimum: int
    roles: tuple[tuple[str, int], ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the cluster looked like at `observed_at`; newer is decided by (epoch, sequence), never by time."""

    cluster: str
    epoch: int
    sequence: int
    observed_at: datetime
    pending: tuple[PodClass, ...]
    nodes: tuple[NodeView, ...]
    daemons: tuple[DaemonShape, ...] = ()
    gangs: tuple[Gang, ...] = ()


@dataclass(frozen=True, slots=True)
class AzureScope:
    """Where a pool lives in Azure; needed to act, not to plan."""

    subscription: str
    resource_group: str
    location: str
    aks_cluster: str = ""


class Drain(StrEnum):
    """What becomes of a pool's pods that end by themselves when a node of it is to go."""

    EVICT = "evict"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool of the pools file, defaults filled in; `price` None = unknown, used last."""

    name: str
    kind: PoolKind
    resource: str
    sku: str
    shape: Resources
    reserved: Resources
    priority: Priority
    price: float | None
    minimum: int
    maximum: int
    zones: tuple[str, ...]
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    fallback: tuple[str, ...]
    template: str
    mode: Mode
    azure: AzureScope | None
    cluster: str = ""  # whose pool it is: another cluster may have one of the same name in the same resource group
    quota_family: str = ""  # as compute's usages list names it; "" = not known, and not planned with
    vcpus: int = 0  # of one node, as quotas count them; 0 = as many as its shape has
    placement_groups: PlacementGroups | None = None
    headroom: int = 0  # nodes kept free of pods
    drain: Drain = Drain.EVICT
    ramp: int = MOST_AT_ONCE  # nodes asked for in one request, at most
    part_of: str = ""  # while a plan is made: the pool that this one is a zone of (`shared.planning.zonal`)

    @property
    def ceiling(self) -> int:
        """How many nodes it may have: its maximum, or what its placement groups or AKS take."""
        if self.kind is PoolKind.AKS:
            return min(self.maximum, MOST_OF_AN_AGENT_POOL)
        return self.maximum if self.placement_groups is None else min(self.maximum, self.placement_groups.most)

    @property
    def allocatable(self) -> dict[str, int]:
        """What pods may use on a fresh node: capacity less what the kubelet and the system keep."""
        return {name: max(0, amount - self.reserved.get(name, 0)) for name, amount in self.shape.items()}

    @property
    def cores(self) -> int:
        """vCPUs that a node counts for against quotas: as the file says, or as many as its shape has."""
        return self.vcpus or -(-self.shape.get("cpu", 0) // 1000)

    @property
    def quotas(self) -> tuple[str, ...]:
        """The core quotas that a node uses. Spot VMs count against `SPOT_CORES` alone, others against their family and
        the regional total (Microsoft Learn, "Check vCPU quotas")."""
        if self.priority is Priority.SPOT:
            return (SPOT_CORES,)
        return (self.quota_family, TOTAL_CORES) if self.quota_family else (TOTAL_CORES,)

    def counts_against(self, subscription: str, location: str, quota: str) -> bool:
        """Whether a node uses that quota of that subscription and region."""
        if self.azure is None or folded(quota) not in map(folded, self.quotas):
            return False
        return self.lies_in(subscription, location)

    def lies_in(self, subscription: str, location: str) -> bool:
        """Whether the pool is of that subscription and region; an empty name means any."""
        if self.azure is None:
            return not subscription and not location
        return folded(subscription) in {"", folded(self.azure.subscription)} and folded(location) in {
            "",
            folded(self.azure.location),
        }


def folded(name: str) -> str:
    """A name of Azure's without case and spaces: compute writes regions and some families in several ways."""
    return name.replace(" ", "").casefold()


@dataclass(frozen=True, slots=True)
class ScaleDown:
    """When and how nodes go; durations in seconds. Defaults and their reasons stand in `shared.settings.config`."""

    idle_after: float
    utilization_below: float
    drain_timeout: float
    max_parallel_fraction: float
    replace_saving: float = 0.0
    return_to_spot: bool = True
    completion_timeout: float = 86_400.0
    dead_after: float = 1200.0


@dataclass(frozen=True, slots=True)
class Timing:
    """The waits of growing and noticing, in seconds. Defaults and their reasons stand in `shared.settings.config`."""

    node_join_timeout: float
    debounce: float
    lead_lease: float
    resources_timeout: float = 1500.0
    gang_hold: float = 300.0


@dataclass(frozen=True, slots=True)
class Mix:
    """How many nodes of these pools may be Spot: none before `on_demand_floor` are on demand, and of all nodes at most
    `spot_max_share`. It rules what is bought and what may go, and buys nothing by itself."""

    pools: tuple[str, ...]
    on_demand_floor: int = 0
    spot_max_share: float = 1.0


@dataclass(frozen=True, slots=True)
class Headroom:
    """Room kept free on the nodes of these pools: `percent` of the cpu and memory that pods ask for there."""

    percent: float = 0.0
    pools: tuple[str, ...] = ()


PRIORITY_CUTOFF = -10
"""Pods of lower priority do not cause growth and hold no node; cluster-autoscaler's expendable pods cut-off."""


@dataclass(frozen=True, slots=True)
class Config:
    """A whole pools file, validated."""

    cluster: str
    mode: Mode
    pools: tuple[Pool, ...]
    scale_down: ScaleDown
    timing: Timing
    mixes: tuple[Mix, ...] = ()
    headroom: Headroom = Headroom()
    priority_cutoff: int = PRIORITY_CUTOFF

    def pool(self, name: str) -> Pool | None:
        """The pool of that name, or None."""
        return next((pool for pool in self.pools if pool.name == name), None)


@dataclass(frozen=True, slots=True)
class Upcoming:
    """Nodes asked for that no snapshot has shown yet: supply until `deadline`, and no longer. `zone`: where they were
    asked for, if in a particular one."""

    pool: str
    count: int
    deadline: datetime
    zone: str = ""


@dataclass(frozen=True, slots=True)
class FailureMemory:
    """Azure said no: what it will say again until `until`. Empty `sku`, `zone`, `pool`, `subscription` or `location`
    means any; `pool` is named where the refusal says nothing about other pools, or the pool has no SKU to go by.

    With a `quota` it is about the pools that count against that one: it is a reading of its `numbers` (limit, used), if
    Azure gave them. It said so at `since`. `detail` says more to a reader than the code does.
    """

    sku: str
    zone: str
    priority: Priority | None
    code: str
    until: datetime
    pool: str = ""
    subscription: str = ""
    location: str = ""
    quota: str = ""
    numbers: tuple[int, int] | None = None
    since: datetime | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Learnt:
    """What the nodes of a pool turned out to be like (`shared.nodes.learning` says which nodes taught it).

    `declared` is a digest of what the pools file promised then: for another promise the lesson is void. `newest` is
    when the youngest of those nodes was made, `seen` when they were last seen to stand (None where a ledger of former
    times does not say). `labels` are those that a new node would not be expected to have, or has with another value;
    `lacking` names labels that it would be expected to have. A lesson that is not `lasting` holds only as long as the
    nodes stand that taught it.
    """

    declared: str
    newest: datetime
    allocatable: Resources
    labels: Pairs = ()
    lacking: tuple[str, ...] = ()
    taints: tuple[Taint, ...] = ()
    lasting: bool = True
    seen: datetime | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """A core quota of a subscription in a region: `used` of `limit` vCPUs. `name` is compute's own: `cores`,
    `lowPriorityCores` or a size family. `used` includes the nodes that were asked for and are not yet counted there.
    `read_at`: when Azure said so, if that is known."""

    subscription: str
    location: str
    name: str
    used: int
    limit: int
    read_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Purchase:
    """A node that came, and the classes of pods (by key) that it was bought for. `seen`: since when it looks like a
    mistake for a class, and the uid of a pod that has waited since."""

    classes: tuple[str, ...]
    seen: Mapping[str, tuple[datetime, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Vain:
    """A class of pods that nothing is bought for until then: what was bought for it did not serve it."""

    until: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Judged:
    """What a plan found of nodes that came: `seen` as in `Purchase`, by node; `vain`: the classes to pause, and why."""

    seen: Mapping[str, Mapping[str, tuple[datetime, str]]] = field(default_factory=dict)
    vain: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GangHold:
    """Nodes were bought for a gang that does not run yet: in these `pools`, since `asked`. `stranded`: since when no
    plan serves the rest of it; `given`: when its nodes were last given back, `tries`: how often so far."""

    asked: datetime
    pools: tuple[str, ...]
    stranded: datetime | None = None
    given: datetime | None = None
    tries: int = 0


@dataclass(frozen=True, slots=True)
class ReturnState:
    """How the return to a Spot pool stands: `batch` on-demand nodes may go in the `next` try, which comes not before
    then; `pause` was the last one after a failure. Of a try under way: `since`, and the `nodes` that are to go."""

    batch: int
    pause: timedelta
    next: datetime
    since: datetime | None = None
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ledger:
    """What the cluster's entity knows and a snapshot cannot show.

    `retiring`: names of nodes with a saga in flight, which are no supply, and count against the budget. `deleting`:
    those of them that only wait for Azure; they do not count, or a deletion that hangs would hold up all others.
    `cooling`: nodes whose retirement was given up a short while ago, and why. `learnt`: what was learnt, by pool.
    `recallable`: those of `retiring` that may still be told to stay; `recalled` were told so, and are supply again.
    `waiting`: those of `retiring` that wait for pods to run to their end.
    `usages`: core quotas as lately read; what is not among them is not limited. `bought` {pool/instance: for whom},
    `vain` {class: its pause}. `gangs`: those that nodes were bought for, by `shared.planning.gang_holds.digest`.
    `returning` {Spot pool: how the return to it stands}.
    """

    upcoming: tuple[Upcoming, ...] = ()
    failures: tuple[FailureMemory, ...] = ()
    retiring: frozenset[str] = frozenset()
    deleting: frozenset[str] = frozenset()
    cooling: Mapping[str, str] = field(default_factory=dict)
    learnt: Mapping[str, Learnt] = field(default_factory=dict)
    recallable: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()
    recalled: frozenset[str] = frozenset()
    usages: tuple[Usage, ...] = ()
    bought: Mapping[str, Purchase] = field(default_factory=dict)
    vain: Mapping[str, Vain] = field(default_factory=dict)
    gangs: Mapping[str, GangHold] = field(default_factory=dict)
    returning: Mapping[str, ReturnState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewNode:
    """A node to buy and the pods that it is bought for; never empty. `zone`: where these need it, "" for anywhere."""

    pods: tuple[PodRef, ...]
    zone: str = ""


@dataclass(frozen=True, slots=True)
class Delta:
    """Nodes to add to one pool."""

    pool: str
    nodes: tuple[NewNode, ...]

    @property
    def add(self) -> int:
        """How many nodes."""
        return len(self.nodes)


@dataclass(frozen=True, slots=True)
class Placement:
    """Pods that fit a node (or a pool's upcoming nodes) which is there or coming: nothing is bought for them."""

    target: str
    pods: tuple[PodRef, ...]


@dataclass(frozen=True, slots=True)
class Unserved:
    """Pods that no pool can serve now, with one reason for every pool of the file."""

    pods: tuple[PodRef, ...]
    reasons: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Retirement:
    """A node that can go: `moves` says where its pods would fit."""

    node: str
    pool: str
    reason: str
    moves: tuple[Placement, ...] = ()


class Supply(StrEnum):
    """Where pods that are served go."""

    NEW = "new"  # nodes to be bought
    THERE = "there"
    COMING = "coming"  # nodes that were asked for, or are joining


@dataclass(frozen=True, slots=True)
class Served:
    """Why `pods` pods of one class, `example` among them, go where they go.

    `target` is a pool, except for nodes that are there: then it is one of them. `nodes` counts the nodes. `cost` is
    these pods' part of what those nodes cost per hour: a node's price is split by what each pod's largest share of an
    empty node is, so all parts sum to the price. `share` is that share of the price for one pod, `runner_up` the pool
    with the next smallest one. None stands for an unknown price. Nodes that are there cost nothing more.
    """

    example: PodRef
    pods: int
    supply: Supply
    target: str
    nodes: int
    why: str
    cost: float | None = 0.0
    share: float | None = 0.0
    runner_up: str = ""
    runner_up_share: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Decided, not yet done. `kept` names each idle candidate that stays, with the reason; `top_up` fills pools below
    their minimum and their headroom (nodes that serve no pod yet, hence not among the deltas), `headroom` says how many
    of those are for headroom. `reuse`: nodes that were on their way out and are called back instead. `served` is filled
    in by `shared.planning.explaining`, for those who show or store a plan. `learnt`: the pools' nodes as they really
    are, as far as that is known."""

    deltas: tuple[Delta, ...] = ()
    fits_existing: tuple[Placement, ...] = ()
    fits_upcoming: tuple[Placement, ...] = ()
    reuse: tuple[Placement, ...] = ()
    unserved: tuple[Unserved, ...] = ()
    retirements: tuple[Retirement, ...] = ()
    kept: Mapping[str, str] = field(default_factory=dict)
    top_up: Mapping[str, int] = field(default_factory=dict)
    cost_per_hour: float = 0.0
    notes: tuple[str, ...] = ()
    served: tuple[Served, ...] = ()
    replacements: Mapping[str, int] = field(default_factory=dict)
    learnt: Mapping[str, Learnt] = field(default_factory=dict)
    headroom: Mapping[str, int] = field(default_factory=dict)
    judged: Judged = Judged()
