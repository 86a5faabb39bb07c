"""What a plan costs once the scheduler has had its way.

A model of kube-scheduler, small and greedy: pods come one by one in random order; of the nodes that take a pod, the
one with the best score is chosen, equals by lot. The score is that of NodeResourcesFit (LeastAllocated) plus
NodeResourcesBalancedAllocation over cpu and memory, in whole numbers, as the default profile has them. Filters are
resources, pod places, labels, taints, spreading (DoNotSchedule) and anti-affinity by hostname. Left out: scoring a
sample of large clusters only, and the soft default spreading of a Deployment's pods.

Whoever tells pods their nodes (`status.nominatedNodeName`, before the nodes are opened) has each of them tried there
first, and its room kept from the others; whoever does not has all of them spread. A share of the nominations is lost.

Pods that find no place get nodes from whoever made the plan, and try again, until all of them are bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bench.workloads import Workload, takes

MOST_ROUNDS = 12

LOST = 0.02
"""The share of nominations that come to nothing: b-2000 on a real scheduler lost 37 of 2,000, whose pods were tried
while the last of the nodes were still closed. That most of those were given once more is left out."""

_AXES = ("cpu_m", "mem_mi", "gpu")


@dataclass(frozen=True, slots=True)
class Bought:
    """Nodes by pool, and for those whose pods are told to go there the pods by kind (by the workload's names)."""

    nodes: Mapping[str, int]
    told: Sequence[tuple[str, Mapping[str, int]]] = field(default=())

    @classmethod
    def for_pods(cls, told: Iterable[tuple[str, Mapping[str, int]]]) -> Bought:
        """Nodes (pool, pods) all of whose pods are told."""
        told = list(told)
        return cls(Counter(pool for pool, _ in told), told)


More = Callable[[Workload], Bought]
"""New nodes for the pods of a workload that found no place."""


class NeverBound(RuntimeError):
    """Pods stay without a node, whatever was added."""


def realise(workload: Workload, bought: Bought, more: More, seed: int = 1) -> dict[str, int]:
    """The nodes by pool that stand when all pods are bound. Raises NeverBound when that can't be had."""
    cluster, stood = Cluster(workload, seed), Counter[str]()
    kinds = np.repeat(np.arange(len(workload["pods"])), [kind["count"] for kind in workload["pods"]])
    waiting: Sequence[int] = np.random.default_rng(seed).permutation(kinds).tolist()
    for _ in range(MOST_ROUNDS):
        stood.update(bought.nodes)
        cluster.add(bought)
        homes = cluster.homes(waiting)
        waiting = [kind for kind, home in zip(waiting, homes, strict=True) if not cluster.bind(kind, home)]
        if not waiting:
            return dict(stood)
        bought = more(left_over(workload, waiting))
        if not sum(bought.nodes.values()):
            break
    raise NeverBound(f"{len(waiting)} pods of {workload['name']} were never bound")


def left_over(workload: Workload, waiting: Sequence[int]) -> Workload:
    """The same workload with these pods only (kinds by position)."""
    counts = np.bincount(waiting, minlength=len(workload["pods"])).tolist()
    pods = [{**kind, "count": count} for kind, count in zip(workload["pods"], counts, strict=True) if count]
    return {**workload, "name": f"{workload['name']}-rest", "pods": pods}


def share(kind: Workload, pool: Workload) -> float:
    """The largest part of an empty node of the pool that a pod of the kind takes."""
    return max(kind[axis] / pool[axis] for axis in _AXES if pool[axis])


class Cluster:
    """Nodes, filled pod by pod."""

    def __init__(self, workload: Workload, seed: int, lost: float = LOST) -> None:
        self._kinds, self._lost = workload["pods"], lost
        self._numbers = {kind["name"]: number for number, kind in enumerate(workload["pods"])}
        self._pools = {pool["name"]: number for number, pool in enumerate(workload["pools"])}
        self._rooms = np.array(
            [[pool[axis] for axis in (*_AXES, "pods")] for pool in workload["pools"]], dtype=np.int64
        )
        self._needs = np.array([[*(kind[axis] for axis in _AXES), 1] for kind in self._kinds], dtype=np.int64)
        self._takes = np.array([[takes(pool, kind) for pool in workload["pools"]] for kind in self._kinds])
        self._lots = np.random.default_rng(seed + 1)
        self._pool = np.zeros(0, dtype=np.intp)
        self._room = np.zeros((0, 4), dtype=np.int64)
        self._used = np.zeros((0, 4), dtype=np.int64)
        self._kept = np.zeros((0, 4), dtype=np.int64)  # for pods that were told to come
        self._told: dict[int, list[int]] = {}
        self._candidates: dict[int, npt.NDArray[np.intp]] = {}
        self._held: dict[int, npt.NDArray[np.int64]] = {}

    def add(self, bought: Bought) -> None:
        """Empty nodes; their pods are told by `homes`."""
        first = len(self._pool)
        untold = Counter(bought.nodes) - Counter(pool for pool, _ in bought.told)
        names = [self._pools[pool] for pool, _ in bought.told]
        names += [self._pools[pool] for pool, number in sorted(untold.items()) for _ in range(number)]
        self._told = {}
        for node, (_, pods) in enumerate(bought.told, first):
            for kind, number in pods.items():
                self._told.setdefault(self._numbers[kind], []).extend([node] * number)
        self._pool = np.concatenate([self._pool, np.array(names, dtype=np.intp)])
        self._room = self._rooms[self._pool]
        self._used = np.concatenate([self._used, np.zeros((len(names), 4), dtype=np.int64)])
        self._kept = np.zeros_like(self._used)
        self._candidates.clear()
        for kind, held in self._held.items():
            self._held[kind] = np.concatenate([held, np.zeros(len(names), dtype=np.int64)])

    def homes(self, waiting: Sequence[int]) -> list[int | None]:
        """The node that each of these pods is told, None for none; the room there is kept from now on."""
        told = {kind: iter(nodes) for kind, nodes in self._told.items()}
        homes = [next(told.get(kind, iter(())), None) for kind in waiting]
        gone = self._lots.random(len(homes)) < self._lost
        homes = [None if lost else home for home, lost in zip(homes, gone, strict=True)]
        for kind, home in zip(waiting, homes, strict=True):
            if home is not None:
                self._kept[home] += self._needs[kind]
        return homes

    def bind(self, kind: int, home: int | None = None) -> bool:
        """Put one pod of a kind on a node, on its `home` if it still fits there; False if none takes it."""
        if home is not None:
            self._kept[home] -= self._needs[kind]
            if len(self._fitting(kind, np.array([home]))):
                self._take(kind, home)
                return True
        nodes = self._open_to(kind)
        chosen = self._fitting(kind, nodes)
        if not len(chosen):
            return False
        used, room = self._used[nodes] + self._needs[kind], self._room[nodes]
        scores = score(used[chosen, :2], room[chosen, :2])
        best = chosen[np.flatnonzero(scores == scores.max())]
        self._take(kind, int(nodes[best[self._lots.integers(len(best))]]))
        return True

    def _fitting(self, kind: int, nodes: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Which of these nodes (by place in the list) have room for one more, and for all who were told to come."""
        used = self._used[nodes] + self._kept[nodes] + self._needs[kind]
        return np.flatnonzero((used <= self._room[nodes]).all(axis=1) & self._kept_apart(kind, nodes))

    def _take(self, kind: int, node: int) -> None:
        self._used[node] += self._needs[kind]
        if kind in self._held:
            self._held[kind][node] += 1

    def _open_to(self, kind: int) -> npt.NDArray[np.intp]:
        if kind not in self._candidates:
            self._candidates[kind] = np.flatnonzero(self._takes[kind][self._pool])
        return self._candidates[kind]

    def _kept_apart(self, kind: int, nodes: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_] | bool:
        skew, apart = self._kinds[kind].get("spread_hostname", 0), self._kinds[kind].get("anti_hostname", False)
        if not (skew or apart) or not len(nodes):
            return True
        held = self._held.setdefault(kind, np.zeros(len(self._pool), dtype=np.int64))
        poorest = held[self._open_to(kind)].min()
        allowed: npt.NDArray[np.bool_] = held[nodes] == 0 if apart else held[nodes] + 1 - poorest <= skew
        return allowed


def score(used: npt.NDArray[np.int64], room: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How kube-scheduler likes nodes that would be used so much, of (cpu, memory)."""
    free = ((room - used) * 100 // room).sum(axis=1) // 2
    shares = used / room
    balance = ((1 - np.abs(shares[:, 0] - shares[:, 1]) / 2) * 100).astype(np.int64)
    total: npt.NDArray[np.int64] = free + balance
    return total
