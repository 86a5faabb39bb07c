"""No mistake is bought twice: nodes that came are held against the pods that they were bought for.

A node counts as usable once it is Ready, bears no startup taint, and has the devices it promised. One that, were it
empty, would still not take the pods it was bought for is a mistake: what it really has differs from what the pools file
promises. So is one that has stood empty for a while though all that is known says that the pods fit: kube-scheduler
sees something that nobody told. After `SETTLING`, in which labels and taints may still change, the class buys nothing
more for a while (`shared.state.purchases` says how long), and the verdict names the difference.

What is no mistake: a node that has been filled by others, one that is cordoned, leaving or ill, pods that came later
than the node (the clock runs for one pod that is there the whole time), a scheduler that is behind with a burst.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter

from shared.model import (
    Config,
    Judged,
    Ledger,
    Movability,
    NodeView,
    PodClass,
    PodShape,
    Pool,
    Purchase,
    Snapshot,
    Timing,
)
from shared.names import RETIRING_TAINT
from shared.nodes.starting import is_startup_taint
from shared.nodes.supply import is_extended, join_time, settled_site
from shared.nodes.template_node import assumed_labels, fits, take
from shared.packing.census import has_rules
from shared.quantity import format_amount
from shared.reading.gang_members import gang_name
from shared.rules.predicates import HARD_EFFECTS, NEW, Ground, static_refusal
from shared.state.arrivals import machine_of
from shared.state.instances import key_of

SETTLING = timedelta(seconds=60)

_ILL = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")  # taints that speak of a node's condition
_SAME_CLASS = attrgetter(
    "requests",
    "node_selector",
    "affinity",
    "tolerations",
    "host_ports",
    "priority",
    "not_modelled",
    "near",
    "apart",
    "spread",
    "gang",
    "volumes",
)


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What a node has against a class; not `usable` yet, or not `certain` before the time is over."""

    text: str
    usable: bool = True
    certain: bool = True


@dataclass(slots=True)
class _Hearing:
    """What is found on the way: why classes buy nothing, and what the ledger shall remember."""

    told: dict[str, str] = field(default_factory=dict)
    seen: dict[str, dict[str, tuple[datetime, str]]] = field(default_factory=dict)
    vain: dict[str, str] = field(default_factory=dict)


def class_key(shape: PodShape) -> str:
    """A short name of a class of pods that is the same in every plan, whatever rules of others read of its labels."""
    return hashlib.blake2b(repr(_SAME_CLASS(shape)).encode(), digest_size=4).hexdigest()


def judge(
    snapshot: Snapshot, classes: Sequence[PodClass], config: Config, ledger: Ledger, now: datetime
) -> tuple[Mapping[PodShape, str], Judged]:
    """The classes that nothing is bought for, each with the reason; and what is to be remembered."""
    if not ledger.bought and not ledger.vain:
        return {}, Judged()
    concerned = {key for purchase in ledger.bought.values() for key in purchase.classes} | set(ledger.vain)
    shapes = {key: each.shape for each in classes if (key := class_key(each.shape)) in concerned}
    waiting = _waiting(snapshot, shapes)
    hearing = _Hearing()
    for key, vain in ledger.vain.items():
        if vain.until > now and key in shapes:
            pause = f"nothing is bought for it until {vain.until:%H:%M:%SZ}"
            hearing.told[key] = f"BoughtInVain: {vain.reason}; {pause}"
    for machine, node, pool in _nodes_bought(snapshot, config, ledger):
        purchase = ledger.bought[machine]
        for key in purchase.classes:
            if key in waiting and key not in hearing.told:
                verdict = _verdict(node, pool, shapes[key], config.timing, now)
                if verdict is not None:
                    _hear(hearing, machine, purchase, key, verdict, waiting[key], now)
    return _with_gangs(classes, shapes, hearing.told), Judged(hearing.seen, hearing.vain)


def _waiting(snapshot: Snapshot, shapes: Mapping[str, PodShape]) -> dict[str, list[str]]:
    """The uids of the pods that wait, by class."""
    found: dict[str, list[str]] = {}
    for each in snapshot.pending if shapes else ():
        if each.pods and (key := class_key(each.shape)) in shapes:
            found.setdefault(key, []).extend(pod.uid for pod in each.pods)
    return found


def _nodes_bought(snapshot: Snapshot, config: Config, ledger: Ledger) -> Iterator[tuple[str, NodeView, Pool]]:
    """The nodes that came, are known to have been bought for somebody, and may take pods."""
    for node in snapshot.nodes:
        pool = config.pool(node.pool) if node.pool else None
        key = key_of((pool.part_of or pool.name) if pool else "", machine_of(node))
        if pool is not None and key in ledger.bought and not _is_out(node, ledger):
            yield key, node, pool


def _hear(
    hearing: _Hearing, machine: str, purchase: Purchase, key: str, verdict: _Verdict, pods: list[str], now: datetime
) -> None:
    if not verdict.usable:
        hearing.told[key] = f"Waits: {verdict.text}"
        return
    since, pod = purchase.seen.get(key, (now, ""))
    if pod not in pods:
        since, pod = now, min(pods)
    if now - since >= SETTLING:
        hearing.vain[key] = verdict.text
        hearing.told[key] = f"BoughtInVain: {verdict.text}; nothing is bought for it for a while"
        return
    hearing.seen.setdefault(machine, {})[key] = (since, pod)
    if verdict.certain:
        hearing.told[key] = f"Waits: {verdict.text}; it may yet change"


def _with_gangs(
    classes: Sequence[PodClass], shapes: Mapping[str, PodShape], told: Mapping[str, str]
) -> dict[PodShape, str]:
    """A gang is bought for whole or not at all, so one class of it holds up the others."""
    held = {shapes[key]: reason for key, reason in told.items()}
    gangs = {gang_name(shape.gang): reason for shape, reason in held.items() if shape.gang}
    for each in classes if gangs else ():
        if each.shape.gang and (reason := gangs.get(gang_name(each.shape.gang))) is not None:
            held.setdefault(each.shape, reason)
    return held


def _is_out(node: NodeView, ledger: Ledger) -> bool:
    """Whether the node is no place for pods for reasons of its own."""
    if node.unschedulable or node.evicting_at is not None or node.name in ledger.retiring:
        return True
    hard = [taint for taint in node.taints if taint.effect in HARD_EFFECTS and not is_startup_taint(taint)]
    return any(taint.key.startswith(_ILL) or taint.key == RETIRING_TAINT for taint in hard)


def _verdict(node: NodeView, pool: Pool, shape: PodShape, timing: Timing, now: datetime) -> _Verdict | None:
    """What the node has against pods that it was bought for; None when it would take them, or is no use to anybody."""
    young = now - node.created_at < join_time(pool, timing)
    lacking = [name for name, amount in pool.allocatable.items() if is_extended(name) and amount > 0]
    lacking = [name for name in lacking if not node.allocatable.get(name)]
    starting = not node.ready or any(is_startup_taint(taint) for taint in node.taints) or bool(lacking)
    taints = tuple(taint for taint in node.taints if not is_startup_taint(taint))
    room = _room_if_empty(node, {name: pool.allocatable[name] for name in lacking} if young else {})
    refusal = static_refusal(shape, Ground(node.name, node.labels, taints)) or fits(shape, room, ())
    if starting:
        text = f"node {node.name}, bought for it, has not finished starting"
        return _Verdict(text, usable=False) if young and refusal else None
    if refusal:
        return _Verdict(f"node {node.name}, bought for it, does not take it: {_difference(refusal, shape, node, pool)}")
    site = settled_site(node, ours=True)
    untouched = site.fresh and not has_rules(shape) and fits(shape, dict(site.free), site.host_ports) is None
    text = f"node {node.name}, bought for it, has room, but the scheduler places no such pod there"
    return _Verdict(text, certain=False) if untouched else None


def _room_if_empty(node: NodeView, to_come: Mapping[str, int]) -> dict[str, int]:
    """What the node offers beside the pods that go with every node, with the devices that are still awaited."""
    free = {**node.allocatable, **to_come}
    for bound in node.bound:
        if bound.movability is Movability.STAYS:
            take(free, bound.shape, len(bound.pods))
    return free


def _difference(refusal: str, shape: PodShape, node: NodeView, pool: Pool) -> str:
    """The refusal, and what the pools file promises instead."""
    text = refusal.replace(NEW, "it")
    promised = [
        f"{format_amount(name, pool.allocatable[name])} {name}"
        for name, amount in shape.requests
        if pool.allocatable.get(name, 0) >= amount > node.allocatable.get(name, 0)
    ]
    labels = assumed_labels(pool)
    promised += [
        f"{key}={labels[key]}" for key, value in shape.node_selector if labels.get(key) == value != node.labels.get(key)
    ]
    if promised:
        return f"{text}, the pools file promises {', '.join(promised)}"
    taints = refusal.startswith("TaintToleration") and set(node.taints) - set(pool.taints)
    return f"{text}, which the pools file does not tell of" if taints else text
