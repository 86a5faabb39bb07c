"""The rules about Node objects and evictions: who wrote what to whom."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import datetime, timedelta

from local.arm.state import Vm
from local.arm.truth import Thing, What
from local.checker.evidence import OPT_OUTS, opt_out
from local.checker.notebook import Notebook
from local.kube.kinds import NODE, POD
from local.kube.objects import condition, is_true
from local.kube.store import DELETED, Change, Stored
from local.kube.truth import EvictionRecord

RETIRED_BY, EVICTING_AT = "sluice.io/retire-operation", "sluice.io/evicting-at"
LATELY = timedelta(minutes=10)
DEAD_AFTER = timedelta(minutes=2)
"""For so long at least a node was silent before anybody may take its pods for lost."""


class Nodes:
    """Follows every change of a node."""

    def __init__(self, book: Notebook) -> None:
        self._book = book
        self.kept_by_others: set[str] = set()  # nodes that an administrator has cordoned, by name
        self._silent: dict[str, datetime] = {}  # since when a node is not Ready
        self._emptied: set[str] = set()  # nodes that are being retired, as far as their cordon tells
        self._most: deque[tuple[datetime, int]] = deque()  # how many VMs there were, lately
        self._granted: set[str] = set()  # uids of pods whose eviction was granted

    def note(self, change: Change) -> None:
        """See `local.kube.store.Listener`."""
        if change.new.kind is NODE:
            self._node_changed(change)
        elif change.new.kind is POD and self._book.actor:
            self._pod_written_by_us(change)

    def note_record(self, record: object) -> None:
        """See `local.kube.truth.Truth.on_record`."""
        if isinstance(record, EvictionRecord) and not record.refusal:
            self._evicted(record)

    def note_azure(self, what: What, thing: Thing) -> None:
        """See `local.arm.truth.Watcher`. A VM that Azure has said it deletes, whatever comes of it, is no longer being
        emptied."""
        if what == "deletion failing" and isinstance(thing, Vm):
            self._emptied.discard(thing.computer_name.lower())

    def is_dead(self, node: str) -> bool:
        """Whether it has been silent for long, or has no Node object."""
        if not node:
            return False
        if self._book.store.get(NODE, ("", node)) is None:
            return True
        return self._is_silent(node)

    def _is_silent(self, node: str) -> bool:
        since = self._silent.get(node)
        return since is not None and self._book.timeline.now() - since >= DEAD_AFTER

    def annotation_of(self, node: str, words: Iterable[tuple[str, str]]) -> str:
        """The first of these annotations that the node bears, or ""."""
        found = self._book.store.get(NODE, ("", node))
        said = found.annotations if found is not None else {}
        return opt_out(said, words)

    def _node_changed(self, change: Change) -> None:
        node, name = change.new, change.new.name
        if self._book.actor:
            self._written_by_us(change)
        else:
            self._written_by_others(change)
        if change.type == DELETED or is_true(node, "Ready"):
            self._silent.pop(name, None)
        else:
            self._silent.setdefault(name, self._book.timeline.now())

    def _written_by_others(self, change: Change) -> None:
        before = change.old is not None and bool(change.old.spec.get("unschedulable"))
        after = change.type != DELETED and bool(change.new.spec.get("unschedulable"))
        if after and not before:
            self.kept_by_others.add(change.new.name)
        elif not after:
            self.kept_by_others.discard(change.new.name)

    def _written_by_us(self, change: Change) -> None:
        name, vm = change.new.name, self._book.machines.get(change.new.name)
        if name in self.kept_by_others and vm is not None and not vm.preempting:
            did = "deleted" if change.type == DELETED else "written to"
            self._book.note("cordoned-touched", f"node {name} was {did}, an administrator had cordoned it")
        if vm is not None:
            self._look_at_cordon(change, vm)
        if change.type == DELETED:
            self.kept_by_others.discard(name)
            working = self._book.working_on(name) if vm is not None and not self._is_silent(name) else []
            if working and vm is not None and vm.deleting_at is None and not vm.preempting:
                self._book.note("not-drained", f"node {name} was deleted under {'/'.join(working[0].key)}")
        if vm is None and not self._was_ours(change.new):
            self._book.note("stranger-touched", f"node {name} is of no pool, {self._book.actor} wrote to it")

    def _look_at_cordon(self, change: Change, vm: Vm) -> None:
        name, cordoned = change.new.name, _is_retired(change.new)
        if change.type == DELETED or not cordoned:
            self._emptied.discard(name)
        elif change.old is None or not _is_retired(change.old):
            self._book.refuse_hands_on(self._book.pool_of(vm), f"node {name} was cordoned")
            self._emptied.add(name)
            self._refuse_too_many()

    def _refuse_too_many(self) -> None:
        """Those that drain, and as many that wait for their pods to end; an eviction or a death is no choice."""
        book, now = self._book, self._book.timeline.now()
        while self._most and now - self._most[0][0] > LATELY:
            self._most.popleft()
        self._most.append((now, len(book.machines)))
        self._emptied = {name for name in self._emptied if self._is_ours_to_empty(name)}
        limit = 2 * max(1, int(book.share * max(count for _, count in self._most)))
        if len(self._emptied) > limit:
            words = f"{len(self._emptied)} nodes are emptied at once, where {limit} may be"
            book.note("too-many-at-once", words)

    def _is_ours_to_empty(self, name: str) -> bool:
        vm = self._book.machines.get(name)
        return vm is not None and vm.deleting_at is None and not vm.preempting and not self.is_dead(name)

    def _was_ours(self, node: Stored) -> bool:
        """Whether its VM, gone meanwhile, was one of ours."""
        return str(node.spec.get("providerID", "")).removeprefix("azure://").lower() in self._book.ours

    # Pods

    def _evicted(self, eviction: EvictionRecord) -> None:
        book, name = self._book, f"{eviction.namespace}/{eviction.name}"
        pod = book.store.get(POD, (eviction.namespace, eviction.name))
        if eviction.uid in self._granted:
            book.note("evicted-twice", f"{name} ({eviction.uid})")
        self._granted.add(eviction.uid)
        if eviction.healthy:  # others are none of their budget's healthy ones
            for budget in eviction.budgets:
                if budget.allowed < 1:
                    book.note("against-budget", f"{name} was evicted, budget {budget.name} allows none")
        vm = book.machines.get(eviction.node)
        if eviction.node in book.taken or (vm is not None and vm.preempting):
            return
        if eviction.node in self.kept_by_others:
            book.note("cordoned-touched", f"{name} was evicted, an administrator had cordoned {eviction.node}")
        said = pod.annotations if pod is not None else {}
        for annotation, value in OPT_OUTS:
            if said.get(annotation) == value:
                book.note("against-opt-out", f"{name} was evicted, its annotation {annotation} forbids it")

    def _pod_written_by_us(self, change: Change) -> None:
        """Sluice itself deletes a pod: only one that is to go already, or whose node is dead."""
        pod, old = change.new, change.old
        going = change.type == DELETED or pod.terminating
        if not going or old is None or old.terminating or _was_evicted(old):
            return
        if not self.is_dead(str(pod.spec.get("nodeName", ""))):
            self._book.note("past-budget", f"{'/'.join(pod.key)} was deleted without asking the eviction API")


def _is_retired(node: Stored) -> bool:
    """Cordoned to be emptied, and not because Azure takes it."""
    said = node.annotations
    return bool(node.spec.get("unschedulable")) and RETIRED_BY in said and EVICTING_AT not in said


def _was_evicted(pod: Stored) -> bool:
    """Whether the eviction API has marked it; the record follows when it is gone."""
    found = condition(pod, "DisruptionTarget")
    return found is not None and found.get("reason") == "EvictionByEvictionAPI"
