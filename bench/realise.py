"""What a plan costs once a scheduler that knows nothing of it has had its way.

A model of kube-scheduler, small and greedy: pods come one by one in random order; of the nodes that take a pod, the
one with the best score is chosen, equals by lot. The score is that of NodeResourcesFit (LeastAllocated) plus
NodeResourcesBalancedAllocation over cpu and memory, in whole numbers, as the default profile has them. Filters are
resources, pod places, labels, taints, spreading (DoNotSchedule) and anti-affinity by hostname. Left out: scoring a
sample of large clusters only, and the soft default spreading of a Deployment's pods.

Pods that find no place get nodes from whoever made the plan, and try again, until all of them are bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from bench.workloads import Workload, takes

More = Callable[[Workload], Mapping[str, int]]
"""New nodes by pool for the pods of a workload that found no place."""

MOST_ROUNDS = 12
_AXES = ("cpu_m", "mem_mi", "gpu")


class NeverBound(RuntimeError):
    """Pods stay without a node, whatever was added."""


def realise(workload: Workload, nodes: Mapping[str, int], more: More, seed: int = 1) -> dict[str, int]:
    """The nodes by pool that stand when all pods are bound. Raises NeverBound when that can't be had."""
    cluster = Cluster(workload, seed)
    bought = dict(nodes)
    cluster.add(nodes)
    kinds = np.repeat(np.arange(len(workload["pods"])), [kind["count"] for kind in workload["pods"]])
    waiting: Sequence[int] = np.random.default_rng(seed).permutation(kinds).tolist()
    for _ in range(MOST_ROUNDS):
        waiting = [kind for kind in waiting if not cluster.bind(kind)]
        if not waiting:
            return bought
        added = more(left_over(workload, waiting))
        if not sum(added.values()):
            break
        cluster.add(added)
        for pool, number in added.items():
            bought[pool] = bought.get(pool, 0) + number
    raise NeverBound(f"{len(waiting)} pods of {workload['name']} were never bound")


def left_over(workload: Workload, waiting: Sequence[int]) -> Workload:
    """The same workload with these pods only (kinds by position)."""
    counts = np.bincount(waiting, minlength=len(workload["pods"])).tolist()
    pods = [{**kind, "count": count} for kind, count in zip(workload["pods"], counts, strict=True) if count]
    return {**workload, "name": f"{workload['name']}-rest", "pods": pods}


class Cluster:
    """Nodes, filled pod by pod."""

    def __init__(self, workload: Workload, seed: int) -> None:
        self._kinds = workload["pods"]
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
        self._candidates: dict[int, npt.NDArray[np.intp]] = {}
        self._held: dict[int, npt.NDArray[np.int64]] = {}

    def add(self, nodes: Mapping[str, int]) -> None:
        """Empty nodes, by pool."""
        names = [self._pools[name] for name, number in sorted(nodes.items()) for _ in range(number)]
        self._pool = np.concatenate([self._pool, np.array(names, dtype=np.intp)])
        self._room = self._rooms[self._pool]
        self._used = np.concatenate([self._used, np.zeros((len(names), 4), dtype=np.int64)])
        self._candidates.clear()
        for kind, held in self._held.items():
            self._held[kind] = np.concatenate([held, np.zeros(len(names), dtype=np.int64)])

    def bind(self, kind: int) -> bool:
        """Put one pod of a kind on a node; False if none takes it."""
        nodes = self._open_to(kind)
        used, room = self._used[nodes] + self._needs[kind], self._room[nodes]
        fits = (used <= room).all(axis=1) & self._kept_apart(kind, nodes)
        chosen = np.flatnonzero(fits)
        if not len(chosen):
            return False
        scores = score(used[chosen, :2], room[chosen, :2])
        best = chosen[np.flatnonzero(scores == scores.max())]
        node = int(nodes[best[self._lots.integers(len(best))]])
        self._used[node] += self._needs[kind]
        if kind in self._held:
            self._held[kind][node] += 1
        return True

    def _open_to(self, kind: int) -> npt.NDArray[np.intp]:
        if kind not in self._candidates:
            self._candidates[kind] = np.flatnonzero(self._takes[kind][self._pool])
        return self._candidates[kind]

    def _kept_apart(self, kind: int, nodes: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_] | bool:
        skew, apart = self._kinds[kind].get("spread_hostname", 0), self._kinds[kind].get("anti_hostname", False)
        if not (skew or apart) or not len(nodes):
            return True
        held = self._held.setdefault(kind, np.zeros(len(self._pool), dtype=np.int64))[nodes]
        allowed: npt.NDArray[np.bool_] = held == 0 if apart else held + 1 - held.min() <= skew
        return allowed


def score(used: npt.NDArray[np.int64], room: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How kube-scheduler likes nodes that would be used so much, of (cpu, memory)."""
    free = ((room - used) * 100 // room).sum(axis=1) // 2
    shares = used / room
    balance = ((1 - np.abs(shares[:, 0] - shares[:, 1]) / 2) * 100).astype(np.int64)
    total: npt.NDArray[np.int64] = free + balance
    return total
