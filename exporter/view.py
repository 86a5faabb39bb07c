"""The projection kept up to date: only what changed since the last look is projected again.

`ClusterView` gives what `shared.reading.projection.project` would make of the whole cache; a test holds the two equal.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from exporter.cache import ClusterCache
from shared.adapters.protocols import Json
from shared.model import Config, DaemonShape, Gang, NodeView, PodClass, PodRef, PodSelector, PodShape, Snapshot
from shared.reading.gang_members import Membership, gangs_of
from shared.reading.pods import is_pending_candidate, is_terminal, member, nominated_node, pod_ref, shape_of
from shared.reading.projection import daemon_selectors, daemon_shapes, project_node
from shared.reading.storage import Kind, Stored
from shared.reading.volumes import Storage
from shared.rules.pod_rules import NO_RULES, NOBODY, Interest, PodRules, rules_of
from shared.rules.predicates import waiting_claim

_log = logging.getLogger(__name__)


_Class = tuple[PodShape, str]  # shape, and nominated node


@dataclass(frozen=True, slots=True)
class Changes:
    """What a look found: uids of pods that the scheduler gave up on, or no longer, and of pods that wait at all, or no
    longer; nodes that differ, or are gone; `freed`: pods given up on whose claims hold them back no longer."""

    appeared: tuple[str, ...]
    gone: tuple[str, ...]
    arrived: tuple[str, ...]
    left: tuple[str, ...]
    nodes: tuple[NodeView, ...]
    nodes_gone: tuple[str, ...]
    freed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Work:
    pods: list[tuple[str, Json | None]]
    nodes: list[tuple[str, Json | None, list[Json]]]
    daemon_sets: list[Json] | None
    storage: list[tuple[Kind, str, Stored | None]]
    unread: dict[Kind, str]


class ClusterView:
    """Used from one thread; only the gathering of what changed holds the cache's lock."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._config: Config | None = None
        self._nodes: dict[str, NodeView] = {}
        self._waiting: dict[str, _Class] = {}
        self._classes: dict[_Class, dict[str, PodRef]] = {}
        self._unschedulable: dict[str, str] = {}
        self._daemons: tuple[DaemonShape, ...] = ()
        self._built: dict[_Class, PodClass] = {}
        self._rules: dict[str, PodRules] = {}
        self._daemon_selectors: set[PodSelector] = set()
        self._interest = NOBODY
        self._storage = Storage()
        self._members: dict[str, Membership] = {}
        self._gangs: tuple[Gang, ...] | None = None
        self._pod_groups: dict[str, list[Json]] = {}

    def refresh(self, config: Config) -> Changes:
        """Take in what changed in the cache; everything, when `config` is another one than last time."""
        work = self._gather(everything=config is not self._config)
        self._config = config
        if self._learn_interest(work):
            # What shapes hold of pods has changed: everything is looked at again, which each new rule costs once.
            work = _joined(work, self._gather(everything=True))
        own = {key for key, _ in work.pods}
        work = self._with_dependents(work)
        held = {key for key, _ in work.pods if key not in own and self._is_held(key)}
        if work.daemon_sets is not None:
            self._take_daemons(work.daemon_sets)
        reported, waiting = self._states(work)
        for key, pod in work.pods:
            self._take_pod(key, pod)
        reported_now, waiting_now = self._states(work)
        views = [self._take_node(name, node, pods, config) for name, node, pods in work.nodes]
        return Changes(
            appeared=tuple(_more(reported_now, reported)),
            gone=tuple(_more(reported, reported_now)),
            arrived=tuple(_more(waiting_now, waiting)),
            left=tuple(_more(waiting, waiting_now)),
            freed=tuple(
                self._unschedulable[key] for key in sorted(held & self._unschedulable.keys()) if not self._is_held(key)
            ),
            nodes=tuple(view for view in views if view is not None),
            nodes_gone=tuple(name for (name, _, _), view in zip(work.nodes, views, strict=True) if view is None),
        )

    def _is_held(self, key: str) -> bool:
        """Whether a waiting pod has a claim that no node can help, or that nothing is known of."""
        group = self._waiting.get(key)
        return group is not None and (bool(group[0].not_modelled) or waiting_claim(group[0]) is not None)

    def set_idle(self, name: str, since: datetime | None) -> None:
        """What the idle detector found about a node of the last look."""
        if self._nodes[name].idle_since != since:
            self._nodes[name] = replace(self._nodes[name], idle_since=since)

    def node(self, name: str) -> NodeView | None:
        """The node as last seen, or None when it is gone."""
        return self._nodes.get(name)

    def unschedulable(self) -> int:
        """How many pods the scheduler has given up on."""
        return len(self._unschedulable)

    def snapshot(self, cluster: str, epoch: int, sequence: int, now: datetime) -> Snapshot:
        """The cluster as of the last look."""
        classes = sorted(map(self._class, self._classes), key=lambda found: _order(found.pods[0]))
        nodes = tuple(self._nodes[name] for name in sorted(self._nodes))
        if self._gangs is None:
            self._gangs = gangs_of(self._members.values(), self._pod_groups)
        return Snapshot(cluster, epoch, sequence, now, tuple(classes), nodes, self._daemons, self._gangs)

    def _gather(self, *, everything: bool) -> _Work:
        cache = self._cache
        with cache.lock:
            cache.dirty = False
            pods, cache.pods.changed = cache.pods.changed, set()
            names, cache.nodes.changed = cache.nodes.changed | cache.pods.changed_nodes, set()
            cache.pods.changed_nodes = set()
            if everything:
                pods, names = pods | cache.pods.objects.keys(), names | cache.nodes.objects.keys()
            changed = everything or cache.daemon_sets.changed
            daemons = list(cache.daemon_sets.objects.values()) if changed else None
            cache.daemon_sets.changed = set()
            self._gather_groups()
            return _Work(*self._look_up(pods, names), daemons, self._gather_storage(), cache.unread())

    def _look_up(
        self, pods: Iterable[str], names: Iterable[str]
    ) -> tuple[list[tuple[str, Json | None]], list[tuple[str, Json | None, list[Json]]]]:
        cache = self._cache
        return (
            [(key, cache.pods.objects.get(key)) for key in sorted(pods)],
            [(name, cache.nodes.objects.get(name), cache.pods.on_node(name)) for name in sorted(names)],
        )

    def _gather_storage(self) -> list[tuple[Kind, str, Stored | None]]:
        found = []
        for kind, table in self._cache.storage.items():
            found += [(kind, name, table.values.get(name)) for name in sorted(table.changed)]
            table.changed = set()
        return found

    def _gather_groups(self) -> None:
        for group, table in self._cache.pod_groups.items():
            if table.changed:
                table.changed = set()
                self._pod_groups[group] = list(table.objects.values())
                self._gangs = None

    def _with_dependents(self, work: _Work) -> _Work:
        """Take in claims and volumes, and who uses them; with the pods and nodes that look otherwise for it."""
        claims, nodes = self._take_storage(work)
        for key, pod in work.pods:
            alive = pod if pod is not None and not is_terminal(pod) else None
            claims |= self._storage.note(key, alive, waits=alive is not None and is_pending_candidate(alive))
        pods = {user for claim in claims for user in self._storage.users.get(claim, ())}
        pods -= {key for key, _ in work.pods}
        if not pods and not nodes:
            return work
        with self._cache.lock:
            known = self._cache.pods.objects
            nodes |= {node for key in pods if key in known and (node := known[key]["spec"].get("nodeName"))}
            nodes = {name for name in nodes if name in self._cache.nodes.objects} - {each[0] for each in work.nodes}
            more_pods, more_nodes = self._look_up(pods, nodes)
        return replace(work, pods=work.pods + more_pods, nodes=work.nodes + more_nodes)

    def _take_storage(self, work: _Work) -> tuple[set[str], set[str]]:
        """The claims and the nodes that changes of volumes matter to."""
        claims, nodes = set[str](), set[str]()
        for kind, name, value in work.storage:
            of_claims, of_nodes = self._storage.put(kind, name, value)
            claims |= of_claims
            nodes |= of_nodes
        if work.unread != self._storage.unread:
            self._storage.unread = work.unread
            claims |= self._storage.users.keys()
        return claims, nodes

    def _learn_interest(self, work: _Work) -> bool:
        """Take in the rules of changed pods and DaemonSets; whether they are about other pods now than before."""
        for key, pod in work.pods:
            rules = None if pod is None or is_terminal(pod) else rules_of(pod)
            if rules is not None and rules != NO_RULES:
                self._rules[key] = rules
            else:
                self._rules.pop(key, None)
        if work.daemon_sets is not None:
            self._learn_daemons(work.daemon_sets)
        in_play = {selector for rules in set(self._rules.values()) for selector in rules.selectors()}
        selectors = in_play | self._daemon_selectors
        if selectors == self._interest.selectors:
            return False
        self._interest = Interest(selectors)
        return True

    def _learn_daemons(self, daemon_sets: list[Json]) -> None:
        with contextlib.suppress(ValueError):  # a malformed one is told of when their shapes are taken
            self._daemon_selectors = daemon_selectors(daemon_sets)

    def _states(self, work: _Work) -> tuple[dict[str, str | None], dict[str, str | None]]:
        """Of the pods in question, by key: the uid if the scheduler gave up on it, the uid if it waits for a node."""
        keys = [key for key, _ in work.pods]
        return {key: self._unschedulable.get(key) for key in keys}, {key: self._uid_waiting(key) for key in keys}

    def _uid_waiting(self, key: str) -> str | None:
        group = self._waiting.get(key)
        return None if group is None or group[1] else self._classes[group][key].uid

    def _take_pod(self, key: str, pod: Json | None) -> None:
        group = self._waiting.pop(key, None)
        if group is not None:
            self._leave_class(key, group)
        self._unschedulable.pop(key, None)
        self._take_member(key, pod)
        if pod is None or not is_pending_candidate(pod):
            return
        try:
            group = shape_of(pod, self._interest, self._storage), nominated_node(pod)
        except ValueError as error:
            _log.error("pod %s is left out: %s", key, error)
            return
        self._waiting[key] = group
        self._classes.setdefault(group, {})[key] = pod_ref(pod)
        self._built.pop(group, None)
        if _reported(pod):
            self._unschedulable[key] = pod["metadata"]["uid"]

    def _take_member(self, key: str, pod: Json | None) -> None:
        found = member(pod) if pod is not None else None
        if found == self._members.get(key):
            return
        self._gangs = None
        if found is None:
            del self._members[key]
        else:
            self._members[key] = found

    def _leave_class(self, key: str, group: _Class) -> None:
        members = self._classes[group]
        del members[key]
        self._built.pop(group, None)
        if not members:
            del self._classes[group]

    def _take_node(self, name: str, node: Json | None, pods: Iterable[Json], config: Config) -> NodeView | None:
        if node is None:
            self._nodes.pop(name, None)
            return None
        try:
            view = project_node(node, pods, config, interest=self._interest, storage=self._storage)
        except ValueError as error:
            _log.error("node %s stays as it was: %s", name, error)
            return self._nodes.get(name)
        self._nodes[name] = view
        return view

    def _take_daemons(self, daemon_sets: list[Json]) -> None:
        try:
            self._daemons = daemon_shapes(daemon_sets, self._interest)
        except ValueError as error:
            _log.error("the DaemonSets stay as they were: %s", error)

    def _class(self, group: _Class) -> PodClass:
        if group not in self._built:
            refs = self._classes[group].values()
            self._built[group] = PodClass(group[0], tuple(sorted(refs, key=_order)), group[1])
        return self._built[group]


def _more(uids: dict[str, str | None], than: dict[str, str | None]) -> Iterator[str]:
    """The uids of one that are not in the other."""
    return (uid for key, uid in uids.items() if uid is not None and uid != than[key])


def _joined(first: _Work, then: _Work) -> _Work:
    """Two looks as one: what was gone at the first is not in the second."""
    pods = {**dict(first.pods), **dict(then.pods)}
    nodes = {node[0]: node for node in (*first.nodes, *then.nodes)}
    return _Work(list(pods.items()), list(nodes.values()), then.daemon_sets, first.storage + then.storage, then.unread)


def _order(ref: PodRef) -> tuple[str, str, str]:
    return (ref.namespace, ref.name, ref.uid)


def _reported(pod: Json) -> bool:
    """Whether the scheduler has spoken; of a candidate it can only have said Unschedulable."""
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(condition.get("type") == "PodScheduled" for condition in conditions)
