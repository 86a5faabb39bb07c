"""From the API server's JSON to a `Snapshot`: the one way, whether a watch cache, a fresh list or a dump is the source.

The pieces are separate because the exporter keeps its snapshot up to date node by node; `project` puts them together.
A malformed object, which no API server would hand out but a hand-made dump may hold, raises ValueError with its name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from shared.model import (
    BoundPods,
    Config,
    DaemonShape,
    Drain,
    Gang,
    HostPort,
    Movability,
    NodeView,
    PodClass,
    PodRef,
    PodSelector,
    PodShape,
    Resources,
    Snapshot,
    Taint,
)
from shared.names import EVICTING_AT_ANNOTATION
from shared.provider_id import pool_of
from shared.reading.drain import movability
from shared.reading.gang_members import PodGroups, gangs_of
from shared.reading.pods import (
    ParsedPod,
    classes_of,
    is_pending_candidate,
    is_terminal,
    is_terminating,
    member,
    nominated_node,
    pod_ref,
    shape_of,
)
from shared.reading.resources import MAX_AMOUNT, amounts
from shared.reading.storage import Kind
from shared.reading.volumes import Storage, storage_of, uses_claims
from shared.rules.pod_rules import NOBODY, Interest, rules_of

Json = dict[str, Any]
T = TypeVar("T")

GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
"""What makes a node a GPU node; shares of one (`nvidia.com/mig-...`) count too."""

EVICTION_NOTICE = timedelta(seconds=30)
"""What Azure promises between a Preempt notice and the eviction, where nobody told the hour itself."""

NOTHING_UNREAD: Mapping[Kind, str] = {}

UNKNOWN_TIME = datetime(1970, 1, 1, tzinfo=UTC)
"""For an object without a creation time (a hand-written manifest): long ago."""

_EMPTY: Json = {}
_KEPT_ANNOTATIONS = ("sluice.io/", "cluster-autoscaler.kubernetes.io/", "karpenter.sh/")
_EVICTION_CONDITIONS = {"VMEventScheduled", "PreemptionScheduled", "PreemptScheduled", "TerminateScheduled"}
_HARMLESS_EVENTS = ("freeze", "reboot")  # the VM comes back with its memory, or with its disks
_DAEMON_TAINTS = (  # tolerated by every DaemonSet pod, since its controller adds them (kubernetes.io, "DaemonSet")
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)


def project(  # noqa: PLR0913 - keywords only, one for each source
    *,
    cluster: str,
    epoch: int,
    sequence: int,
    now: datetime,
    config: Config,
    pods: Iterable[Json],
    nodes: Iterable[Json],
    daemon_sets: Iterable[Json] = (),
    idle_since: Mapping[str, datetime] | None = None,
    pod_groups: PodGroups | None = None,
    storage: Storage | None = None,
) -> Snapshot:
    """The whole cluster at `now`. `idle_since` is what the caller remembers of each node by name; `pod_groups` need
    only hold the API groups that `gang_members.groups_asked_for` names. `storage` is what is known of claims and
    volumes (`storage_seen`); without it pods that wait and have claims can't be judged."""
    pods, daemon_sets = list(pods), list(daemon_sets)
    interest = interest_of(pods, daemon_sets)
    on_node: dict[str, list[Json]] = defaultdict(list)
    for pod in pods:
        if bound_to := _named("pod", pod, _bound_to):
            on_node[bound_to].append(pod)
    since = idle_since or {}
    named = [(_named("node", node, _name), node) for node in nodes]
    views = [
        project_node(node, on_node.get(name, ()), config, since.get(name), interest, storage) for name, node in named
    ]
    return Snapshot(
        cluster=cluster,
        epoch=epoch,
        sequence=sequence,
        observed_at=now,
        pending=pending_classes(pods, interest, storage),
        nodes=tuple(sorted(views, key=lambda view: view.name)),
        daemons=daemon_shapes(daemon_sets, interest),
        gangs=gangs(pods, pod_groups or {}),
    )


def gangs(pods: Iterable[Json], pod_groups: PodGroups) -> tuple[Gang, ...]:
    """The gangs that any pod which runs or waits belongs to."""
    found = (_named("pod", pod, member) for pod in pods)
    return gangs_of((each for each in found if each is not None), pod_groups)


def storage_seen(
    pods: Iterable[Json], lists: Mapping[Kind, Iterable[Json]], unread: Mapping[Kind, str] = NOTHING_UNREAD
) -> Storage:
    """What is known of claims and volumes from fresh lists; `unread` says why a kind could not be read."""
    return storage_of((pod for pod in pods if _named("pod", pod, _uses_claims)), lists, unread)


def interest_of(pods: Iterable[Json], daemon_sets: Iterable[Json]) -> Interest:
    """What the rules of all pods that run or wait, and of DaemonSets, are about. Needed wherever shapes are made."""
    alive = (pod for pod in pods if not _named("pod", pod, is_terminal))
    selectors = {selector for pod in alive for selector in _named("pod", pod, rules_of).selectors()}
    return Interest(selectors | daemon_selectors(daemon_sets))


def daemon_selectors(daemon_sets: Iterable[Json]) -> set[PodSelector]:
    """What the rules of the DaemonSets' pods are about."""
    rules = [_named("daemon set", item, lambda each: rules_of(_daemon_pod(each))) for item in daemon_sets]
    return {selector for each in rules for selector in each.selectors()}


def project_node(
    node: Json,
    pods_on_it: Iterable[Json],
    config: Config,
    idle_since: datetime | None = None,
    interest: Interest = NOBODY,
    storage: Storage | None = None,
) -> NodeView:
    """One node with the pods bound to it; `idle_since` is dropped when the node is busy again."""
    pods_on_it = list(pods_on_it)
    pool = _named("node", node, lambda item: pool_of(item, config))
    drain = drain_of(config, pool)
    bound = _bound(pods_on_it, interest, storage, drain)
    view = _named("node", node, lambda item: _view(item, bound, pool))
    if leaving := [pod for pod in pods_on_it if is_terminating(pod) and not is_terminal(pod)]:
        view = replace(view, leaving=_requested(_bound(leaving, interest, storage, drain)))
    if storage is not None:
        view = _with_volumes(view, pods_on_it, storage)
    if idle_since is None or utilization(view) >= config.scale_down.utilization_below:
        return view
    return replace(view, idle_since=idle_since)


def pending_classes(
    pods: Iterable[Json], interest: Interest = NOBODY, storage: Storage | None = None
) -> tuple[PodClass, ...]:
    """The pods that wait for room, by shape and nominated node; pods and classes in the order of the pods' names."""
    shape = partial(shape_of, interest=interest, storage=storage)
    waiting = (
        ParsedPod(_named("pod", pod, pod_ref), _named("pod", pod, shape), nominated_node(pod))
        for pod in pods
        if _named("pod", pod, is_pending_candidate)
    )
    found = [replace(each, pods=tuple(sorted(each.pods, key=_ref_order))) for each in classes_of(waiting)]
    return tuple(sorted(found, key=lambda one: _ref_order(one.pods[0])))


def daemon_shapes(daemon_sets: Iterable[Json], interest: Interest = NOBODY) -> tuple[DaemonShape, ...]:
    """What each DaemonSet will put on a new node, with the tolerations that its controller adds."""
    found = [_named("daemon set", item, partial(_daemon_shape, interest=interest)) for item in daemon_sets]
    return tuple(sorted(found, key=lambda daemon: daemon.name))


def utilization(view: NodeView) -> float:
    """The share of the node that its movable and blocking pods ask for; 1 is full, DaemonSet pods do not count.

    The largest over cpu, memory and extended resources; on a node with GPUs only those count, as for
    cluster-autoscaler: a GPU node is idle when its GPUs are, however busy its few cores look.
    """
    asked: dict[str, int] = defaultdict(int)
    for group in view.bound:
        if group.movability is not Movability.STAYS:
            for name, count in group.shape.requests:
                asked[name] += count * len(group.pods)
    shares = [asked[name] / view.allocatable[name] for name in _counted(view.allocatable)]
    return max(shares, default=0.0)


def next_idle_since(
    views: Iterable[NodeView], before: Mapping[str, datetime], config: Config, now: datetime
) -> dict[str, datetime]:
    """Since when each node of ours has been idle, given what was known before: for callers without a detector."""
    threshold = config.scale_down.utilization_below
    return {
        view.name: before.get(view.name, now)
        for view in views
        if view.pool and view.ready and utilization(view) < threshold
    }


def _counted(allocatable: Resources) -> list[str]:
    gpus = [name for name in allocatable if name in GPU_RESOURCES or name.startswith("nvidia.com/mig-")]
    names = gpus or [name for name in allocatable if name in {"cpu", "memory"} or "/" in name]
    return [name for name in names if allocatable[name] > 0]


def drain_of(config: Config, pool: str) -> Drain:
    """How nodes of that pool are emptied; a node of no pool of ours never is."""
    found = config.pool(pool) if pool else None
    return found.drain if found is not None else Drain.EVICT


def _bound(pods: Iterable[Json], interest: Interest, storage: Storage | None, drain: Drain) -> tuple[BoundPods, ...]:
    """Pods that take room, by shape and by what a drain would do with them."""
    groups: dict[tuple[PodShape, Movability, str], list[PodRef]] = defaultdict(list)
    shape = partial(shape_of, interest=interest, storage=storage)
    moves = partial(movability, drain=drain)
    for pod in pods:
        if not _named("pod", pod, is_terminal):
            key = (_named("pod", pod, shape), *_named("pod", pod, moves))
            groups[key].append(_named("pod", pod, pod_ref))
    found = [
        BoundPods(shape, tuple(sorted(refs, key=_ref_order)), what, blocked_by)
        for (shape, what, blocked_by), refs in groups.items()
    ]
    return tuple(sorted(found, key=lambda group: _ref_order(group.pods[0])))


def _view(node: Json, bound: tuple[BoundPods, ...], pool: str) -> NodeView:
    meta, spec, status = node["metadata"], node.get("spec") or _EMPTY, node.get("status") or _EMPTY
    annotations = meta.get("annotations") or _EMPTY
    conditions = {item["type"]: item for item in status.get("conditions") or ()}
    return NodeView(
        name=meta["name"],
        uid=meta.get("uid", ""),
        provider_id=spec.get("providerID", ""),
        pool=pool,
        labels=dict(meta.get("labels") or _EMPTY),
        taints=tuple(Taint(item["key"], item.get("value") or "", item["effect"]) for item in spec.get("taints") or ()),
        allocatable=amounts(status.get("allocatable") or status.get("capacity") or _EMPTY),
        requested=_requested(bound),
        host_ports=_taken_ports(bound),
        ready=conditions.get("Ready", _EMPTY).get("status") == "True",
        unschedulable=bool(spec.get("unschedulable")),
        created_at=_time(meta.get("creationTimestamp")) or UNKNOWN_TIME,
        bound=bound,
        evicting_at=_told_eviction(annotations, conditions),
        annotations={name: text for name, text in annotations.items() if name.startswith(_KEPT_ANNOTATIONS)},
    )


def _uses_claims(pod: Json) -> bool:
    """Whether the pod holds claims, or waits to."""
    return uses_claims(pod) and not is_terminal(pod) and bool(_bound_to(pod) or is_pending_candidate(pod))


def _with_volumes(view: NodeView, pods: Iterable[Json], storage: Storage) -> NodeView:
    """With what its drivers can attach, and with what is attached: a volume that several pods use counts once."""
    limits = storage.limits(view.name)
    if not limits:
        return view
    attached = storage.attached(view.name, (pod for pod in pods if not is_terminal(pod)))
    return replace(view, allocatable={**view.allocatable, **limits}, requested={**view.requested, **attached})


def _requested(bound: tuple[BoundPods, ...]) -> dict[str, int]:
    total = {"pods": sum(len(group.pods) for group in bound)}
    for group in bound:
        for name, count in group.shape.requests:
            total[name] = min(MAX_AMOUNT, total.get(name, 0) + count * len(group.pods))
    return total


def _taken_ports(bound: tuple[BoundPods, ...]) -> tuple[HostPort, ...]:
    taken = {port for group in bound for port in group.shape.host_ports}
    return tuple(sorted(taken, key=lambda port: (port.port, port.protocol, port.ip)))


def evicting_at(node: Json) -> datetime | None:
    """When Azure takes the node away, if the Node says so."""
    conditions = {item["type"]: item for item in (node.get("status") or _EMPTY).get("conditions") or ()}
    return _told_eviction(node["metadata"].get("annotations") or _EMPTY, conditions)


def _told_eviction(annotations: Mapping[str, str], conditions: Mapping[str, Json]) -> datetime | None:
    """The hour that our node agent heard, else half a minute after the condition that somebody else set.

    AKS's node problem detector has one condition for every scheduled event and names the event in its message; a
    freeze or a reboot takes no node away. An annotation that is no time is nobody's of ours, and says nothing.
    """
    if (told := _time(annotations.get(EVICTING_AT_ANNOTATION))) is not None:
        return told
    for kind in sorted(_EVICTION_CONDITIONS & conditions.keys()):
        condition = conditions[kind]
        message = f"{condition.get('reason', '')} {condition.get('message', '')}".lower()
        if condition.get("status") == "True" and not any(word in message for word in _HARMLESS_EVENTS):
            return (_time(condition.get("lastTransitionTime")) or UNKNOWN_TIME) + EVICTION_NOTICE
    return None


def _time(text: object) -> datetime | None:
    """An RFC 3339 time in UTC; None for what is none, also for one without a zone."""
    if not isinstance(text, str):
        return None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed.astimezone(UTC) if parsed.tzinfo else None


def _daemon_pod(daemon_set: Json) -> Json:
    """The pod that the DaemonSet puts on nodes, with the tolerations that its controller adds."""
    template = daemon_set["spec"]["template"]
    spec, meta = template.get("spec") or _EMPTY, template.get("metadata") or _EMPTY
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in _DAEMON_TAINTS]
    if spec.get("hostNetwork"):
        network = "node.kubernetes.io/network-unavailable"
        added.append({"key": network, "operator": "Exists", "effect": "NoSchedule"})
    home = daemon_set["metadata"].get("namespace", "default")
    return {
        "metadata": {"namespace": home, "labels": meta.get("labels") or _EMPTY},
        "spec": {**spec, "tolerations": [*(spec.get("tolerations") or ()), *added]},
    }


def _daemon_shape(daemon_set: Json, interest: Interest) -> DaemonShape:
    meta = daemon_set["metadata"]
    return DaemonShape(
        f"{meta.get('namespace', 'default')}/{meta['name']}", shape_of(_daemon_pod(daemon_set), interest)
    )


def _name(item: Json) -> str:
    return str(item["metadata"]["name"])


def _bound_to(pod: Json) -> str:
    return str((pod.get("spec") or _EMPTY).get("nodeName") or "")


def _ref_order(ref: PodRef) -> tuple[str, str, str]:
    return (ref.namespace, ref.name, ref.uid)


def _named(kind: str, item: Json, read: Callable[[Json], T]) -> T:
    """`read(item)`, with every way in which a malformed object fails told as one ValueError that names it."""
    try:
        return read(item)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        meta = item.get("metadata") if isinstance(item, dict) else None
        known = meta if isinstance(meta, dict) else {}
        name = "/".join(str(known[part]) for part in ("namespace", "name") if part in known)
        detail = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{kind} {name or '?'} is malformed: {detail}") from error
