"""kube-scheduler in small: filters, LeastAllocated, priorities, and a wait for what may help. It does not preempt.

A pod's nominated node is tried first, and pods of no higher priority keep off its room there; a pod that is tried and
fits nowhere loses its nomination (pkg/scheduler/schedule_one.go and framework/preemption of Kubernetes 1.36).

Waiting pods that are alike wait together: as long as no node changed for the better, what refused one refuses all.
So a burst costs by what gets bound, not by what waits.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter, OrderedDict

from local.kube.controllers.needs import Needs, needs_of
from local.kube.controllers.recorder import Recorder
from local.kube.controllers.room import Room
from local.kube.controllers.work import WorkQueue
from local.kube.kinds import CLAIM, NODE, POD, VOLUME, Key
from local.kube.objects import condition, is_finished, with_condition
from local.kube.registry import Registry
from local.kube.store import DELETED, Change, Stored
from local.kube.writing import bind

NAME = "default-scheduler"


_Kind = tuple[bytes, str]


class _Waiting:
    """Pods of one kind of needs and one nominated node ("" for none), in the order of arrival; `tried` is the
    generation that refused them all."""

    __slots__ = ("key", "message", "needs", "nominee", "pods", "queued", "silent", "tried")

    def __init__(self, needs: Needs, nominee: str) -> None:
        self.needs, self.nominee = needs, nominee
        self.key: _Kind = needs.key, nominee
        self.pods: OrderedDict[str, tuple[int, Key]] = OrderedDict()
        self.silent: dict[str, Key] = {}  # pods that have not been told yet why they wait
        self.tried = -1
        self.message = ""
        self.queued = False


class Scheduler:
    """Binds pods that name it. Woken by pods, nodes and volumes."""

    def __init__(self, registry: Registry, recorder: Recorder, draws: random.Random) -> None:
        self._registry, self._store, self._recorder, self._draws = registry, registry.store, recorder, draws
        self._rooms: OrderedDict[str, Room] = OrderedDict()  # those that changed last come last
        self._generation = 0
        self._better: set[str] = set()
        self._placed: dict[str, tuple[str, Needs]] = {}
        self._waiting: dict[_Kind, _Waiting] = {}
        self._where: dict[str, _Kind] = {}
        self._kept: dict[str, dict[str, Needs]] = {}  # by node, of the pods that are nominated to it
        self._arrivals = itertools.count()
        self._queue: list[tuple[int, int, _Kind]] = []
        self._wake = WorkQueue(registry.timeline, self._run)
        self._store.subscribe(self._note)

    def waiting(self) -> int:
        """How many pods wait."""
        return len(self._where)

    def _note(self, change: Change) -> None:
        kind = change.new.kind
        if kind is POD:
            self._note_pod(change)
        elif kind is NODE:
            self._note_node(change)
        elif kind is CLAIM or kind is VOLUME:
            self._note_volume()

    def _note_pod(self, change: Change) -> None:
        pod = change.new
        gone = change.type == DELETED or is_finished(pod)
        node = pod.spec.get("nodeName")
        if node or gone:
            self._forget(pod.uid)
        if node and not gone:
            self._place(pod, node)
        elif gone:
            self._release(pod.uid)
        elif not node:
            self._await(pod)

    def _place(self, pod: Stored, node: str) -> None:
        if pod.uid in self._placed:
            return
        needs = needs_of(self._store, pod)
        self._placed[pod.uid] = node, needs
        if node in self._rooms:
            self._rooms[node].take(needs)

    def _release(self, uid: str) -> None:
        node, needs = self._placed.pop(uid, ("", None))
        if needs is not None and node in self._rooms:
            self._rooms[node].take(needs, -1)
            self._improved(node)

    def _note_node(self, change: Change) -> None:
        name = change.new.name
        if change.type == DELETED:
            self._rooms.pop(name, None)
            return
        if (room := self._rooms.get(name)) is None:
            room = self._rooms[name] = Room(name)
            for pod in self._store.pods_on(name):
                if pod.uid in self._placed:
                    room.take(self._placed[pod.uid][1])
        if room.refresh(change.new):
            self._improved(name)

    def _note_volume(self) -> None:
        for waiting in list(self._waiting.values()):
            if waiting.needs.unknown:
                for _, key in list(waiting.pods.values()):
                    if (pod := self._store.get(POD, key)) is not None:
                        self._await(pod)

    def _improved(self, node: str) -> None:
        self._generation += 1
        self._rooms[node].generation = self._generation
        self._rooms.move_to_end(node)
        self._better.add(node)
        if self._waiting:
            self._wake.add(None)

    def _await(self, pod: Stored) -> None:
        if pod.spec.get("schedulerName") != NAME or pod.terminating or pod.spec.get("schedulingGates"):
            self._forget(pod.uid)
            return
        needs, nominee = needs_of(self._store, pod), pod.status.get("nominatedNodeName", "")
        known = self._where.get(pod.uid)
        if known == (needs.key, nominee):
            return
        before = self._waiting[known] if known is not None else None
        self._forget(pod.uid)
        waiting = self._waiting.get((needs.key, nominee))
        if waiting is None:
            waiting = _Waiting(needs, nominee)
            self._waiting[waiting.key] = waiting
        waiting.pods[pod.uid] = next(self._arrivals), pod.key
        self._where[pod.uid] = waiting.key
        if nominee:
            self._kept.setdefault(nominee, {})[pod.uid] = needs
        if before is not None and before.needs.key == needs.key:
            # A nomination is no reason to try a pod that was refused: that takes a change of nodes or pods.
            waiting.tried, waiting.message = max(waiting.tried, before.tried), before.message
            return
        waiting.silent[pod.uid] = pod.key
        self._enqueue(waiting)
        self._wake.add(None)

    def _forget(self, uid: str) -> None:
        key = self._where.pop(uid, None)
        if key is None:
            return
        waiting = self._waiting[key]
        del waiting.pods[uid]
        waiting.silent.pop(uid, None)
        if not waiting.pods:
            del self._waiting[key]
        if waiting.nominee:
            del self._kept[waiting.nominee][uid]
            if waiting.nominee in self._rooms:
                self._improved(waiting.nominee)

    def _enqueue(self, waiting: _Waiting) -> None:
        if waiting.pods and not waiting.queued:
            waiting.queued = True
            arrival = next(iter(waiting.pods.values()))[0]
            heapq.heappush(self._queue, (-waiting.needs.priority, arrival, waiting.key))

    def _run(self, _: None) -> None:
        better, self._better = self._better, set()
        rooms = [self._rooms[name] for name in sorted(better) if name in self._rooms]
        for waiting in list(self._waiting.values()):
            if not waiting.queued and any(not room.refusals(waiting.needs) for room in rooms):
                self._enqueue(waiting)
        while self._queue:
            waiting_or_none = self._waiting.get(heapq.heappop(self._queue)[2])
            if waiting_or_none is not None:
                waiting_or_none.queued = False
                self._serve(waiting_or_none)

    def _serve(self, waiting: _Waiting) -> None:
        needs = waiting.needs
        room = self._best(waiting) if not needs.unknown else None
        if room is None:
            self._refuse(waiting)
            return
        uid, (_, key) = next(iter(waiting.pods.items()))
        pod = self._store.get(POD, key)
        if pod is not None and pod.uid == uid:
            bound = bind(self._registry, pod, room.name)
            message = f"Successfully assigned {pod.namespace}/{pod.name} to {room.name}"
            self._recorder.record(bound, "Scheduled", message, component=NAME)
        self._enqueue(waiting)

    def _takes(self, room: Room, waiting: _Waiting) -> bool:
        """Whether the pod fits, both with and without those of no lower priority that are nominated to the node."""
        if room.refusals(waiting.needs):
            return False
        own = next(iter(waiting.pods)) if waiting.nominee == room.name else ""
        others = [
            needs
            for uid, needs in self._kept.get(room.name, {}).items()
            if uid != own and needs.priority >= waiting.needs.priority
        ]
        for needs in others:
            room.take(needs)
        refused = bool(others) and bool(room.refusals(waiting.needs))
        for needs in others:
            room.take(needs, -1)
        return not refused

    def _best(self, waiting: _Waiting) -> Room | None:
        nominated = self._rooms.get(waiting.nominee)
        if nominated is not None and self._takes(nominated, waiting):
            return nominated
        best: list[Room] = []
        best_score = -1.0
        for room in reversed(self._rooms.values()):
            if room.generation <= waiting.tried:
                break
            if not self._takes(room, waiting):
                continue
            score = room.score(waiting.needs)
            if score > best_score:
                best, best_score = [room], score
            elif score == best_score:
                best.append(room)
        return self._draws.choice(best) if best else None

    def _refuse(self, waiting: _Waiting) -> None:
        told = dict(waiting.silent)
        if waiting.tried != self._generation:
            waiting.tried = self._generation
            message = self._message(waiting.needs)
            if message != waiting.message:
                waiting.message = message
                uid, (_, key) = next(iter(waiting.pods.items()))
                told[uid] = key
        waiting.silent.clear()
        for uid, key in told.items():
            pod = self._store.get(POD, key)
            if pod is not None and pod.uid == uid:
                self._tell(pod, waiting.message)
        if waiting.nominee:
            self._drop_nominations(waiting)

    def _drop_nominations(self, waiting: _Waiting) -> None:
        for uid, (_, key) in list(waiting.pods.items()):
            pod = self._store.get(POD, key)
            if pod is not None and pod.uid == uid and pod.spec.get("preemptionPolicy") != "Never":
                status = {name: value for name, value in pod.status.items() if name != "nominatedNodeName"}
                self._registry.set_status(pod, status)

    def _tell(self, pod: Stored, message: str) -> None:
        self._recorder.record(pod, "FailedScheduling", message, component=NAME, warning=True)
        old = condition(pod, "PodScheduled")
        new = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        if old is None or (old.get("reason"), old.get("message")) != ("Unschedulable", message):
            status = with_condition(pod.status, {**new, "lastProbeTime": None}, self._store.now_text())
            self._registry.set_status(pod, status)

    def _message(self, needs: Needs) -> str:
        nodes = len(self._rooms)
        if needs.unknown:
            reason = needs.unknown if "ersistent" in needs.unknown else f"not simulated: {needs.unknown}"
            return f"0/{nodes} nodes are available: {reason}."
        if not nodes:
            return "no nodes available to schedule pods"
        counts = Counter(reason for room in self._rooms.values() for reason in room.refusals(needs))
        reasons = sorted(f"{count} {reason}" for reason, count in counts.items())
        return f"0/{nodes} nodes are available: {', '.join(reasons)}."
